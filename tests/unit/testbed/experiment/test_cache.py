"""No repetition is run twice, whichever process has run it."""

import threading

import pytest

from testbed.errors import ResultsError
from testbed.experiment.cache import Cache
from testbed.measurement.stolen_cpu import discarded_attempts, stolen_shares
from testbed.results.runs import RunFolder
from testbed.schedulers.spec import parse_spec
from testbed.testing import FakeProvider
from workloads.scenario import load_scenario


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "locks").mkdir()
    return lambda: RunFolder(tmp_path)  # every process has one of its own


def run(provider, folder, seed=1, attempts=1):
    trial = provider.check(load_scenario("pi-2000").scaled(pods=2), parse_spec("carico"), {})
    return Cache(folder, attempts).trial(trial).run(seed)


def test_a_repetition_of_another_process_is_not_run_again(folder):
    first, second = FakeProvider(), FakeProvider()
    measured = run(first, folder())
    assert run(second, folder()) == measured
    assert (len(first.calls), len(second.calls)) == (1, 0)


def test_a_repetition_that_another_process_is_running_is_waited_for(folder):
    started, go_on, waiting = threading.Event(), threading.Event(), FakeProvider()

    class Slow(FakeProvider):
        def run(self, *arguments):
            started.set()
            assert go_on.wait(10)
            return super().run(*arguments)

    results = []
    threads = [threading.Thread(target=lambda one=one: results.append(run(one, folder()))) for one in (Slow(), waiting)]
    threads[0].start()
    assert started.wait(10)
    threads[1].start()
    go_on.set()
    for thread in threads:
        thread.join(10)
    assert results[0] == results[1]
    assert waiting.calls == []


def test_another_repetition_is_not_waited_for(folder):
    class Nested(FakeProvider):
        def run(self, *arguments):
            run(FakeProvider(), folder(), seed=2)
            return super().run(*arguments)

    assert run(Nested(), folder()).seed == 1


def test_a_repetition_that_was_interrupted_is_run_by_the_next_process(folder):
    with pytest.raises(KeyboardInterrupt):
        run(FakeProvider(interrupt_after=0), folder())
    assert run(FakeProvider(), folder()).seed == 1


def test_what_is_kept_is_the_attempt_that_was_kept(folder):
    provider = FakeProvider(stolen=[0.3, 0.0])
    measured = run(provider, folder(), attempts=2)
    assert (len(provider.calls), discarded_attempts([measured])) == (2, {"carico": 1})
    assert run(FakeProvider(), folder(), attempts=2) == measured


def test_attempts_of_a_process_that_has_ended_count(folder):
    with pytest.raises(KeyboardInterrupt):
        run(FakeProvider(stolen=[0.3], interrupt_after=1), folder(), attempts=2)
    ((first,), _) = folder().disturbed_log.read()
    assert stolen_shares([first.repetition]) == [0.3]
    provider = FakeProvider(stolen=[0.5])
    assert stolen_shares([run(provider, folder(), attempts=2)]) == [0.3]
    assert len(provider.calls) == 1


def test_a_folder_that_is_gone_is_an_error(folder, tmp_path):
    (tmp_path / "locks").rmdir()
    with pytest.raises(ResultsError, match="has the folder been removed"):
        run(FakeProvider(), folder())
