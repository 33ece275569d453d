"""Reading flow records, and the law of sampled ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.baselines.flow_records import read, sample_packets, sampled
from tests.bench.baselines.flows import flows

HOSTS = '[[hosts]]\nname = "a"\nnics = ["u0", "u1"]\n\n[[hosts]]\nname = "b"\nnics = ["u2"]\n'


@pytest.fixture
def written(tmp_path: Path) -> Path:
    columns = {
        "start_ns": [1_500_000_000, 2_000_000_000],
        "duration_ns": [250_000_000, 0],
        "src": ["10.0.0.1", "10.0.0.1"],
        "dst": ["10.0.0.2", "10.0.0.9"],
        "src_nic": ["u0", "u1"],
        "dst_nic": ["u2", "s0"],
        "vni": [7, 8],
        "bytes": [100, 200],
        "packets": [1, 2],
        "messages": [1, 1],
        "protocol": [17, 6],
    }
    pq.write_table(pa.table(columns), tmp_path / "flows.parquet")
    return tmp_path / "flows.parquet"


def test_columns_and_servers(written: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory.toml").write_text(HOSTS)
    records, ends = read(written, tmp_path / "inventory.toml")
    assert records.start_s.tolist() == [1.5, 2.0]
    assert records.end_s.tolist() == [1.75, 2.0]
    assert records.roce.tolist() == [True, False]
    assert [ends.address[n] for n in records.src] == ["10.0.0.1", "10.0.0.1"]
    assert records.src[0] != records.src[1]  # one address in two networks is two endpoints
    assert ends.server[records.src].tolist() == [0, 0]
    assert ends.server[records.dst].tolist() == [1, -1]


def test_without_an_inventory_every_endpoint_is_a_server(written: Path, tmp_path: Path) -> None:
    (tmp_path / "inventory.toml").touch()
    _, ends = read(written, tmp_path / "inventory.toml")
    assert sorted(ends.server.tolist()) == [0, 1, 2, 3]


def test_one_packet_in_n_is_sampled_and_stands_for_n() -> None:
    records = flows([(1.0, 2.0, 0, 1, 4096 * 2_000_000), (5.0, 6.0, 1, 0, 4096 * 500_000)])
    rng = np.random.default_rng(1)
    record, time_s = sample_packets(records, 100, rng)
    counts = np.bincount(record)
    # Binomial: five standard deviations.
    np.testing.assert_allclose(counts, [20_000, 5_000], atol=5 * 141)
    assert time_s[record == 0].min() >= 1.0
    assert time_s[record == 0].max() <= 2.0
    assert time_s[record == 0].mean() == pytest.approx(1.5, abs=0.011)


def test_sampled_records_lie_within_the_true_ones() -> None:
    rows = [(float(n), n + 0.5, 0, 1, 4096 * 1000) for n in range(2000)]
    whole = flows(rows)
    seen = sampled(whole, 1000, np.random.default_rng(2))
    place = np.floor(seen.start_s).astype(int)
    # A record is seen with 1 - (1 - 1/1000)^1000, about 0.632: five standard deviations.
    assert len(seen) == pytest.approx(2000 * 0.632, abs=5 * 21.6)
    assert (np.diff(seen.start_s) >= 0).all()
    assert (seen.start_s >= whole.start_s[place]).all()
    assert (seen.end_s <= whole.end_s[place]).all()
    assert set((seen.size % (4096 * 1000)).tolist()) == {0}
    assert seen.size.sum() == pytest.approx(whole.size.sum(), rel=5 / np.sqrt(2000))


def test_one_in_one_keeps_all_bytes() -> None:
    whole = flows([(0.0, 1.0, 0, 1, 4096 * 50)])
    seen = sampled(whole, 1, np.random.default_rng(3))
    assert seen.size.tolist() == [4096 * 50]
