"""Slow, obvious twins of the compiled kernels: plain Python on bytes and numbers.

`decode` reads one sFlow datagram, in `tests.naive_sflow`, and the headers sampled in it, in
`tests.naive_headers`. The twins of `reconstruct` stand here: integers without wrap, fractions
without rounding, sums as written.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from tests.naive_sflow import decode as decode


def unwrap(connection: Sequence[int], seq: Sequence[int], width: Sequence[int]) -> list[int]:
    """The one number that agrees with each `seq` and lies near the sample before.

    Near is: less than a quarter of a turn behind it, or at most three quarters ahead.
    """
    last: dict[int, int] = {}
    out = []
    for who, value, bits in zip(connection, seq, width, strict=True):
        if who in last:
            turn, before = 1 << bits, last[who]
            near = range(before - turn // 4 + 1, before + 3 * turn // 4 + 1)
            value = near.start + (value - near.start) % turn
            assert value in near
        last[who] = value
        out.append(value)
    return out


def fell_behind(
    connection: Sequence[int], position: Sequence[int], window: Sequence[int]
) -> list[bool]:
    """Whether any earlier sample of the connection lies more than the window ahead."""
    return [
        any(
            connection[j] == connection[i] and position[j] > position[i] + window[i]
            for j in range(i)
        )
        for i in range(len(position))
    ]


def mix(row: Sequence[int]) -> int:
    """splitmix64 over the values of one row, each added to the state before its step."""
    mask, state = (1 << 64) - 1, 0
    for value in row:
        state = ((state ^ value) + 0x9E3779B97F4A7C15) & mask
        state = ((state ^ state >> 30) * 0xBF58476D1CE4E5B9) & mask
        state = ((state ^ state >> 27) * 0x94D049BB133111EB) & mask
        state ^= state >> 31
    return state


def activity(
    time_ns: Sequence[int], weight: Sequence[float], start_ns: int, end_ns: int, bin_ns: int
) -> list[float]:
    """Sums of weights by bin, bin by bin; the last one may reach beyond the end."""
    return [
        sum(w for t, w in zip(time_ns, weight, strict=True) if low <= t < low + bin_ns)
        for low in range(start_ns, max(end_ns, start_ns + 1), bin_ns)
    ]


def autocorrelation(signal: Sequence[float], longest: int) -> list[float]:
    """Mean product of the centred signal with itself `lag` later, over its variance."""
    n = len(signal)
    exact = [Fraction(value) for value in signal]
    mean = sum(exact) / n
    centred = [value - mean for value in exact]
    variance = sum(value * value for value in centred) / n
    if not variance:
        return [0.0] * (longest + 1)
    return [
        float(sum(centred[i] * centred[i + lag] for i in range(n - lag)) / (n - lag) / variance)
        for lag in range(longest + 1)
    ]


def slope(x: Sequence[float], y: Sequence[float]) -> tuple[float, float]:
    """Least-squares slope of y over x, and its standard error relative to it."""
    n, xs, ys = len(x), [Fraction(v) for v in x], [Fraction(v) for v in y]
    mean_x, mean_y = sum(xs) / n, sum(ys) / n
    sxx = sum((a - mean_x) ** 2 for a in xs)
    found = sum((a - mean_x) * (b - mean_y) for a, b in zip(xs, ys, strict=True)) / sxx
    rest = sum((b - mean_y - found * (a - mean_x)) ** 2 for a, b in zip(xs, ys, strict=True))
    return float(found), float(rest / (n - 2) / sxx) ** 0.5 / float(found)
