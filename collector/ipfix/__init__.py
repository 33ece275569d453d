"""IPFIX and NetFlow: datagrams to flow records, counters and sampled packets."""

from collector.ipfix.ingest import IpfixIngest
from collector.ipfix.tally import RecordExporter

__all__ = ["IpfixIngest", "RecordExporter"]
