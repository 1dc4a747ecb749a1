"""The fixtures for tests of schedulers. Every session imports this module, so each fixture imports what it needs."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from testbed.experiment.provider import ClusterProvider
    from testbed.experiment.session import Experiment
    from testbed.plugin.seeds import Seeds
    from testbed.real.lifecycle import Cluster
    from testbed.results.schema import Repetition


@pytest.fixture(scope="session")
def carico_provider(pytestconfig: pytest.Config) -> Iterator[ClusterProvider]:
    """The provider of experiments: from the hook pytest_carico_provider, else named by --carico-provider."""
    from testbed.plugin.state import provider_of

    provider = provider_of(pytestconfig)
    try:
        yield provider
    finally:
        provider.close()


@pytest.fixture(scope="session")
def carico_cluster(pytestconfig: pytest.Config, carico_provider: ClusterProvider) -> Cluster:
    """The real cluster, made on first use: its `name`, `kubeconfig`, `kubernetes_version` and `api`."""
    if not hasattr(carico_provider, "cluster"):
        pytest.fail(
            f"the provider {carico_provider.name} has no real cluster for tests: "
            f"mark the test carico(providers=['kwok'])",
            pytrace=False,
        )
    from testbed.plugin.state import state_of

    # Even without measurements this is a run: diagnostics need a folder, and `run.json` says how they came about.
    state_of(pytestconfig).record.open(carico_provider)
    cluster: Cluster = carico_provider.cluster()
    return cluster


@pytest.fixture
def carico_namespace(
    pytestconfig: pytest.Config, carico_cluster: Cluster, request: pytest.FixtureRequest
) -> Iterator[str]:
    """The test's own namespace on the real cluster; it is removed after the test with all that is in it."""
    from testbed.plugin.state import state_of
    from testbed.real.namespaces import namespace_of_run

    name = f"carico-test-{zlib.crc32(request.node.nodeid.encode()):08x}"
    with namespace_of_run(carico_cluster.api, name, state_of(pytestconfig).run_id):
        yield name


def diagnose(item: pytest.Item, error: BaseException) -> None:
    """Let the provider collect diagnostics of a failed test that has used the real cluster directly."""
    used: dict[str, Any] = getattr(item, "funcargs", {})
    provider: Any = used.get("carico_provider")
    if "carico_cluster" in used and hasattr(provider, "diagnose"):
        from testbed.real.namespaces import TESTBED_NAMESPACE

        name = re.sub(r"[^\w.-]+", "-", item.name).strip("-")
        provider.diagnose(used["carico_cluster"], used.get("carico_namespace", TESTBED_NAMESPACE), name, error)


@pytest.fixture(scope="session")
def carico_experiment(pytestconfig: pytest.Config, carico_provider: ClusterProvider) -> Experiment:
    """Runs scenarios under schedulers: `.run(scenario, scheduler)` returns the repetitions. Nothing runs twice."""
    from testbed.experiment.cache import Cache
    from testbed.experiment.session import Experiment
    from testbed.plugin.session_progress import progress_line
    from testbed.plugin.state import state_of

    state = state_of(pytestconfig)
    options = state.options
    folder = state.record.open(carico_provider)
    return Experiment(
        carico_provider,
        Cache(folder, options.attempts, state.extensions.measurements),
        preset=options.preset,
        repetitions=options.repetitions,
        seed=options.seed,
        settings=options.settings,
        progress=progress_line(pytestconfig),
        extensions=state.extensions,
        aa_check=options.aa,
        reference=options.reference,
    )


@pytest.fixture
def carico_results(request: pytest.FixtureRequest, carico_experiment: Experiment) -> dict[str, list[Repetition]]:
    """The repetitions of every scheduler in the test's marker `carico(scenario=..., scheduler=...)`."""
    from testbed.plugin.gate import MEASURED
    from testbed.plugin.marked import experiment_of
    from testbed.plugin.properties import properties_of
    from testbed.plugin.state import state_of

    asked = experiment_of(request.node)
    if asked is None:
        pytest.fail(
            "the fixture carico_results needs a marker: @pytest.mark.carico(scenario='pi-2000', scheduler=['carico'])",
            pytrace=False,
        )
    repetitions = asked.repetitions
    if repetitions is None and asked.fail_on:
        repetitions = state_of(request.config).options.gate_repetitions
    results = carico_experiment.compare(asked.scenario, asked.schedulers, repetitions=repetitions)
    request.node.stash[MEASURED] = results
    request.node.user_properties += properties_of(one for runs in results.values() for one in runs)
    return results


@pytest.fixture
def carico_seeds(request: pytest.FixtureRequest, carico_experiment: Experiment) -> Seeds:
    """The session's seeds, each judged separately: `for seed in carico_seeds: with seed: ...`."""
    from testbed.plugin.outcomes import SEEDS_PROPERTY
    from testbed.plugin.seeds import Seeds
    from testbed.plugin.state import state_of

    properties = request.node.user_properties
    seeds = state_of(request.config).options.seeds
    return Seeds(carico_experiment, seeds, lambda counted: properties.append((SEEDS_PROPERTY, counted)))


@pytest.fixture
def carico_paper(request: pytest.FixtureRequest) -> Paper:
    """Compares measurements with the paper in the summary: `.row(what, ours, thesis, unit, note)`."""
    return Paper(request.node.user_properties.append)


class Paper:
    """The value of the fixture `carico_paper`.

    Parameters
    ----------
    record : callable
        Called with every row as a user property of the test: these reach the reports, also from other processes.
    """

    def __init__(self, record: Callable[[tuple[str, object]], None]) -> None:
        self._record = record

    def row(self, what: str, ours: float, thesis: float | None, unit: str = "", note: str = "") -> None:
        """Add a row to the table in the session's summary.

        Parameters
        ----------
        what : str
            The quantity, for example "median PCT, carico".
        ours : float
            The measured value.
        thesis : float or None
            The paper's value; None where it gives no number.
        unit : str
            For example "s".
        note : str
            What a reader needs to know to judge the row.
        """
        from testbed.plugin.outcomes import PAPER_PROPERTY

        paper = None if thesis is None else float(thesis)
        self._record((PAPER_PROPERTY, {"what": what, "ours": float(ours), "thesis": paper, "unit": unit, "note": note}))
