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
    with pytest.raises(UsageError, match="line 7: kernel: the template of a pool settles this: leave it out"):
        read(text, url="url: https://pool")
    with pytest.raises(UsageError, match="line 5: type: the template of a pool settles this: leave it out"):
        read(text, url="url: https://pool", preset="type: hvm", **own)
    for url in ("https://pool:abc", "https://[::1", "https://:443"):
        with pytest.raises(UsageError, match=r"line 3: url: an address such as https://10\.0\.0\.1 is needed$"):
            read(text, url=f"url: '{url}'", **own)
    with pytest.raises(
        UsageError, match=r"line 3: url: an https:// or http:// address without user and password is needed$"
    ):
        read(text, url="url: https://root:secret@pool")


@pytest.mark.parametrize("url", ["http://pool", "http://10.0.0.1", "http://127.0.0.1.example"])
def test_a_password_is_not_sent_in_clear_text(read, url):
    text = LEAST.replace("driver: xl\n", f"driver: xenapi\n  url: {url}\n").replace("  known_hosts: known_hosts\n", "")
    text = text.replace("  address: 10.0.0.1\n", "")
    with pytest.raises(UsageError, match="line 3: url: https:// is needed: http:// would send the password in clear"):
        read(text, root="root: T", kernel="# none", ramdisk="# none")


@pytest.mark.parametrize(
    ("field", "written", "said"),
    [
        ("kernel", "kernal: /boot/vmlinux", "line 8: guests: there is no field 'kernal', did you mean 'kernel'"),
        ("preset", "preset: theses", "line 6: .*did you mean 'thesis'"),
        ("driver", "driver: xm", "line 2: driver: one of xl, xenapi is needed, got 'xm'"),
        ("ramdisk", "ramdisk: initrd", "line 9: ramdisk: an absolute path of letters, .* is needed, got 'initrd'"),
        ("kernel", 'kernel: "/boot/a\\" b"', "line 8: "),
        ("preset", "kernel: /boot/another", r"guests\.yaml is no YAML: the key 'kernel' occurs twice, line 8"),
        ("preset", "count: 200", "line 10: addresses: as many addresses as guests are needed, 200, got 3"),
        (
            "addresses",
            "addresses: [10.0.0.10, 10.0.1.10, 10.0.0.12]",
            r"line 10: addresses\[1\]: an address in the gateway's network 10.0.0.0/24 is needed, got '10.0.1.10'",
        ),
        (
            "addresses",
            "addresses: [10.0.0.10, 10.0.0.10, 10.0.0.12]",
            r"line 10: addresses\[1\]: an address whose last number no other has .*, got '10.0.0.10' after '10.0.0.10'",
        ),
        ("addresses", "addresses: [10.0.0.10, 10.0.0.1, 10.0.0.12]", "last number is from 2 to 254 .*, got '10.0.0.1'"),
        ("addresses", "addresses: [10.0.0.10, '::1', 10.0.0.12]", r"line 10: addresses\[1\]: an IPv4 .*, got '::1'"),
        ("gateway", "gateway: 10.0.0.11", "line 10: .* a free address is needed, '10.0.0.11' is that of the gateway"),
        ("address", "address: 10.0.0.12", r"line 10: addresses\[2\]: a free .*, '10.0.0.12' is that of dom0"),
        ("gateway", "gateway: here", "line 11: gateway: an IPv4 address such as 10.0.0.10 is needed, got 'here'"),
        ("gateway", "gateway: 10.0.0.1/24", "line 11: gateway: an IPv4 address .*, got '10.0.0.1/24'"),
        ("gateway", "gateway: 10.0.0.255", "line 11: gateway: an address of a machine in 10.0.0.0/24 is needed"),
        ("preset", "memory: 8Gb", "line 6: memory: '8Gb' is not a quantity"),
        ("preset", "writable: 1k", "line 6: writable: 1Mi or more is needed, got '1k'"),
        ("preset", "reserved: {cpu: '1'}", "line 6: cpu: less than a guest has is needed, 1, got '1'"),
        ("preset", "reserved: {memory: 2Gi}", "line 6: memory: less than a guest has is needed, 1Gi, got '2Gi'"),
        ("preset", "count: 1", "line 6: count: 2 or more are needed, as the only guest would be the control plane"),
        ("root", "root: carico-root", "line 7: root: an absolute path in dom0 without spaces is needed"),
        ("root", "root: /dev/my disk", "line 7: root: an absolute path in dom0 without spaces is needed"),
        ("kernel", "# none", "line 5: guests: kernel is missing: a path in dom0 is needed"),
        ("preset", "bridge: 'xenbr0,script=x'", "line 6: bridge: the name of a network device in dom0 is needed"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_would_do(read, field, written, said):
    with pytest.raises(UsageError, match=said):
        read(**{field: written})


def test_guests_of_a_large_network_are_neighbours_because_of_their_pods_routes(read):
    text = LEAST + "  prefix: 16\n"
    assert read(text, gateway="gateway: 10.0.7.1").guests.prefix == 16
    with pytest.raises(
        UsageError, match=r"addresses\[1\]: an address that differs from '10.0.0.10' in the last number"
    ):
        read(text, addresses="addresses: [10.0.0.10, 10.0.1.11, 10.0.0.12]")


def test_a_home_folder_that_is_not_there_is_reported(read):
    with pytest.raises(UsageError, match=r"home directory. .*'~nobody-of-this-name/known'"):
        read(known_hosts="known_hosts: ~nobody-of-this-name/known")


def test_a_file_that_is_not_there_or_no_yaml_is_reported(read, tmp_path):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        read_description(tmp_path / "none.yaml")
    with pytest.raises(UsageError, match="is no YAML"):
        read("{")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 1500, r"guests\.yaml is no YAML: .*recursion"),
        (r'a: "\UFFFFFFFF"', r"guests\.yaml is no YAML: an escape stands for no character"),
        (LEAST.replace("/dev/vdb", r'"/dev/\ud800"'), r"guests\.yaml: every text needs whole characters: .*ud800"),
    ],
    ids=["nested deeply", "an escape beyond Unicode", "half of a pair of surrogates"],
)
def test_what_yaml_can_write_and_nobody_can_mean_is_refused(read, text, said):
    with pytest.raises(UsageError, match=said):
        read(text)
