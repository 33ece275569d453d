from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest

from collector.errors import InventoryError
from collector.inventory import Host, Inventory, Port, Switch, read_inventory
from collector.messages import MESSAGE_CLASSES, MESSAGE_LENGTHS

GOOD = """
[[hosts]]
name = "gpu-001"
nics = ["10.0.0.1", "2001:DB8::1"]

[[hosts]]
name = "gpu-002"
nics = ["10.0.0.2"]

[[switches]]
name = "leaf-1"
agent = "10.255.0.1"
role = "leaf"
  [[switches.ports]]
  ifindex = 1
  name = "Ethernet0"
  speed_gbps = 400
  host = "gpu-001"
  nic = 1
  [[switches.ports]]
  ifindex = 2
  name = "Ethernet8"
  peer = "spine-1:Ethernet8"

[storage]
subnets = ["10.9.0.0/16", "fd00::/8"]

[messages]
ring_simple = 2097152
"""


def read(folder: Path, text: str) -> Inventory:
    path = folder / "inventory.toml"
    path.write_text(text)
    return read_inventory(path)


def test_everything_an_inventory_can_say(tmp_path: Path) -> None:
    assert read(tmp_path, GOOD) == Inventory(
        hosts=(Host("gpu-001", ("10.0.0.1", "2001:db8::1")), Host("gpu-002", ("10.0.0.2",))),
        switches=(
            Switch(
                "leaf-1",
                "10.255.0.1",
                "leaf",
                (
                    Port(1, "Ethernet0", 400.0, "gpu-001", 1, None),
                    Port(2, "Ethernet8", None, None, None, "spine-1:Ethernet8"),
                ),
            ),
        ),
        storage=(ip_network("10.9.0.0/16"), ip_network("fd00::/8")),
        message_lengths=(2_097_152, *MESSAGE_LENGTHS[1:]),
    )


def test_a_length_of_another_message_is_no_longer_its_own(tmp_path: Path) -> None:
    # NCCL_BUFFSIZE halved: rings send what trees send else.
    read_lengths = read(tmp_path, "[messages]\nring_simple = 524288").message_lengths
    expected = dict(MESSAGE_CLASSES) | {"ring_simple": 524_288, "tree_simple": 0}
    assert read_lengths == tuple(expected.values())


