"""sFlow version 5: datagrams to samples."""

from collector.sflow.contents import parse
from collector.sflow.datagrams import Headers, Status
from collector.sflow.decoding import (
    DEFECT_REASONS,
    REASONS,
    Discards,
    Polled,
    Samples,
    decode,
)
from collector.sflow.sampled import DETAIL_BYTES, Drop, SampleColumns, Sampled

__all__ = [
    "DEFECT_REASONS",
    "DETAIL_BYTES",
    "REASONS",
    "Discards",
    "Drop",
    "Headers",
    "Polled",
    "SampleColumns",
    "Sampled",
    "Samples",
    "Status",
    "decode",
    "parse",
]
