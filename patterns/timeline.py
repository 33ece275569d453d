"""The iterations' final places: where the last gradient-reducing transfer ends.

Gradients pass in one burst or in several (buckets during the backward pass); a sharded optimiser
adds a second train of bursts, its parameter all-gather, which belongs to the next iteration. The
pauses between bursts, placed by volume, tell which of these it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from patterns import boundaries, invented, mean_turn, missed, pauses, splits, turns, waxing
from patterns.accumulation import Accumulation, find_accumulation
from patterns.claim import claim
from patterns.mean_turn import FOLD, SHORTEST_PAUSE
from patterns.missed import Pulse, pulse
from patterns.pauses import Pace, Pause
from patterns.reading import Reading, read, read_turns
from patterns.result import Claim, Collective
from patterns.splits import HALF, SHARE_WITHIN, STEPS_WITHIN, TWO_THIRDS
from patterns.standstill import before_stops
from patterns.trains import Train, find_train
from patterns.turns import Marks
from reconstruct.bins import Progress, Verb
from reconstruct.records import hidden_ns

LAST_WITHIN: Final = 0.005  # of the period: an end so near behind the window was reached
SAME_TURN: Final = 0.5  # periods: ends nearer than this are one
UNSEEN: Final = 0.1  # of the period: an end further behind the last sample never came

HALVES_WITHIN: Final = 0.1  # steps do not carry bytes evenly: how near to half a pause may lie
DENSE_PROFILE: Final = 8.0  # samples by phase, from which on none is empty by chance
OPTIMISER: Final = 0.06  # of the period; a longer pause is compute between buckets
OPTIMISER_STAGED: Final = 0.25  # in a pipeline, early stages' optimisers wait for the last one's
OPTIMISER_SEEN: Final = 0.006  # of the period: an optimiser step shorter than this is unheard of
REPEATS: Final = (2, 3, 4)  # parts of a turn that is a multiple of the true one
REPEAT_WITHIN: Final = 0.2  # of the outer pause: pauses of successive iterations differ by jitter
PARTS_WITHIN: Final = 0.05  # of a part of a turn: such parts take equally long if they are turns
DENSE_ROWS: Final = 60  # of a step, before the lack of a pause says something
FORWARD: Final = 0.25  # of the time without gradients: a forward pass, where all is recomputed
COMPARABLE: Final = 0.5  # of the longest pause: a step may end in one that is so long
FEWEST_BUCKETS: Final = 4  # pauses from which on these bursts are no few buckets
CLEAR_STEPS: Final = 1.5  # of the pace: so well is the share known at which a pause lies
CLEAR: Final = 2.0  # times the shortest visible pause: nothing that chance makes
TWO_PARTS_SURE: Final = 0.93  # right in all of 127 captures of seeds 1-3 and 101-103 that said so
INSIDE: Final = (0.25, 0.75, 0.5)  # of a turn's volume: where turns may be counted from as well


@dataclass(frozen=True, slots=True)
class Timeline:
    """Ends of the gradient bursts and what the bursts say of the collective.

    Parameters
    ----------
    ends_ns : int64[k]
    collective : str
    claim : Claim
    told : bool
        Whether the pause of an optimiser, where an iteration would end, could not have been missed.
    parts, batches : int
        Micro-batches that look like iterations of their own, and all that are reduced one by one.
    """

    ends_ns: NDArray[np.int64]
    collective: Collective
    claim: Claim
    told: bool
    parts: int = 1
    batches: int = 1


def place(
    progress: Progress,
    groups: Sequence[NDArray[np.int32]],
    turns_ns: NDArray[np.int64],
    marks: Marks,
) -> Timeline | None:
    """The ends of iterations by the job's gradient traffic, or their begins without such.

    Parameters
    ----------
    progress : Progress
    groups : sequence of int32[c]
        Connections of each of the job's data-parallel groups; of all its groups where it has none.
    turns_ns : int64[k]
        Provisional turns, see `reconstruct.iterations`.
    marks : Marks

    Returns
    -------
    Timeline or None
        None where they never pause together, so that no end can be told.
    """
    connections = np.concatenate(groups)
    signal = pulse(progress, connections)
    placed = _placed(progress, groups, signal, turns_ns, marks)
    if placed is None or marks == "begin":
        return placed
    true = invented.behind_start_ups(progress, connections, signal, placed.ends_ns)
    return replace(placed, ends_ns=placed.ends_ns[true])


def _placed(
    progress: Progress,
    groups: Sequence[NDArray[np.int32]],
    signal: Pulse,
    turns_ns: NDArray[np.int64],
    marks: Marks,
) -> Timeline | None:
    """What `place` returns, with ends also where a run of the job had but begun."""
    connections = np.concatenate(groups)
    found = mean_turn.find_pauses(signal, turns_ns)
    if found:
        crude, middles = mean_turn.crude_ends(signal, turns_ns, found[0])
        lengths = [end - start for start, end in found]
        two = sum(length >= COMPARABLE * lengths[0] for length in lengths) == 2
        if two and marks not in ("begin", "halves"):
            others, inside = mean_turn.crude_ends(signal, turns_ns, found[1])
            if waxing.ends_inside(signal, middles, inside):
                crude, middles = others, inside
    else:
        crude, middles = mean_turn.by_volume(progress, connections, signal, turns_ns)
    if len(crude) < 2:
        return None
    true = invented.true_ends(progress, connections, middles)
    crude, middles = crude[true], middles[true]
    crude, middles = invented.in_one_pause(progress, connections, signal, crude, middles)
    if len(crude) < 2:
        return None
    crude, middles = missed.fill(progress, connections, signal, crude, middles)
    if len(crude) < 2:
        return None
    if marks == "begin":
        return _begins(progress, groups, signal, middles)
    may_shard = marks == "bursts"
    in_steps = marks in ("steps", "halves")
    reading = read(progress, groups, crude, middles, in_steps=in_steps)
    if reading is None:
        unknown = claim(0.5, 0, 1.0, "too few samples per connection to follow its volume")
        return Timeline(crude, "unknown", unknown, told=not may_shard)
    if in_steps:
        return _after_steps(progress, groups, reading, signal, halves=marks == "halves")
    reading = _from_longest_pause(progress, groups, reading)
    train = find_train(reading.fine) if may_shard else None
    if train is None:
        reading = _without_repeats(progress, groups, reading)
        hidden_s = _hidden_s(progress, connections)
        split, collective, said = _read_pauses(reading, hidden_s, may_shard=may_shard)
        if collective == "all_reduce":
            split = _last_pause(reading, signal)
    else:
        split, collective, said = _read_train(reading, train)
    told = not may_shard or (collective != "unknown" and not splits.could_hide(reading.pace))
    window = progress.window_start_ns, progress.window_end_ns
    ends = _ends(window, reading, split, signal)
    parts = _accumulation(reading, signal, ends) if may_shard else None
    if parts is None:
        return Timeline(ends, collective, said, told, batches=train.batches if train else 1)
    basis = (
        f"gradients of {parts.turns} micro-batches: after each {parts.turns} bursts, alike else, "
        f"a pause of {parts.excess_s:.3f} s more, as of an optimiser step"
    )
    said = claim(0.8, len(reading.clock.owner), 20.0 * reading.clock.turns, basis)
    return Timeline(
        parts.ends_ns, "reduce_scatter+all_gather", said, told, parts.turns, parts.turns
    )


def _accumulation(
    reading: Reading, signal: Pulse, ends_ns: NDArray[np.int64]
) -> Accumulation | None:
    """Iterations of several turns, counted from inside a turn where their step lies at its end."""
    found = find_accumulation(signal, ends_ns)
    for share in () if found else INSIDE:
        before_ns = int(reading.pace.after(share) * 1e9)
        inside = np.unique(reading.when(share, reading.ends_ns - before_ns))
        found = found or find_accumulation(signal, inside)
    return found


def _begins(
    progress: Progress,
    groups: Sequence[NDArray[np.int32]],
    signal: Pulse,
    middles_ns: NDArray[np.int64],
) -> Timeline:
    """Iterations that begin with the first transfer after the pause."""
    behind = np.searchsorted(signal.time_ns, middles_ns)
    inside = behind < len(signal.time_ns)
    middles_ns, begins_ns = middles_ns[inside], signal.time_ns[behind[inside]]
    nothing = claim(0.5, 0, 1.0, "no gradient burst to read")
    if len(begins_ns) < 2:
        return Timeline(begins_ns, "unknown", nothing, told=True)
    # With time running the other way, a begin is an end.
    ends_ns = -begins_ns[::-1]
    clock = turns.backwards(boundaries.read_clock(progress, groups, middles_ns))
    reading = read_turns(clock, ends_ns, in_steps=True)
    if reading is None:
        return Timeline(np.unique(begins_ns), "unknown", nothing, told=True)
    back = Pulse(-signal.time_ns[::-1], signal.weight[::-1])
    window = -progress.window_end_ns, -progress.window_start_ns
    ends_ns = _ends(window, reading, None, back, begins=True)
    return Timeline(-ends_ns[::-1], "unknown", nothing, told=True)


def _after_steps(
    progress: Progress,
    groups: Sequence[NDArray[np.int32]],
    reading: Reading,
    signal: Pulse,
    *,
    halves: bool,
) -> Timeline:
    """Iterations that end with the last step, or before a pause at half of the bytes.

    `halves` says that steps reduce and scatter first and gather then.
    """
    window = progress.window_start_ns, progress.window_end_ns
    ends = _ends(window, reading, None, signal)
    profile = mean_turn.profile_of(signal, ends)
    samples, needed = len(reading.clock.owner), 20.0 * reading.clock.turns
    gone = np.cumsum(profile) / max(float(profile.sum()), 1.0)
    at_half = [
        (start, length)
        for start, length in mean_turn.quiet(profile)
        if length >= SHORTEST_PAUSE and abs(gone[start] - HALF) <= HALVES_WITHIN
    ]
    seen = profile.mean() >= DENSE_PROFILE
    if not at_half:
        basis = "halves are gathered as soon as they are reduced, with no pause for an optimiser"
        said = claim(0.9 if seen else 0.7, samples, needed, basis)
        return Timeline(ends, "all_reduce", said, told=bool(seen))
    [(start, length), *_] = at_half
    lengths = np.diff(ends)
    before = ends[:-1] + (lengths * (start / FOLD)).astype(np.int64)
    middles = before + (lengths * (length / 2 / FOLD)).astype(np.int64)
    split = read(progress, groups, before, middles, in_steps=True) if halves else None
    if split is None:
        basis = "a pause at half of the bytes: of an optimiser, or between two buckets"
        return Timeline(ends, "unknown", claim(0.5, 0, 1.0, basis), told=False)
    basis = "half of the bytes before a pause, as gradients before an optimiser step"
    said = claim(0.75 if seen else 0.65, samples, needed, basis)
    ends = _ends(window, split, None, signal)
    return Timeline(ends, "reduce_scatter+all_gather", said, told=True)


def _last_pause(reading: Reading, signal: Pulse) -> Pause | None:
    """The one pause between two bursts, if a step ends in it; None if in that around them."""
    pace = reading.pace
    if len(reading.pauses) != 1 or reading.pauses[0].seconds < COMPARABLE * pace.outer_s:
        return None
    [inner] = reading.pauses
    outer_ns = reading.ends_ns + int(pace.outer_s / 2 * 1e9)
    inner_ns = reading.ends_ns - int((pace.before(inner) - inner.seconds / 2) * 1e9)
    return inner if waxing.ends_inside(signal, outer_ns, inner_ns) else None


def _hidden_s(progress: Progress, connections: NDArray[np.int32]) -> float:
    """How long pauses may hide in flow records; 0 where there are samples only."""
    if not np.any(progress.connections.verbs[connections] & Verb.RECORDED):
        return 0.0
    return hidden_ns(progress.bins, connections) / 1e9


def _without_repeats(
    progress: Progress, groups: Sequence[NDArray[np.int32]], reading: Reading
) -> Reading:
    """The reading of a turn that does not consist of equal parts.

    Where few samples made a multiple of the period look best, the turn repeats itself: pauses as
    long as the outer one part its volume equally.
    """
    pace = reading.pace
    for parts in REPEATS:
        grid = [
            min(reading.pauses, key=lambda pause: abs(pause.share - j / parts), default=None)
            for j in range(1, parts)
        ]
        equal = [
            pause
            for j, pause in enumerate(grid, 1)
            if pause is not None
            and abs(pause.share - j / parts) <= max(SHARE_WITHIN, STEPS_WITHIN / pace.steps)
            and abs(pause.seconds - pace.outer_s) <= REPEAT_WITHIN * pace.outer_s
        ]
        if len(equal) < parts - 1 or not _last_alike(pace, equal):
            continue
        ends = [reading.ends_ns]
        for pause in equal:
            before_ns = int(pace.before(pause) * 1e9)
            ends.append(boundaries.reached(reading.clock, pause.share, reading.ends_ns - before_ns))
        every = np.sort(np.concatenate(ends))
        middles = every + int(pace.outer_s / 2 * 1e9)
        inside = (middles > progress.window_start_ns) & (middles < progress.window_end_ns)
        return read(progress, groups, every[inside], middles[inside]) or reading
    return reading


def _last_alike(pace: Pace, parting: Sequence[Pause]) -> bool:
    """Whether the parts of a turn take equally long, as turns of their own do."""
    left_s = [pace.period_s, *(pace.before(pause) for pause in parting), 0.0]
    each_s = pace.period_s / (len(left_s) - 1)
    off_s = np.abs(-np.diff(left_s) - each_s).max()
    return bool(off_s <= PARTS_WITHIN * each_s + 2 * pace.usual_s)


def _ends(
    window_ns: tuple[int, int],
    reading: Reading,
    split: Pause | None,
    signal: Pulse,
    *,
    begins: bool = False,
) -> NDArray[np.int64]:
    """Ends of iterations at a pause of the turn, or at the one that it is counted from.

    The pause behind the last burst may lie outside the window and the burst be whole all the same;
    but not where nothing was sampled any more, or not for a while. Where silence follows, the burst
    has ended or come to a stand.

    `begins` says that time runs the other way: not all begin to send at once, as they end.
    """
    share, lag_ns, ends = 1.0, 0, reading.ends_ns
    if split is not None:
        # Behind the pause all is late: what is read lies clear of it, and some steps are left.
        clear = CLEAR_STEPS / reading.pace.steps
        share, lag_ns = (
            split.share - clear,
            int(CLEAR_STEPS * reading.pace.step_s(split.share) * 1e9),
        )
        ends = ends - int(reading.pace.before(split) * 1e9) - lag_ns
    period_ns = int(reading.pace.period_s * 1e9)
    clock = reading.clock
    last = int(np.searchsorted(signal.time_ns, reading.ends_ns[-1]))
    rest = signal.time_ns[max(last - 1, 0) :]
    whole = np.diff(rest).max(initial=0) <= (1 + missed.CUT_OFF) * period_ns
    silent = window_ns[1] - int(signal.time_ns[-1]) > UNSEEN * period_ns
    if silent:
        whole = whole and boundaries.is_through(clock, share, clock.turns)
    behind = whole and boundaries.has_reached(clock, share, clock.turns)
    if behind:
        ends = np.append(ends, ends[-1] + period_ns)
    ends = reading.when(share, ends) + lag_ns
    if split is None and not begins:
        ends = ends - mean_turn.overshot_ns(signal, ends)
    if behind and ends[-1] - ends[-2] < SAME_TURN * period_ns:
        # The begin of a turn that the window cuts off.
        ends = ends[:-1]
    if split is not None:
        ends = before_stops(signal, clock, split, ends, period_ns)
    horizon = window_ns[1] + int(LAST_WITHIN * period_ns)
    if behind:
        horizon = max(horizon, int(signal.time_ns[-1]) + mean_turn.unseen_ns(signal, ends[:-1]))
    horizon = min(horizon, int(signal.time_ns[-1]) + int(UNSEEN * period_ns))
    return np.unique(ends[(ends >= window_ns[0]) & (ends <= horizon)])


def _from_longest_pause(
    progress: Progress, groups: Sequence[NDArray[np.int32]], reading: Reading
) -> Reading:
    """The reading counted from the longest pause of the turn.

    Pauses between many buckets blur in a fold by time, so the first choice may be a short one.
    """
    longest = max(reading.pauses, key=lambda pause: pause.seconds, default=None)
    if longest is None or longest.seconds <= reading.pace.outer_s or longest.clearness < CLEAR:
        return reading
    before_ns = int(reading.pace.before(longest) * 1e9)
    crude = reading.ends_ns
    if boundaries.has_reached(reading.clock, longest.share, reading.clock.turns):
        # The window may hold this pause once more, behind the last one of the others.
        crude = np.append(crude, crude[-1] + int(reading.pace.period_s * 1e9))
    ends = boundaries.reached(reading.clock, longest.share, crude - before_ns)
    middles = ends + int(longest.seconds / 2 * 1e9)
    inside = (middles > progress.window_start_ns) & (middles < progress.window_end_ns)
    if inside.sum() < 2:
        return reading
    return read(progress, groups, ends[inside], middles[inside]) or reading


def _read_pauses(
    reading: Reading, hidden_s: float, *, may_shard: bool
) -> tuple[Pause | None, Collective, Claim]:
    """The pause at which an iteration ends, the collective, and how sure that is.

    No pause stands for the one that the turn is counted from. Pauses of `hidden_s` lie inside flow
    records and do not show; what looks like one lies between two of them by accident.
    """
    pace = reading.pace
    found = [pause for pause in reading.pauses if pause.seconds > hidden_s]
    samples = len(reading.clock.owner)
    needed = 20.0 * reading.clock.turns
    if not may_shard:
        return None, "all_reduce", claim(0.95, samples, needed, "trees only reduce to all")
    if not found:
        blind = max(float(pauses.shortest_visible(pace).max()), hidden_s)
        basis = f"one burst of gradients per iteration, with no pause above {blind:.3f} s"
        dense = samples >= DENSE_ROWS * pace.steps
        if blind > splits.OPTIMISER_HIDDEN * pace.period_s:
            basis += ": an optimiser's between two bursts would not show"
            return None, "unknown", claim(0.5, 0, 1.0, basis)
        fine = dense and blind <= OPTIMISER_SEEN * pace.period_s
        ceiling = 0.92 if fine else 0.7
        return None, "all_reduce", claim(ceiling, samples, needed, basis)
    # Of two pauses at telling shares the optimiser's is the one between the more even trains, or
    # else the shorter: buckets wait for compute.
    candidates = [pause for pause in found if splits.is_split(pause.share, pace)]
    split = min(
        candidates, key=lambda one: (splits.uneven(one.share, found), one.seconds), default=None
    )
    if split is None or not splits.stands_out(split, found) or splits.behind_half(split, found):
        forward = pace.outer_s / (pace.outer_s + sum(pause.seconds for pause in found))
        if len(found) >= FEWEST_BUCKETS and forward < FORWARD:
            basis = f"{len(found) + 1} bursts, and between no two of them time for a forward pass"
            basis += ": parameters are gathered as well"
            return None, "reduce_scatter+all_gather", claim(0.8, samples, needed, basis)
        clear = splits.blind_s(pace) <= OPTIMISER_SEEN * pace.period_s
        basis = f"{len(found) + 1} buckets of gradients per iteration"
        if splits.parts_trains(HALF, found) and splits.equal_bursts(found):
            basis = (
                "pauses of one length in the first half of the bytes and of another in the second, "
                "as gradients during a backward pass and parameters during a forward pass"
            )
            halves = Pause(HALF, 0.0, 1.0)
            return halves, "reduce_scatter+all_gather", claim(0.7, samples, needed, basis)
        end = splits.behind_buckets(found, pace)
        if end is not None:
            basis = f"equal buckets of {end:.0%} of the bytes, and all others behind, as parameters"
            said = claim(0.75, samples, needed, basis)
            return Pause(end, 0.0, 1.0), "reduce_scatter+all_gather", said
        if splits.could_hide(pace):
            basis += "; an optimiser's pause between two of them would not show"
            return None, "unknown", claim(0.5, 0, 1.0, basis)
        return None, "all_reduce", claim(0.85 if clear else 0.65, samples, needed, basis)
    longest = OPTIMISER_STAGED if pace.staged else OPTIMISER
    if len(found) == 1 and split.seconds > longest * pace.period_s:
        basis = "two bursts per iteration, far apart as two buckets are"
        return None, "all_reduce", claim(0.65, samples, needed, basis)
    basis = (
        f"{split.share:.0%} of the bytes before a pause of {split.seconds:.3f} s, as gradients "
        "before an optimiser step and parameters after it"
    )
    sure = abs(split.share - TWO_THIRDS) <= SHARE_WITHIN or len(found) > 1
    likely = TWO_PARTS_SURE if not splits.as_buckets(split, found) else 0.85
    ceiling = (likely if sure else 0.75) if split.clearness >= CLEAR else 0.65
    return split, "reduce_scatter+all_gather", claim(ceiling, samples, needed, basis)


def _read_train(reading: Reading, train: Train) -> tuple[Pause | None, Collective, Claim]:
    """What `_read_pauses` says, of a turn whose parts tell its end."""
    ceiling = 0.8 if train.sure else 0.65
    said = claim(ceiling, len(reading.clock.owner), 20.0 * reading.clock.turns, train.basis)
    counted_from = train.end.share == 1.0
    return None if counted_from else train.end, "reduce_scatter+all_gather", said
