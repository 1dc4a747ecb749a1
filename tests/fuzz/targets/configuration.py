"""Files that people write: configurations of the processes, scenarios, and descriptions of Xen guests."""

import json
import tempfile
from functools import partial
from importlib import resources
from pathlib import Path

import msgspec
import numpy as np

from carico.config import AgentConfig, AggregatorConfig, ExtenderConfig, SignerConfig, read_config
from carico.errors import InvalidConfig
from testbed.errors import UsageError
from testbed.real.xen.description import read_description
from tests.fuzz.target import Target
from workloads.errors import InvalidScenario
from workloads.scenario import read_scenario

FILE = Path(tempfile.mkdtemp()) / "config.yaml"
SHIPPED = resources.files("carico") / "manifests" / "configuration"
CATALOGUE = resources.files("workloads") / "catalogue"
POOLS = b"""
name: pools
description: two pools, one of which changes
cluster:
  pools:
    - {name: small, nodes: 2, cores: 1.5, memory: 4Gi, speed: 0.5}
    - {name: large, nodes: 1, cores: 16, memory: 64Gi, max_pods: 50}
node_changes:
  - {at_s: 10, node: small-1, change: failed}
  - {at_s: 20, node: small-1, change: recovered}
limit_s: 600
jobs:
  - &job
    name: pi
    workload: pi
    pods: 3
    parameters: {digits: 2000}
    requests: {cpu: 500m, memory: 100Mi}
    arrivals: {pattern: poisson, rate_per_s: 2}
  - <<: *job
    name: other
    placement: rest
    work: [1, 2, 0.5]
    priority: 3
"""
XL = b"""
host: {driver: xl, address: 10.0.0.1, known_hosts: known_hosts, port: 22, folder: /var/lib/guests}
guests:
  preset: small
  root: /dev/vdb
  kernel: /boot/vmlinux
  ramdisk: /boot/initrd
  addresses: [10.0.0.10, 10.0.0.11, 10.0.0.12]
  gateway: 10.0.0.1
  cpus: 0-3,^1
  weight: 512
  reserved: {cpu: 100m, memory: 100Mi}
control_plane: {kubeconfig: admin.conf, join: join}
"""
XENAPI = b"""
host: {driver: xenapi, url: 'https://pool', password: password}
guests: {preset: small, root: template, addresses: [10.0.0.10, 10.0.0.11, 10.0.0.12], gateway: 10.0.0.254, cap: 150}
emulated: true
at_once: 2
limit_s: 600
"""
FOUND_IN_XEN = (b"[" * 1500, b'a: "\\UFFFFFFFF"', XL.replace(b"/dev/vdb", b'"/\\ud800"'))
FOUND = (
    b'{"name":"a","description":"d","jobs":[{"name":"a","workload":"pi","requests":{"cpu":"500m"},"start_s":1,"\\n":5}]}',
    b"name: !!int ''",
)
"""What once raised an error that is not documented."""


def read_as(kind, data):
    FILE.write_bytes(data)
    return read_config(FILE, kind)


def config_comes_back(config):
    FILE.write_text(json.dumps(msgspec.to_builtins(config)))  # JSON is YAML
    assert read_config(FILE, type(config)) == config


def read_yaml(data):
    return read_scenario(data.decode(), "scenario.yaml")


def scenario_comes_back(scenario):
    assert read_scenario(json.dumps(msgspec.to_builtins(scenario)), "again") == scenario
    rng = np.random.default_rng(1)
    for job in scenario.jobs:
        if job.pods <= 1000:
            assert len(job.draw_work(rng)) == job.pods
            assert len(job.arrivals.times(job.pods, rng)) == job.pods
    assert all(pool.memory_bytes >= 0 for pool in scenario.cluster.each_pool)


def read_guests(data):
    FILE.write_bytes(data)
    return read_description(FILE)


def guests_come_back(description):
    FILE.write_bytes(msgspec.json.encode(description))
    assert read_description(FILE) == description
    assert 1 <= description.workers <= description.guests.count <= len(description.guests.addresses)


def _shipped(name):
    return (SHIPPED / f"{name}.yaml").read_bytes()


TARGETS = [
    Target(
        f"configuration.{name}",
        f"the configuration of `carico {name}`",
        partial(read_as, kind),
        (InvalidConfig,),
        config_comes_back,
        (_shipped(name), b"", *more),
        form="yaml",
    )
    for name, kind, more in (
        (
            "agent",
            AgentConfig,
            (
                b"node: a\naggregator: '[::1]:50051'\nschedulers: [localhost:50052]\ninsecure_loopback: true\n"
                b"pod_events: {source: processes, pattern: 'pi.*'}\nlogs: {format: json}\n",
            ),
        ),
        ("aggregator", AggregatorConfig, (b"peers: [a:1, b:2]\nrank: 1\nmerge_every_s: 0.5\n",)),
        (
            "extender",
            ExtenderConfig,
            (b"limits: {body_bytes: 2048, all_bodies_bytes: 4096}\nkubernetes: null\njournal: {keep: 0}\n",),
        ),
        ("signer", SignerConfig, (b"authority: a\nlife_hours: 1\nnamespace: b\n",)),
    )
] + [
    Target(
        "configuration.scenario",
        "a scenario",
        read_yaml,
        (InvalidScenario, UnicodeDecodeError),
        scenario_comes_back,
        (POOLS, *FOUND, *(file.read_bytes() for file in sorted(CATALOGUE.iterdir(), key=str))),
        form="yaml",
    ),
    Target(
        "configuration.xen",
        "a description of Xen guests",
        read_guests,
        (UsageError,),
        guests_come_back,
        (XL, XENAPI, *FOUND_IN_XEN),
        form="yaml",
    ),
]
