"""Hints: what a job probably trains, as far as its traffic says.

Each is a guess with its basis, never more: no other part of the analysis rests on one. Gradients
are told by what rings and trees must move for so many bytes (Thakur et al. 2005, Sanders et al.
2009), micro-batches by the bursts of pipelines' links, and the bubble by both (Narayanan et al.
2021).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter1d
from scipy.signal import find_peaks

from patterns.claim import claim
from patterns.groups import Found, bytes_together
from patterns.parallelism import Layout, dense
from patterns.result import Claim, Collective, Hint, Parallelism
from reconstruct.edges import Flows

CEILING: Final = 0.8  # a guess
PER_BURST: Final = 12  # samples of a burst, from which on a pause beside it is none by chance
MOST_BURSTS: Final = 256
SLOTS_PER_BURST: Final = 8
WIDTHS: Final = (1.0, 2.0, 4.0)  # slots over which counts are smoothed, until bursts come evenly
DIP: Final = 0.5  # of the lower of two bursts, below which the valley between parts them
EVEN: Final = 0.35  # of the usual burst's samples: how unevenly bursts of one size may come
CHANCE: Final = 3.0  # standard errors
QUIET: Final = 0.3  # of the slots, those with fewest samples,
STILL: Final = 0.15  # hold no more of the other half of the samples where there are pauses
AGREED: Final = 0.6  # of the links that show their bursts must show as many
WHOLE: Final = 0.25  # how near to a whole number of chunks volumes must be
FEWEST_STAGES: Final = 3  # with two, the link that closes an interleaved pipeline is the other one
EITHER: Final = (1.0, 2.0)  # bytes of a gradient per byte of a parameter: bf16 or fp32
GATHERED: Final = (1, 2)  # times that sharded parameters are gathered in an iteration

Link = tuple[int, bool]  # a stage, and whether it sends to the next one or receives from it


def hints(
    flows: Flows,
    turns_ns: NDArray[np.int64],
    found: Sequence[Found],
    layout: Layout,
    sizes: Parallelism,
    reducing: tuple[Collective, Claim],
    accumulated: int,
) -> Mapping[str, Hint]:
    """What a job probably trains; what its traffic does not say is left out.

    Parameters
    ----------
    flows : Flows
    turns_ns : int64[k]
        Ends of iterations.
    found : sequence of Found
    layout : Layout
    sizes : Parallelism
        Of the job.
    reducing : (collective, Claim)
        What its gradient rings do.
    accumulated : int
        Micro-batches whose gradients are reduced one by one; 1 where no such are seen.

    Returns
    -------
    mapping of Hint
        "gradient_bytes" of one replica of a pipeline's stage (of the model, without a pipeline);
        "micro_batches" of an iteration; "pipeline_message_bytes" from a NIC to the next stage in
        one micro-batch; "pipeline_bubble", the share of an iteration.
    """
    if accumulated > 1:
        basis = f"gradients are reduced {accumulated} times before an optimiser step"
        ceiling = min(CEILING, reducing[1].confidence)
        said = claim(ceiling, int(flows.samples.sum()), 20.0 * len(turns_ns), basis)
        return {"micro_batches": Hint(accumulated, accumulated, accumulated, said)}
    out: dict[str, Hint] = {}
    gradients = _gradients(flows, found, layout, sizes, reducing)
    if gradients is not None:
        out["gradient_bytes"] = gradients
    pipelines = [f for f in found if f.role.kind == "pp" and not f.short]
    if pipelines and len(pipelines[0].shape.members) >= FEWEST_STAGES:
        out |= _of_pipelines(flows, turns_ns, pipelines, sizes)
    return out


def _gradients(
    flows: Flows,
    found: Sequence[Found],
    layout: Layout,
    sizes: Parallelism,
    reducing: tuple[Collective, Claim],
) -> Hint | None:
    """Bytes that a host's NICs reduce together, the usual host's.

    A model replica's layers of one stage lie in one host, whether tensor parallelism parts them
    among its GPUs or each of these has all of them; where they span several hosts, it is of those.
    None where hosts are not known, or some gradients (of experts) are reduced apart from others.
    """
    groups = dense(found)
    spans = {len(layout.span(f)) for f in found if f.role.kind == "tp"} or {1}
    shapes = {f.role.algorithm for f in groups}
    collective, told = reducing
    ends = [v for f in groups for v in f.shape.members]
    apart = len(groups) == sum(f.role.kind == "dp" for f in found) and len(set(ends)) == len(ends)
    on_rails = all(len(layout.span(f)) == len(f.shape.members) for f in groups)
    plain = len(shapes) == 1 and len(spans) == 1 and not any(f.shape.parts for f in groups)
    if not (layout.known and apart and on_rails and plain):
        return None
    tree = shapes == {"tree"}
    if not tree and (shapes != {"ring"} or collective == "unknown"):
        return None
    local, shares = _local_ranks(layout, sizes), _gradient_shares(collective)
    of_host: dict[str, NDArray[np.float64]] = defaultdict(lambda: np.zeros(2))
    for f, moved in zip(groups, bytes_together(flows, groups), strict=True):
        if moved is None:
            return None
        members = len(f.shape.members)
        if tree:
            # All but a root send it up once and are sent it once, however many GPUs they have.
            whole = np.full(2, moved / (2 * (members - 1)))
        else:
            an_edge = moved / (members - f.shape.missing)
            passed = [members * ranks / (members * ranks - 1) for ranks in local]
            whole = an_edge * np.array([min(passed) * min(shares), max(passed) * max(shares)])
        for host in layout.span(f):
            of_host[host] = of_host[host] + whole
    span = spans.pop()
    low, high = (span * np.median(list(of_host.values()), axis=0)).tolist()
    samples = int(sum(flows.samples[f.rows].sum() for f in groups))
    what = "trees move it twice past each host" if tree else f"rings, {collective}"
    basis = f"{what}: bytes of all NICs of a host"
    if span > 1:
        basis += f", of {span} hosts that share the layers"
    if high > low:
        basis += "; ranks of a host, or bytes of a parameter, are not known"
    ceiling = CEILING if tree else min(CEILING, told.confidence)
    return Hint((low + high) / 2, low, high, claim(ceiling, samples, 100.0, basis))


def _local_ranks(layout: Layout, sizes: Parallelism) -> list[int]:
    """How many ranks of a host one gradient ring may pass through."""
    hosts = len(set(layout.hosts.values()))
    return sorted({max(1, c["dp"] * c["cp"] * c["pp"] // hosts) for c in sizes.candidates}) or [1]


def _gradient_shares(collective: Collective) -> list[float]:
    """Parts of a ring edge's bytes that are gradients, times what it takes to see them once."""
    if collective == "all_reduce":
        return [0.5]  # reduced, then gathered
    return [size / (size + times) for size in EITHER for times in GATHERED]


