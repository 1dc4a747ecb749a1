"""Clusters made by kind: the calls of kind and Docker, here a script and a fake, and the nodes for a scenario."""

import stat
from types import SimpleNamespace

import pytest
import yaml

from carico.model.variants import DEFAULT_VARIANT
from carico.testing import ManualClock
from testbed.errors import ClusterError, DockerFailed, InvalidSetting, UsageError
from testbed.real.kind import maker as kind_module
from testbed.real.kind.maker import PUBLISHED_NODE, KindMaker
from testbed.real.kind.platform import KindPlatform
from testbed.schedulers.spec import parse_spec
from workloads.errors import InvalidDemand
from workloads.scenario import ClusterShape, JobSpec, Scenario

KUBE_SCHEDULER = parse_spec("kube-scheduler")
NODE = "carico.local/node:1"
KIND = """#!/bin/sh
echo "$*" >> {log}
case $1 in --version) echo kind version 0.30.0 ;; esac
{then}
"""


class FakeDocker:
    """Holds images by name, and files of nodes."""

    def __init__(self, images=()):
        self.images = dict(images)
        self.asked = []
        self.files = {}
        self.images_of = {}

    def version(self):
        return "28.2.2"

    def has(self, image):
        return image in self.images

    def label(self, image, name):
        return self.images[image]

    def call(self, *arguments, given=b"", limit_s=None):
        self.asked.append(arguments)
        match arguments:
            case ("info", *_):
                return '"1"\n'
            case ("ps", *_):
                return "c-worker2\nc-control-plane\nc-worker\n"
            case ("exec", node, "ctr", *_):
                return "\n".join(self.images_of.get(node, ()))
            case ("exec", node, "cat", path):
                return self.files.get((node, path), "kind: KubeletConfiguration\n")
            case ("exec", "--interactive", node, "tee", path):
                self.files[node, path] = given.decode()
        return ""


@pytest.fixture
def make(tmp_path, monkeypatch):
    """Return makers whose kind is a script; its calls are in `kind.log`."""
    monkeypatch.setattr(kind_module, "free_instances", lambda at_most: at_most)
    monkeypatch.setattr(kind_module, "find_spec", lambda name: None)

    def maker(docker=None, then="", node_image=NODE, **options):
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        script = folder / "kind"
        script.write_text(KIND.format(log=tmp_path / "kind.log", then=then))
        script.chmod(stat.S_IRWXU)
        environment = {"CARICO_PROGRAMS": str(folder), "PATH": "/usr/bin:/bin"}
        docker = FakeDocker({NODE: "v1.34.4"}) if docker is None else docker
        return KindMaker(docker=docker, environment=environment, node_image=node_image, **options)

    return maker


def test_a_cluster_is_made_of_the_image_that_was_built_here(make, tmp_path):
    maker = make(workers=3)
    maker.create("carico-kind-1", tmp_path, 10)
    document = yaml.safe_load(tmp_path.joinpath("kind.yaml").read_text())
    assert len(document["nodes"]) == 4
    assert document["networking"]["disableDefaultCNI"] is True
    asked = tmp_path.joinpath("kind.log").read_text()
    assert f"create cluster --name carico-kind-1 --kubeconfig {tmp_path}/kubeconfig" in asked
    assert f"--image {NODE}" in asked
    assert maker.kubernetes_version == "v1.34.4"


def test_without_a_built_image_the_published_one_and_its_network_are_used(make, tmp_path, monkeypatch):
    def nothing(name):
        raise ClusterError("no mirror")

    maker = make(FakeDocker(), node_image=None)
    monkeypatch.setattr(kind_module, "Catalogue", lambda *parts: SimpleNamespace(image=nothing))
    assert maker.node_image == PUBLISHED_NODE
    assert maker.kubernetes_version == "v1.34.0"
    maker.create("carico-kind-1", tmp_path, 10)
    assert "disableDefaultCNI" not in yaml.safe_load(tmp_path.joinpath("kind.yaml").read_text())["networking"]


