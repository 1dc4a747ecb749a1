"""The fixtures: every experiment runs once, with the options of the session."""

import re

import pytest


def run(session, pytester, source, *arguments):
    pytester.makepyfile(source)
    return session(*(arguments or ["--carico-seed=1"]))


def test_an_experiment_of_several_tests_runs_once(session, pytester):
    result = run(
        session,
        pytester,
        """
        import pytest
        from workloads.scenario import load_scenario

        def test_one(carico_experiment, carico_provider):
            first = carico_experiment.run("pi-2000", "carico", pods=3)
            assert carico_experiment.run("pi-2000", "carico", pods=3) == first
            assert carico_experiment.run(load_scenario("pi-2000").scaled(pods=3), "carico") == first
            assert carico_experiment.run("pi-2000", "carico", pods=3, settings={"speed": "1"}) == first
            assert carico_provider.calls == ["pi-2000 carico 1"]

        def test_another(carico_experiment, carico_provider):
            carico_experiment.run("pi-2000", "carico", pods=3, repetitions=2)
            assert carico_provider.calls == ["pi-2000 carico 1", "pi-2000 carico 2"]

        @pytest.mark.parametrize("changes", [
            {"pods": 4}, {"nodes": 3, "pods": 3}, {"settings": {"speed": 3.0}, "pods": 3},
        ])
        def test_other_arguments_are_other_runs(carico_experiment, carico_provider, changes):
            before = len(carico_provider.calls)
            carico_experiment.run("pi-2000", "carico", **changes)
            assert len(carico_provider.calls) == before + 1
        """,
    )
    result.assert_outcomes(passed=5)


def test_a_test_without_a_marker_may_use_them(session, pytester):
    result = run(session, pytester, "def test_one(carico_experiment): carico_experiment.run('pi-2000', 'carico')", "-v")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"results: {pytester.path}/.carico/runs/*/result.json"])


def test_experiments_use_the_options_of_the_session(session, pytester):
    result = run(
        session,
        pytester,
        """
        def test_options(carico_experiment):
            assert carico_experiment.seed == 5
            assert carico_experiment.repetitions == 5
            assert carico_experiment.preset.name == "ci"
            assert [one.seed for one in carico_experiment.run("pi-2000", "carico")] == [5, 6, 7, 8, 9]
            assert len(carico_experiment.run("pi-2000", "carico", repetitions=1)) == 1
        """,
        "--carico-preset=ci",
        "--carico-seed=5",
    )
    result.assert_outcomes(passed=1)


def test_settings_of_a_run_override_those_of_the_session(session, pytester):
    pytester.makeconftest("")  # the simulated cluster
    result = run(
        session,
        pytester,
        """
        def settings(experiment, **changes):
            run, = experiment.run("single-node-contention", "kube-scheduler", pods=1, settings=changes)
            return run.settings["pressure"], run.settings["warm_up_s"]

        def test_settings(carico_experiment):
            assert settings(carico_experiment) == ("at-least-one-waiting", 5.0)
            assert settings(carico_experiment, warm_up_s=7) == ("at-least-one-waiting", 7.0)
        """,
        "--carico-set=pressure=at-least-one-waiting",
        "--carico-set=warm_up_s=5",
    )
    result.assert_outcomes(passed=1)


