"""From the wire to the store: what a receiver takes in is decoded, stored and accounted for."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from collector.accounts import NOTHING
from collector.allow import AllowList
from collector.ingest import Ingest
from collector.link import DatagramBatch
from collector.packets import Faults
from collector.records import RecordBatch
from collector.schema import FlowBatch, Telemetry
from collector.store import Store, StoreStatus, since
from collector.tcp import TcpReceiver
from collector.udp import Reception, UdpReceiver

# An account of all exporters costs more than the samples of a batch, so it is made so often: and
# where there is a new exporter, and where nothing comes.
_ACCOUNT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Taken:
    """What one batch of datagrams came to.

    Attributes
    ----------
    flows, records
        Its samples, and its flow records; they have been handed to the store, and must not be
        changed.
    told
        Counts and exporters since the start, without rows; exporters keep their numbers. Counts may
        be those of a second ago, until there is silence.
    now_ns
        Up to when what arrived has been taken, ns since the epoch: its newest datagram, or, where
        none came, this moment.
    """

    flows: FlowBatch
    records: RecordBatch
    told: Telemetry
    now_ns: int


@dataclass(frozen=True, slots=True)
class Standing:
    """Where an intake stands.

    Attributes
    ----------
    reception
        What was received, and lost on the way to the decoder.
    refused
        Datagrams, and connections, of senders that are not allowed.
    stored
        How the writing goes.
    unhanded_samples
        Samples that are stored, but were not waited for: whoever takes was too slow.
    deaths
        Processes that ended unasked, and were started again.
    """

    reception: Reception
    refused: int
    stored: StoreStatus
    unhanded_samples: int = 0
    deaths: int = 0


class Source(Protocol):
    """Where samples come from: one `Intake`, or several in processes of their own."""

    def take(self, timeout_s: float) -> Taken | None:
        """What waited longest, decoded and stored.

        Parameters
        ----------
        timeout_s
            How long to wait for it.

        Returns
        -------
        Taken or None
            Without samples where nothing came in time. None: nothing more will come (`finished`),
            or nothing can be said yet.

        Raises
        ------
        ListenError
            Receiving failed, and all that came before has been taken.
        """
        ...

    @property
    def port(self) -> int:
        """The UDP port it listens on."""
        ...

    @property
    def finished(self) -> bool:
        """Whether nothing is received any more, and everything has been taken."""
        ...

    def stop(self) -> None:
        """Receive no more; what has arrived can still be taken. Idempotent."""
        ...

    def close(self) -> None:
        """Stop, and write what the store still holds in memory."""
        ...

    def standing(self) -> Standing:
        """The counts of this moment; from any thread."""
        ...


class Intake:
    """Takes batches from a receiver into a store; to be used by one thread. A `Source`.

    Parameters
    ----------
    receiver
        Already started.
    allow
        Which senders are heard.
    store
        Stays open; flushed at least every `hold_s`, whether anything arrives or not.
    hold_s
    clock
        Seconds that pass.
    streams
        Already started; what it receives waits in `receiver`.
    """

    def __init__(
        self,
        receiver: UdpReceiver,
        allow: AllowList,
        store: Store,
        hold_s: float,
        clock: Callable[[], float] = time.monotonic,
        streams: TcpReceiver | None = None,
    ) -> None:
        self._receiver = receiver
        self._allow = allow
        self._store = store
        self._hold_s = hold_s
        self._clock = clock
        self._streams = streams
        self._broken = 0
        self._flush_s = clock() + hold_s
        self._ingest = Ingest()
        self._faults = Faults()
        self._told = self._silence = NOTHING
        self._account_s = clock()
        self._owing = False  # something came since the last account

    def take(self, timeout_s: float) -> Taken | None:
        """See `Source`."""
        left_s = max(self._flush_s - self._clock(), 0.0)
        batch = self._receiver.take(min(timeout_s, left_s))
        self._note_broken()
        taken: Taken | None = None
        if batch is not None:
            taken = self._add(batch)
        elif self._owing or not self._receiver.finished:
            self._settle()
            taken = Taken(NOTHING.flows, NOTHING.records, self._told, time.time_ns())
        if self._clock() >= self._flush_s:
            self._settle()
            self._store.flush()
            self._flush_s = self._clock() + self._hold_s
        return taken

    @property
    def port(self) -> int:
        """See `Source`."""
        return self._receiver.port

    @property
    def finished(self) -> bool:
        """See `Source`."""
        return self._receiver.finished

    def stop(self) -> None:
        """See `Source`."""
        if self._streams is not None:
            self._streams.stop()
        self._receiver.stop()

    def close(self) -> None:
        """See `Source`."""
        self.stop()
        self._settle()
        self._store.flush()

    def standing(self) -> Standing:
        """See `Source`."""
        reception, refused = self._receiver.reception(), self._allow.refused
        if self._streams is not None:
            reception = replace(
                reception,
                datagrams=reception.datagrams + self._streams.messages,
                payload_bytes=reception.payload_bytes + self._streams.message_bytes,
            )
            refused += self._streams.refused
        return Standing(reception, refused, self._store.status)

    def _add(self, batch: DatagramBatch) -> Taken:
        now_ns = int(batch.arrival_ns.max())
        decoded = self._ingest.add(self._allow.passed(batch), self._faults)
        self._owing = True
        exporters = 1 + max(int(rows.column("exporter").max(initial=-1)) for rows in decoded)
        due = exporters > len(self._told.exporters) or self._clock() >= self._account_s
        news = self._account() if due else self._silence
        self._store.append(replace(news, **decoded._asdict()))
        return Taken(decoded.flows, decoded.records, self._told, now_ns)

    def _note_broken(self) -> None:
        """Count connections that had to be closed among what could not be read."""
        broken = 0 if self._streams is None else self._streams.broken
        if broken > self._broken:
            reason = "a connection that sent bytes of no IPFIX message: it was closed"
            self._faults.note(reason, None, broken - self._broken)
            self._broken, self._owing = broken, True

    def _account(self) -> Telemetry:
        """What came since this was asked last, without rows; `_told` is of this moment then."""
        told = self._ingest.telemetry(self._faults.errors())
        news = since(self._told, told)
        self._told, self._silence = told, since(told, told)
        self._owing = False
        self._account_s = self._clock() + _ACCOUNT_S
        return news

    def _settle(self) -> None:
        """Hand to the store what has been counted and not yet told it."""
        if self._owing:
            self._store.append(self._account())
