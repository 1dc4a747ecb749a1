"""Descriptions of Xen hosts and guests: what they say, and what is said about mistakes."""

import re

import pytest

from testbed.errors import UsageError
from testbed.real.xen.description import XenApiHost, XlHost, read_description

LEAST = """\
host:
  driver: xl
  address: 10.0.0.1
  known_hosts: known_hosts
guests:
  preset: small
  root: /dev/vdb
  kernel: /boot/vmlinux
  ramdisk: /boot/initrd
  addresses: [10.0.0.10, 10.0.0.11, 10.0.0.12]
  gateway: 10.0.0.1
"""


@pytest.fixture
def read(tmp_path):
    """A function that reads a description from its text, after replacing parts of it."""

    def read(text=LEAST, **replaced):
        for old, new in replaced.items():
            assert f"{old}:" in text
            text = re.sub(rf"^( *){old}: .*$", new if "\n" in new else rf"\g<1>{new}", text, flags=re.MULTILINE)
        (tmp_path / "guests.yaml").write_text(text)
        return read_description(tmp_path / "guests.yaml")

    return read


def test_paths_are_relative_to_the_file_and_defaults_are_those_of_the_preset(read, tmp_path):
    found = read()
    assert found.host == XlHost("10.0.0.1", str(tmp_path / "known_hosts"))
    assert (found.guests.count, found.guests.cores, found.workers) == (3, 1, 2)
    assert (found.emulated, found.control_plane) == (False, None)


def test_the_thesis_has_a_control_plane_and_nineteen_workers(read):
    addresses = ", ".join(f"10.0.0.{number}" for number in range(10, 30))
    found = read(preset="preset: thesis", addresses=f"addresses: [{addresses}]")
    assert (found.guests.count, found.workers, found.guests.cores, found.guests.memory) == (20, 19, 4, "8Gi")
    assert (found.guests.reserved.cpu, found.guests.reserved.memory) == ("0", "0")


def test_a_pool_is_described_by_its_address(read):
    text = LEAST.replace(
        "  driver: xl\n  address: 10.0.0.1\n  known_hosts: known_hosts\n", "  driver: xenapi\n  url: U\n"
    )
    own = {"root": "root: carico-guest", "kernel": "# none", "ramdisk": "# none"}
    assert read(text, url="url: https://pool", **own).host == XenApiHost("https://pool")
    with pytest.raises(UsageError, match="a pool's template has its own kernel and ramdisk: leave them out"):
        read(text, url="url: https://pool")
    with pytest.raises(
        UsageError, match=r"line 3: url: an https:// or http:// address without user and password is needed$"
    ):
        read(text, url="url: https://root:secret@pool")


@pytest.mark.parametrize(
    ("field", "written", "said"),
    [
        ("kernel", "kernal: /boot/vmlinux", "line 8: guests: there is no field 'kernal', did you mean 'kernel'"),
        ("preset", "preset: theses", "line 6: .*did you mean 'thesis'"),
        ("driver", "driver: xm", "line 2: driver: one of xl, xenapi is needed, got 'xm'"),
        ("ramdisk", "ramdisk: initrd", "line 9: ramdisk: an absolute path of letters, .* is needed, got 'initrd'"),
        ("kernel", 'kernel: "/boot/a\\" b"', "line 8: "),
        ("preset", "count: 200", "200 guests need as many addresses, got 3"),
        ("addresses", "addresses: [10.0.0.10, 10.0.1.10, 10.0.0.12]", "10.0.1.10 is not in the gateway's network"),
        ("addresses", "addresses: [10.0.0.10, 10.0.0.10, 10.0.0.12]", "last numbers of the addresses must differ"),
        ("addresses", "addresses: [10.0.0.10, 10.0.0.1, 10.0.0.12]", "must be 2 to 254"),
        ("gateway", "gateway: here", "Expected 4 octets"),
        ("preset", "memory: 8Gb", "'8Gb' is not a quantity"),
        ("preset", "count: 1", "the only guest would be the control plane"),
        ("root", "root: carico-root", "an absolute path in dom0 is needed"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_would_do(read, field, written, said):
    with pytest.raises(UsageError, match=said):
        read(**{field: written})


def test_a_file_that_is_not_there_or_no_yaml_is_reported(read, tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_description(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="is no YAML"):
        read("{")
