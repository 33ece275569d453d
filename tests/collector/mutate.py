"""Damaged datagrams by the hundred thousand: one array operation per kind of damage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from collector.link import DatagramBatch

U8 = NDArray[np.uint8]
I64 = NDArray[np.int64]

# Bytes between two datagrams of a batch: a kernel that reads too far reads these.
GAP: Final = 64
# What damage leaves in a length, a count or a type: nothing, little, signs, too much.
_WORDS: Final = np.array(
    [*range(16), 1001, 1043, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFF8, 0xFFFF_FFFF], np.uint32
)
_KINDS: Final = 6


class Datagrams(NamedTuple):
    """Datagrams as rows of one matrix; row n holds `length[n]` bytes, then what does not matter."""

    data: U8  # shape (n, width)
    length: I64  # shape (n,)


def together(payloads: Sequence[bytes]) -> Datagrams:
    """Datagrams as they are."""
    length = np.array([len(payload) for payload in payloads], np.int64)
    data = np.zeros((len(payloads), int(length.max())), np.uint8)
    for row, payload in enumerate(payloads):
        data[row, : len(payload)] = np.frombuffer(payload, np.uint8)
    return Datagrams(data, length)


def mutations(seeds: Datagrams, rows: int, random: np.random.Generator) -> Datagrams:
    """Copies of `seeds`, each damaged in one to four ways.

    Bits flip, words (types, lengths, counts) change, the end is cut off, the tail of another
    datagram takes the place of its own, and words go missing or are doubled.
    """
    chosen = random.integers(len(seeds.data), size=rows)
    data, length = seeds.data[chosen], seeds.length[chosen]
    for turn in range(4):
        kind = random.integers(_KINDS * (turn + 1), size=rows)  # the first turn spares nobody
        _flip_bits(data, length, np.flatnonzero(kind == 0), random)
        for again in range(3):
            hit = np.flatnonzero(kind == 1)
            _set_words(data, length, hit[random.random(len(hit)) > again / 4], random)
        hit = np.flatnonzero(kind == 2)
        length[hit] = (length[hit] * random.random(len(hit))).astype(np.int64)
        _splice(data, length, np.flatnonzero(kind == 3), seeds, random)
        _shift(data, length, np.flatnonzero(kind == 4), random)
        hit = np.flatnonzero(kind == 5)
        _set_bytes(data, length, hit, random.integers(256, size=len(hit)), random)
    return Datagrams(data, length)


def _somewhere(length: I64, hit: I64, random: np.random.Generator) -> I64:
    return (length[hit] * random.random(len(hit))).astype(np.int64)


def _flip_bits(data: U8, length: I64, hit: I64, random: np.random.Generator) -> None:
    for _ in range(3):
        bits = (1 << random.integers(8, size=len(hit))).astype(np.uint8)
        data[hit, _somewhere(length, hit, random)] ^= bits


def _set_bytes(data: U8, length: I64, hit: I64, value: I64, random: np.random.Generator) -> None:
    data[hit, _somewhere(length, hit, random)] = value.astype(np.uint8)


def _set_words(data: U8, length: I64, hit: I64, random: np.random.Generator) -> None:
    """Fields of sFlow stand at multiples of four bytes."""
    hit = hit[length[hit] >= 4]
    at = _somewhere(length - 3, hit, random) & ~3
    value = random.choice(_WORDS, len(hit)).astype(">u4")
    kind, columns = random.random(len(hit)), at[:, None] + np.arange(4)
    small = kind < 0.2
    value[small] = random.integers(1 << 12, size=int(small.sum()))
    near = kind > 0.7  # lengths that are nearly right
    before = data[hit[near, None], columns[near]].view(">u4")[:, 0].astype(np.int64)
    value[near] = (before + random.integers(-9, 10, size=len(before))) & 0xFFFF_FFFF
    data[hit[:, None], columns] = value.view(np.uint8).reshape(-1, 4)


def _splice(data: U8, length: I64, hit: I64, seeds: Datagrams, random: np.random.Generator) -> None:
    other = random.integers(len(seeds.data), size=len(hit))
    cut = _somewhere(length, hit, random)
    tail = np.arange(data.shape[1]) >= cut[:, None]
    data[hit] = np.where(tail, seeds.data[other], data[hit])
    length[hit] = np.maximum(seeds.length[other], cut)


def _shift(data: U8, length: I64, hit: I64, random: np.random.Generator) -> None:
    """Take up to sixteen words out, or repeat them, somewhere in the middle."""
    width = data.shape[1]
    words = random.integers(-16, 17, size=len(hit)) * 4
    cut = _somewhere(length, hit, random) & ~3
    column = np.arange(width)
    source = np.where(column >= cut[:, None], column + words[:, None], column)
    data[hit] = np.take_along_axis(data[hit], source.clip(0, width - 1), axis=1)
    length[hit] = (length[hit] - words).clip(0, width)


def as_batch(rows: Datagrams, arrival_ns: int | I64, fill: int) -> DatagramBatch:
    """The rows as a batch of datagrams, with `fill` wherever none of them is."""
    count, width = rows.data.shape
    buffer = np.full((count, width + GAP), fill, np.uint8)
    held = np.arange(width) < rows.length[:, None]
    np.copyto(buffer[:, :width], rows.data, where=held)
    offset = np.arange(count, dtype=np.int64) * (width + GAP)
    return DatagramBatch(
        buffer=buffer.reshape(-1),
        offset=offset,
        length=rows.length,
        arrival_ns=np.full(count, arrival_ns, np.int64),
        src_hi=np.zeros(count, np.uint64),
        src_lo=np.full(count, 0xFFFF_C000_0201, np.uint64),
        src_port=np.full(count, 50_000, np.uint16),
        dst_port=np.full(count, 6343, np.uint16),
        file_offset=offset,
        defect=np.zeros(count, np.uint8),
    )
