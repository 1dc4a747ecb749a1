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
        ("carico:cpu=100m", "unknown option cpu; known: variant"),
        ("kube-scheduler:", "key=value"),
        ("kube-scheduler:cpu=", "key=value"),
        ("kube-scheduler:cpu=1,cpu=2", "each once"),
        ("kube-scheduler:variant=x", "unknown option variant; known: cpu, memory"),
        ("kube-scheduler:cpu=lots", "lots"),
        ("kube-scheduler:memory=-1Gi", "-1Gi"),
    ],
)
def test_anything_else_says_what_is_known(text, message):
    with pytest.raises(InvalidSpec, match=message):
        parse_spec(text)
