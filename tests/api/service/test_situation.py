"""What a real service tells of itself: what the doctor's advice rests on."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from api.cli import doctor
from api.service.running import Service
from api.settings import load
from collector.schema import HeaderState, Transport
from tests.collector import encode as e

PATIENCE_S = 120.0
WHOLE = e.roce(e.bth(0x0A, 0x11, 7) + e.reth(64) + b"d" * 64)
CUT = 14 + 20 + 8 + 4  # bytes of Ethernet, IPv4, UDP, and of BTH as good as nothing
INVENTORY = """
[[hosts]]
name = "gpu-001"
nics = ["10.0.0.1"]

[[switches]]
name = "leaf-9"
agent = "10.255.0.9"
"""


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    inventory = tmp_path / "inventory.toml"
    inventory.write_text(INVENTORY)
    settings = load(
        None,
        {
            "store.directory": tmp_path / "store",
            "listen.udp": "127.0.0.1:0",
            "http.listen": "127.0.0.1:0",
            "analysis.inventory": inventory,
        },
    )
    made = Service(settings, Silent())
    made.start()
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    made.stop()
    thread.join()


class Silent:
    """A log that nobody reads."""

    def say(self, level: str, event: str, **fields: object) -> None:
        pass


def send(service: Service, *payloads: bytes) -> None:
    """Send datagrams, and wait until they are decoded."""
    before = _decoded(service)
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as sending:
        for payload in payloads:
            sending.sendto(payload, ("127.0.0.1", service.udp_port))
    end_s = time.monotonic() + PATIENCE_S
    while _decoded(service) < before + len(payloads):
        assert time.monotonic() < end_s, "waited in vain"
        time.sleep(0.01)


def _decoded(service: Service) -> int:
    account = service.account()
    return sum(exporter.datagrams for exporter in account.exporters) + account.decode_errors


def sampled(number: int, header: bytes) -> bytes:
    sample = e.flow_sample(e.timestamp(time.time_ns()), header, sequence=number)
    return e.datagram(sample, sequence=number)


def wrong(service: Service, capsys: pytest.CaptureFixture[str]) -> str:
    """What `ringscope doctor` says is wrong."""
    code = doctor.run(f"http://127.0.0.1:{service.http_port}", as_json=False)
    said = capsys.readouterr().out
    assert code == doctor.SOMETHING_WRONG, said
    return " ".join(line for line in said.splitlines() if line.startswith("wrong"))


def test_the_doctor_goes_the_way_of_a_sample(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    situation = service.situation()
    assert situation.listen == f"127.0.0.1:{service.udp_port}"
    assert (situation.hosts, situation.switches) == (1, (("leaf-9", "10.255.0.9"),))
    assert "datagrams   none: 127.0.0.1" in wrong(service, capsys)

    send(service, b"no telemetry")
    assert "nothing can be read: not an sFlow version 5 datagram (once" in wrong(service, capsys)

    send(service, e.datagram(e.counter_sample(), sequence=1))
    assert "only counters come, no samples of packets" in wrong(service, capsys)

    send(service, *(sampled(n, e.raw_header(WHOLE, keep=CUT)) for n in range(2, 5)))
    headers = service.situation().headers
    assert headers[HeaderState.TRUNCATED_BTH] == sum(headers) == 3
    assert "3 of 3 samples are cut before their RoCE" in wrong(service, capsys)

    send(service, *(sampled(n, e.raw_header(WHOLE)) for n in range(5, 8)))
    situation = service.situation()
    assert situation.headers[HeaderState.COMPLETE] == 3
    assert situation.transports[Transport.ROCEV2] == sum(situation.transports) == 6
    assert "nothing comes from 1 of 1 switches of the inventory: leaf-9" in wrong(service, capsys)
