from __future__ import annotations

from ipaddress import ip_network

import pytest

from collector.schema import Transport
from reconstruct.bins import Verb
from reconstruct.traffic import Traffic, classify
from tests.reconstruct.made import Stream, progress_of, renamed

TCP = {"transport": Transport.TCP, "verbs": 0, "unit_bytes": 1, "mean_payload": 1448}


def class_of(fields: dict[str, int | float], storage: tuple[str, ...] = ()) -> Traffic:
    progress = progress_of(Stream(0, 1, [0], [0], fields))
    return Traffic(classify(progress, [ip_network(net) for net in storage])[0])


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        ({}, Traffic.CANDIDATE),
        ({"verbs": Verb.WRITE | Verb.WRITE_IMM}, Traffic.CANDIDATE),
        ({"mean_payload": 64}, Traffic.CONTROL),
        ({"mean_payload": 255}, Traffic.CONTROL),
        ({"mean_payload": 1000}, Traffic.CANDIDATE),
        ({"verbs": Verb.READ}, Traffic.STORAGE),
        ({"verbs": Verb.SEND, "mean_payload": 64}, Traffic.STORAGE),
        ({"verbs": Verb.WRITE | Verb.SEND}, Traffic.STORAGE),
        # A RoCE source port is a hash: that of a file server means nothing there.
        ({"src_port": 988}, Traffic.CANDIDATE),
        ({"src_port": 9100}, Traffic.CANDIDATE),
        (TCP | {"src_port": 40_000, "dst_port": 40_001}, Traffic.CANDIDATE),
        (TCP | {"src_port": 40_000, "dst_port": 988}, Traffic.STORAGE),
        (TCP | {"src_port": 2049, "dst_port": 40_000}, Traffic.STORAGE),
        (TCP | {"src_port": 40_000, "dst_port": 6810}, Traffic.STORAGE),
        (TCP | {"src_port": 40_000, "dst_port": 22}, Traffic.MANAGEMENT),
        (TCP | {"src_port": 9100, "dst_port": 40_000}, Traffic.MANAGEMENT),
        (TCP | {"dst_port": 40_001, "mean_payload": 20}, Traffic.CONTROL),
    ],
)
def test_headers_tell_the_class(fields: dict[str, int | float], wanted: Traffic) -> None:
    assert class_of(fields) == wanted


@pytest.mark.parametrize("fields", [{}, TCP, {"mean_payload": 64}], ids=["rdma", "tcp", "control"])
def test_a_storage_server_makes_it_storage_in_both_directions(fields: dict[str, int]) -> None:
    streams = [Stream(0, 1, [0], [0], fields), Stream(1, 0, [0], [0], fields)]
    progress = renamed(progress_of(*streams), ["10.0.0.1", "10.9.3.4"])
    assert classify(progress, [ip_network("10.9.0.0/16")]).tolist() == [Traffic.STORAGE] * 2
    assert Traffic.STORAGE not in classify(progress, [ip_network("10.10.0.0/16")])


def test_storage_is_found_by_ipv6_and_inside_a_tenant_network() -> None:
    progress = renamed(
        progress_of(Stream(0, 1, [0], [0]), Stream(2, 3, [0], [0])),
        ["fd00::1%12", "fd00:9::1%12", "10.0.0.1", "10.9.0.1%7"],
    )
    for network, wanted in [
        ("fd00:9::/32", [Traffic.STORAGE, Traffic.CANDIDATE]),
        ("10.9.0.0/16", [Traffic.CANDIDATE, Traffic.STORAGE]),
    ]:
        assert classify(progress, [ip_network(network)]).tolist() == wanted


SENT, READ = {"verbs": Verb.SEND}, {"verbs": Verb.READ}


@pytest.mark.parametrize("verb", [SENT, READ], ids=["sent", "read"])
def test_what_peers_give_and_take_by_one_verb_may_belong_to_a_job(verb: dict[str, int]) -> None:
    ring = [Stream(u, (u + 1) % 4, [0], [0], verb) for u in range(4)]
    assert set(classify(progress_of(*ring), [])) == {Traffic.CANDIDATE}
    small = [Stream(u, (u + 1) % 4, [0], [0], verb | {"mean_payload": 64}) for u in range(4)]
    assert set(classify(progress_of(*small), [])) == {Traffic.STORAGE}


def test_clients_that_send_and_servers_that_are_read_are_storage() -> None:
    """Beside a job whose members send to each other."""
    ring = [Stream(u, (u + 1) % 4, [0], [0], SENT) for u in range(4)]
    stored = [Stream(u, 4 + u % 2, [0], [0], SENT) for u in range(4)]
    loaded = [Stream(4 + u % 2, u, [0], [0], READ) for u in range(4)]
    said = classify(progress_of(*ring, *stored, *loaded), []).tolist()
    assert said == [Traffic.CANDIDATE] * 4 + [Traffic.STORAGE] * 8