def _of_pipelines(
    flows: Flows, turns_ns: NDArray[np.int64], found: Sequence[Found], sizes: Parallelism
) -> Mapping[str, Hint]:
    links, chunks = _links(flows, found)
    if chunks is None:
        return {}
    counts = [bursts(phase) for phase in _phases(flows, links, turns_ns)]
    told = [count for count in counts if count]
    if not told:
        return {}
    count, votes = Counter(told).most_common(1)[0]
    if votes < AGREED * len(told) or count % chunks:
        return {}
    batches = count // chunks
    samples = int(sum(flows.samples[rows].sum() for rows in links.values()))
    basis = f"{count} bursts in {votes} of {len(links)} links between stages, by direction"
    if chunks > 1:
        basis += f", of {chunks} chunks a stage"
    said = claim(CEILING * votes / len(links), samples, PER_BURST * count * len(links), basis)
    of_edge: dict[tuple[int, int], float] = defaultdict(float)
    for rows in links.values():
        for row in rows.tolist():
            of_edge[flows.src[row], flows.dst[row]] += float(flows.bytes_per_turn[row])
    message = float(np.nanmedian(list(of_edge.values()))) / count
    out = {"micro_batches": Hint(batches, batches, batches, said)}
    if np.isfinite(message):
        out["pipeline_message_bytes"] = Hint(message, message, message, said)
    if sizes.pp:
        idle = (sizes.pp - 1) / chunks
        share = idle / (batches + idle)
        basis = f"{sizes.pp} equal stages and {batches} micro-batches, one forward one backward"
        sure = min(said.confidence, sizes.confidence)
        out["pipeline_bubble"] = Hint(share, share, share, Claim(sure, basis, samples))
    return out


