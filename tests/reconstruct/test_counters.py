"""Rates from counters."""

from __future__ import annotations

import numpy as np
import pytest

from collector.schema import CounterBatch
from reconstruct.counters import UNKNOWN, Rates, read_rates
from tests.reconstruct.polled import SPEED_BPS, polls

PORTS = {("sw", 1): ("h1", 0), ("sw", 2): ("h2", 1)}


def rates_of(*batches: CounterBatch) -> Rates:
    rates = read_rates(CounterBatch.concat(list(batches)), ["sw"], PORTS)
    assert rates is not None
    return rates


def test_bytes_between_polls_are_spread_evenly() -> None:
    time_s = np.arange(0, 20, 0.5)
    rates = rates_of(polls(time_s, 1000 * time_s, sent=500 * time_s))
    assert (rates.host, rates.nic.tolist()) == (("h1",), [0])
    assert (rates.refresh_ns, rates.width_ns, rates.late_ns) == (500_000_000, 100_000_000, 0)
    assert (rates.received.tolist(), rates.sent.tolist()) == ([19_500], [9_750])
    np.testing.assert_allclose(rates.passed, 150, atol=1.01)
    assert rates.edges_ns[[0, -1]].tolist() == [
        rates.start_ns,
        rates.start_ns + rates.passed.shape[1] * rates.width_ns,
    ]


def test_rows_come_in_any_order() -> None:
    time_s = np.arange(0, 20, 0.5)
    both = CounterBatch.concat([polls(time_s, 9 * time_s), polls(time_s, 7 * time_s, ifindex=2)])
    shuffled = both.take(np.random.default_rng(5).permutation(len(both)))
    wanted, found = (read_rates(rows, ["sw"], PORTS) for rows in (both, shuffled))
    assert wanted is not None
    assert found is not None
    assert (found.host, found.nic.tolist()) == (("h1", "h2"), [0, 1])
    np.testing.assert_array_equal(found.passed, wanted.passed)
    np.testing.assert_array_equal(found.received, wanted.received)


def test_a_refresh_slower_than_the_polling_is_seen() -> None:
    time_s = np.arange(0, 60, 0.25) + 0.01
    rates = rates_of(polls(time_s, 1000 * np.floor(time_s)))
    assert rates.refresh_ns == pytest.approx(1e9, rel=0.01)
    assert rates.late_ns == 250_000_000
    # Repeated readings are no pauses.
    np.testing.assert_allclose(rates.passed[:, 10:-10], 400, rtol=0.01)


def test_a_pause_is_one_though_counters_are_refreshed_slowly() -> None:
    time_s = np.arange(0, 60, 0.25) + 0.01
    rates = rates_of(polls(time_s, 1000 * np.minimum(np.floor(time_s) % 20, 10)))
    middle_s = (rates.edges_ns[:-1] - rates.start_ns) / 1e9
    assert not rates.passed[0, (middle_s > 12.5) & (middle_s < 19)].any()


def test_a_counter_that_starts_anew_counts_nothing_in_between() -> None:
    time_s = np.arange(0, 20, 0.5)
    octets = 1000 * time_s + np.where(time_s < 10, 10**9, -10_000)
    assert rates_of(polls(time_s, octets)).received.tolist() == [19_000]


def test_more_than_a_port_can_pass_counts_nothing() -> None:
    time_s = np.arange(0, 20, 0.5)
    octets = 1000 * time_s + np.where(time_s < 10, 0, 10 * SPEED_BPS)
    assert rates_of(polls(time_s, octets)).received.tolist() == [19_000]


def test_a_counter_wraps_at_64_bits() -> None:
    time_s = np.arange(0, 20, 0.5)
    rows = polls(time_s, 0 * time_s)
    octets = [(2**64 - 5_000 + int(1000 * t)) % 2**64 for t in time_s]
    rows.in_octets[:] = np.array(octets, np.uint64)
    assert rates_of(rows).received.tolist() == [19_500]


def test_a_counter_that_is_not_kept_is_left_out() -> None:
    time_s = np.arange(0, 20, 0.5)
    kept, missing = polls(time_s, time_s), polls(time_s, time_s, ifindex=2)
    missing.out_octets.fill(UNKNOWN)
    assert rates_of(kept, missing).host == ("h1",)


def test_ports_that_lead_to_no_host_are_left_out() -> None:
    time_s = np.arange(0, 20, 0.5)
    assert read_rates(polls(time_s, time_s, ifindex=9), ["sw"], PORTS) is None
    assert read_rates(polls(time_s[:5], time_s[:5]), ["sw"], PORTS) is None
    assert read_rates(CounterBatch.empty(0), ["sw"], PORTS) is None


def test_counters_that_never_change() -> None:
    time_s = np.arange(0, 20, 0.5)
    rates = rates_of(polls(time_s, 0 * time_s))
    assert rates.refresh_ns == 500_000_000
    assert not rates.passed.any()
