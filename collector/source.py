"""A capture file as a stream of bytes: plain or gzip, with its position for progress."""

from __future__ import annotations

import zlib
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import numpy as np

from collector.errors import CaptureError
from collector.schema import U8

GZIP_MAGIC: Final = b"\x1f\x8b"
_READ_BYTES: Final = 1 << 20  # of the file on disk at a time
_GZIP_WBITS: Final = 31  # zlib: expect a gzip wrapper
_PIECE_BYTES: Final = 1 << 18  # unpacked at a time; what is done again where the stream is damaged


class ByteSource:
    """The bytes of one file or pipe, gzip undone.

    Damage inside a gzip stream, or a disk that fails, ends the source early; `fault` then says what
    was wrong, and every byte before it has been delivered.

    Parameters
    ----------
    path
        The file.

    Attributes
    ----------
    size_bytes, position_bytes
        Bytes of the file on disk, and how many of them have been read; a pipe has a size of 0.

    Raises
    ------
    CaptureError
        The file cannot be opened, or not one byte of it be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            self.size_bytes = path.stat().st_size
            self._file = path.open("rb")
        except OSError as error:
            raise CaptureError(path, 0, error.strerror or str(error)) from error
        try:
            self._ahead = self._file.read(len(GZIP_MAGIC))  # kept: a pipe has no way back
        except OSError as error:
            self._file.close()
            raise CaptureError(path, 0, error.strerror or str(error)) from error
        self.position_bytes = len(self._ahead)
        self.fault: str | None = None
        self._inflater: zlib._Decompress | None = None
        if self._ahead == GZIP_MAGIC:
            self._inflater = zlib.decompressobj(_GZIP_WBITS)

    def read_into(self, target: U8) -> int:
        """Fill `target` from its start; fewer bytes than asked for mean the end.

        Parameters
        ----------
        target : uint8, shape (n,)

        Returns
        -------
        int
            Bytes written, 0 to n.
        """
        view = target.data
        done = 0
        while done < len(view):
            piece = self._next(len(view) - done)
            if not piece:
                break
            view[done : done + len(piece)] = piece
            done += len(piece)
        return done

    def _next(self, limit: int) -> bytes:
        if self._inflater is None:
            return self._read(limit)
        while self.fault is None:
            raw = self._inflater.unconsumed_tail or self._inflater.unused_data
            if self._inflater.eof:
                if len(raw) < len(GZIP_MAGIC):
                    raw += self._read(_READ_BYTES)
                if not raw.startswith(GZIP_MAGIC):  # padding after the last member is legal
                    return b""
                self._inflater = zlib.decompressobj(_GZIP_WBITS)
            elif not raw:
                raw = self._read(_READ_BYTES)
                if not raw:
                    self.fault = self.fault or "the gzip stream ends early"
                    break
            before = self._inflater.copy()
            try:
                piece = self._inflater.decompress(raw, min(limit, _PIECE_BYTES))
            except zlib.error as error:
                self.fault = f"damaged gzip stream ({error})"
                return _unpack_until_damage(before, raw)[:limit]
            if piece:
                return piece
        return b""

    def _read(self, limit: int) -> bytes:
        """Bytes as they are on disk, at most `limit`; none at the end and where it fails."""
        if self._ahead:
            piece, self._ahead = self._ahead[:limit], self._ahead[limit:]
            return piece
        if self.fault is not None:
            return b""
        try:
            piece = self._file.read(limit)
        except OSError as error:
            self.fault = f"reading failed ({error.strerror or error})"
            return b""
        self.position_bytes += len(piece)
        return piece

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _unpack_until_damage(inflater: zlib._Decompress, raw: bytes) -> bytes:
    """What zlib throws away when it raises: the bytes that came out before the damage."""
    piece = bytearray()
    try:
        for at in range(len(raw)):
            piece += inflater.decompress(raw[at : at + 1])
    except zlib.error:
        pass
    return bytes(piece)


class Window:
    """A moving window over a `ByteSource`.

    Every move takes a new buffer, so that arrays handed out earlier stay valid.

    Attributes
    ----------
    buffer : uint8, shape (n,)
        Bytes ``[0, end)`` are valid.
    file_offset
        Offset in the (unpacked) stream of ``buffer[0]``.
    """

    def __init__(self, source: ByteSource, block_bytes: int) -> None:
        self.source = source
        self.buffer: U8 = np.empty(0, np.uint8)
        self.end = 0
        self.file_offset = 0
        self._block_bytes = block_bytes

    def advance(self, start: int, need: int) -> bool:
        """Drop the bytes before `start` and read on until `need` bytes are there.

        Returns
        -------
        bool
            Whether `need` bytes are there now.
        """
        kept = self.end - start
        buffer = np.empty(max(self._block_bytes, need), np.uint8)
        buffer[:kept] = self.buffer[start : self.end]
        self.file_offset += start
        self.end = kept + self.source.read_into(buffer[kept:])
        self.buffer = buffer
        return self.end >= need
