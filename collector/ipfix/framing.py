"""Messages in a stream of bytes: IPFIX over TCP, and IPFIX files.

Source: RFC 7011, 10.4 (TCP); RFC 5655 (files are messages one behind the other).
"""

from __future__ import annotations

from typing import Final

from collector.ipfix.messages import IPFIX

_HEADER_BYTES: Final = 16


class Splitter:
    """Cuts a stream into messages; it holds at most one that is not whole."""

    def __init__(self) -> None:
        self._held = b""
        self.skipped_bytes = 0  # that belong to no message

    def feed(self, data: bytes) -> list[bytes]:
        """Take in the next bytes; returns the messages that are whole by now.

        Notes
        -----
        Where no header stands, bytes are skipped up to the next that could be one: a version of
        10 with a length that holds its own header.
        """
        buffer = self._held + data
        messages = []
        at = 0
        while len(buffer) - at >= 4:
            size = int.from_bytes(buffer[at + 2 : at + 4])
            if buffer[at + 1] != IPFIX or buffer[at] or size < _HEADER_BYTES:
                following = buffer.find(b"\x00\x0a", at + 1)
                # The last byte may be the first half of a version.
                step = following if following >= 0 else len(buffer) - (buffer[-1] == 0)
                self.skipped_bytes += step - at
                at = step
                continue
            if len(buffer) - at < size:
                break
            messages.append(buffer[at : at + size])
            at += size
        self._held = buffer[at:]
        return messages
