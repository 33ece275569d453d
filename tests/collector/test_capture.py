from __future__ import annotations

import errno
import gzip
import io
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from collector.capture import first_arrival_ns, read_capture
from collector.errors import CaptureError
from collector.packets import MAX_PACKET_BYTES, Faults
from collector.schema import DecodeError
from tests.collector import encode as e

START = e.EPOCH_NS
PAYLOADS = [e.datagram(e.flow_sample(), sequence=n) for n in range(1, 8)]
PACKETS = [(START + n * 1_000_000 + 789_000, e.packet(p)) for n, p in enumerate(PAYLOADS)]
TIMES = [time_ns for time_ns, _ in PACKETS]
CAPTURE = e.pcap(PACKETS)
Seen = list[tuple[int, bytes]]


def read(
    folder: Path, data: bytes, *, block_bytes: int = 1 << 16
) -> tuple[Seen, list[DecodeError]]:
    path = folder / "capture"
    path.write_bytes(data)
    faults = Faults(path)
    seen = [
        (time_ns, batch.buffer[at : at + size].tobytes())
        for batch in read_capture(path, faults, block_bytes=block_bytes)
        for time_ns, at, size in zip(
            batch.arrival_ns.tolist(), batch.offset.tolist(), batch.length.tolist(), strict=True
        )
    ]
    return seen, faults.errors()


def whole(folder: Path, data: bytes, block_bytes: int = 1 << 16) -> Seen:
    seen, errors = read(folder, data, block_bytes=block_bytes)
    assert errors == []
    return seen


ALL = list(zip(TIMES, PAYLOADS, strict=True))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_pcap_of_either_order_and_unit(
    tmp_path: Path, order: str, nanoseconds: bool, packed: bool
) -> None:
    data = e.pcap(PACKETS, order=order, nanoseconds=nanoseconds)
    assert whole(tmp_path, gzip.compress(data) if packed else data) == ALL


