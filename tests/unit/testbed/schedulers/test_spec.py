"""How schedulers under test are named, and what their pods request."""

import pytest

from testbed.errors import InvalidSpec
from testbed.schedulers.spec import parse_spec
from workloads.scenario import load_scenario


@pytest.fixture
def job():
    return load_scenario("pi-2000").jobs[0]


def test_carico_requests_nothing_whatever_is_written(job):
    spec = parse_spec("carico")
    assert spec.variant is not None
    assert (spec.requests_of(job).millicpu, spec.requests_of(job).memory_bytes) == (0, 0)


def test_a_variant_is_chosen_by_name():
    assert parse_spec("carico:variant=thesis-literal").variant.name == "thesis-literal"


def test_the_variant_demand_has_parameters_of_its_own():
    variant = parse_spec("carico:variant=demand,headroom=0.25").variant
    assert (variant.name, variant.headroom) == ("demand+headroom=0.25", 0.25)
    for text, message in [
        ("carico:variant=demand,rank=1", "unknown option rank; known: variant, first_cores, .*"),
        ("carico:variant=demand,caution=-1", "caution must be finite and not negative, got -1"),
    ]:
        with pytest.raises(InvalidSpec, match=message):
            parse_spec(text)


def test_parameters_of_a_variant_and_of_its_filter_can_be_changed():
    variant = parse_spec(
        "carico:variant=thesis-literal,batch_size=5,hold_off_s=2.5,rebase=true,initial_cost=0.4"
    ).variant
    assert (variant.batch_size, variant.hold_off_s, variant.rebase) == (5, 2.5, True)
    assert variant.kalman.initial_cost == 0.4
    assert variant.name == "thesis-literal+batch_size=5+hold_off_s=2.5+rebase=true+initial_cost=0.4"
    assert parse_spec("carico:rank=1").variant.rank == 1
    unchanged = parse_spec("carico:variant=thesis-literal").variant
    assert unchanged.batch_size == 10


def test_kube_scheduler_takes_the_requests_of_the_scenario(job):
    assert parse_spec("kube-scheduler").requests_of(job) == job.requests
    assert job.requests.millicpu == 100


def test_written_requests_replace_those_of_the_scenario(job):
    requests = parse_spec("kube-scheduler:cpu=250m,memory=750Mi").requests_of(job)
    assert (requests.millicpu, requests.memory_bytes) == (250, 750 * 2**20)
    assert parse_spec("kube-scheduler:memory=1Gi").requests_of(job).millicpu == 0


@pytest.mark.parametrize("text", ["carico", "kube-scheduler", "kube-scheduler:cpu=100m,memory=750Mi"])
def test_a_spec_keeps_its_text(text):
    assert parse_spec(text).text == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no scheduler is named ''; write carico"),
        ("volcano", "no scheduler is named 'volcano'"),
        ("Carico", "no scheduler is named 'Carico'"),
        ("carico:", "key=value"),
        ("carico:variant", "key=value"),
        ("carico:variant=nope", "no variant is named 'nope'; known: .*thesis-literal"),
        ("carico:variant=demnad", "no variant is named 'demnad', did you mean 'demand'\\? Known: "),
        ("carico:cpu=100m", "unknown option cpu; known: variant, cpu_metric, batch_size, .*initial_cost"),
        ("carico:name=x", "unknown option name"),
        ("carico:batch_size=2.5", "batch_size: a whole number is needed, got '2.5'"),
        ("carico:batch_size=0", r"batch_size must be in \[1, 100\], got 0"),
        ("carico:hold_off_s=soon", "hold_off_s: a number is needed, got 'soon'"),
        ("carico:initial_cost=-1", "initial_cost must be positive and finite, got -1"),
        ("carico:estimator=magic", "estimator must be one of"),
        ("kube-scheduler:", "key=value"),
        ("kube-scheduler:cpu=", "key=value"),
        ("kube-scheduler:cpu=1,cpu=2", "each once"),
        ("kube-scheduler:variant=x", "unknown option variant; known: cpu, memory"),
        ("kube-scheduler:cpu=lots", "lots"),
        ("kube-scheduler:memory=-1Gi", "-1Gi"),
        ("carico:variant=\x1b[2J", r"'carico:variant=\\x1b\[2J': a scheduler is named in printable characters"),
    ],
)
def test_anything_else_says_what_is_known(text, message):
    with pytest.raises(InvalidSpec, match=message):
        parse_spec(text)
