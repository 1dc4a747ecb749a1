"""Kinds of cluster by name, and their settings before anything runs."""

from pathlib import Path

import pytest

from testbed.cluster_options import ClusterOptions
from testbed.errors import InvalidSetting, UsageError
from testbed.providers import EXTERNAL, PROVIDERS, XEN, check_settings, provider_named

GUESTS = """\
host: {driver: xl, address: 10.0.0.1, known_hosts: known_hosts}
guests:
  root: /dev/vdb
  kernel: /boot/vmlinux
  ramdisk: /boot/initrd
  addresses: [10.0.0.10, 10.0.0.11, 10.0.0.12]
  gateway: 10.0.0.1
"""


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_kind_that_is_listed_exists(name, tmp_path):
    (tmp_path / "guests.yaml").write_text(GUESTS)
    options = ClusterOptions(
        "run",
        kubeconfig=Path("kubeconfig") if name == EXTERNAL else None,
        xen=tmp_path / "guests.yaml" if name == XEN else None,
    )
    assert provider_named(name, options).name == name
    check_settings(name, {})


def test_an_unknown_kind_lists_the_known_ones():
    with pytest.raises(UsageError, match="no provider is named 'cloud'; known: simulated"):
        provider_named("cloud", ClusterOptions("run"))


def test_somebodys_cluster_is_used_by_nobody_who_did_not_say_so():
    with pytest.raises(UsageError, match=r"needs the kubeconfig of a cluster.*--carico-kubeconfig"):
        provider_named("external", ClusterOptions("run"))
    with pytest.raises(UsageError, match=r"kubeconfig, context: only for the provider external, the provider is kind"):
        provider_named("kind", ClusterOptions("run", kubeconfig=Path("kubeconfig"), context="there"))
    with pytest.raises(UsageError, match=r"workload-image: only for .* simulated"):
        provider_named("simulated", ClusterOptions("run", workload_image="registry.example/workloads:1"))


def test_a_xen_host_is_named_if_and_only_if_it_is_used():
    with pytest.raises(UsageError, match=r"xen needs a description of a Xen host .*: name it with --xen FILE"):
        provider_named("xen", ClusterOptions("run"))
    with pytest.raises(UsageError, match="xen: only for the provider xen, the provider is kwok"):
        provider_named("kwok", ClusterOptions("run", xen=Path("guests.yaml")))


def test_settings_are_checked_and_the_message_says_where_to_look():
    check_settings("simulated", {"sample_loss": "0.1"})
    with pytest.raises(InvalidSetting, match=r"no setting is named 'colour'; known: .*carico-testbed list"):
        check_settings("simulated", {"colour": "red"})
    with pytest.raises(InvalidSetting, match="the provider kwok has no settings, got pressure"):
        check_settings("kwok", {"pressure": "kernel"})
    with pytest.raises(InvalidSetting, match="the provider external has no settings, got agents"):
        check_settings("external", {"agents": "true"})
