"""Errors in YAML files: the line, and what is known there."""

import pytest

from workloads.errors import InvalidScenario
from workloads.scenario import read_scenario

HEAD = "name: small\ndescription: two pods\njobs:\n  - name: pi\n    workload: pi\n"
JOB = HEAD + "    pods: 2\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEAD + "    pods: two\n", "my.yaml, line 6: Expected `int`, got `str` - at `$.jobs[0].pods`"),
        (
            HEAD + "    pds: 2\n",
            "line 6: Object contains unknown field `pds` - at `$.jobs[0]`, did you mean 'pods'?; known",
        ),
        (
            JOB + "clustr: {nodes: 3}\n",
            "line 7: Object contains unknown field `clustr`, did you mean 'cluster'?; known: name",
        ),
        (
            JOB + "    placement: frist\n",
            "line 7: Invalid enum value 'frist' - at `$.jobs[0].placement`, did you mean 'first'?",
        ),
        (
            JOB + "    arrivals: {pattern: poison}\n",
            "'poison' - at `$.jobs[0].arrivals.pattern`, did you mean 'poisson'?; known: burst, poisson, staggered, ",
        ),
        (
            JOB + "    arrivals: {pattern: poisson, rte: 3}\n",
            "line 7: Object contains unknown field `rte` - at `$.jobs[0].arrivals`; known: rate_per_s",
        ),
        (
            JOB + "cluster:\n  disk: hhd\n",
            "line 8: Invalid enum value 'hhd' - at `$.cluster.disk`, did you mean 'hdd'?; known: ",
        ),
        (JOB + "  - {name: b, workload: pi, pods: 0}\n", "line 7: Expected `int` >= 1 - at `$.jobs[1].pods`"),
        (JOB + "  - 3\n", "line 7: Expected `object`, got `int` - at `$.jobs[1]`"),
        (HEAD, "line 4: Object missing required field `pods` - at `$.jobs[0]`"),
    ],
)
def test_the_line_and_what_is_known_there_are_told(text, message):
    with pytest.raises(InvalidScenario) as error:
        read_scenario(text, "my.yaml")
    assert message in str(error.value)


def test_a_value_that_was_merged_is_told_with_the_line_of_the_mapping():
    jobs = "  - &one {name: a, workload: pi, pods: 0}\n  - {<<: *one, name: b, pods: 1}\n"
    text = f"name: small\ndescription: x\njobs:\n{jobs}"
    with pytest.raises(InvalidScenario, match=r"line 4: Expected `int` >= 1 - at `\$.jobs\[0\].pods`"):
        read_scenario(text, "my.yaml")
    with pytest.raises(InvalidScenario, match=r"line 5: Expected `int` >= 1 - at `\$.jobs\[1\].pods`"):
        read_scenario(text.replace("pods: 0", "pods: 1").replace("b, pods: 1", "b, pods: 0"), "my.yaml")
