"""Errors in YAML files: the line, and what is known there."""

import json

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from workloads.errors import InvalidScenario
from workloads.scenario import Scenario, read_scenario

HEAD = "name: small\ndescription: two pods\njobs:\n  - name: pi\n    workload: pi\n"
JOB = HEAD + "    pods: 2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "    pods: two\n", "my.yaml, line 6: pods: a whole number from 1 to 1000000 is needed, got 'two'"),
        (
            HEAD + "    pds: 2\n",
            "line 6: jobs[0]: there is no field 'pds', did you mean 'pods'? Known: name, ",
        ),
        (
            JOB + "clustr: {nodes: 3}\n",
            "line 7: there is no field 'clustr', did you mean 'cluster'? Known: name",
        ),
        (
            JOB + "    placement: frist\n",
            "line 7: placement: one of any, first, rest is needed, got 'frist', did you mean 'first'?",
        ),
        (
            JOB + "    arrivals: {pattern: poison}\n",
            "pattern: one of burst, poisson, staggered, diurnal, trace is needed, got 'poison', did you mean 'poisson'",
        ),
        (
            JOB + "    arrivals: {pattern: poisson, rte: 3}\n",
            "line 7: arrivals: there is no field 'rte'; known: pattern, rate_per_s",
        ),
        (
            JOB + "cluster:\n  disk: hhd\n",
            "line 8: disk: one of hdd, ssd is needed, got 'hhd', did you mean 'hdd'?",
        ),
        (
            JOB + "  - {name: b, workload: pi, pods: 0}\n",
            "line 7: pods: a whole number from 1 to 1000000 is needed, got 0",
        ),
        (JOB + "  - 3\n", "line 7: jobs[1]: a mapping with at least name, workload, pods is needed, got 3"),
        (HEAD, "line 4: jobs[0]: pods is missing: a whole number"),
    ],
)
def test_the_line_and_what_is_known_there_are_told(text, message):
    with pytest.raises(InvalidScenario) as error:
        read_scenario(text, "my.yaml")
    assert message in str(error.value)


def test_a_value_that_was_merged_is_told_with_the_line_of_the_mapping():
    jobs = "  - &one {name: a, workload: pi, pods: 0}\n  - {<<: *one, name: b, pods: 1}\n"
    text = f"name: small\ndescription: x\njobs:\n{jobs}"
    with pytest.raises(InvalidScenario, match=r"line 4: pods: .*, got 0"):
        read_scenario(text, "my.yaml")
    with pytest.raises(InvalidScenario, match=r"line 5: pods: .*, got 0"):
        read_scenario(text.replace("pods: 0", "pods: 1").replace("b, pods: 1", "b, pods: 0"), "my.yaml")


