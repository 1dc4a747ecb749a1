"""Tests for certain kinds of cluster only, and tests that use the real cluster itself."""

import json

import pytest

from testbed.results.run import read_run

TESTS = """
    import pytest
    pytestmark = pytest.mark.cluster

    def test_anywhere(): pass

    @pytest.mark.carico(providers="fake")
    def test_here(): pass

    @pytest.mark.carico(providers=["kwok", "kind"])
    def test_elsewhere(): pass

    @pytest.mark.carico(providers=["fake", "kwok"])
    @pytest.mark.carico("pi-2000", "carico")
    def test_both(carico_results):
        assert list(carico_results) == ["carico"]
"""
CONFTEST = """
import pytest
from testbed.testing import FakeProvider

class Real(FakeProvider):
    def cluster(self):
        return "a cluster"

    def made_from(self):
        return {"kind": "0.30.0", "made-by": "kind"}

    def kubernetes_version(self):
        return "v1.34.4"

    def close(self):
        with open("closed", "a") as file:
            file.write("closed once")

def pytest_carico_provider(config):
    return Real()
"""
WITH_API = (
    CONFTEST
    + """
from types import SimpleNamespace

class Api:
    def __getattr__(self, name):
        def told(*arguments):
            with open("asked", "a") as file:
                print(name, *arguments[:1], file=file)
            return SimpleNamespace(list=lambda: ([], "1"))
        return told

Real.cluster = lambda self: SimpleNamespace(api=Api())
"""
)
"""The cluster's API answers with nothing, and records its calls in the file `asked`."""


@pytest.fixture
def real(session, pytester):
    """A function that runs a session on a provider that has a cluster."""
    pytester.makeconftest(CONFTEST)
    return session


def test_a_disturbed_repetition_is_run_again_and_reported(session, pytester):
    pytester.makeconftest(
        """
        from testbed.testing import FakeProvider

        def pytest_carico_provider(config):
            return FakeProvider(stolen=[0.3, 0.0])
        """
    )
    pytester.makepyfile(TESTS)
    result = session("-m", "cluster", "--carico-attempts=2", "-k", "both")
    result.stdout.fnmatch_lines(["carico 1. They are in the run's folder; *"])
    run = next((pytester.path / ".carico" / "runs").iterdir())
    assert len((run / "disturbed.jsonl").read_text().splitlines()) == 1
    assert json.loads((run / "run.json").read_text())["attempts"] == 2


def test_tests_for_other_providers_are_left_out_and_counted(real, pytester):
    pytester.makepyfile(TESTS)
    result = real("-m", "cluster")
    result.assert_outcomes(passed=3, deselected=1)
    result.stdout.fnmatch_lines(
        ["carico: 1 cluster test is for other providers; to run them:", "  pytest -m cluster --carico-provider=kwok"]
    )
    run = json.loads(next((pytester.path / ".carico" / "runs").glob("*/run.json")).read_text())
    assert (run["kubernetes_version"], run["cluster"]) == ("v1.34.4", {"kind": "0.30.0", "made-by": "kind"})


def test_a_provider_that_cannot_be_made_still_selects_tests_by_its_name(session, pytester):
    pytester.makeconftest(
        "from testbed.errors import UsageError\ndef pytest_carico_provider(config): raise UsageError('no cluster')"
    )
    pytester.makepyfile(TESTS)
    session("-m", "cluster").stderr.fnmatch_lines(["ERROR: carico: no cluster"])


@pytest.mark.parametrize("arguments", [[], ["--carico-missing=skip"]])
def test_without_its_programs_a_provider_is_one_problem_or_a_reason_to_skip(session, pytester, monkeypatch, arguments):
    monkeypatch.setattr("testbed.programs.find._built", lambda kept: [])
    monkeypatch.setenv("PATH", "/nowhere")
    pytester.makeconftest("")
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico("pi-2000", "kube-scheduler", providers=["kwok"])
        def test_one(carico_results): pass
        """
    )
    result = session("--carico-provider=kwok", *arguments)
    if arguments:
        result.assert_outcomes(skipped=1)
    else:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(
            ["ERROR: carico: the provider kwok needs etcd, kube-apiserver, *: carico-testbed *"]
        )


@pytest.mark.parametrize("given", ["[]", "3", "['kwok', 3]"])
def test_invalid_providers_fail_collection(session, pytester, given):
    pytester.makepyfile(
        f"import pytest\n\n@pytest.mark.cluster\n@pytest.mark.carico(providers={given})\ndef test_one(): pass"
    )
    result = session("-m", "cluster")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_one: the marker carico needs providers='NAME' or a list of them, got *"])


@pytest.mark.parametrize("provider", ["kwok", "knid"])
def test_a_provider_that_does_not_exist_is_never_a_reason_to_pass(session, pytester, provider):
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.cluster
        @pytest.mark.carico(providers=["{provider}"])
        def test_one(): pass
        """
    )
    result = session("-m", "cluster")
    if provider == "kwok":
        assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED
        return
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["*test_one: marker carico: no provider is named 'knid', did you mean 'kind'? Known: simulated, kind, *"]
    )
    result.stdout.no_fnmatch_line("*--carico-provider=knid*")