def test_an_image_that_cannot_be_pulled_is_reported_with_a_remedy(make, tmp_path):
    maker = make(FakeDocker(), then="echo 'failed to pull image' >&2; exit 1", node_image="kindest/node:v1.34.0")
    with pytest.raises(ClusterError, match="kind create cluster ended with 1:\nfailed to pull image") as failed:
        maker.create("carico-kind-1", tmp_path, 10)
    assert "carico-testbed images build node" in failed.value.__notes__[0]


def test_all_available_logs_of_a_failed_cluster_are_collected(make, tmp_path, monkeypatch):
    maker = make(then="exit 1")
    with pytest.raises(ClusterError, match="kind create cluster ended with 1"):
        maker.create("carico-kind-1", tmp_path, 10)
    assert tmp_path.joinpath("kind.log").read_text().rstrip().endswith("--retain")
    limits = []

    def call(*arguments, limit_s):
        limits.append(limit_s)
        match arguments:
            case ("ps", *_):
                return "c-control-plane\nc-worker\n"
            case ("exec", "c-control-plane", *_):
                raise DockerFailed("it has ended")
        return "its log"

    monkeypatch.setattr(maker.docker, "call", call)
    with pytest.raises(ClusterError, match="not all logs of carico-kind-1 can be copied: it has ended"):
        maker.collect_logs("carico-kind-1", tmp_path, tmp_path / "into")
    logs = tmp_path / "into" / "logs"
    assert (logs / "c-control-plane" / "console.log").read_text() == "its log"
    assert (logs / "c-worker" / "journal.log").read_text() == "its log"
    assert limits == [30.0] * 7


def test_without_enough_inotify_instances_no_node_is_started(make, tmp_path, monkeypatch):
    monkeypatch.setattr(kind_module, "free_instances", lambda at_most: min(at_most, 13))
    with pytest.raises(ClusterError, match="nodes need 60 inotify instances, 13 are free: remove other clusters"):
        make(workers=2).create("carico-kind-1", tmp_path, 10)
    assert not tmp_path.joinpath("kind.log").exists()


def test_an_image_for_pods_is_the_same_for_the_whole_session(make, monkeypatch):
    asked = []
    monkeypatch.setattr(
        kind_module, "Catalogue", lambda *parts: SimpleNamespace(image=lambda *of: asked.append(of) or object())
    )
    maker = make()
    maker.image("carico"), maker.image("workloads"), maker.image("carico")
    assert asked == [("carico", None), ("workloads", None)]


def test_the_fingerprint_tells_what_a_cluster_is_made_of(make):
    one, other = make(workers=1).fingerprint(), make(workers=2).fingerprint()
    assert one["kind"] == "0.30.0"
    assert {name for name in one if one[name] != other[name]} == {"workers", "configuration"}
    # Keys of a ConfigMap.
    assert all(name.replace("-", "").isalpha() for name in one)


def test_the_preflight_lists_everything_that_is_missing(tmp_path, monkeypatch):
    maker = KindMaker(
        docker=FakeDocker(), environment={"PATH": str(tmp_path)}, node_image="carico.local/node:gone", workers=1
    )
    monkeypatch.setattr(kind_module, "found_programs", lambda names, environment: {})
    monkeypatch.setattr("testbed.experiment.free_resources.meminfo_bytes", lambda name: 1 << 30)
    monkeypatch.setattr(kind_module, "_setting", lambda name: 32)
    assert [str(problem)[:35] for problem in maker.preflight()] == [
        "there is no kind: carico-testbed im",
        "there is no image carico.local/node",
        "a kind cluster needs 2,048 MiB of m",
        "fs.inotify.max_user_instances is 32",
    ]


def test_kind_makes_clusters_itself_unless_pytest_kind_is_asked_for(make, monkeypatch):
    monkeypatch.setattr("testbed.real.kind.maker.metadata.version", lambda name: "22.11.1")
    assert make().fingerprint()["made-by"] == "kind"
    assert make(pytest_kind=True).fingerprint()["made-by"] == "pytest-kind 22.11.1"


