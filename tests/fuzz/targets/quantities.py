"""Quantities, names and options that people or the API write."""

import contextlib
import re
from argparse import ArgumentTypeError
from decimal import Decimal

from carico.errors import InvalidInput, TelemetryMalformed
from carico.kube.objects import title
from carico.rpc.identity import node_name
from carico.telemetry import metrics_server
from testbed import arguments
from testbed.errors import InvalidSetting, InvalidSpec, UsageError
from testbed.providers import check_settings
from testbed.real.applied import objects_of
from testbed.schedulers.spec import parse_spec
from testbed.sweep.axis import check_axis, parse_axis
from tests.fuzz.target import Target
from workloads.errors import InvalidQuantity
from workloads.quantity import memory_bytes, millicpu, parse_quantity
from workloads.scenario import load_scenario

PI = load_scenario("pi-2000")
_IMPORTS = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]")
"""Specs that may name a class of a module."""
_BUILT_IN = ("carico:", "kube-scheduler:")


def read_quantity(data):
    text = data.decode()
    return text, parse_quantity(text)


def both_readers_of_quantities_agree(read):
    text, amount = read
    assert amount >= 0
    try:
        other = metrics_server.parse_quantity(text)
    except TelemetryMalformed:
        return
    assert abs(Decimal(other) - amount) <= amount * Decimal("1e-12")


def read_amounts(data):
    text = data.decode()
    return text, millicpu(text), memory_bytes(text)


def amounts_are_rounded_up(read):
    text, cpu, memory = read
    exact = parse_quantity(text)
    assert 0 <= cpu - 1000 * exact < 1
    assert 0 <= memory - exact < 1
    assert memory <= 2**50


def window_is_sound(seconds):
    assert 0 < seconds <= 86_400


def axis_is_sound(axis):
    assert axis.name
    assert all(axis.values)
    assert len(set(axis.values)) == len(axis.values)
    with contextlib.suppress(UsageError):
        check_axis(axis, ["carico", "kube-scheduler"], ["report_delay_s"])
        axis.spec("kube-scheduler", axis.values[0])


def objects_are_placed(things):
    for thing in things:
        assert thing["metadata"]["name"]
        assert title(thing)


def spec_without_import(text):
    if _IMPORTS.search(text) and not text.startswith(_BUILT_IN):
        raise InvalidSpec("importing any module that there is would do anything")
    return parse_spec(text)


def spec_is_sound(spec):
    assert parse_spec(spec.text) == spec
    assert spec.provenance.name
    requests = spec.requests_of(PI.jobs[0])
    assert requests.millicpu >= 0
    assert 0 <= requests.memory_bytes <= 2**50
    with contextlib.suppress(InvalidSpec):
        spec.check_fits(PI)


def read_options(data):
    """Options as on the command line of pytest: a count, a seed, and settings."""
    count, _, rest = data.decode().partition("\n")
    seed, _, rest = rest.partition("\n")
    settings = rest.split("\n")
    found = arguments.count(count), arguments.seed(seed), arguments.settings_of(map(arguments.setting, settings))
    check_settings("simulated", found[2])
    return found


def options_are_sound(found):
    count, seed, settings = found
    assert count >= 1
    assert seed >= 0
    assert all(name and value and name.strip() == name and value.strip() == value for name, value in settings.items())


def name_is_sound(name):
    assert 0 < len(name) <= 253
    assert name == name.lower().strip()
    assert name.isascii()


TARGETS = [
    Target(
        "quantities.any",
        "a Kubernetes quantity, read by both readers",
        read_quantity,
        (InvalidQuantity, UnicodeDecodeError),
        both_readers_of_quantities_agree,
        (b"250m", b"750Mi", b"1.5Gi", b".5", b"4", b"1024Ti", b"10n"),
        longest=64,
    ),
    Target(
        "quantities.request",
        "a request of CPU and memory",
        read_amounts,
        (InvalidQuantity, UnicodeDecodeError),
        amounts_are_rounded_up,
        (b"750Mi", b"1.5Gi", b"1073741824", b"0.3Ki", b"1024Ti"),
        longest=64,
    ),
    Target(
        "quantities.usage",
        "a quantity of the metrics server",
        lambda data: metrics_server.parse_quantity(data.decode()),
        (TelemetryMalformed, UnicodeDecodeError),
        lambda amount: abs(amount) or None,
        (b"123456789n", b"1234Ki", b"250m", b"99999999999999999999.99999999999999999999Ei"),
        longest=64,
    ),
    Target(
        "quantities.window",
        "a duration of the metrics server",
        lambda data: metrics_server.parse_window(data.decode()),
        (TelemetryMalformed, UnicodeDecodeError),
        window_is_sound,
        (b"15.032s", b"1m0s", b"24h", b"1h1m1.5s"),
        longest=64,
    ),
    Target(
        "quantities.node_name",
        "the name of a node",
        lambda data: node_name(data.decode()),
        (InvalidInput, UnicodeDecodeError),
        name_is_sound,
        (b"node-1.example", b"a", b"a" * 253),
        longest=300,
    ),
    Target(
        "quantities.axis",
        "what a sweep is over",
        lambda data: parse_axis(data.decode()),
        (UsageError, UnicodeDecodeError),
        axis_is_sound,
        (b"kube-scheduler.cpu=50m,100m", b"seeds=1..20", b"report_delay_s=0,1.5", b"my.fit:Fit.limit=1"),
        longest=64,
    ),
    Target(
        "quantities.manifest",
        "the manifest of a scheduler under test",
        lambda data: objects_of(data.decode()),
        (InvalidInput, UnicodeDecodeError),
        objects_are_placed,
        (
            b"{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
            b"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Namespace, metadata: {name: a}}\n---\n",
            b"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: b}, spec: {replicas: 1}}",
        ),
    ),
    Target(
        "quantities.spec",
        "the name of a scheduler under test",
        lambda data: spec_without_import(data.decode()),
        (InvalidSpec, UnicodeDecodeError),
        spec_is_sound,
        (
            b"carico",
            b"carico:variant=demand",
            b"carico:variant=thesis-literal,hold_off_s=2",
            b"carico:variant=demand,settling_s=3",
            b"kube-scheduler",
            b"kube-scheduler:cpu=100m,memory=750Mi",
            b"schedulerName=my-scheduler,cpu=100m,within_s=5",
        ),
        longest=200,
    ),
    Target(
        "quantities.options",
        "options of pytest: count, seed and settings, a line each",
        read_options,
        (ArgumentTypeError, InvalidSetting, UnicodeDecodeError),
        options_are_sound,
        (b"3\n0\npressure=kernel", b"1\n7\nparameters=kind\nspeed_noise=0.1", b"1\n1\nhost_limit=0.8\nagents=false"),
        longest=300,
    ),
]
