"""Options: a flag overrides the ini file, which overrides the preset; the header shows the options."""

import itertools
import json
import re

import pytest

from testbed.experiment.presets import SMOKE


@pytest.fixture
def header(session):
    """A function that returns what the plugin says at the beginning of a session of which nothing is run."""

    def first_sentence(*arguments):
        lines = session(*arguments, "--collect-only").outlines
        first = next(number for number, line in enumerate(lines) if line.startswith("carico: provider"))
        more = itertools.takewhile(lambda line: line.startswith("  "), lines[first + 1 :])
        said = [lines[first], *(line.strip() for line in more)]
        assert all(len(line) <= 80 or " " not in line for line in said), "only a path may be longer"
        return " ".join(said)

    return first_sentence


def test_the_header_shows_all_options(header, mixed):
    shown = header("-m", "cluster")
    assert shown == "carico: provider=simulated preset=smoke (1 rep) seed=1001 settings: defaults"


@pytest.mark.parametrize("arguments", [["test_slow.py::test_many"], ["-m", "cluster"], ["--carico-seed=1"]])
def test_the_header_appears_however_cluster_tests_were_asked_for(session, mixed, arguments):
    shown = [line for line in session(*arguments).outlines if line.startswith("carico: provider")]
    assert len(shown) == 2  # at the beginning and over the results


def test_a_flag_overrides_the_ini_file_which_overrides_the_preset(header, pytester, mixed):
    assert "ci (5 reps)" in header("--carico-preset=ci")
    pytester.makeini(
        "[pytest]\ncarico_preset = full\ncarico_repetitions = 2\ncarico_seed = 7\n"
        "carico_set =\n    tick_s=0.05\n    pressure=kernel\n"
    )
    settings = "settings: tick_s=0.05, pressure=kernel"
    assert header("-m", "cluster").endswith(f"preset=full (2 reps) seed=7 {settings}")
    flags = ["--carico-repetitions=1", "--carico-seed=0", "--carico-set=pressure=at-least-one-waiting"]
    settings = "settings: tick_s=0.05, pressure=at-least-one-waiting"
    assert header(*flags).endswith(f"preset=full (1 rep) seed=0 {settings}")


def test_the_header_shows_attempts_on_real_clusters(header, pytester, mixed, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")  # no program is asked for its version
    assert "full (10 reps) " in header("--carico-preset=full")
    full = ("--carico-preset=full", "--carico-provider=kind", "--carico-missing=skip")
    assert "full (10 reps of up to 3 attempts) " in header(*full)
    assert "full (10 reps of up to 2 attempts) " in header(*full, "--carico-attempts=2")
    assert "full (10 reps) " in header(*full, "--carico-attempts=1")
    pytester.makeini("[pytest]\ncarico_attempts = 4\n")
    assert "full (10 reps of up to 4 attempts) " in header(*full)


@pytest.mark.parametrize(("value", "preset"), [("true", "ci"), ("1", "ci"), ("", "smoke"), ("false", "smoke")])
def test_ci_systems_get_the_preset_ci(header, mixed, monkeypatch, value, preset):
    monkeypatch.setenv("CI", value)
    assert f"preset={preset} " in header("-m", "cluster")
    assert "preset=full " in header("--carico-preset=full")


@pytest.mark.parametrize(
    "gate", ["--carico-save-baseline=base.json", "--carico-fail-on=job_completion_time:+5%", "--carico-baseline=b.json"]
)
def test_a_gate_has_as_many_repetitions_as_its_power_needs(header, mixed, gate):
    assert "preset=ci (8 reps) " in header("--carico-preset=ci", gate)
    assert "preset=full (10 reps) " in header("--carico-preset=full", gate)
    assert "preset=ci (3 reps) " in header("--carico-preset=ci", "--carico-repetitions=3", gate)


def test_smoke_runs_everything_once():
    """How long that takes for the whole evaluation is measured by `python -m benchmarks.smoke`."""
    assert (SMOKE.repetitions, SMOKE.attempts) == (1, 1)


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("--carico-preset=huge", "*--carico-preset: no such value: 'huge'; known: smoke, ci, full"),
        ("--carico-preset=smok", "*no such value: 'smok', did you mean 'smoke'[?] Known: smoke, ci, full"),
        ("--carico-provider=cloud", "*--carico-provider: no such value: 'cloud'; known: simulated, kind, kwok, *"),
        ("--carico-provider=knd", "*--carico-provider: no such value: 'knd', did you mean 'kind'[?] *"),
        ("--carico-missing=skp", "*--carico-missing: no such value: 'skp', did you mean 'skip'[?] *"),
        ("--carico-seed=-1", "*--carico-seed: a whole number from 0 on is needed, got '-1'*"),
        ("--carico-attempts=0", "*--carico-attempts: a whole number from 1 on is needed, got '0'*"),
        ("--carico-repetitions=0", "*--carico-repetitions: a whole number from 1 on is needed, got '0'*"),
        ("--carico-set=pressure", "*a setting is written key=value, got 'pressure'*"),
        (
            "--carico-set=warp=9",
            "ERROR: carico: no setting is named 'warp', did you mean 'warm_up_s'? Known: parameters, pressure*",
        ),
        (
            "--carico-context=there",
            "ERROR: carico: context: only for the provider external, the provider is simulated*",
        ),
        ("--carico-provider=external", "ERROR: carico: the provider external needs the kubeconfig of a cluster*"),
        ("--carico-json=gone/r.json", "ERROR: carico: cannot write the results*create it first"),
    ],
)
def test_a_wrong_flag_ends_with_4_and_one_message(session, mixed, flag, message):
    result = session(flag)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("* passed*")