BATCH = """\
name: batch
description: one thing a line
limit_s: 100
cluster:
  nodes: 3
  memory: 8Gi
  pools: []
jobs:
  - name: a
    workload: task
    pods: 2
    parameters:
      cores: 1
      cpu_seconds: 4
    requests:
      cpu: 1
      memory: 1Gi
    arrivals:
      pattern: trace
      at_s: [0, 1]
    placement: rest
    work: [1, 2]
    start_s: 0
  - name: b
    workload: pi
    pods: 1
node_changes:
  - at_s: 1
    node: node-1
    change: failed
  - at_s: 2
    node: node-1
    change: recovered
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "workload: pi",
            "workload: pie",
            "line 25: job b: no workload is named 'pie', did you mean 'pi'? Known: mlp, pi",
        ),
        (
            "cpu_seconds: 4",
            "cpu_secs: 4",
            "line 14: job a: workload 'task' needs cpu_seconds and does not take 'cpu_sec",
        ),
        ("      cpu_seconds: 4\n", "", "line 12: job a: workload 'task' needs cpu_seconds; its parameters: cores"),
        ("cpu_seconds: 4", "cpu_seconds: -4", "line 14: job a: cpu_seconds must be a positive number, got -4"),
        ("cores: 1", "cores: 1\n      memory: 1x", "line 14: job a: '1x' is not a quantity: write a number"),
        ("cores: 1", "cores: 1\n      growth: much", "line 14: job a: growth must be a share from 0 to 1, got 'much'"),
        ("cores: 1", "cores: 1\n      variation: x", "line 14: job a: variation must be a number from 0 on, got 'x'"),
        ("cores: 1", "cores: 1\n      reads: 1Gi", "line 14: job a: it reads from a disk, and these nodes have none"),
        ("cores: 1", "cores: 1\n      1: 2", "line 14: parameters: the name 1 is no text: on, yes, numbers and dates"),
        ("cpu: 1", "cpu: 1x", "line 16: job a: '1x' is not a quantity: write a number"),
        ("memory: 1Gi", "memory: 1m", "line 17: job a: '1m' is thousandths of a byte: 1Mi was probably meant"),
        ("at_s: [0, 1]", "at_s: [0]", "line 20: job a: 2 pods need as many arrival times, at_s has 1"),
        ("work: [1, 2]", "work: [1]", "line 22: job a: 2 pods need as many numbers of relative work, work has 1"),
        ("start_s: 0", "start_s: 100", "line 23: job a is published at 100 s, when the run is over: limit_s is 100"),
        ("- name: b", "- name: a", "line 24: two jobs have the same name: a; give one of them another"),
        ("memory: 8Gi", "memory: 8GB", "line 6: the memory of a node: '8GB' is not a quantity"),
        ("pools: []", "pools: [{name: p, nodes: 2}]", "line 5: a cluster has pools, or nodes, cores, memory"),
        ("node: node-1", "node: node-9", "line 29: no node is named 'node-9': they are node-0 to node-2"),
        ("at_s: 2", "at_s: 1", "line 31: a node changes twice at the same time, node-1 at 1 s: give one of the two "),
        ("at_s: 2", "at_s: 100", "line 31: node-1 is recovered at 100 s, when the run is over: limit_s is 100"),
        ("change: recovered", "change: failed", "line 33: node-1 cannot be failed at 2 s: it is down then"),
        (
            "change: failed",
            "change: fialed",
            "line 30: change: one of added, failed, recovered, removed is needed, got 'f",
        ),
        ("description: one thing a line", 'description: "\\ud800"', " is not YAML: half of a pair of surrogates"),
        ("name: batch", "name: a batch", "line 1: name: a name of 1 to 50 small letters, digits and inner hyphens is"),
    ],
)
def test_every_check_tells_the_line(old, new, message):
    assert isinstance(read_scenario(BATCH, "my.yaml"), Scenario)
    with pytest.raises(InvalidScenario) as error:
        read_scenario(BATCH.replace(old, new, 1), "my.yaml")
    assert f"my.yaml{'' if message.startswith(' ') else ', '}{message}" in str(error.value)


@pytest.mark.parametrize(
    ("key", "named"),
    [
        ('"\\n"', "'\\n'"),
        ('"a.b[0]"', "'a.b[0]'"),
        ('"`x` - at `y"', "'`x` - at `y'"),
        ("5", "5"),
        ("1.5", "1.5"),
        ("null", "null"),
        ("2024-12-01", "2024-12-01"),
        ("on", "true"),
    ],
)
def test_a_key_of_any_kind_is_named_with_its_line(key, named):
    with pytest.raises(InvalidScenario) as error:
        read_scenario(JOB + f"    {key}: 1\n", "my.yaml")
    assert str(error.value).startswith(f"my.yaml, line 7: jobs[0]: there is no field {named}; known: name, workload, ")


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.dates() | st.binary(max_size=3)
)
KEYS = st.sampled_from(
    [
        "name",
        "workload",
        "pods",
        "parameters",
        "requests",
        "cpu",
        "arrivals",
        "pattern",
        "at_s",
        "work",
        "cluster",
        "pools",
    ]
) | SCALARS.filter(lambda key: key == key)
VALUES = st.recursive(
    SCALARS | st.sampled_from(["pi", "task", "trace", "poisson"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=9,
)


@st.composite
def documents(draw):
    """A valid scenario in which some values are anything."""
    document = yaml.safe_load(BATCH)
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys)) if keys and draw(st.integers(0, 9)) else None
            inner = None if key is None else place[key]
            if not isinstance(inner, dict | list) or not draw(st.integers(0, 4)):
                break
            place = inner
        if isinstance(place, list):
            place[: 0 if key is None else key + 1] = [draw(VALUES)]
        else:
            place[draw(KEYS) if key is None else key] = draw(VALUES)
    return document


@given(documents() | VALUES)
def test_whatever_a_document_has_it_is_a_scenario_or_refused_in_one_line(document):
    try:
        said = str(read_scenario(yaml.safe_dump(document), "my.yaml").name)
    except InvalidScenario as error:
        said = str(error)
    assert said.isprintable()


def test_a_key_with_a_line_break_beside_a_missing_field():
    job = {"name": "second", "workload": "pi", "requests": {"cpu": "500m"}, "start_s": 110, "\n": 500}
    text = json.dumps({"name": "same-job-twice", "description": "d", "jobs": [job]})
    with pytest.raises(
        InvalidScenario, match=r"^my.yaml, line 1: jobs\[0\]: there is no field '\\n'; known: name, workload"
    ):
        read_scenario(text, "my.yaml")
