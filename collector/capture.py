"""Capture files in, batches of telemetry datagrams out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from collector import pcap, pcapng
from collector.errors import CaptureError, NothingReadError
from collector.framing import begins
from collector.ipfix import files
from collector.link import DatagramBatch, datagrams
from collector.packets import Faults
from collector.schema import DecodeError
from collector.source import ByteSource, Window
from collector.streams import Streams

# Large enough that the cost per batch vanishes, small enough that a batch and what is decoded
# from it stay well below 100 MB.
BLOCK_BYTES: Final = 16 << 20
_PEEK_BYTES: Final = 1 << 16

Progress = Callable[[int, int], None]


def read_capture(
    path: Path,
    faults: Faults,
    on_progress: Progress | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[DatagramBatch]:
    """Read one capture: pcap or pcapng, or a file of IPFIX messages; plain or gzip.

    Parameters
    ----------
    path
        The file.
    faults
        Takes note of all that could not be read, with offsets in the (unpacked) file.
    on_progress
        Called after each batch with the bytes of the file on disk that are done, and their total.
    block_bytes
        How much of the file a batch covers at most.

    Yields
    ------
    DatagramBatch
        In capture order; never empty.

    Raises
    ------
    CaptureError
        The file cannot be opened, is empty, or is no capture. Damage further on is noted only.
    """
    found, udp = 0, 0
    with ByteSource(path) as source:
        window = Window(source, block_bytes)
        whole = window.advance(0, pcap.HEADER_BYTES)
        head = window.buffer[: min(pcap.HEADER_BYTES, window.end)].tobytes()
        magic = head[:4]
        streams = Streams()
        batches: Iterator[tuple[list[DatagramBatch], int]]
        if magic in pcap.MAGICS and whole:
            batches = (datagrams(each, faults, streams) for each in pcap.packets(window, faults))
        elif magic == pcapng.MAGIC and whole:
            batches = (datagrams(each, faults, streams) for each in pcapng.packets(window, faults))
        elif begins(head):
            batches = (([each], 0) for each in files.messages(window, path, faults))
        elif source.fault is not None and not window.end:
            raise CaptureError(path, 0, source.fault)
        elif not window.end:
            raise CaptureError(path, 0, "the file is empty")
        elif magic in pcap.MAGICS or magic == pcapng.MAGIC:
            raise CaptureError(path, window.end, "the file ends inside its header")
        else:
            starts = f"it begins with {magic.hex(' ')}"
            reason = f"no pcap, pcapng or IPFIX file, and no table of transfers: {starts}"
            raise CaptureError(path, 0, reason)
        for several, seen in batches:
            udp += seen
            for batch in several:
                found += len(batch)
                yield batch
            if on_progress is not None:
                on_progress(source.position_bytes, source.size_bytes)
        if source.fault is not None:
            faults.note(source.fault, window.file_offset + window.end)
    if not found:
        faults.note(f"no sFlow, IPFIX or NetFlow datagram among its {udp} UDP packets", None)


def first_arrival_ns(path: Path) -> int | None:
    """When the first telemetry datagram of a capture came in.

    Returns
    -------
    int or None
        ns since the epoch; None where there is none, no way to read the file, or no way to read it
        twice, as with a pipe.
    """
    if not os.path.isfile(path):
        return None
    try:
        for batch in read_capture(path, Faults(), block_bytes=_PEEK_BYTES):
            return int(batch.arrival_ns[0])
    except CaptureError:
        pass
    return None


def read_captures(
    captures: Sequence[Path],
    errors: list[DecodeError],
    on_progress: Progress | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[tuple[DatagramBatch, Faults]]:
    """Read several captures, one after another.

    Parameters
    ----------
    captures
        They are read in the order of their first datagram, whatever order they are given in, pipes
        last; one given twice counts once.
    errors
        After each capture, what could not be read of it is added here.
    on_progress
        Called after each batch with the bytes on disk that are done, and the bytes of all files.
    block_bytes
        How much of a file a batch covers at most.

    Yields
    ------
    DatagramBatch
        As `read_capture` does.
    Faults
        Of its capture; what the caller cannot read of the batch belongs there too.

    Raises
    ------
    NothingReadError
        At the end: none of the files could be read as a capture.
    """
    # os.path, not pathlib: these never raise, whatever the path; reading then says what is wrong.
    captures = list({os.path.realpath(path): path for path in captures}.values())
    sizes = {path: os.path.getsize(path) if os.path.isfile(path) else 0 for path in captures}
    total, done = sum(sizes.values()), 0
    first_ns = {path: first_arrival_ns(path) for path in captures}
    latest = np.iinfo(np.int64).max
    opened = 0
    for path in sorted(captures, key=lambda path: first_ns[path] or latest):
        faults = Faults(path)
        before = done

        def report(position: int, _: int, before: int = before) -> None:
            if on_progress is not None:
                on_progress(before + position, total)

        try:
            for batch in read_capture(path, faults, report, block_bytes):
                yield batch, faults
            opened += 1
        except CaptureError as error:
            faults.note(error.reason, error.offset)
        done += sizes[path]
        errors += faults.errors()
    if not opened:
        raise NothingReadError(errors)
