"""What the service says of itself, made by hand: all is well, and no job is there."""

from __future__ import annotations

from typing import Final

from api.service.account import Account, Check, Situation
from api.service.doubts import Doubts, Pending
from collector.schema import ExporterHealth, TimeBasis

NOW_NS: Final = 1_796_041_140_000_000_000

CHECKS: Final = (Check("listener", True, ""), Check("store", True, ""))
EXPORTER: Final = ExporterHealth(
    agent="10.255.0.1",
    sub_agent=7,
    protocol="sflow5",
    datagrams=900,
    flow_samples=4000,
    counter_samples=200,
    lost_datagrams=0,
    decode_errors=0,
    sampling_rates=(4000,),
    time_basis=TimeBasis.EXPORTER,
    state="ok",
)
ACCOUNT: Final = Account(
    started_ns=NOW_NS - 3_600_000_000_000,
    datagrams=900,
    payload_bytes=1_200_345,
    kernel_drops=0,
    backlog_drops=0,
    refused_datagrams=0,
    receiver_deaths=0,
    flow_samples=4000,
    flow_records=0,
    counter_samples=200,
    decode_errors=0,
    rows_stored=4100,
    rows_held=100,
    rows_lost=0,
    late_samples=0,
    window_start_ns=NOW_NS - 600_000_000_000,
    window_end_ns=NOW_NS,
    window_rows=512,
    analysis_lag_s=3.25,
    ticks=77,
    analysis_s=6.5,
    exporters=(EXPORTER,),
)
DOUBTS: Final = Doubts(
    looked_s=600.0,
    samples=3000,
    storage=0,
    management=0,
    control=0,
    endpoints=0,
    connections=0,
    doubted=0,
    doubted_s=0.0,
    only_receiving=0,
    unnamed=0,
    components=0,
    pending=(),
)
SITUATION: Final = Situation(
    listen="[::]:6343",
    allowed=(),
    window_s=600.0,
    lateness_s=2.0,
    hosts=4,
    switches=(("leaf-1", "10.255.0.1"),),
    errors=(),
    headers=(4000, 0, 0, 0, 0, 0, 0, 0),
    transports=(0, 1000, 0, 3000, 0),
    doubts=DOUBTS,
)
PENDING: Final = Pending(
    endpoints=32,
    connections=64,
    first="10.0.0.1",
    period_s=2.0,
    turns=50,
    samples_per_turn=60.0,
    sightings=3,
    studied=True,
    shaped=True,
    longer=False,
)
