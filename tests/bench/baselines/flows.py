"""Flow records by hand, for the tests of baselines."""

from __future__ import annotations

import numpy as np

from bench.baselines.flow_records import FlowRecords

PERIOD_S = 2.0
STEPS = 12
SIZES = (*[30_000_000] * 11, 7_000_000)  # of a step: whole buckets and a rest


def flows(rows: list[tuple[float, float, int, int, int]]) -> FlowRecords:
    """Records of (start, end, source, destination, bytes), in packets of 4096 bytes."""
    start_s, end_s, src, dst, size = (np.array(column) for column in zip(*rows, strict=True))
    packets = -(-size // 4096)
    return FlowRecords(start_s, end_s, src, dst, size, packets, np.ones(len(rows), np.bool_))


def ring(members: list[int], late_s: float = 0.0) -> list[tuple[float, float, int, int, int]]:
    """A ring that sends gradients once a period, until 0.3 s after it begins; then it is silent."""
    rows = []
    for step in range(STEPS):
        for place, src in enumerate(members):
            dst = members[(place + 1) % len(members)]
            at = step * PERIOD_S + 0.5 + late_s
            for part, size in enumerate(SIZES):
                start = at + 0.025 * part
                rows.append((start, start + 0.025 - 0.001 * place, src, dst, size))
    return rows
