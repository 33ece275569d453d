"""IPFIX over TCP in captures: segments in, the messages of their streams out.

Source: RFC 9293, 3.4 (sequence numbers); RFC 7011, 10.4 (IPFIX over TCP).
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collector.framing import Splitter
from collector.packets import Faults

MOST_STREAMS: Final = 1024  # beyond this, the one not heard of for longest is forgotten
# Of a stream, behind a gap that may still be filled.
MOST_HELD_BYTES: Final = 1 << 20
MOST_HELD: Final = 256
FAR_BEHIND: Final = 1 << 24  # bytes: no segment is sent again so late
_WRAP: Final = 1 << 32
_FIN: Final = 1
_SYN: Final = 2
_RST: Final = 4


class Key(NamedTuple):
    """One direction of a connection: addresses in halves, and ports."""

    src: tuple[int, int]
    dst: tuple[int, int]
    src_port: int
    dst_port: int


@dataclass(slots=True)
class _Stream:
    """What is known of a stream: the next byte that is due, and what came ahead of it."""

    due: int
    splitter: Splitter
    ahead: dict[int, bytes] = field(default_factory=dict)
    held_bytes: int = 0


class Streams:
    """Puts segments in order, stream by stream, and cuts them into messages."""

    def __init__(self) -> None:
        self._streams: OrderedDict[Key, _Stream] = OrderedDict()

    def add(
        self, key: Key, sequence: int, flags: int, data: bytes, lacking: int, faults: Faults
    ) -> list[bytes]:
        """Take in a segment.

        Parameters
        ----------
        sequence, flags
            Of its TCP header.
        data
            Its payload as captured; `lacking` bytes more were sent.

        Returns
        -------
        list of bytes
            Messages that it makes whole.
        """
        if flags & _SYN:
            sequence = (sequence + 1) % _WRAP
            self._streams.pop(key, None)
        stream = self._streams.get(key)
        if stream is None:
            begins = bool(flags & _SYN)
            stream = self._streams[key] = _Stream(sequence, Splitter(begins=begins))
        self._streams.move_to_end(key)
        if len(self._streams) > MOST_STREAMS:
            self._streams.popitem(last=False)
        if (stream.due - sequence) % _WRAP in range(FAR_BEHIND, _WRAP // 2) and data:
            # Another connection of the same ports, whose begin is not in the capture.
            stream = self._streams[key] = _Stream(sequence, Splitter(begins=False))
        found = _segment(stream, sequence, data, faults)
        if lacking:
            faults.note("a segment of IPFIX over TCP is cut short in the capture", None)
            end = (sequence + len(data)) % _WRAP
            if stream.due == end:
                found += _jump(stream, (end + lacking) % _WRAP, faults)
        if flags & (_FIN | _RST):
            while stream.ahead:
                found += _beyond_gap(stream, faults)
            self._streams.pop(key)
        return found


def _segment(stream: _Stream, sequence: int, data: bytes, faults: Faults) -> list[bytes]:
    """Its bytes where they are due; else they are held."""
    early = (sequence - stream.due) % _WRAP
    if early >= _WRAP // 2:  # some of it came before
        data, early = data[_WRAP - early :], 0
    if not early or not data:
        return _go_on(stream, data, faults)
    known = stream.ahead.get(sequence, b"")
    if len(data) > len(known):
        stream.ahead[sequence] = data
        stream.held_bytes += len(data) - len(known)
    found = []
    while stream.held_bytes > MOST_HELD_BYTES or len(stream.ahead) > MOST_HELD:
        found += _beyond_gap(stream, faults)
    return found


def _go_on(stream: _Stream, data: bytes, faults: Faults) -> list[bytes]:
    """Bytes that are due, and those behind them that came ahead."""
    found = []
    while data:
        stream.due = (stream.due + len(data)) % _WRAP
        skips = stream.splitter.skips
        found += stream.splitter.feed(data)
        if stream.splitter.skips > skips:
            faults.note("bytes that belong to no IPFIX message", None)
        data = _held(stream)
    return found


def _held(stream: _Stream) -> bytes:
    """Bytes that are due and came ahead."""
    for at in list(stream.ahead):
        before = (stream.due - at) % _WRAP
        if before < _WRAP // 2:
            piece = stream.ahead.pop(at)
            stream.held_bytes -= len(piece)
            if len(piece) > before:
                return piece[before:]
    return b""


def _beyond_gap(stream: _Stream, faults: Faults) -> list[bytes]:
    """Give up what is missing before the first bytes that are held."""
    faults.note("bytes of IPFIX over TCP are not in the capture", None)
    first = min(stream.ahead, key=lambda at: (at - stream.due) % _WRAP)
    return _jump(stream, first, faults)


def _jump(stream: _Stream, due: int, faults: Faults) -> list[bytes]:
    """Go on behind a gap; the message that it cuts is lost."""
    stream.due = due
    stream.splitter = Splitter(begins=False)
    return _go_on(stream, _held(stream), faults)
