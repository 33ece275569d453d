from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reconstruct.identity import identify


def job(endpoints: str) -> frozenset[str]:
    """Endpoints of one letter each."""
    return frozenset(endpoints)


def test_jobs_are_known_by_their_endpoints() -> None:
    known = {7: job("abcd"), 3: job("efgh")}
    assert identify([job("efgh"), job("xyz"), job("abcd")], known) == [3, None, 7]


def test_nothing_known_and_nothing_found() -> None:
    assert identify([job("ab")], {}) == [None]
    assert identify([], {1: job("ab")}) == []


def test_a_part_of_a_job_is_that_job_from_half_on() -> None:
    known = {1: job("abcd")}
    assert identify([job("ab")], known) == [1]
    assert identify([job("a")], known) == [None]
    assert identify([job("abcdwxyz")], known) == [1]
    assert identify([job("abcdvwxyz")], known) == [None]
    assert identify([job("abwx")], known) == [None]


def test_of_a_job_that_fell_apart_the_larger_part_goes_on() -> None:
    known = {1: job("abcdef")}
    assert identify([job("ef"), job("abcd")], known) == [None, 1]
    assert identify([job("abcd"), job("ef")], known) == [1, None]


def test_of_two_halves_that_with_the_lowest_endpoint_goes_on() -> None:
    known = {1: job("abcd")}
    assert identify([job("cd"), job("ab")], known) == [None, 1]
    assert identify([job("ab"), job("cd")], known) == [1, None]


def test_of_jobs_that_became_one_the_larger_goes_on() -> None:
    assert identify([job("abcdef")], {1: job("ab"), 2: job("cdef")}) == [2]


def test_of_equal_jobs_that_became_one_the_older_goes_on() -> None:
    assert identify([job("abcd")], {5: job("cd"), 2: job("ab")}) == [5]


def test_a_job_that_moved_some_of_its_hosts_is_not_its_neighbour() -> None:
    """Both share with the first known job, and only one can be it."""
    known = {1: job("abcdef"), 2: job("ghijkl")}
    assert identify([job("abcghi"), job("defjkl")], known) == [None, None]
    assert identify([job("abcdeg"), job("fhijkl")], known) == [1, 2]


# Which known and which found job each endpoint belongs to; 0 is none.
owners = st.dictionaries(
    st.sampled_from("abcdefghijkl"), st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1
)


def sets(owners: dict[str, tuple[int, int]], side: int) -> dict[int, frozenset[str]]:
    return {
        n: held
        for n in (1, 2, 3)
        if (held := frozenset(e for e, pair in owners.items() if pair[side] == n))
    }


@given(owners, st.permutations([1, 2, 3]))
def test_the_order_in_which_jobs_are_found_changes_nothing(
    owners: dict[str, tuple[int, int]], order: list[int]
) -> None:
    known, found = sets(owners, 0), sets(owners, 1)
    same = identify(list(found.values()), known)
    plain = dict(zip(found, same, strict=True))
    shuffled = [n for n in order if n in found]
    assert identify([found[n] for n in shuffled], known) == [plain[n] for n in shuffled]


@given(owners)
def test_no_job_is_found_twice_and_none_that_shares_most_is_missed(
    owners: dict[str, tuple[int, int]],
) -> None:
    known, found = sets(owners, 0), sets(owners, 1)
    same = identify(list(found.values()), known)
    given_out = [name for name in same if name is not None]
    assert len(set(given_out)) == len(given_out)
    for endpoints, name in zip(found.values(), same, strict=True):
        for other, held in known.items():
            share = len(endpoints & held) / len(endpoints | held)
            if other == name:
                assert share >= 0.5
            elif share > 0.5:
                # More than half of both can be in one pair only.
                raise AssertionError(f"{other} shares {share:.0%} and was not taken")