def _links(flows: Flows, found: Sequence[Found]) -> tuple[dict[Link, NDArray[np.intp]], int | None]:
    """Connections of each link between neighbouring stages, by direction, of all pipelines.

    With the chunks that each stage has, None where that is not told: the link that closes an
    interleaved pipeline carries one message less than each other for every `chunks`.
    """
    of_link: dict[Link, list[int]] = defaultdict(list)
    plain, closing = [], []
    for f in found:
        place = {v: n for n, v in enumerate(f.shape.members)}
        for row in f.rows.tolist():
            src, dst = place[int(flows.src[row])], place[int(flows.dst[row])]
            if abs(src - dst) == 1:
                of_link[min(src, dst), dst > src].append(row)
                plain.append(row)
            else:
                closing.append(row)
    links = {link: np.array(rows) for link, rows in of_link.items()}
    if not closing or not plain:
        return links, 1
    volume = flows.bytes_per_turn
    left = 1 - float(np.nanmedian(volume[closing]) / np.nanmedian(volume[plain]))
    if not 0 < left < 1 or abs(1 / left - round(1 / left)) > WHOLE:
        return links, None
    return links, round(1 / left)


def _phases(
    flows: Flows, links: Mapping[Link, NDArray[np.intp]], turns_ns: NDArray[np.int64]
) -> list[NDArray[np.float64]]:
    """When in its turn each sample of each link was taken; float64[n] each, 0 to 1."""
    seen = flows.sightings
    link_of = np.full(len(flows), -1, np.int64)
    for n, rows in enumerate(links.values()):
        link_of[rows] = n
    length = float(np.median(np.diff(turns_ns)))
    use = (link_of[seen.flow] >= 0) & (seen.slack_ns <= length / MOST_BURSTS)
    link, time = link_of[seen.flow[use]], seen.time_ns[use]
    turn = np.searchsorted(turns_ns, time, "right") - 1
    inside = (turn >= 0) & (turn < len(turns_ns) - 1)
    turn, time, link = turn[inside], time[inside], link[inside]
    phase = (time - turns_ns[turn]) / np.diff(turns_ns)[turn]
    order = np.argsort(link, kind="stable")
    edges = np.searchsorted(link[order], np.arange(1, len(links)))
    return np.split(phase[order], edges)


def bursts(phase: NDArray[np.float64]) -> int | None:
    """Into how many bursts of equal size samples fall; None where they do not."""
    most = min(len(phase) // PER_BURST, MOST_BURSTS)
    if most < 2:
        return None
    slots = most * SLOTS_PER_BURST
    if not _pauses(phase, slots):
        return None
    counted = np.bincount((phase * slots).astype(np.int64) % slots, minlength=slots)
    for width in WIDTHS:
        smooth = gaussian_filter1d(counted.astype(np.float64), width, mode="wrap")
        start = int(smooth.argmin())
        level = np.roll(smooth, -start)
        peaks, shown = find_peaks(level, prominence=0.0)
        peaks = peaks[shown["prominences"] >= (1 - DIP) * level[peaks]]
        if len(peaks) < 2:
            return None
        valleys = [low + int(level[low:high].argmin()) for low, high in pairwise(peaks.tolist())]
        sizes = np.add.reduceat(np.roll(counted, -start), [0, *valleys])
        usual = float(np.median(sizes))
        allowed = EVEN * usual + CHANCE * np.sqrt(max(usual, 1.0))
        if usual >= PER_BURST and np.abs(sizes - usual).max() <= allowed:
            return len(sizes)
    return None


def _pauses(phase: NDArray[np.float64], slots: int) -> bool:
    """Whether the phases that one half of the samples leaves out are left out by the other, too."""
    one, other = (
        np.bincount((half * slots).astype(np.int64) % slots, minlength=slots)
        for half in (phase[::2], phase[1::2])
    )
    for width in WIDTHS:
        smooth = gaussian_filter1d(one.astype(np.float64), width, mode="wrap")
        quiet = np.argsort(smooth, kind="stable")[: int(QUIET * slots)]
        if other[quiet].sum() <= STILL * other.sum():
            return True
    return False
