"""pcapng files: several sections, interfaces with their own clocks and link types.

Source: draft-ietf-opsawg-pcapng, sections 3 and 4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numba import njit

from collector.packets import ROWS_PER_BATCH, Faults, PacketBatch
from collector.schema import I32, I64, U8
from collector.source import Window
from collector.wire import u16, u32, u32_little

MAGIC: Final = b"\x0a\x0d\x0d\x0a"
_SECTION: Final = 0x0A0D_0D0A
_INTERFACE: Final = 1
_OLD_PACKET: Final = 2
_SIMPLE_PACKET: Final = 3
_ENHANCED_PACKET: Final = 6
_BYTE_ORDER: Final = 0x1A2B_3C4D
_SMALLEST_BLOCK: Final = 12
_SMALLEST_CONTROL: Final = 20  # an interface block without options; a section block has 28
_LARGEST_BLOCK: Final = 1 << 24  # as libpcap: a longer one means damage
_OPTION_RESOLUTION: Final = 9
_OPTION_OFFSET: Final = 14
_MICROSECONDS: Final = 6  # if_tsresol where the option is absent
_MOST_INTERFACES: Final = 1 << 12  # in one section; bounds what a forged file can make us hold

_FULL: Final = 0
_BAD_LENGTH: Final = -1
_CONTROL: Final = -2


class Interfaces(NamedTuple):
    """The interfaces of one section, in columns with room for `_MOST_INTERFACES`."""

    link: I32
    resolution: I64  # if_tsresol: bit 7 set = power of 2, else power of 10
    offset_ns: I64
    snap: I64  # 0 = no limit


@njit(cache=True)
def _ticks_to_ns(ticks: np.uint64, resolution: int) -> int:
    """A timestamp in units of if_tsresol as ns; what does not fit comes out as 0."""
    power = resolution & 0x7F
    if resolution & 0x80:
        if power > 63:
            return 0
        seconds = ticks >> np.uint64(power)
        rest = ticks & ((np.uint64(1) << np.uint64(power)) - np.uint64(1))
        if power > 33:  # keep rest * 10^9 within 64 bits
            rest >>= np.uint64(power - 33)
            power = 33
        if seconds > np.uint64(9_000_000_000):
            return 0
        nanoseconds = (rest * np.uint64(1_000_000_000)) >> np.uint64(power)
        return int(np.int64(seconds) * 1_000_000_000 + np.int64(nanoseconds))
    if power > 19:
        return 0
    factor = np.uint64(1)
    for _ in range(abs(9 - power)):
        factor *= np.uint64(10)
    if power > 9:
        ticks = ticks // factor
    elif ticks > np.uint64(9_000_000_000_000_000_000) // factor:
        return 0
    else:
        ticks = ticks * factor
    if ticks > np.uint64(9_000_000_000_000_000_000):
        return 0
    return int(np.int64(ticks))


@njit(cache=True)
def _scan(
    buffer: U8,
    start: int,
    end: int,
    little: bool,
    interfaces: Interfaces,
    described: int,
    last_ns: int,
    offset: I64,
    length: I64,
    arrival_ns: I64,
    link: I32,
    strays: I64,
) -> tuple[int, int, int, int]:
    """Fill the columns with the packet blocks from `start` on, up to a block for Python.

    `strays` takes the number of packets that name no described interface, and where the first is.
    Returns position, rows, the time of the last packet, and the bytes needed (or one of the codes).
    """
    at = start
    rows = 0
    while rows < len(offset):
        if end - at < _SMALLEST_BLOCK:
            return at, rows, last_ns, _SMALLEST_BLOCK
        kind = u32_little(buffer, at) if little else u32(buffer, at)
        if kind in (_SECTION, _INTERFACE):
            return at, rows, last_ns, _CONTROL
        total = u32_little(buffer, at + 4) if little else u32(buffer, at + 4)
        if total < _SMALLEST_BLOCK or total > _LARGEST_BLOCK or total % 4:
            return at, rows, last_ns, _BAD_LENGTH
        if end - at < total:
            return at, rows, last_ns, total
        block = at
        at += total
        interface = 0
        if kind in (_ENHANCED_PACKET, _OLD_PACKET):
            data = block + 28
            if total < 32:
                return block, rows, last_ns, _BAD_LENGTH
            if kind == _ENHANCED_PACKET:
                interface = u32_little(buffer, block + 8) if little else u32(buffer, block + 8)
            elif little:
                interface = u32_little(buffer, block + 8) & 0xFFFF
            else:
                interface = u16(buffer, block + 8)
            captured = u32_little(buffer, block + 20) if little else u32(buffer, block + 20)
            if interface < described:
                high = u32_little(buffer, block + 12) if little else u32(buffer, block + 12)
                low = u32_little(buffer, block + 16) if little else u32(buffer, block + 16)
                ticks = (np.uint64(high) << np.uint64(32)) | np.uint64(low)
                last_ns = _ticks_to_ns(ticks, int(interfaces.resolution[interface]))
                if last_ns:
                    last_ns += int(interfaces.offset_ns[interface])
        elif kind == _SIMPLE_PACKET:
            data = block + 12
            if total < 16:
                return block, rows, last_ns, _BAD_LENGTH
            captured = u32_little(buffer, block + 8) if little else u32(buffer, block + 8)
            captured = min(captured, total - 16)
            if described and interfaces.snap[0]:
                captured = min(captured, int(interfaces.snap[0]))
        else:
            continue
        if captured > block + total - 4 - data:
            return block, rows, last_ns, _BAD_LENGTH
        if interface >= described:
            if not strays[0]:
                strays[1] = block
            strays[0] += 1
            continue
        offset[rows] = data
        length[rows] = captured
        arrival_ns[rows] = last_ns
        link[rows] = interfaces.link[interface]
        rows += 1
    return at, rows, last_ns, _FULL


def _describe(block: U8, little: bool, interfaces: Interfaces, row: int) -> None:
    """Read an interface block into `row` of `interfaces`."""
    order = "<" if little else ">"
    resolution, offset_s = _MICROSECONDS, 0
    at = 16
    while len(block) - 4 - at >= 4:
        code, size = (int(word) for word in block[at : at + 4].view(f"{order}u2"))
        value = block[at + 4 : min(at + 4 + size, len(block) - 4)]
        if code == _OPTION_RESOLUTION and len(value) == 1:
            resolution = int(value[0])
        elif code == _OPTION_OFFSET and len(value) == 8:
            offset_s = int(value.view(f"{order}i8")[0])
        at += 4 + (size + 3) // 4 * 4
    interfaces.link[row] = block[8:10].view(f"{order}u2")[0]
    interfaces.snap[row] = block[12:16].view(f"{order}u4")[0]
    interfaces.resolution[row] = resolution
    interfaces.offset_ns[row] = offset_s * 1_000_000_000 if abs(offset_s) < 4_000_000_000 else 0


def packets(window: Window, faults: Faults) -> Iterator[PacketBatch]:
    """Read a pcapng file whose first bytes stand in `window`.

    Parameters
    ----------
    window
        Holds at least the first 12 bytes of the file.
    faults
        Takes note of a damaged or short file; all that came before is yielded.

    Yields
    ------
    PacketBatch
    """
    at, last_ns, little = 0, 0, True
    described = 0
    interfaces = Interfaces(
        link=np.zeros(_MOST_INTERFACES, np.int32),
        resolution=np.zeros(_MOST_INTERFACES, np.int64),
        offset_ns=np.zeros(_MOST_INTERFACES, np.int64),
        snap=np.zeros(_MOST_INTERFACES, np.int64),
    )
    while True:
        offset = np.empty(ROWS_PER_BATCH, np.int64)
        length = np.empty(ROWS_PER_BATCH, np.int64)
        arrival_ns = np.empty(ROWS_PER_BATCH, np.int64)
        link = np.empty(ROWS_PER_BATCH, np.int32)
        strays = np.zeros(2, np.int64)
        at, rows, last_ns, need = _scan(
            window.buffer,
            at,
            window.end,
            little,
            interfaces,
            described,
            last_ns,
            offset,
            length,
            arrival_ns,
            link,
            strays,
        )
        if strays[0]:
            faults.note(
                "a packet of an interface that the capture does not describe",
                window.file_offset + int(strays[1]),
                int(strays[0]),
            )
        if rows:
            yield PacketBatch(
                window.buffer,
                offset[:rows],
                length[:rows],
                arrival_ns[:rows],
                link[:rows],
                window.file_offset,
            )
        if need == _CONTROL:
            block, little, need = _control(window, at, little)
            if block is not None:
                if _kind(block, little) == _SECTION:
                    described = 0
                elif described < _MOST_INTERFACES:
                    _describe(block, little, interfaces, described)
                    described += 1
                at += len(block)
        if need == _BAD_LENGTH:
            faults.note(
                "a block with an impossible length: the file is damaged from here on",
                window.file_offset + at,
            )
            return
        if need > 0:
            enough = window.advance(at, need)
            at = 0
            if not enough:
                if window.end:
                    faults.note("the file ends inside a block", window.file_offset)
                return


def _kind(block: U8, little: bool) -> int:
    return int(u32_little(block, 0) if little else u32(block, 0))


def _control(window: Window, at: int, little: bool) -> tuple[U8 | None, bool, int]:
    """The section or interface block at `at`, its byte order, and what is missing of it."""
    buffer = window.buffer
    if buffer[at : at + 4].tobytes() == MAGIC:
        if u32_little(buffer, at + 8) == _BYTE_ORDER:
            little = True
        elif u32(buffer, at + 8) == _BYTE_ORDER:
            little = False
        else:
            return None, little, _BAD_LENGTH
    total = int(u32_little(buffer, at + 4) if little else u32(buffer, at + 4))
    if total < _SMALLEST_CONTROL or total > _LARGEST_BLOCK or total % 4:
        return None, little, _BAD_LENGTH
    if window.end - at < total:
        return None, little, total
    return buffer[at : at + total], little, 0