def test_pytest_kind_is_asked_for_only_if_it_is_there(make, monkeypatch):
    monkeypatch.setattr("testbed.real.kind.maker.find_spec", lambda name: None)
    assert not any("pytest-kind" in str(problem) for problem in make().preflight())
    said = [str(problem) for problem in make(pytest_kind=True).preflight()]
    assert "there is no pytest-kind: pip install 'carico-testbed[kind]'" in said


def test_the_nodes_of_a_cluster_are_in_kinds_order(make):
    assert make().nodes("c") == ["c-worker", "c-worker2", "c-control-plane"]


def prepared(containers, wanted):
    platform, maker = containers
    cluster = SimpleNamespace(name="c", api=FakeApi(maker.docker))
    return platform.check(wanted, KUBE_SCHEDULER, {}).prepare(cluster)


def test_a_server_and_its_client_are_one_pod(containers):
    wanted = scenario(workload="web", parameters={"duration_s": 60, "rate_per_s": 20}, pods=1)
    spec = prepared(containers, wanted).template(wanted.jobs[0], [float("inf")])["spec"]
    (server,), (client,) = spec["initContainers"], spec["containers"]
    assert server["restartPolicy"] == "Always"
    assert " ".join(server["command"][3:]) == "serve --host 0.0.0.0 --port 8080 --threads 4 --service-ms 0.2"
    assert " ".join(client["command"][3:]) == "poll http://127.0.0.1:8080/ --each --interval 0.05 --duration 60"


class FakeApi:
    """Nodes whose kubelets apply a new configuration at once."""

    def __init__(self, docker):
        self._docker = docker
        self.cordoned = {}

    def nodes(self):
        return [self._node(name) for name in ("c-control-plane", "c-worker", "c-worker2")]

    def cordon(self, name, cordoned):
        self.cordoned[name] = cordoned

    def _node(self, name):
        config = yaml.safe_load(self._docker.files.get((name, "/var/lib/kubelet/config.yaml"), "{}"))
        reserved = config.get("systemReserved", {"cpu": "0m", "memory": "0"})
        return {
            "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": "2", "memory": "24673784Ki"},
                "allocatable": {
                    "cpu": f"{2000 - int(reserved['cpu'].removesuffix('m'))}m",
                    "memory": str(24673784 * 1024 - int(reserved["memory"])),
                    "pods": str(config.get("maxPods", 110)),
                },
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }


