from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from collector.sources import DUE, CounterRows, FlowRows, Sources

# One datagram each: (exporter, port, what, number). A number is packets that passed since the
# port's datagram before; "flow" samples one of them, "lost" one more that does not come.
Step = tuple[int, int, str, int]
STEPS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(1, 2),
        st.sampled_from(["flow", "lost", "count", "rate", "restart"]),
        st.integers(0, 1 << 20),
    ),
    max_size=60,
)


@dataclass
class Port:
    """A port as its switch sees it."""

    rate: int = 1000
    sequence: int = 0
    packets: int = 2**32 - 500_000


@dataclass
class Told:
    """What is known of a port, and of an exporter, in whole numbers."""

    pool: int | None = None
    rate: int = 0
    count: int | None = None
    since: int = 0
    counted_at: int = -1


@dataclass
class Sums:
    lost: int = 0
    expected: Fraction = Fraction(0)
    pooled: int = 0
    passed: Fraction = Fraction(0)
    counted: int = 0
    due: Fraction = Fraction(0)
    flow_at: int = 0
    told: dict[int, Told] = field(default_factory=dict)
    changes: list[tuple[int, int]] = field(default_factory=list)


def slow(steps: list[Step]) -> tuple[list[tuple[int, int, int, int, int]], list[Sums]]:
    """The samples and counters that these steps make, and what they tell, step by step."""
    ports = {(e, p): Port() for e in (0, 1) for p in (1, 2)}
    sums = [Sums(), Sums()]
    made = []
    for at, (exporter, number, what, passed) in enumerate(steps, start=1):
        port, told = ports[exporter, number], sums[exporter]
        known = told.told.setdefault(number, Told())
        port.packets += passed
        if what == "rate":
            port.rate = 1000 if port.rate == 4000 else 4000
        if what == "restart":  # its counters go on from nought, its samplers do not
            for other in told.told.values():
                other.count = None
        if what == "count" or what == "restart":
            if known.count is not None and known.rate:
                share = Fraction(port.packets - known.count, known.rate)
                told.passed += share
                told.counted += known.since
                if known.counted_at > told.flow_at:
                    told.due += share
            known.count, known.since, known.counted_at = port.packets, 0, at
            made.append((exporter, number, 0, 0, port.packets % 2**32))
            continue
        gap = 2 if what == "lost" else 1
        port.sequence += gap
        if known.rate and known.rate != port.rate:
            told.changes.append((known.rate, port.rate))
        known.rate = port.rate
        if known.pool is not None:
            told.lost += gap - 1
            told.expected += Fraction(port.packets - known.pool, port.rate)
            told.pooled += 1
        known.pool = port.packets
        known.since += 1
        told.due, told.flow_at = Fraction(0), at
        made.append((exporter, number, port.sequence, port.rate, port.packets % 2**32))
    return made, sums


@given(steps=STEPS, cut=st.integers(0, 60))
def test_sources_count_as_written_out(steps: list[Step], cut: int) -> None:
    made, sums = slow(steps)
    sources = Sources()
    changes: list[list[tuple[int, int]]] = [[], []]
    for first, last in ((0, min(cut, len(steps))), (min(cut, len(steps)), len(steps))):
        rows = made[first:last]
        flow = [n for n, row in enumerate(rows) if row[2]]
        count = [n for n, row in enumerate(rows) if not row[2]]
        exporter = np.array([row[0] for row in rows], np.int64)
        flows = FlowRows(
            np.array(flow, np.int64),
            np.array([rows[n][1] for n in flow], np.uint64),
            np.array([rows[n][2] for n in flow], np.uint32),
            np.array([rows[n][4] for n in flow], np.uint32),
            np.zeros(len(flow), np.uint32),
            np.array([rows[n][3] for n in flow], np.uint32),
            np.ones(len(flow), np.uint8),
        )
        counters = CounterRows(
            np.array(count, np.int64),
            np.array([rows[n][1] for n in count], np.uint32),
            np.array([rows[n][4] for n in count], np.uint32),
            np.zeros(len(count), np.uint32),
        )
        events = sources.take(
            2,
            exporter,
            np.array([step[2] == "restart" for step in steps[first:last]], np.bool_),
            np.arange(first + 1, last + 1, dtype=np.int64),
            np.full(len(rows), 60_000, np.uint32),
            flows,
            counters,
        )
        for row in np.flatnonzero(events.rate_before).tolist():
            pair = int(events.rate_before[row]), int(flows.rate[row])
            changes[exporter[flow[row]]].append(pair)
    expected, pooled = sources.by_pool(2)
    passed, counted = sources.by_counters(2)
    for number, told in enumerate(sums):
        assert sources.lost(2)[number] == told.lost
        assert np.isclose(expected[number], float(told.expected), rtol=1e-9, atol=1e-9)
        assert pooled[number] == told.pooled
        assert np.isclose(passed[number], float(told.passed), rtol=1e-9, atol=1e-9)
        assert counted[number] == told.counted
        assert changes[number] == told.changes
        if abs(told.due - int(DUE)) > Fraction(1, 1000):
            assert sources.missing(2)[number] == (told.due >= int(DUE))


def test_an_heir_goes_on_where_the_other_stood() -> None:
    def flow(exporter: int, sequence: int) -> None:
        one = np.zeros(1, np.int64)
        numbers = np.array([sequence], np.uint32)
        sources.take(
            2,
            np.array([exporter]),
            np.zeros(1, np.bool_),
            one,
            np.array([60_000], np.uint32),
            FlowRows(
                *(one, np.array([3], np.uint64), numbers, numbers * 1000),
                *(numbers * 0, numbers * 0 + 1000, np.ones(1, np.uint8)),
            ),
            CounterRows(one[:0], *(numbers[:0],) * 3),
        )

    sources = Sources()
    for sequence in (5, 6):
        flow(0, sequence)
    for sequence in (7, 9):
        flow(1, sequence)
    sources.adopt(0, 1)
    flow(0, 10)
    assert sources.lost(2).tolist() == [1, 0]
    expected, pooled = sources.by_pool(2)
    assert expected.sum() == 1 + 2 + 1
    assert pooled.sum() == 3
