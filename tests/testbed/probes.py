"""A second agent: pmacctd's sfprobe on every port, for what comes in from the host there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.testbed.hosts import Host
from tests.testbed.shell import running

AGENT = "127.0.0.2"


@contextmanager
def probes(hosts: Sequence[Host], rate: int, receiver: str, folder: Path) -> Iterator[None]:
    """Probes that take one packet in `rate`, each a sub-agent of `AGENT`."""
    with ExitStack() as stack:
        for host in hosts:
            configuration = folder / f"{host.port}.conf"
            configuration.write_text(
                f"pcap_interface: {host.port}\n"
                f"pcap_filter: src host {host.address}\n"
                "plugins: sfprobe\n"
                f"sampling_rate: {rate}\n"
                f"sfprobe_receiver: {receiver}\n"
                f"sfprobe_agentip: {AGENT}\n"
                f"sfprobe_agentsubid: {host.number}\n"
            )
            words = ["pmacctd", "-f", str(configuration)]
            stack.enter_context(running(words, folder / f"{host.port}.log"))
        yield