class FakeCarico:
    """Records the calls of a `DeployedCarico`."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda cluster, *arguments: self.done.append((name, *arguments))


def scenario(nodes=1, cores=0.5, **job):
    shape = ClusterShape(nodes=nodes, cores=cores, memory="1Gi", max_pods=50)
    return Scenario("tried", "a trial", [JobSpec(**{"name": "pi", "workload": "pi", "pods": 2} | job)], shape)


@pytest.fixture
def containers(make, monkeypatch):
    maker = make(workers=2)
    image = SimpleNamespace(tag="carico.local/workloads:1", ensure=lambda docker, tell: "carico.local/workloads:1")
    maker.image = lambda name: image
    platform = KindPlatform(maker, cpus=2, clock=ManualClock())
    platform._carico = FakeCarico()
    return platform, maker


def test_used_nodes_are_resized_and_the_others_cordoned(containers, tmp_path):
    platform, maker = containers
    api = FakeApi(maker.docker)
    wanted, cluster = scenario(), SimpleNamespace(name="c", api=api)
    setup = platform.check(wanted, KUBE_SCHEDULER, {})
    prepared = setup.prepare(cluster)
    assert prepared.names == {"c-worker": "node-0"}
    assert api.cordoned == {"c-worker": False, "c-worker2": True}
    memory = str(1 << 30)
    assert ("update", "--cpus=0.5", f"--memory={memory}", f"--memory-swap={memory}", "c-worker") in maker.docker.asked
    config = yaml.safe_load(maker.docker.files["c-worker", "/var/lib/kubelet/config.yaml"])
    assert config["kind"] == "KubeletConfiguration"
    assert config["systemReserved"]["cpu"] == "1500m"
    assert config["maxPods"] == 50
    assert ("exec", "c-worker", "systemctl", "restart", "kubelet") in maker.docker.asked
    assert "load docker-image carico.local/workloads:1 --name c" in tmp_path.joinpath("kind.log").read_text()
    # A second preparation repeats neither.
    maker.docker.asked.clear()
    setup.prepare(cluster)
    assert not [asked for asked in maker.docker.asked if "kubelet" in asked]
    assert tmp_path.joinpath("kind.log").read_text().count("load docker-image") == 1


def test_an_image_is_loaded_only_to_nodes_without_it(make, tmp_path):
    maker = make()
    maker.docker.images_of = {"c-worker": ["carico.local/carico:1"], "c-worker2": ["carico.local/carico:2"]}
    maker.load("c", "carico.local/carico:1")
    asked = "load docker-image carico.local/carico:1 --name c --nodes c-worker2,c-control-plane"
    assert asked in tmp_path.joinpath("kind.log").read_text()
    tmp_path.joinpath("kind.log").unlink()
    maker.docker.images_of = {node: ["carico.local/carico:1"] for node in maker.nodes("c")}
    maker.load("c", "carico.local/carico:1")
    assert not tmp_path.joinpath("kind.log").exists()


def test_pods_run_the_workloads_program(containers):
    wanted = scenario()
    (container,) = prepared(containers, wanted).template(wanted.jobs[0], [1.0])["spec"]["containers"]
    assert container["image"] == "carico.local/workloads:1"
    assert container["command"] == ["python3", "-m", "workloads.pi", "--quiet", "2000"]


@pytest.mark.parametrize(
    ("wanted", "error", "said"),
    [
        (scenario(nodes=3), UsageError, "tried wants 3 nodes, the kind cluster has 2 workers"),
        (scenario(nodes=2, cores=1), UsageError, "tried wants 2 CPUs for its nodes, this machine has 2, of which 0.5"),
        (scenario(work=[1.0, 2.0]), UsageError, "leave out `work`"),
        (
            scenario(workload="task", parameters={"cores": 1, "cpu_seconds": 1}),
            InvalidDemand,
            "task is a model without a program",
        ),
    ],
)
def test_what_the_machine_cannot_run_is_refused_before_a_cluster_is_made(containers, wanted, error, said):
    with pytest.raises(error, match=said):
        containers[0].check(wanted, KUBE_SCHEDULER, {})


@pytest.mark.parametrize(
    ("scheduler", "settings", "name", "done"),
    [
        ("carico:variant=thesis-literal", {}, "carico", ["begin", "telemetry"]),
        ("kube-scheduler", {}, "default-scheduler", ["begin", "telemetry"]),
        ("kube-scheduler", {"agents": "false"}, "default-scheduler", ["remove"]),
    ],
)
def test_agents_are_deployed_and_reset_under_every_scheduler(containers, scheduler, settings, name, done):
    platform, maker = containers
    wanted, spec = scenario(), parse_spec(scheduler)
    setup = platform.check(wanted, spec, {"warm_up_s": "5"} | settings)
    assert (setup.settings["warm_up_s"], setup.settings["machine_cpus"]) == (5.0, 2)
    prepared = setup.prepare(SimpleNamespace(name="c", api=FakeApi(maker.docker)))
    assert spec.scheduler_name == name
    assert prepared.programs
    assert [call[0] for call in platform._carico.done] == done
    if done[0] == "begin":
        assert platform._carico.done[0][:2] == ("begin", (spec.agents or DEFAULT_VARIANT).name)


@pytest.mark.parametrize(
    ("scheduler", "settings", "error", "said"),
    [
        ("carico", {"agents": "false"}, UsageError, "carico cannot work without agents"),
        ("carico:variant=thesis-rebased,hold_off_s=3", {}, UsageError, "agents on kind take a named variant"),
        ("kube-scheduler", {"warm_up_s": "-1"}, InvalidSetting, "warm_up_s"),
        ("kube-scheduler", {"colour": "red"}, InvalidSetting, "there is no field 'colour'; known: agents, warm_up_s"),
    ],
)
def test_settings_that_contradict_the_scheduler_are_refused(containers, scheduler, settings, error, said):
    with pytest.raises(error, match=said):
        containers[0].check(scenario(), parse_spec(scheduler), settings)
