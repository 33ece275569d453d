"""When samples were taken: the exporter's stamps, put right by what is known of its clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from collector.clock import Clocks
from collector.hops import Hops
from collector.jitter import Jitter
from collector.scale import Scale
from collector.schema import I64, U32, U64, ClockHealth, FlowBatch, TimeBasis

_95_PERCENT = 1.96  # standard errors


class Timing:
    """Clocks of exporters, against ours and against each other, in the order of arrival."""

    def __init__(self) -> None:
        self._clocks = Clocks()
        self._hops = Hops()
        self._jitter = Jitter()
        self._scale = Scale.unknown(0)

    def arrive(
        self, exporters: int, rows: I64, exporter: I64, arrival_ns: I64, uptime_ms: U32
    ) -> None:
        """Take in when datagrams came; as `Jitter.follow`."""
        self._jitter.follow(exporters, rows, exporter, arrival_ns, uptime_ms)

    def place(
        self,
        exporters: int,
        exporter: I64,
        prompt: NDArray[np.bool_],
        arrival_ns: I64,
        earliest_ns: I64,
        datagram: I64,
        stamp_ns: U64,
        flows: FlowBatch,
    ) -> NDArray[np.bool_]:
        """Set the times of `flows`, and what they rest on; parameters as of `Clocks.place`.

        Returns
        -------
        bool, shape (samples,)
            Its exporter's time is absurd, and not believed.
        """
        times = self._clocks.place(
            exporters, exporter, prompt, arrival_ns, earliest_ns, datagram, stamp_ns
        )
        flows.time_ns[:] = times.time_ns
        flows.time_min_ns[:] = times.time_min_ns
        flows.time_basis[:] = times.basis
        self._put_right(flows, self._hops.correction(exporters))
        return times.absurd

    def put_right(self, exporters: int, flows: FlowBatch) -> None:
        """Set right the times of all samples so far, by all of them; nothing may come after it."""
        before = self._hops.correction(exporters).copy()
        self._hops.look()
        self._hops.solve_anew()
        self.settle(exporters, whole=True)
        self._put_right(flows, self._hops.correction(exporters) - before)

    @staticmethod
    def _put_right(flows: FlowBatch, correction: I64) -> None:
        if correction.any():
            off = correction[flows.exporter]
            off[flows.time_basis == TimeBasis.ARRIVAL] = 0
            flows.time_ns[:] -= off
            flows.time_min_ns[:] -= off
            flows.time_basis[off != 0] = TimeBasis.INTERPOLATED

    def take(self, flows: FlowBatch) -> None:
        """Take in samples whose times were set."""
        self._hops.add(flows)

    def corrections(self, exporters: int) -> I64:
        """What is taken off the stamps of each exporter, ns; int64, shape (exporters,)."""
        return self._clocks.corrections(exporters) + self._hops.correction(exporters)

    def steps(self, exporters: int) -> I64:
        """How often each exporter's clock was set; int64, shape (exporters,)."""
        return self._clocks.steps(exporters)

    def settle(self, exporters: int, *, whole: bool = False) -> bool:
        """Work out what the packets seen so far say; whether that is anything new.

        Only of a whole window do arrivals set apart clocks that no connection ties: how much those
        of a busy moment were delayed shows later.
        """
        before = self._scale
        bounds_ns = self._clocks.bounds_ns(exporters)
        if not whole:
            bounds_ns[1] = np.inf
        self._scale = self._hops.scale(exporters, bounds_ns)
        return self._scale is not before

    def health(self, exporter: int) -> ClockHealth:
        """What is known of the clock of one exporter, as of the last `settle`."""
        by_arrival = self._clocks.offset(exporter)
        scale = self._scale
        jitter_s = self._jitter.jitter_s(exporter)
        if by_arrival is None:
            return ClockHealth(jitter_s=jitter_s)
        corrected_ns = int(self.corrections(exporter + 1)[exporter])
        known = ClockHealth(
            corrected_s=corrected_ns / 1e9, skew_ppm=by_arrival.skew_ppm, jitter_s=jitter_s
        )
        tied = exporter < len(scale.offset_ns) and scale.samples[exporter] > 0
        if tied and np.isfinite(scale.offset_ns[exporter]):
            offset_ns = by_arrival.correction_ns + float(scale.offset_ns[exporter])
            return replace(
                known,
                offset_s=offset_ns / 1e9,
                error_s=_95_PERCENT * float(scale.error_ns[exporter]) / 1e9,
                basis="hops",
                samples=int(scale.samples[exporter]),
                reason="",
            )
        return replace(
            known,
            offset_s=(by_arrival.low_ns + by_arrival.high_ns) / 2e9,
            error_s=(by_arrival.high_ns - by_arrival.low_ns) / 2e9,
            basis="arrival",
            samples=by_arrival.datagrams,
            reason="too few of its connections were sampled by other exporters too",
        )
