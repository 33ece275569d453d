"""The corpora, as the collector's tests know them."""

from tests.collector.conftest import sflow_files

__all__ = ["sflow_files"]
