"""Schedulers of one's own by name: classes in modules, entry points, hooks; and `schedulerName` on real clusters."""

import pickle
import sys
from importlib.metadata import EntryPoint

import pytest

from testbed.cluster_options import ClusterOptions
from testbed.errors import InvalidSpec, UsageError
from testbed.providers import provider_named
from testbed.results.provenance import scheduler_used
from testbed.schedulers import Scheduler
from testbed.schedulers.spec import parse_spec
from workloads.scenario import load_scenario

MODULE = """
from testbed.schedulers import Scheduler

class BestFit(Scheduler):
    version = "1.2"

    def __init__(self, limit: float = 0.9, label="none", verbose: bool = False, *, rank: int = 3):
        if limit > 1:
            raise ValueError("a limit is at most 1")
        self.limit = limit

    def filter(self, pod, node):
        return True

class NeedsOne(Scheduler):
    uses_requests = False

    def __init__(self, weight: int):
        pass

    def score(self, pod, node):
        return 1.0

class Neither(Scheduler):
    pass

class Misspelt(Scheduler):
    def filtr(self, pod, node):
        return True

class HalfRight(BestFit):
    def scroe(self, pod, node):
        return 1.0

class Helpful(BestFit):
    # Nothing here is misspelt: helpers are used, take other parameters, or are called otherwise.

    def start(self, cluster):
        self.best = lambda pod: max(self.scores(pod, node) for node in cluster.nodes)

    def scores(self, pod, node):
        return 1.0

    def reserved(self):
        return 0

    def busiest(self, pod, node):
        return node

    def _observe(self, node):
        pass

    @property
    def scored(self):
        return 0

NOT_ONE = 3
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a module of schedulers, in which the user is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_schedulers.py").write_text(MODULE)
    yield tmp_path
    for name in ("own_schedulers", "own_broken"):
        sys.modules.pop(name, None)


@pytest.fixture
def job():
    return load_scenario("pi-2000").jobs[0]


def test_a_class_is_named_by_its_module_with_parameters_of_the_types_of_its_constructor(here, job):
    spec = parse_spec("own_schedulers:BestFit,limit=0.5,verbose=true,label=x,rank=4,cpu=250m")
    assert spec.parameters == {"limit": 0.5, "verbose": True, "label": "x", "rank": 4}
    assert spec.make().limit == 0.5
    assert spec.requests_of(job).millicpu == 250
    assert parse_spec("own_schedulers:BestFit").requests_of(job) == job.requests
    assert parse_spec("own_schedulers:NeedsOne,weight=1").requests_of(job).millicpu == 0


def test_helpers_are_no_misspelt_methods(here):
    assert parse_spec("own_schedulers:Helpful").kind.__name__ == "Helpful"


def test_the_record_says_what_it_is(here):
    used = scheduler_used(parse_spec("own_schedulers:BestFit,limit=0.5"))
    assert (used.name, used.version) == ("own_schedulers:BestFit", "1.2")
    assert used.parameters == {"limit": 0.5, "label": "none", "verbose": False, "rank": 3}
    (here / "own_schedulers.py").write_text(MODULE + "# changed\n")
    assert scheduler_used(parse_spec("own_schedulers:BestFit,limit=0.5")).source_sha256 != used.source_sha256


def test_it_can_be_sent_to_another_process(here):
    spec = parse_spec("own_schedulers:BestFit,limit=0.5")
    assert pickle.loads(pickle.dumps(spec)) == spec


def test_an_entry_point_and_a_hook_name_it_too(here, monkeypatch):
    point = EntryPoint("best-fit", "own_schedulers:BestFit", "carico_testbed.schedulers")
    monkeypatch.setattr("testbed.schedulers.own.entry_points", lambda group: [point])
    sys.path.append(str(here))
    spec = parse_spec("best-fit:limit=0.25")
    assert (spec.make().limit, spec.settings) == (0.25, {"scheduler": "own_schedulers:BestFit"})

    class Other(Scheduler):
        def score(self, pod, node):
            return 1.0

    assert parse_spec("best-fit", {"best-fit": Other}).kind is Other
    with pytest.raises(InvalidSpec, match=r"'best-fti', did you mean 'best-fit'\? Write carico, .*best-fit, "):
        parse_spec("best-fti")
    with pytest.raises(InvalidSpec, match="'neither': Neither has neither filter nor score"):
        parse_spec("neither", {"neither": sys.modules["own_schedulers"].Neither})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "own_schedulers:BestFi",
            r"no class 'BestFi', did you mean 'BestFit'\? Its schedulers: BestFit, HalfRight, Helpful, ",
        ),
        ("own_schedulers:NOT_ONE", "is 3: a class is needed whose base is testbed.schedulers.Scheduler"),
        ("own_scheduler:BestFit", "no module is named 'own_scheduler', neither in .* nor among the installed packages"),
        ("own_broken:BestFit", "importing own_broken failed: ZeroDivisionError: division by zero"),
        ("own_schedulers:BestFit,limi=1", r"unknown option limi, did you mean 'limit'\? Known: limit, label, verbose"),
        ("own_schedulers:BestFit,limit=much", "limit: a number is needed, got 'much'$"),
        ("own_schedulers:BestFit,limit=2", "BestFit refuses its parameters: a limit is at most 1"),
        ("own_schedulers:BestFit,limit", "options are written key=value, each once, got 'limit'"),
        ("own_schedulers:BestFit,cpu=lots", "lots"),
        ("own_schedulers:NeedsOne", "weight=... must be given"),
        ("own_schedulers:NeedsOne,weight=1,cpu=1", "NeedsOne uses no requests: leave out cpu"),
        ("schedulerNam=my", r"no scheduler is named 'schedulerNam=my', did you mean 'schedulerName'\? Write carico, "),
        ("schedulerName=", "options are written key=value"),
        ("schedulerName=My Scheduler", "a schedulerName has lower-case letters, digits, dots and hyphens"),
        ("schedulerName=x,manifest=none.yaml", "there is no file none.yaml"),
        ("schedulerName=x,manifst=none.yaml", r"unknown option manifst, did you mean 'manifest'\?"),
        ("schedulerName=x,within_s=-1", "within_s needs a number of seconds, more than 0"),
        ("own_schedulers:Neither", "Neither has neither filter nor score, .*: define at least one$"),
        ("own_schedulers:Misspelt", r"define at least one; it has 'filtr', did you mean 'filter'\?"),
        (
            "own_schedulers:HalfRight",
            r"HalfRight has 'scroe', which nothing calls, did you mean 'score'\? If not, write _scroe$",
        ),
        ("own_schedulers", r"no scheduler is named 'own_schedulers', did you mean 'own_schedulers:BestFit'\? Write"),
        ("own_schedulers.NeedsOne", r"did you mean 'own_schedulers:NeedsOne'\?"),
        ("own_schedulers.NeedsOne,weight=1", r"did you mean 'own_schedulers:NeedsOne'\?"),
        ("own_broken", "no scheduler is named 'own_broken'; write"),
        ("carcio", r"no scheduler is named 'carcio', did you mean 'carico'\?"),
    ],
)
def test_anything_else_says_what_is_wrong_and_what_is_known(here, text, message):
    (here / "own_broken.py").write_text("1 / 0\n")
    with pytest.raises(InvalidSpec, match=message):
        parse_spec(text)


def test_a_scheduler_of_a_real_cluster_has_its_name_its_requests_and_a_manifest(here, job):
    manifest = here / "my.yaml"
    manifest.write_text("a: b\n")
    spec = parse_spec(f"schedulerName=my-scheduler,manifest={manifest},cpu=1,within_s=5")
    assert (spec.scheduler_name, spec.manifest, spec.within_s, spec.agents) == ("my-scheduler", manifest, 5.0, None)
    assert spec.requests_of(job).millicpu == 1000
    assert len(scheduler_used(spec).source_sha256) == 64


def test_each_kind_of_cluster_refuses_what_is_for_the_other(here):
    scenario = load_scenario("pi-2000")
    simulated = provider_named("simulated", ClusterOptions("run-1"))
    with pytest.raises(UsageError, match="is for real clusters: add --provider kind, kwok, xen or external"):
        simulated.check(scenario, parse_spec("schedulerName=x"), {})
    kwok = provider_named("kwok", ClusterOptions("run-1"))
    with pytest.raises(UsageError, match="a class runs only on the simulated cluster; on the provider kwok, deploy"):
        kwok.check(scenario, parse_spec("own_schedulers:BestFit"), {})
