from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from patterns.phases import active, active_share, arc, lead, opened
from reconstruct.edges import PHASES
from tests.patterns.made import Wire, flows_of, rows


@pytest.mark.parametrize(
    ("active", "wanted"), [((0.0, 1.0), 0.9), ((0.4, 0.5), 0.1), ((0.3, 0.5), 0.18)]
)
def test_active_share_holds_nine_tenths_of_the_samples(
    active: tuple[float, float], wanted: float
) -> None:
    flows = flows_of([Wire(0, 1, active=active)])
    assert active_share(flows, rows(flows)) == pytest.approx(wanted, abs=0.021)


def test_bursts_apart_add_up_and_bursts_together_do_not() -> None:
    early, late = Wire(0, 1, active=(0.1, 0.2)), Wire(1, 2, active=(0.6, 0.7))
    flows = flows_of([early, late, early])
    assert active_share(flows, np.array([0, 2])) == pytest.approx(0.1, abs=0.021)
    assert active_share(flows, np.array([0, 1])) == pytest.approx(0.2, abs=0.021)


def test_active_phases_are_as_many_as_their_share_and_hold_the_samples() -> None:
    flows = flows_of([Wire(0, 1, active=(0.1, 0.2)), Wire(1, 2, active=(0.6, 0.7), samples=30)])
    for of in (rows(flows), np.array([0]), np.array([1])):
        found = active(flows.phases[of].sum(axis=0))
        assert found.mean() == pytest.approx(active_share(flows, of))
        assert flows.phases[of][:, found].sum() >= 0.9 * flows.phases[of].sum()
    assert not active(flows.phases[0])[30:].any()
    assert active(np.zeros(50)).all()


def test_without_samples_nothing_is_a_burst() -> None:
    flows = flows_of([Wire(0, 1, samples=0)])
    assert active_share(flows, rows(flows)) == 1.0


def link(ahead: tuple[float, float], back: tuple[float, float], samples: int = 400) -> list[Wire]:
    return [Wire(0, 1, samples=samples, active=ahead), Wire(1, 0, samples=samples, active=back)]


def test_the_direction_whose_traffic_comes_first_leads() -> None:
    flows = flows_of(link((0.1, 0.5), (0.25, 0.65)))
    ahead, behind = lead(flows, rows(flows), 0, 1), lead(flows, rows(flows), 1, 0)
    assert ahead.share == pytest.approx(0.15, abs=0.01)
    assert behind.share == pytest.approx(-ahead.share)
    assert ahead.share > 10 * ahead.error


def test_traffic_at_once_has_no_lead() -> None:
    flows = flows_of(link((0.6, 0.8), (0.6, 0.8)))
    found = lead(flows, rows(flows), 0, 1)
    assert abs(found.share) < found.error


def test_only_the_rows_of_the_link_count() -> None:
    wires = [*link((0.1, 0.5), (0.25, 0.65)), Wire(0, 1, active=(0.9, 1.0))]
    wires += [Wire(u, v, active=(0.9, 1.0)) for u, v in ((0, 2), (2, 0), (1, 2), (2, 1))]
    flows = flows_of(wires)
    alone = flows_of(wires[:2])
    assert lead(flows, np.array([0, 1, 3, 4, 5, 6]), 0, 1) == lead(alone, rows(alone), 0, 1)


@pytest.mark.parametrize("samples", [2, 10, 100])
def test_few_samples_are_not_sure(samples: int) -> None:
    flows = flows_of(link((0.1, 0.5), (0.25, 0.65), samples))
    error = lead(flows, rows(flows), 0, 1).error
    # Two means of this many samples, spread over a few tenths of a turn.
    assert 0.1 / np.sqrt(samples) < error < 0.4 / np.sqrt(samples)


@pytest.mark.parametrize("wires", [[Wire(0, 1)], [Wire(0, 1), Wire(1, 0, samples=1)]])
def test_a_direction_without_samples_tells_nothing(wires: list[Wire]) -> None:
    flows = flows_of(wires)
    found = lead(flows, rows(flows), 0, 1)
    assert (found.share, np.isinf(found.error)) == (0.0, True)


@pytest.mark.parametrize("later", [0.0, 0.2, 0.42, 0.44, 0.46, 0.7])
def test_a_burst_across_the_end_of_the_turn_leads_as_elsewhere(later: float) -> None:
    """At 0.42 and on, a part of it lies before the turn's end and the rest behind its begin."""
    flows = flows_of(link((0.50, 0.56), (0.52, 0.62)))
    turned = replace(flows, phases=np.roll(flows.phases, round(later * PHASES), axis=1))
    assert lead(turned, rows(turned), 0, 1).share == pytest.approx(0.04, abs=0.01)
    assert arc(turned.phases.sum(axis=0)) == arc(flows.phases.sum(axis=0)) <= 0.12


def test_traffic_that_ends_with_the_turn_is_read_from_its_begin() -> None:
    for used in ((0.0, 0.3), (0.7, 1.0), (0.0, 1.0)):
        assert opened(flows_of([Wire(0, 1, samples=400, active=used)]).phases[0]) == 0
    assert opened(np.zeros(PHASES)) == 0
    few = np.zeros(PHASES)
    few[[0, 9, -1]] = 1
    assert opened(few) == 0
    assert arc(np.zeros(PHASES)) == 1.0