def test_schedulers_can_be_compared_in_one_run(session, pytester):
    result = run(
        session,
        pytester,
        """
        def test_both(carico_experiment, carico_provider):
            runs = carico_experiment.compare("pi-2000", ["carico", "kube-scheduler"], pods=3, repetitions=2)
            assert [one.scheduler for one in runs["kube-scheduler"]] == ["kube-scheduler"] * 2
            assert carico_provider.calls[1:3] == ["pi-2000 kube-scheduler 1", "pi-2000 kube-scheduler 2"]
        """,
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("run('pi-3000', 'carico')", "*UnknownScenario: no scenario is named 'pi-3000'*"),
        ("run('pi-2000', 'volcano')", "*InvalidSpec: no scheduler is named 'volcano'*"),
        ("run('pi-2000', 'carico', settings={'warp': 9})", "*InvalidSetting: no setting is named warp*"),
    ],
)
def test_an_experiment_that_cannot_run_fails_its_test(session, pytester, call, message):
    result = run(session, pytester, f"def test_wrong(carico_experiment): carico_experiment.{call}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([message])


def test_rows_are_user_properties_in_every_report(session, pytester):
    pytester.makepyfile(
        """
        import numpy as np

        def test_row(carico_paper):
            carico_paper.row("median PCT", np.float64(51.9), 52, "s", note="pi-2000")
        """
    )
    session("--carico-seed=1", "--junit-xml=junit.xml")
    properties = (pytester.path / "junit.xml").read_text()
    assert 'name="carico_paper"' in properties
    assert "{'what': 'median PCT', 'ours': 51.9, 'thesis': 52.0, 'unit': 's', 'note': 'pi-2000'}" in properties.replace(
        "&apos;", "'"
    ).replace("&#x27;", "'")


PROGRESS = """
    import pytest

    @pytest.mark.cluster
    def test_long(carico_experiment):
        carico_experiment.run("pi-2000", "carico", pods=3)
"""


@pytest.fixture
def impatient(monkeypatch):
    """A log gets a line at once, although a session is short."""
    monkeypatch.setattr("testbed.experiment.progress.PERIOD_S", 0.0)


def test_a_log_shows_the_progress_of_a_long_run(session, pytester, impatient):
    result = run(session, pytester, PROGRESS, "-m", "cluster")
    result.stdout.fnmatch_lines(["pi-2000 × carico · rep 1/1 · 3/3 bound · ?:??"])


def test_a_quiet_session_shows_no_progress(session, pytester, impatient):
    run(session, pytester, PROGRESS, "-m", "cluster", "-q").stdout.no_fnmatch_line("*bound*")


def test_a_short_run_shows_no_progress_in_a_log(session, pytester):
    run(session, pytester, PROGRESS, "-m", "cluster").stdout.no_fnmatch_line("*bound*")


@pytest.fixture
def terminal(session, pytester, monkeypatch):
    """A function that runs a session on a fake terminal of a given kind, and returns its output."""
    with (pytester.path / "conftest.py").open("a") as conftest:
        conftest.write(
            "\ndef pytest_sessionstart(session):\n"
            "    reporter = session.config.pluginmanager.getplugin('terminalreporter')\n"
            "    reporter.isatty = type(reporter.isatty)(True)\n"
        )
    pytester.makepyfile(test_long=PROGRESS)

    def on(kind):
        monkeypatch.setenv("TERM", kind)
        return session("-m", "cluster", "--color=no").stdout.str()

    return on


def test_a_terminal_shows_progress_below_the_dots_and_goes_back_up(terminal):
    line = "\r\x1b[Kpi-2000 × carico · rep 1/1 · 3/3 bound · 0:00"
    back = f"\r\x1b[K\x1b[1A\x1b[{len('test_long.py ')}C."
    shown = re.sub(r"\d:\d\d", "0:00", terminal("xterm"))
    # pytester treats a carriage return as the end of a line.
    assert "".join(f"test_long.py \n{line}{back}".split()) in "".join(shown.split())


def test_a_dumb_terminal_is_treated_as_a_log(terminal):
    assert "\x1b[K" not in terminal("dumb")


def test_what_was_measured_is_in_junit_files(session, pytester):
    run(
        session,
        pytester,
        """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("pi-2000", ["carico", "kube-scheduler"], repetitions=3)
        def test_one(carico_results): pass
        """,
        "-m",
        "cluster",
        "--junit-xml=junit.xml",
    )
    found = re.findall('<property name="([^"]*)" value="([^"]*)"', (pytester.path / "junit.xml").read_text())
    named = {name: float(value) for name, value in found}
    assert {name.partition(": ")[0] for name in named} == {"carico", "kube-scheduler"}
    assert named["carico: repetitions"] == 3
    assert 5 < named["kube-scheduler: pod_completion_time mean (pi-2000), s"] < 10
    assert "carico: job_completion_time (pi-2000), s" in named
