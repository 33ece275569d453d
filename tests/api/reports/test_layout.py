from __future__ import annotations

from math import dist

from hypothesis import given
from hypothesis import strategies as st

from api.reports.layout import lay_out

SIZES = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def test_one_row_stands_on_a_circle() -> None:
    layout = lay_out([["a", "b", "c", "d"]], set())
    centre = (layout.width / 2, layout.height / 2)
    radii = {round(dist(place, centre), 6) for place in layout.places.values()}
    assert not layout.is_grid
    assert len(radii) == 1


def test_pipelines_run_down_the_columns() -> None:
    rows = [["a", "b", "c"], ["x", "y", "z"]]
    layout = lay_out(rows, {("z", "a"), ("b", "x"), ("y", "c")})
    columns = {node: x for node, (x, _) in layout.places.items()}
    assert layout.is_grid
    assert [columns[node] for node in "zxy"] == [columns[node] for node in "abc"]


def test_no_host_no_place() -> None:
    assert lay_out([], set()).places == {}


@given(SIZES)
def test_hosts_never_overlap_and_stay_inside(sizes: list[int]) -> None:
    rows = [[f"{row}.{nth}" for nth in range(size)] for row, size in enumerate(sizes)]
    layout = lay_out(rows, set())
    places = list(layout.places.values())
    assert set(layout.places) == {host for row in rows for host in row}
    assert all(0 < x < layout.width and 0 < y < layout.height for x, y in places)
    assert all(dist(a, b) > 40 for nth, a in enumerate(places) for b in places[:nth])
