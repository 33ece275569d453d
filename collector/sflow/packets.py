"""Flow samples and notices of dropped packets: what was sampled where, and the packet's header.

Both hold the same records, so one kernel reads both.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit

from collector.schema import ABSENT_U16, ABSENT_U32, U8, FlowBatch, PortState
from collector.sflow import tags
from collector.sflow.datagrams import Places, Status
from collector.sflow.fields import sampled_ipv4, sampled_ipv6
from collector.sflow.sampled import Drop, SampleColumns, Sampled, Told
from collector.sflow.strange import Strange, note
from collector.sflow.tags import Kind
from collector.sflow.text import detail
from collector.wire import u32, u64

_FLOW_BYTES: Final = 32
_FLOW_EXPANDED_BYTES: Final = 44
_DISCARD_BYTES: Final = 32
_INTERNAL: Final = 0x3FFF_FFFF
_MOST_VLAN: Final = 4094
# What the sampled-IP records leave out of the frame: Ethernet's header and check sequence.
_ETHERNET_BYTES: Final = 18


@njit(cache=True, nogil=True)
def _interface(form: int, value: int) -> tuple[int, int]:
    """`PortState` and value of an interface: format 0 single, 1 discarded, 2 multiple."""
    if form == 0 and value == _INTERNAL:
        return PortState.INTERNAL, value
    if form == 0 and value:
        return PortState.SINGLE, value
    if form == 1:
        return PortState.DISCARDED, value
    if form == 2:
        return PortState.MULTIPLE, value
    return PortState.UNKNOWN, 0


@njit(cache=True, nogil=True)
def _read(
    buffer: U8,
    places: Places,
    count: int,
    discards: bool,
    out: SampleColumns,
    more: Sampled,
    drop: Drop,
    strange: Strange,
) -> None:
    row = -1
    for place in range(count):
        sample = places.tag[place]
        if discards:
            if sample != tags.DISCARD:
                continue
        elif sample != tags.FLOW and sample != tags.FLOW_EXPANDED:
            continue
        row += 1
        at = int(places.start[place])
        end = int(places.end[place])
        datagram = int(places.datagram[place])
        more.datagram[row] = datagram
        more.fault_at[row] = at
        more.vlan[row] = ABSENT_U16
        more.vni[row] = ABSENT_U32
        out.queue[row] = ABSENT_U32
        out.queue_bytes[row] = ABSENT_U32
        out.transit_ns[row] = ABSENT_U32
        if sample == tags.FLOW:
            least = _FLOW_BYTES
        elif sample == tags.FLOW_EXPANDED:
            least = _FLOW_EXPANDED_BYTES
        else:
            least = _DISCARD_BYTES
        if end - at < least:
            more.status[row] = Status.SHORT_SAMPLE
            continue
        more.sequence[row] = u32(buffer, at)
        if sample == tags.FLOW:
            kind = u32(buffer, at + 4) >> 24
            index = u32(buffer, at + 4) & 0xFF_FFFF
            entered = u32(buffer, at + 20)
            left = u32(buffer, at + 24)
            in_state, in_value = _interface(entered >> 30, entered & _INTERNAL)
            out_state, out_value = _interface(left >> 30, left & _INTERNAL)
            numbers = at + 8
        elif sample == tags.FLOW_EXPANDED:
            kind = u32(buffer, at + 4)
            index = u32(buffer, at + 8)
            in_state, in_value = _interface(u32(buffer, at + 24), u32(buffer, at + 28))
            out_state, out_value = _interface(u32(buffer, at + 32), u32(buffer, at + 36))
            numbers = at + 12
        else:
            kind = u32(buffer, at + 4)
            index = u32(buffer, at + 8)
            in_state, in_value = _interface(0, u32(buffer, at + 16))
            out_state, out_value = _interface(0, u32(buffer, at + 20))
            numbers = at + 4  # only the count of drops, which stands where theirs does
            drop.reason[row] = u32(buffer, at + 24)
        more.source[row] = (np.uint64(kind) << np.uint64(32)) | np.uint64(index)
        more.dropped[row] = u32(buffer, numbers + 8)
        if not discards:
            out.sampling_rate[row] = u32(buffer, numbers)
            more.pool[row] = u32(buffer, numbers + 4)
        out.source_id[row] = index
        out.input[row] = in_value
        out.input_state[row] = in_state
        out.output[row] = out_value
        out.output_state[row] = out_state
        received = kind == 0 and in_state == PortState.SINGLE and in_value == index
        sent = kind == 0 and out_state == PortState.SINGLE and out_value == index
        if received != sent:  # both: sent back where it came from, either may have been sampled
            out.direction[row] = 1 if received else 2
        records = u32(buffer, at + least - 4)
        at += least
        # Where the last record of a kind lies, 0 = nowhere: no sample begins a buffer.
        ethernet = four = six = switch = stripped = 0
        egress_vni = ABSENT_U32
        rank = 0
        while records > 0:
            more.fault_at[row] = at
            if end - at < 8 or u32(buffer, at + 4) > end - at - 8:
                more.status[row] = Status.SHORT_RECORD
                break
            tag = u32(buffer, at)
            size = u32(buffer, at + 4)
            at += 8
            if tag == tags.RAW_HEADER:
                if size >= 16 and not more.header_protocol[row] and u32(buffer, at):
                    more.header_protocol[row] = u32(buffer, at)
                    out.frame_bytes[row] = u32(buffer, at + 4)
                    more.header_at[row] = at + 16
                    more.header_bytes[row] = min(u32(buffer, at + 12), size - 16)
            elif tag == tags.TIMESTAMP:
                if size >= 8:
                    more.stamp_ns[row] = u64(buffer, at)
                    more.stamp_at[row] = at
            elif tag == tags.SWITCH:
                if size >= 16:
                    switch = at
            elif tag == tags.VLAN_TUNNEL:
                if size >= 8:
                    stripped = at
            elif tag == tags.VNI_INGRESS:
                if size >= 4:
                    more.vni[row] = u32(buffer, at)
            elif tag == tags.VNI_EGRESS:
                if size >= 4:
                    egress_vni = u32(buffer, at)
            elif tag == tags.EGRESS_QUEUE:
                if size >= 4:
                    out.queue[row] = u32(buffer, at)
            elif tag == tags.TRANSIT_DELAY:
                if size >= 4:
                    out.transit_ns[row] = u32(buffer, at)
            elif tag == tags.QUEUE_DEPTH:
                if size >= 4:
                    out.queue_bytes[row] = u32(buffer, at)
            elif tag == tags.ETHERNET:
                if size >= 24:
                    ethernet = at
            elif tag == tags.IPV4:
                if size >= 32:
                    four = at
            elif tag == tags.IPV6:
                if size >= 56:
                    six = at
            elif not tags.known_flow_record(tag):
                note(strange, datagram, Kind.FLOW_RECORD, tag)
            elif discards:
                rank = detail(buffer, tag, at, at + size, rank, drop.detail[row])
            at += size
            records -= 1
        if more.vni[row] == ABSENT_U32:
            more.vni[row] = egress_vni
        if stripped and u32(buffer, stripped):
            more.vlan[row] = u32(buffer, stripped + 4) & 0x0FFF
            more.stripped[row] = 1
        elif switch:
            vlan = u32(buffer, switch + (8 if out.direction[row] == 2 else 0))
            if 0 < vlan <= _MOST_VLAN:
                more.vlan[row] = vlan
        if more.header_protocol[row]:
            continue  # the header says all that follows, and more
        if four:
            more.told[row] = Told.IP
            out.frame_bytes[row] = u32(buffer, four) + _ETHERNET_BYTES
            sampled_ipv4(buffer, four, row, out)
        elif six:
            more.told[row] = Told.IP
            out.frame_bytes[row] = u32(buffer, six) + _ETHERNET_BYTES
            sampled_ipv6(buffer, six, row, out)
        elif ethernet and u32(buffer, ethernet + 20) not in (0, 0x0800, 0x86DD):
            more.told[row] = Told.NOT_IP
        if ethernet:
            out.frame_bytes[row] = u32(buffer, ethernet)


def read(
    buffer: U8, places: Places, count: int, rows: int, strange: Strange
) -> tuple[FlowBatch, Sampled]:
    """Read all flow samples among the first `count` places; there are `rows` of them."""
    flows, sampled, _ = _packets(buffer, places, count, rows, False, strange)
    return flows, sampled


def read_discards(
    buffer: U8, places: Places, count: int, rows: int, strange: Strange
) -> tuple[FlowBatch, Sampled, Drop]:
    """Read all notices of dropped packets among the first `count` places; there are `rows`."""
    return _packets(buffer, places, count, rows, True, strange)


def _packets(
    buffer: U8, places: Places, count: int, rows: int, discards: bool, strange: Strange
) -> tuple[FlowBatch, Sampled, Drop]:
    flows, sampled = FlowBatch.empty(rows), Sampled.empty(rows)
    drop = Drop.empty(rows if discards else 0)
    if rows:
        columns = SampleColumns(*(getattr(flows, name) for name in SampleColumns._fields))
        _read(buffer, places, count, discards, columns, sampled, drop, strange)
    return flows, sampled, drop