def ng(order: str, *, resolution: int | None, ticks_per_s: int, offset_s: int = 0) -> bytes:
    blocks = [
        e.section(order),
        e.interface(order=order, resolution=resolution, offset_s=offset_s or None),
    ]
    for time_ns, data in PACKETS:
        ticks = (time_ns - offset_s * e.SECOND) * ticks_per_s // e.SECOND
        blocks.append(e.enhanced(ticks, data, order=order))
    return b"".join(blocks)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize(
    ("resolution", "ticks_per_s"), [(None, 10**6), (9, 10**9), (6, 10**6), (3, 10**3), (10, 10**10)]
)
def test_pcapng_with_decimal_clocks(
    tmp_path: Path, order: str, resolution: int | None, ticks_per_s: int
) -> None:
    step = max(e.SECOND // ticks_per_s, 1)
    expected = [(time_ns // step * step, payload) for time_ns, payload in ALL]
    assert whole(tmp_path, ng(order, resolution=resolution, ticks_per_s=ticks_per_s)) == expected


@pytest.mark.parametrize("power", [10, 20, 33])
def test_pcapng_with_binary_clocks(tmp_path: Path, power: int) -> None:
    seen = whole(tmp_path, ng("<", resolution=0x80 | power, ticks_per_s=1 << power))
    assert [payload for _, payload in seen] == PAYLOADS
    for (time_ns, _), true_ns in zip(seen, TIMES, strict=True):
        assert -1 <= true_ns - time_ns <= e.SECOND / (1 << power) + 1


def test_a_clock_finer_than_64_bits_can_count_since_1970(tmp_path: Path) -> None:
    # 2^-40 s: the epoch does not fit, so such files count from if_tsoffset.
    base_s = START // e.SECOND
    data = ng("<", resolution=0x80 | 40, ticks_per_s=1 << 40, offset_s=base_s)
    seen = whole(tmp_path, data)
    for (time_ns, _), true_ns in zip(seen, TIMES, strict=True):
        assert abs(true_ns - time_ns) <= 1


def test_pcapng_sections_interfaces_and_foreign_blocks(tmp_path: Path) -> None:
    packets = [data for _, data in PACKETS]
    data = b"".join(
        [
            e.section("<"),
            e.interface(101),
            e.interface(1, resolution=9),
            e.block(4, b"\0" * 20),  # name resolution
            e.enhanced(TIMES[0], packets[0], interface_id=1),
            e.enhanced(TIMES[1] // 1000, packets[1][14:], interface_id=0),
            e.block(0x0BAD, b"\1" * 33),
            e.section(">"),
            e.interface(1, resolution=9, order=">"),
            e.enhanced(TIMES[2], packets[2], order=">"),
            e.simple(packets[3], order=">"),
            e.block(5, b"\0" * 12, ">"),  # statistics
        ]
    )
    # A simple packet has no time of its own and takes that of the packet before.
    assert whole(tmp_path, data) == [*ALL[:3], (TIMES[2], PAYLOADS[3])]


def test_a_packet_of_an_undescribed_interface_is_counted(tmp_path: Path) -> None:
    data = (
        e.section()
        + e.enhanced(1, PACKETS[0][1])
        + e.interface()
        + e.enhanced(TIMES[1] // 1000, PACKETS[1][1])
    )
    seen, errors = read(tmp_path, data)
    assert seen == ALL[1:2]
    (error,) = errors
    assert "interface that the capture does not describe" in error.reason
    assert (error.offset, error.count) == (len(e.section()), 1)


@pytest.mark.parametrize("block_bytes", [64, 300, 1000])
def test_small_blocks_give_the_same(tmp_path: Path, block_bytes: int) -> None:
    assert whole(tmp_path, CAPTURE, block_bytes) == ALL
    assert whole(tmp_path, gzip.compress(CAPTURE), block_bytes) == ALL
    data = ng("<", resolution=9, ticks_per_s=10**9)
    assert whole(tmp_path, data, block_bytes) == ALL


def test_gzip_of_several_members_and_with_padding(tmp_path: Path) -> None:
    half = len(CAPTURE) // 2
    members = gzip.compress(CAPTURE[:half]) + gzip.compress(CAPTURE[half:])
    assert whole(tmp_path, members + b"\0" * 512) == ALL


@pytest.mark.parametrize("next_generation", [False, True])
def test_a_file_cut_anywhere_keeps_what_stands_before(
    tmp_path: Path, next_generation: bool
) -> None:
    data = ng("<", resolution=9, ticks_per_s=10**9) if next_generation else CAPTURE
    head = len(e.section() + e.interface(resolution=9)) if next_generation else 24
    ends = [data.index(packet) + len(packet) for _, packet in PACKETS]
    if next_generation:  # padding and the length once more
        ends = [end + (-end) % 4 + 4 for end in ends]
    for size in sorted({*range(head + 1, len(data), 7), *ends}):
        seen, errors = read(tmp_path, data[:size])
        assert seen == ALL[: sum(end <= size for end in ends)]
        inside = [error for error in errors if "the file ends inside" in error.reason]
        assert len(inside) == (size not in ends)
        for error in inside:
            assert error.offset == max((end for end in ends if end < size), default=head)


def test_a_gzip_stream_cut_short_keeps_what_could_be_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(CAPTURE, compresslevel=0)
    seen, errors = read(tmp_path, packed[:-200])
    assert 0 < len(seen) < len(ALL)
    assert seen == ALL[: len(seen)]
    assert "the gzip stream ends early" in [error.reason for error in errors]


def test_a_damaged_gzip_stream_is_named(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(CAPTURE))
    packed[-6] ^= 0xFF  # the checksum: all data before it is good
    seen, errors = read(tmp_path, bytes(packed))
    assert seen == ALL
    (error,) = errors
    assert "damaged gzip stream" in error.reason
    assert error.offset == len(CAPTURE)


def test_an_absurd_packet_length_ends_the_file_there(tmp_path: Path) -> None:
    data = bytearray(CAPTURE)
    second = 24 + 16 + len(PACKETS[0][1])
    data[second + 8 : second + 12] = (MAX_PACKET_BYTES + 1).to_bytes(4, "little")
    seen, errors = read(tmp_path, bytes(data))
    assert seen == ALL[:1]
    assert [(error.offset, error.count) for error in errors] == [(second, 1)]
    assert "damaged from here on" in errors[0].reason


@pytest.mark.parametrize("length", [0, 8, 13, 1 << 25, 0xFFFF_FFFC])
def test_an_impossible_block_length_ends_the_file_there(tmp_path: Path, length: int) -> None:
    blocks = e.section() + e.interface(resolution=9)
    good = e.enhanced(TIMES[0], PACKETS[0][1])
    broken = bytearray(good)
    broken[4:8] = length.to_bytes(4, "little")
    seen, errors = read(tmp_path, blocks + good + bytes(broken))
    assert seen == ALL[:1]
    assert [error.offset for error in errors] == [len(blocks + good)]


def test_captures_that_are_none(tmp_path: Path) -> None:
    for data, reason in (
        (b"", "the file is empty"),
        (b"hello, this is text", "it begins with 68 65 6c 6c"),
        (CAPTURE[:20], "ends inside its header"),
        (gzip.compress(b"text, but packed"), "it begins with 74 65 78 74"),
        (b"\x1f\x8bnothing that inflates", "damaged gzip stream"),
        (b"\x1f\x8b", "the gzip stream ends early"),
    ):
        with pytest.raises(CaptureError) as caught:
            read(tmp_path, data)
        assert reason in caught.value.reason
        assert str(tmp_path) in str(caught.value)
    with pytest.raises(CaptureError, match="No such file"):
        list(read_capture(tmp_path / "absent.pcap", Faults()))
    with pytest.raises(CaptureError, match="directory"):
        list(read_capture(tmp_path, Faults()))


@pytest.mark.parametrize("packed", [False, True])
def test_a_pipe_is_read_once(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert first_arrival_ns(path) is None  # without opening it
    data = gzip.compress(CAPTURE) if packed else CAPTURE
    with ThreadPoolExecutor() as writer:
        writer.submit(path.write_bytes, data)
        batches = list(read_capture(path, Faults()))
    assert [time for batch in batches for time in batch.arrival_ns.tolist()] == TIMES


class _FailingDisk(io.BytesIO):
    """A file whose bytes end in an input/output error."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() == len(self.getbuffer()):
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


def test_a_disk_that_fails_keeps_what_stands_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "capture"
    path.touch()
    for data in (CAPTURE, gzip.compress(CAPTURE)[:-1]):
        monkeypatch.setattr(Path, "open", lambda *_, data=data: _FailingDisk(data))
        faults = Faults(path)
        batches = list(read_capture(path, faults))
        assert [time for batch in batches for time in batch.arrival_ns.tolist()] == TIMES
        assert [error.reason for error in faults.errors()] == [
            "reading failed (Input/output error)"
        ]
    monkeypatch.setattr(Path, "open", lambda *_: _FailingDisk())
    with pytest.raises(CaptureError, match="Input/output error"):
        list(read_capture(path, Faults()))


def test_a_capture_without_telemetry_says_so(tmp_path: Path) -> None:
    other = e.ethernet(0x0800, e.ipv4(e.udp(b"x", 53, 53), 17))
    _, errors = read(tmp_path, e.pcap([(START, other)] * 3))
    assert [error.reason for error in errors] == [
        "no sFlow, IPFIX or NetFlow datagram among its 3 UDP packets"
    ]


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(gzip.compress(CAPTURE * 1))
    calls: list[tuple[int, int]] = []
    list(
        read_capture(
            path, Faults(), lambda done, total: calls.append((done, total)), block_bytes=1000
        )
    )
    assert [total for _, total in calls] == [path.stat().st_size] * len(calls)
    assert calls == sorted(calls)
    assert calls[-1][0] == path.stat().st_size


def test_first_arrival(tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(CAPTURE)
    assert first_arrival_ns(path) == TIMES[0]
    path.write_bytes(b"text")
    assert first_arrival_ns(path) is None
    path.write_bytes(e.pcap([]))
    assert first_arrival_ns(path) is None


_NG = ng("<", resolution=9, ticks_per_s=10**9)


@settings(max_examples=150, deadline=None)
@given(
    base=st.sampled_from([CAPTURE, _NG]),
    flips=st.lists(st.tuples(st.integers(4, 400), st.integers(0, 255)), max_size=8),
    size=st.integers(12, len(CAPTURE)),
    tail=st.binary(max_size=40),
)
def test_no_bytes_crash_the_reader(
    tmp_path_factory: pytest.TempPathFactory,
    base: bytes,
    flips: list[tuple[int, int]],
    size: int,
    tail: bytes,
) -> None:
    data = bytearray(base)
    for at, value in flips:
        data[at] = value
    folder = tmp_path_factory.getbasetemp()
    try:
        seen, _ = read(folder, bytes(data[:size]) + tail, block_bytes=128)
    except CaptureError:
        return
    assert len(seen) <= len(PACKETS) + 2