def test_an_empty_inventory_is_valid(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Inventory()


@pytest.mark.parametrize(
    ("old", "new", "key", "reason"),
    [
        ('["10.0.0.2"]', '["10.0.0.1"]', "hosts[1].nics[0]", "already at hosts[0].nics[0]"),
        ('["10.0.0.2"]', '["::ffff:10.0.0.1"]', "hosts[1].nics[0]", "already at hosts[0].nics[0]"),
        ('"gpu-002"', '"gpu-001"', "hosts[1].name", "host 'gpu-001' is already"),
        ('["10.0.0.2"]', '["10.0.0.300"]', "hosts[1].nics[0]", "no IP address"),
        ('["10.0.0.2"]', "[7]", "hosts[1].nics[0]", "must be a text"),
        ('["10.0.0.2"]', '"10.0.0.2"', "hosts[1].nics", "must be a list"),
        ('["10.0.0.2"]', "[]", "hosts[1].nics", "at least one NIC"),
        ('name = "gpu-002"', "", "hosts[1].name", "missing"),
        ('name = "gpu-002"', 'name = ""', "hosts[1].name", "not empty"),
        ('name = "gpu-002"', 'name = "gpu-002"\ngpus = 8', "hosts[1].gpus", "unknown key"),
        ("[storage]", "[lustre]", "lustre", "unknown key"),
        ('"10.9.0.0/16"', '"10.9.0.1/16"', "storage.subnets[0]", "has host bits set"),
        ('"10.9.0.0/16"', '"lustre"', "storage.subnets[0]", "'lustre'"),
        ("ring_simple", "simple", "messages.simple", "unknown key"),
        ("2097152", "0", "messages.ring_simple", "whole number from 1"),
        ("2097152", "9\nll128 = 9", "messages.ll128", "already those of ring_simple"),
        ('role = "leaf"', 'role = "core"', "switches[0].role", "must be one of leaf, spine"),
        ('"10.255.0.1"', '"leaf-1"', "switches[0].agent", "no IP address"),
        ('host = "gpu-001"', 'host = "gpu-9"', "switches[0].ports[0].host", "no host is named"),
        ("nic = 1", "nic = 2", "switches[0].ports[0].nic", "has NICs 0 to 1"),
        ("nic = 1", "nic = -1", "switches[0].ports[0].nic", "whole number from 0"),
        ("nic = 1", "", "switches[0].ports[0].nic", "missing: which NIC"),
        ('host = "gpu-001"', "", "switches[0].ports[0].nic", "without its host"),
        ("nic = 1", 'nic = 1\n  peer = "a:b"', "switches[0].ports[0].peer", "not to both"),
        ('"spine-1:Ethernet8"', '"spine-1"', "switches[0].ports[1].peer", "switch:port"),
        ("ifindex = 2", "ifindex = 1", "switches[0].ports[1].ifindex", "ifindex '1' is already"),
        ("ifindex = 2", "ifindex = true", "switches[0].ports[1].ifindex", "whole number from 1"),
        ("ifindex = 2", "", "switches[0].ports[1].ifindex", "missing"),
        ('"Ethernet8"\n', '"Ethernet0"\n', "switches[0].ports[1].name", "port 'Ethernet0'"),
        ("speed_gbps = 400", "speed_gbps = 0", "switches[0].ports[0].speed_gbps", "above 0"),
        ("speed_gbps = 400", "speed_gbps = nan", "switches[0].ports[0].speed_gbps", "above 0"),
        ('"Ethernet0"', '"\\u001b[2J"', "switches[0].ports[0].name", "cannot be printed"),
    ],
)
def test_a_wrong_inventory_names_its_key(
    tmp_path: Path, old: str, new: str, key: str, reason: str
) -> None:
    assert old in GOOD
    with pytest.raises(InventoryError) as caught:
        read(tmp_path, GOOD.replace(old, new, 1))
    assert caught.value.key == key
    assert reason in caught.value.reason
    assert str(caught.value).startswith(f"{tmp_path / 'inventory.toml'}: {key}: ")


@pytest.mark.parametrize(
    ("text", "key"),
    [("hosts = 3", "hosts"), ("switches = [1]", "switches"), ("storage = 1", "storage")],
)
def test_a_table_of_the_wrong_shape(tmp_path: Path, text: str, key: str) -> None:
    with pytest.raises(InventoryError, match="must be a") as caught:
        read(tmp_path, text)
    assert caught.value.key == key


def test_two_switches_with_one_agent(tmp_path: Path) -> None:
    switch = '[[switches]]\nname = "{}"\nagent = "10.255.0.1"\n'
    with pytest.raises(InventoryError, match=r"switches\[1\]\.agent"):
        read(tmp_path, switch.format("a") + switch.format("b"))


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InventoryError, match="No such file"):
        read_inventory(tmp_path / "absent.toml")
    with pytest.raises(InventoryError, match=r"not TOML: .*line 2"):
        read(tmp_path, "# hosts\n[[hosts\n")
    (tmp_path / "latin.toml").write_bytes(b'name = "\xe9"')
    with pytest.raises(InventoryError, match="offset 8: not UTF-8"):
        read_inventory(tmp_path / "latin.toml")


@pytest.mark.parametrize("text", ["a = " + "[" * 5000, "a = " + "9" * 5000], ids=["deep", "long"])
def test_what_the_parser_itself_cannot_hold(tmp_path: Path, text: str) -> None:
    with pytest.raises(InventoryError, match="not TOML"):
        read(tmp_path, text)


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff" + GOOD) == read(tmp_path, GOOD)
