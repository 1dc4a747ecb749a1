"""The marker `carico`: its experiment is checked before anything runs."""

import pytest

TEST = """
    import pytest

    @pytest.mark.cluster
    @pytest.mark.carico({})
    def test_marked(carico_results):
        assert list(carico_results) == {}
        assert {{len(runs) for runs in carico_results.values()}} == {{{}}}
"""


@pytest.mark.parametrize(
    ("marker", "schedulers", "repetitions"),
    [
        ("scenario='pi-2000', scheduler=['kube-scheduler', 'carico']", ["kube-scheduler", "carico"], 1),
        ("scenario='pi-2000', scheduler='carico', repetitions=3", ["carico"], 3),
        ("'pi-2000'", ["carico", "kube-scheduler"], 1),
        ("'pi-2000', 'carico', 2", ["carico"], 2),
    ],
)
def test_a_marker_names_the_experiment(session, pytester, marker, schedulers, repetitions):
    pytester.makepyfile(TEST.format(marker, schedulers, repetitions))
    session("-m", "cluster").assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        (
            "scenaro='pi-2000'",
            "*does not know scenaro, did you mean 'scenario'? Known: scenario, scheduler, repetitions, fail_on, *",
        ),
        ("'pi-2000', 'carico', 1, None, 5", "*does not know a 5th argument; known: scenario, *"),
        ("", "*needs scenario='NAME', got None"),
        ("'pi-3000'", "*no scenario is named 'pi-3000', did you mean 'pi-2000'? Known: *pi-2000*"),
        ("'pi-2000', 'volcano'", "*no scheduler is named 'volcano'*"),
        ("'pi-2000', repetitions=0", "*needs repetitions from 1 on, got 0"),
        ("'pi-2000', repetitions='3'", "*needs repetitions from 1 on, got '3'"),
        ("'pi-2000', scheduler=3", "*needs scheduler='SPEC' or a list of them, got 3"),
        ("'pi-2000', scheduler=['carico', 3]", "*needs scheduler='SPEC' or a list of them, got *"),
        ("'pi-2000', scheduler=[]", "*at least one scheduler, got none"),
        ("'pi-2000', 'kube-scheduler:cpu=3900m'", "*a node has at most 3800m*"),
        ("'pi-2000', fail_on='pod_completion_time:p99:10%'", "*a gate is METRIC:STATISTIC:LIMIT*"),
        ("'pi-2000', fail_on=3", "*needs fail_on='CONDITION' or a list of them, got 3"),
        ("'pi-2000', 'carico', fail_on='job_completion_time:+10%'", "*fail_on has nothing to judge carico by*"),
    ],
)
def test_an_invalid_marker_fails_collection(session, pytester, marker, message):
    pytester.makepyfile(test_m=TEST.format(marker, [], 1))
    result = session("-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: carico: test_m.py::test_marked: {message}"])


def test_keys_are_checked_even_if_the_test_is_left_out(session, pytester):
    pytester.makepyfile(TEST.format("scenaro='pi-2000'", [], 1))
    assert session().ret == pytest.ExitCode.USAGE_ERROR


def test_carico_results_without_a_marker_is_an_error(session, pytester):
    pytester.makepyfile("def test_unmarked(carico_results): pass")
    result = session()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the fixture carico_results needs a marker: @pytest.mark.carico(scenario=*"])


def test_markers_are_registered(session):
    result = session("--strict-markers", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.cluster: *", "@pytest.mark.carico(scenario, scheduler=*"])