def test_a_misspelt_flag_is_told_which_one_was_meant(session, mixed):
    result = session("-m", "cluster", "--carico-repetition=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*no option --carico-repetition, did you mean '--carico-repetitions'[?] 'pytest --help' lists *"]
    )


def test_a_flag_of_the_projects_own_is_left_alone(session, pytester, mixed):
    declared = "def pytest_addoption(parser): parser.addoption('--carico-mine', action='store_true')"
    pytester.makeconftest(declared)
    assert session("-m", "cluster", "--carico-mine", "--collect-only").ret == pytest.ExitCode.OK
    assert session("-m", "cluster", "--help", "--carico-mine").ret == pytest.ExitCode.OK


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("carico_preset = huge", "ERROR: carico: carico_preset: no such value: 'huge'; known: smoke, ci, full"),
        ("carico_seed = x", "ERROR: carico: carico_seed: a whole number from 0 on is needed, got 'x'"),
        (
            "carico_provider = cloud",
            "ERROR: carico: carico_provider: no such value: 'cloud'; known: simulated, kind, kwok, xen, external",
        ),
        ("carico_missing = skp", "ERROR: carico: carico_missing: no such value: 'skp', did you mean 'skip'[?] *"),
        ("carico_set = tick_s", "ERROR: carico: a setting is written key=value, got 'tick_s'"),
    ],
)
def test_a_wrong_line_in_the_ini_file_ends_with_4(session, pytester, mixed, line, message):
    pytester.makeini(f"[pytest]\n{line}\n")
    result = session()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_help_shows_the_choices(session):
    session("--help").stdout.fnmatch_lines(
        ["*--carico-provider={simulated,*", "*--carico-preset={smoke,ci,full}*", "*--carico-missing={fail,skip}*"]
    )


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("carico_basline", "ERROR: carico: there is no ini key 'carico_basline', did you mean 'carico_baseline'[?] *"),
        ("carico-seed", "ERROR: carico: there is no ini key 'carico-seed', did you mean 'carico_seed'[?] *"),
    ],
)
def test_an_unknown_ini_key_that_looks_like_ours_ends_with_4(session, pytester, key, message):
    pytester.makepyfile("def test_quick(): pass")
    ini = pytester.makeini(f"[pytest]\n{key} = 1\n")
    result = session()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    result.stdout.no_fnmatch_line("* passed*")
    ini.unlink()
    pytester.makepyprojecttoml(f"[tool.pytest.ini_options]\n{key} = '1'\n")
    assert session().ret == pytest.ExitCode.USAGE_ERROR


def test_an_unknown_ini_key_is_refused_whatever_is_done_about_warnings(session, pytester):
    pytester.makepyfile("def test_quick(): pass")
    pytester.makeini("[pytest]\ncarico_basline = baseline.json\n")
    for arguments in (["-p", "no:warnings"], ["-W", "ignore"]):
        assert session(*arguments).ret == pytest.ExitCode.USAGE_ERROR


def test_an_ini_key_that_somebody_else_declares_is_left_alone(session, pytester):
    pytester.makepyfile("def test_quick(): pass")
    pytester.makeini("[pytest]\ncarico_mine = 1\n")
    pytester.makeconftest("def pytest_addoption(parser): parser.addini('carico_mine', 'a key of the project')")
    assert session().ret == pytest.ExitCode.OK


def test_results_are_in_a_folder_that_ignores_itself(session, pytester, mixed):
    session("-m", "cluster").stdout.fnmatch_lines([f"results: {pytester.path}/.carico/runs/*/result.json"])
    assert (pytester.path / ".carico" / ".gitignore").read_text() == "*\n"
    written = json.loads((pytester.path / ".carico" / "latest" / "result.json").read_text())
    assert [one["scenario"] for one in written["repetitions"]] == ["pi-2000"]


def test_results_are_written_to_the_given_file(session, pytester, mixed):
    session("--carico-json=mine.json")
    assert json.loads((pytester.path / "mine.json").read_text())["schema_version"] == 1
    assert (pytester.path / "mine.json").read_bytes() == (pytester.path / ".carico/latest/result.json").read_bytes()


def test_everything_of_the_plugin_has_its_prefix(session, pytester):
    pytester.makepyfile("def test_quick(): pass")
    config = pytester.parseconfig("-p", "testbed.plugin")
    ours = [option for group in config._parser._groups if group.name == "carico" for option in group.options]
    flags = [name for option in ours for name in option.names()]
    assert len(flags) > 20
    assert all(name.startswith("--carico-") for name in flags)
    keys = [name for name in config._parser._inidict if "carico" in config._parser._inidict[name][0]]
    assert len(keys) > 20
    assert all(name.startswith("carico_") for name in keys)
    listed = session("--fixtures", "-q").stdout.str().partition("fixtures defined from testbed.plugin")[2]
    names = re.findall(r"^(\w+)(?: \[session scope\])? -- ", listed, re.MULTILINE)
    assert "carico_results" in names
    assert all(name.startswith("carico_") for name in names)


def test_help_explains_every_option(session):
    text = session("--help").stdout.str()
    for name in ("provider", "preset", "repetitions", "attempts", "seed", "set", "json", "missing"):
        assert f"--carico-{name}" in text
        assert f"carico_{name} " in text


def test_a_kubeconfig_is_relative_to_the_ini_file_or_to_the_current_folder(header, pytester, mixed):
    pytester.makeini("[pytest]\ncarico_provider = external\ncarico_kubeconfig = kube/config\n")
    said = f"kubeconfig={pytester.path / 'kube' / 'config'} "
    assert said in header("-m", "cluster")
    flags = ["--carico-kubeconfig=mine", "--carico-context=there"]
    assert f"kubeconfig={pytester.path / 'mine'} context=there " in header(*flags)