def test_the_cluster_is_closed_after_the_last_test(real, pytester):
    pytester.makepyfile(
        """
        def test_one(carico_cluster):
            assert carico_cluster == "a cluster"

        def test_two(carico_cluster): pass
        """
    )
    result = real("--carico-seed=1")
    result.assert_outcomes(passed=2)
    assert (pytester.path / "closed").read_text() == "closed once"
    # This is a run even without repetitions, because diagnostics need a folder.
    (run,) = (pytester.path / ".carico" / "runs").iterdir()
    result.stdout.fnmatch_lines([f"run: {run}"])
    assert read_run(run / "run.json").state == "complete"


def test_every_test_has_its_own_namespace_while_it_runs(session, pytester):
    pytester.makeconftest(WITH_API)
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("number", [1, 2])
        def test_one(carico_namespace, number):
            with open("asked", "a") as file:
                print(carico_namespace, file=file)
        """
    )
    session("--carico-seed=1").assert_outcomes(passed=2)
    asked = (pytester.path / "asked").read_text().splitlines()
    first, second = (line for line in asked if " " not in line)
    assert first != second
    of_first = [f"create_namespace {first}", f"has_service_account {first}", first, f"delete_work {first}"]
    assert asked[:4] == of_first
    assert asked.index(f"delete_namespace {first}") < asked.index(f"create_namespace {second}")
    assert asked[-1] == f"delete_namespace {second}"


def test_diagnostics_of_a_failed_test_are_collected_before_its_namespace_goes(session, pytester):
    pytester.makeconftest(
        WITH_API
        + """
def diagnose(self, cluster, namespace, name, error):
    with open("asked", "a") as file:
        print("diagnose", namespace[:14], name, error, file=file)

Real.diagnose = diagnose
"""
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.parametrize("what", ["a/b"])
        def test_wrong(carico_namespace, what): raise ValueError(what)

        def test_wrong_too(carico_cluster): raise ValueError("no namespace")

        @pytest.mark.xfail(strict=True)
        def test_expected(carico_cluster): raise ValueError

        def test_elsewhere(): raise ValueError

        def test_right(carico_cluster): pass
        """
    )
    session("--carico-seed=1").assert_outcomes(passed=1, failed=3, xfailed=1)
    asked = (pytester.path / "asked").read_text().splitlines()
    created = next(line.removeprefix("create_namespace ") for line in asked if line.startswith("create_namespace"))
    assert [line for line in asked if line.startswith("diagnose")] == [
        f"diagnose {created[:14]} test_wrong-a-b a/b",
        "diagnose carico-testbed test_wrong_too no namespace",
    ]
    assert asked.index(f"diagnose {created[:14]} test_wrong-a-b a/b") < asked.index(f"delete_namespace {created}")


def test_ctrl_c_closes_the_cluster(real, pytester):
    pytester.makepyfile("def test_one(carico_cluster): raise KeyboardInterrupt")
    result = real("--carico-seed=1", no_reraise_ctrlc=True)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert (pytester.path / "closed").read_text() == "closed once"


def test_a_run_is_recorded_with_its_kubernetes_version(real, pytester):
    pytester.makepyfile("def test_one(carico_experiment): carico_experiment.run('pi-2000', 'carico', pods=2)")
    real("--carico-seed=1").assert_outcomes(passed=1)
    (file,) = (pytester.path / ".carico" / "runs").glob("*/run.json")
    assert '"kubernetes_version": "v1.34.4"' in file.read_text()


def test_the_simulated_cluster_has_no_real_cluster_for_tests(session, pytester):
    pytester.makeconftest("")
    pytester.makepyfile("def test_one(carico_cluster): pass")
    result = session("--carico-seed=1")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["the provider simulated has no real cluster for tests: *"])


@pytest.mark.parametrize(
    ("ini", "arguments", "options"),
    [
        ("", [], "keep=False recreate=False"),
        ("", ["--carico-keep-cluster"], "keep=True recreate=False"),
        ("", ["--carico-recreate-cluster"], "keep=False recreate=True"),
        ("carico_keep_cluster = true", [], "keep=True recreate=False"),
    ],
)
def test_options_keep_or_recreate_the_cluster(session, pytester, monkeypatch, ini, arguments, options):
    asked = []
    monkeypatch.setattr("testbed.providers.provider_named", lambda name, wanted: asked.append((name, wanted)))
    monkeypatch.setenv("TOX_PARALLEL_ENV", "py311")
    pytester.makeini(f"[pytest]\n{ini}")
    pytester.makeconftest("")
    pytester.makepyfile("import pytest\n\n@pytest.mark.cluster\ndef test_one(): pass")
    result = session("-m", "cluster", "--carico-provider=kwok", *arguments)
    name, wanted = asked[0]
    assert (name, f"keep={wanted.keep_cluster} recreate={wanted.recreate_cluster}", wanted.session) == (
        "kwok",
        options,
        "py311",
    )
    said = [line for line in result.outlines if line.startswith("carico: provider=kwok")]
    assert ("keep-cluster" in said[0]) == wanted.keep_cluster
