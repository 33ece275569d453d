"""Flow records that tell something new: what no sample tells of, and each packet once."""

from __future__ import annotations

import numpy as np

from collector.records import Doubt, RecordBatch
from collector.schema import FlowBatch, HeaderState, Transport
from reconstruct.binning import endpoints_of
from reconstruct.hashing import mix


def untold(records: RecordBatch, flows: FlowBatch) -> RecordBatch:
    """Records of pairs of endpoints that no sample of RoCEv2 or TCP is of.

    Where one switch samples packets and another records flows, sequence numbers say more: what both
    saw is taken from the samples alone, so that nothing counts twice. Nor do records count that an
    exporter sent of flows as they left, and of the same as they entered.

    Parameters
    ----------
    records : RecordBatch
    flows : FlowBatch
        Samples of the same time.
    """
    records = records.take((records.doubts & np.uint8(Doubt.TWICE)) == 0)
    sampled = flows.take(
        (flows.header_state == HeaderState.COMPLETE)
        & np.isin(flows.transport, (Transport.TCP, Transport.ROCEV2))
    )
    if not len(records) or not len(sampled):
        return records
    pairs = []
    for rows in (records, sampled):
        endpoints, src, dst = endpoints_of(rows)
        pairs.append(mix(endpoints.key[src], endpoints.key[dst]))
    return records.take(~np.isin(pairs[0], pairs[1]))
