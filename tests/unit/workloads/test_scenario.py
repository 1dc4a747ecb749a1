"""Scenarios: what a user may write, and the messages if it is wrong."""

import subprocess
import sys
import tomllib
import zipfile
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import numpy as np
import pytest

import workloads
from workloads.demand import pi
from workloads.errors import InvalidScenario, UnknownScenario
from workloads.scenario import (
    ClusterShape,
    JobSpec,
    NodeChange,
    Requests,
    Scenario,
    catalogue,
    checked,
    load_scenario,
    read_scenario,
)

ROOT = Path(workloads.__file__).parents[1]
SMALL = """
name: small
description: two pods of pi
jobs:
  - {name: pi, workload: pi, pods: 2}
"""


def with_job(**fields):
    """The small scenario as YAML, its job with other fields (YAML text; None leaves one out)."""
    job = {"name": "pi", "workload": "pi", "pods": "2"} | fields
    lines = "".join(f"\n    {name}: {value}" for name, value in job.items() if value is not None)
    return f"name: small\ndescription: two pods of pi\njobs:\n  -{lines.replace(chr(10) + '   ', '', 1)}\n"


def refusal(text, origin="my.yaml"):
    with pytest.raises(InvalidScenario) as error:
        read_scenario(text, origin)
    assert str(error.value).startswith(origin)
    assert "\n" not in str(error.value)
    return str(error.value)


class TestReading:
    def test_what_is_not_said_is_the_thesis_cluster(self):
        scenario = read_scenario(SMALL, "my.yaml")
        assert scenario.cluster == ClusterShape(nodes=19, cores=4, memory="8Gi")
        assert scenario.limit_s == 3600
        (job,) = scenario.jobs
        assert (job.start_s, job.placement, job.disturbance, job.backoff_limit) == (0, "any", False, 6)
        assert job.requests == Requests()
        assert (job.requests.millicpu, job.requests.memory_bytes) == (0, 0)

    def test_everything_can_be_said(self):
        text = """
        name: all
        description: everything that can be said
        cluster: {nodes: 3, cores: 8, memory: 16Gi}
        limit_s: 100
        jobs:
          - name: load
            workload: stress
            parameters: {cpu: 2, duration_s: 60, vm: 1, vm_bytes: 1Gi}
            pods: 1
            placement: first
            disturbance: true
          - name: pi
            workload: pi
            parameters: {digits: 500}
            pods: 10
            requests: {cpu: 250m, memory: 64Mi}
            start_s: 30.5
            placement: rest
            backoff_limit: 0
        """
        scenario = read_scenario(text, "all.yaml")
        load, pi = scenario.jobs
        assert (scenario.cluster.each_pool[0].memory_bytes, scenario.limit_s) == (16 * 2**30, 100)
        assert (load.disturbance, load.placement, load.demand.duration_s) == (True, "first", 60)
        assert (pi.requests.millicpu, pi.requests.memory_bytes) == (250, 64 * 2**20)
        assert (pi.start_s, pi.placement, pi.backoff_limit) == (30.5, "rest", 0)

    def test_yaml_anchors_work(self):
        text = SMALL.replace("- {", "- &job {") + "  - {<<: *job, name: other, pods: 3}\n"
        assert [(job.name, job.pods) for job in read_scenario(text, "x").jobs] == [("pi", 2), ("other", 3)]

    def test_what_was_read_can_be_written_and_read_again(self):
        for scenario in catalogue():
            assert msgspec.yaml.decode(msgspec.yaml.encode(scenario), type=Scenario) == scenario
            assert msgspec.json.decode(msgspec.json.encode(scenario), type=Scenario) == scenario


class TestNoScenario:
    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("", "my.yaml is empty: a scenario has at least a name, a description and jobs"),
            ("# nothing but a comment", "my.yaml is empty"),
            ("- name: small", "line 1: a mapping with at least name, description, jobs is needed, got a list"),
            ("pi-2000", "line 1: a mapping with at least name, description, jobs is needed, got 'pi-2000'"),
            ("jobs: [", "is not YAML: while parsing a flow node"),
            (
                "name: small\n\tdescription: tabs",
                "is not YAML: while scanning for the next token found character '\\t'",
            ),
            ("a: 1\n---\nb: 2", "is not YAML: expected a single document"),
            ("a: b: c", "is not YAML: mapping values are not allowed here, line 1, column 5"),
            ("!!python/object/apply:os.system [ls]", "is not YAML: could not determine a constructor"),
            ("name: \0", "is not YAML: unacceptable character"),
            ("? [a]\n: b", "is not YAML: while constructing a mapping"),
            ("name: 2024-13-01", "is not YAML: month must be in 1..12, line 1, column 7"),
            ("name: 0b_", "is not YAML: invalid literal for int() with base 2: '', line 1, column 7"),
            ("name: !!int ''", "is not YAML: '' does not have the type 'tag:yaml.org,2002:int', line 1, column 7"),
            ("name: !!bool maybe", "is not YAML: 'maybe' does not have the type 'tag:yaml.org,2002:bool', line 1"),
            ("name: !!timestamp {=: 1}", "is not YAML: a list does not have the type 'tag:yaml.org,2002:timestamp'"),
            (
                'name: a\ndescription: "\\UFFFFFFFF"',
                "is not YAML: an escape stands for no character, line 2, column 14",
            ),
            ("[" * 1000, "is not YAML: maximum recursion depth exceeded"),
            (SMALL + "limit_s: 5\nlimit_s: 6\n", "is not YAML: the key 'limit_s' occurs twice"),
            (SMALL.replace("pods: 2", "pods: 2, pods: 3"), "is not YAML: the key 'pods' occurs twice"),
            ("<<: *a", "is not YAML: found undefined alias 'a'"),
            (
                "jobs: &jobs [*jobs]",
                "line 1: jobs[0]: a mapping with at least name, workload, pods is needed, got a list",
            ),
            ("jobs: &a [&b [*a], *b]", "is not YAML: maximum recursion depth exceeded"),
        ],
    )
    def test_the_message_says_why(self, text, message):
        assert message in refusal(text)

    def test_aliases_that_stand_for_billions_of_values_are_refused_at_once(self):
        levels = "".join(f"- &l{level} [{', '.join([f'*l{level - 1}'] * 9)}]\n" for level in range(1, 12))
        assert "aliases stand for more than 100000 values, write some of them out" in refusal(f"- &l0 lol\n{levels}")

    def test_merges_that_stand_for_billions_of_values_are_refused_at_once(self):
        levels = "".join(f"- &l{level} {{<<: [{', '.join([f'*l{level - 1}'] * 9)}]}}\n" for level in range(1, 12))
        assert "aliases stand for more than 100000 values" in refusal(f"- &l0 {{a: 1}}\n{levels}")

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            (
                "name: small",
                "name: Small",
                "line 2: name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got 'Small'",
            ),
            (
                "name: small",
                "name: on",
                "line 2: name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got true: on, yes, "
                "numbers and dates need quotes to be text",
            ),
            (
                "name: small",
                "name: 2000",
                "a name of 1 to 50 small letters, digits and inner hyphens is needed, got 2000: on, yes",
            ),
            (
                "name: small",
                "name: 2024-12-01",
                "a name of 1 to 50 small letters, digits and inner hyphens is needed, got 2024-12-01: on, yes",
            ),
            ("name: small\n", "", "line 2: name is missing: a name of 1 to 50 small letters, "),
            ("description: two pods of pi\n", "", "line 2: description is missing: text is needed"),
            ("description: two pods of pi", "colour: red\ndescription: x", "line 3: there is no field 'colour'"),
            (
                "description: two pods of pi",
                "description: x\nlimit_s: .nan",
                "line 4: limit_s: a number above 0 and up to 1000000 is needed, got nan",
            ),
            (
                "description: two pods of pi",
                "description: x\nlimit_s: .inf",
                "limit_s: a number above 0 and up to 1000000 is needed, got inf",
            ),
            (
                "description: two pods of pi",
                "description: x\nlimit_s: 0",
                "limit_s: a number above 0 and up to 1000000 is needed, got 0",
            ),
            (
                "description: two pods of pi",
                "description: x\nlimit_s: 5 s",
                "limit_s: a number above 0 and up to 1000000 is needed, got '5 s'",
            ),
            (
                "description: two pods of pi",
                "description: x\ncluster: {nodes: 0}",
                "nodes: a whole number from 1 to 1000000 is needed, got 0",
            ),
            (
                "description: two pods of pi",
                "description: x\ncluster: {nodes: -3}",
                "nodes: a whole number from 1 to 1000000 is needed, got -3",
            ),
            (
                "description: two pods of pi",
                "description: x\ncluster: {cores: 0.05}",
                "line 4: cores: a number from 0.1 to 1024 is needed, got 0.05",
            ),
            (
                "description: two pods of pi",
                "description: x\ncluster: {disks: 1}",
                "there is no field 'disks', did you mean 'disk'? Known: nodes, ",
            ),
            ("description: two pods of pi", "description: x\ncluster: {memory: 8GB}", "memory of a node: '8GB' is no"),
            (
                "description: two pods of pi",
                "description: x\ncluster: {memory: 8192}",
                "line 4: memory: text is needed, got 8192: on, yes, numbers",
            ),
            (
                "description: two pods of pi",
                "description: x\ncluster:",
                "line 4: cluster: a mapping is needed, got nothing",
            ),
        ],
    )
    def test_the_path_of_the_field_is_named(self, old, new, message):
        assert message in refusal(SMALL.replace(old, new))

    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"pods": "1.5"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got 1.5"),
            ({"pods": "0"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got 0"),
            ({"pods": "-2"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got -2"),
            ({"pods": "1000001"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got 1000001"),
            ({"pods": "yes"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got true"),
            ({"pods": "'2'"}, "line 6: pods: a whole number from 1 to 1000000 is needed, got '2'"),
            ({"pods": None}, "line 4: jobs[0]: pods is missing: a whole number from 1 to 1000000 is needed"),
            (
                {"name": '"pi\\n"'},
                "line 4: name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got 'pi\\n'",
            ),
            (
                {"name": "-pi"},
                "line 4: name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got '-pi'",
            ),
            (
                {"name": "a" * 51},
                "line 4: name: a name of 1 to 50 small letters, digits and inner hyphens is needed, got 'aaaa",
            ),
            ({"start_s": ".nan"}, "start_s: a number from 0 to 1000000 is needed, got nan"),
            ({"start_s": ".inf"}, "start_s: a number from 0 to 1000000 is needed, got inf"),
            ({"start_s": "-1"}, "start_s: a number from 0 to 1000000 is needed, got -1"),
            ({"start_s": "1e3"}, "line 7: start_s: a number from 0 to 1000000 is needed, got '1e3'"),
            ({"colour": "red"}, "line 7: jobs[0]: there is no field 'colour'; known: name, workload, pods"),
            ({"placement": "middle"}, "line 7: placement: one of any, first, rest is needed, got 'middle'"),
            ({"backoff_limit": "-1"}, "backoff_limit: a whole number from 0 to 1000000 is needed, got -1"),
            ({"parallelism": "0"}, "line 7: parallelism: a whole number from 1 to 1000000 is needed, got 0"),
            ({"on_oom_kill": "retry"}, "on_oom_kill: one of count, fail-job, ignore is needed, got 'retry'"),
            ({"priority": "high"}, "priority: a whole number from -1000000000 to 1000000000 is needed, got 'high'"),
            ({"requests": "{gpu: 1}"}, "there is no field 'gpu', did you mean 'cpu'? Known: cpu, memory"),
            (
                {"requests": "{cpu: [1]}"},
                "line 7: cpu: text or a number is needed, got a list",
            ),
            ({"requests": "{cpu: 100q}"}, "line 7: job pi: '100q' is not a quantity"),
            ({"requests": "{memory: 750m}"}, "job pi: '750m' is thousandths of a byte: 750Mi was probably meant"),
            ({"parameters": "{digits: yes}"}, "line 7: digits: a number or text is needed, got true"),
            ({"parameters": "{digits: .nan}"}, "job pi: digits must be a positive number, got nan"),
            ({"parameters": "{digits: .inf}"}, "job pi: digits must be a positive number, got inf"),
            (
                {"parameters": "{digit: 5}"},
                "line 7: job pi: workload 'pi' does not take 'digit', did you mean 'digits'? Its parameters: digits",
            ),
            (
                {"workload": "tensor"},
                "line 5: job pi: no workload is named 'tensor'; known: mlp, pi, stress, task, web",
            ),
            ({"work": "[1.0, 0]"}, "line 7: work[1]: a number above 0 and up to 1000000 is needed, got 0"),
            ({"work": "[1.0, .nan]"}, "work[1]: a number above 0 and up to 1000000 is needed, got nan"),
            ({"work": "[1.0, .inf]"}, "work[1]: a number above 0 and up to 1000000 is needed, got inf"),
            ({"work": "[1.0]"}, "line 7: job pi: 2 pods need as many numbers of relative work, work has 1"),
            (
                {"work": "[1, 2]", "workload": "stress", "parameters": "{cpu: 1, duration_s: 9}"},
                "job pi: workload stress runs for a time, not until work is done: leave work out",
            ),
            ({"workload": "mlp", "parameters": "{memory: lots}"}, "job pi: 'lots' is not a quantity"),
            ({"disturbance": "true"}, "every job is a disturbance: there is none to wait for and to measure"),
        ],
    )
    def test_the_job_is_named(self, fields, message):
        assert message in refusal(with_job(**fields))

    def test_two_jobs_of_one_name(self):
        assert "line 6: two jobs have the same name: pi; give one of them another" in refusal(
            SMALL + "  - {name: pi, workload: pi, pods: 3}\n"
        )

    def test_no_jobs(self):
        assert "line 3: jobs: a list of at least 1 entry is needed, got an empty list" in refusal(
            "name: none\ndescription: no jobs\njobs: []"
        )

    def test_a_job_that_would_be_published_after_the_end(self):
        text = with_job(start_s=10) + "limit_s: 10\n"
        assert "line 7: job pi is published at 10 s, when the run is over: limit_s is 10" in refusal(text)

    @pytest.mark.parametrize(
        ("cluster", "message"),
        [
            (
                "{pools: [{name: a, nodes: 1}, {name: a, nodes: 2}]}",
                "line 6: two pools have the same name: a; give one of them another",
            ),
            (
                "{nodes: 3, pools: [{name: a, nodes: 1}]}",
                "has pools, or nodes, cores, memory, max_pods and disk of its own",
            ),
            ("{pools: [{name: a}]}", "line 6: pools[0]: nodes is missing: a whole number from 1 to 1000000 is needed"),
            (
                "{pools: [{name: a, nodes: 1, speed: 0}]}",
                "line 6: speed: a number above 0 and up to 100 is needed, got 0",
            ),
            ("{pools: [{name: a, nodes: 1, memory: 8X}]}", "line 6: the memory of a node: '8X' is not a quantity"),
            ("{max_pods: 0}", "line 6: max_pods: a whole number from 1 to 1000000 is needed, got 0"),
            ("{disk: tape}", "line 6: disk: one of hdd, ssd is needed, got 'tape'"),
            ("{disk: hdd, pools: [{name: a, nodes: 1}]}", "has pools, or nodes, cores, memory, max_pods and disk of"),
        ],
    )
    def test_the_cluster_must_make_sense(self, cluster, message):
        assert message in refusal(SMALL + f"cluster: {cluster}\n")

    @pytest.mark.parametrize(
        "cluster", ["{nodes: 2}", "{pools: [{name: a, nodes: 1, disk: ssd}, {name: b, nodes: 1}]}"]
    )
    def test_a_job_that_reads_needs_a_disk_on_every_node(self, cluster):
        reads = with_job(workload="task", parameters={"cores": 1, "cpu_seconds": 1, "reads": "1Gi"})
        assert "job pi: it reads from a disk, and these nodes have none: " in refusal(reads + f"cluster: {cluster}\n")

    def test_the_rest_of_one_node_is_no_place(self):
        text = with_job(placement="rest") + "cluster: {nodes: 1}\n"
        assert "line 7: job pi: it runs on all nodes but the first: 2 nodes are needed" in refusal(text)


class TestScaled:
    def test_pods_and_nodes(self):
        scenario = load_scenario("pi-2000").scaled(pods=7, nodes=3)
        assert (scenario.jobs[0].pods, scenario.cluster.nodes) == (7, 3)
        assert load_scenario("pi-2000").jobs[0].pods == 1000, "the scenario itself stays what it was"

    def test_nothing_changes_nothing(self):
        for scenario in catalogue():
            assert scenario.scaled() == scenario

    def test_a_disturbance_keeps_its_pods(self):
        scenario = load_scenario("conflicting-capacity").scaled(pods=20)
        assert {job.name: job.pods for job in scenario.jobs} == {"light-cpu": 1, "pi-2000": 20}

    def test_a_number_of_nodes_does_not_say_of_which_pool(self):
        scenario = read_scenario(SMALL + "cluster: {pools: [{name: a, nodes: 1}, {name: b, nodes: 2}]}\n", "pools.yaml")
        assert scenario.cluster.node_names == ["a-0", "b-0", "b-1"]
        with pytest.raises(InvalidScenario, match="has pools of nodes"):
            scenario.scaled(nodes=5)

    def test_several_jobs_do_not_share_a_number(self):
        with pytest.raises(InvalidScenario, match=r"has several jobs \(pi-2000, sklearn\)"):
            load_scenario("pi-and-sklearn").scaled(pods=10)
        assert load_scenario("pi-and-sklearn").scaled(nodes=5).cluster.nodes == 5

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"pods": 0}, r"jobs\[0\].pods: a whole number from 1 to 1000000 is needed, got 0"),
            ({"pods": -1}, r"jobs\[0\].pods: a whole number from 1 to 1000000 is needed, got -1"),
            ({"pods": 1.5}, r"jobs\[0\].pods: a whole number from 1 to 1000000 is needed, got 1.5"),
            ({"nodes": 0}, r"cluster.nodes: a whole number from 1 to 1000000 is needed, got 0"),
            ({"nodes": -19}, r"cluster.nodes: a whole number from 1 to 1000000 is needed, got -19"),
            ({"nodes": True}, r"cluster.nodes: a whole number from 1 to 1000000 is needed, got true"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, change, message):
        with pytest.raises(InvalidScenario, match=f"^scenario pi-2000: .*{message}"):
            load_scenario("pi-2000").scaled(**change)

    def test_one_node_is_too_few_for_a_job_on_the_rest(self):
        with pytest.raises(InvalidScenario, match="2 nodes are needed"):
            load_scenario("conflicting-capacity").scaled(nodes=1)


class TestWork:
    def test_is_relative_to_what_the_model_says_and_the_same_for_all_by_default(self):
        same = JobSpec(name="pi", workload="pi", pods=3)
        own = msgspec.structs.replace(same, work=[1.0, 2.0, 0.5])
        drawn = same.draw_work(np.random.default_rng(1))
        assert drawn == pi().draw_work(3, np.random.default_rng(1))
        assert own.draw_work(np.random.default_rng(1)) == [drawn[0], 2 * drawn[1], drawn[2] / 2]

    def test_fewer_pods_are_the_first(self):
        scenario = read_scenario(with_job(workload="task", parameters="{cores: 1, cpu_seconds: 4}", work="[3, 2]"), "x")
        assert scenario.scaled(pods=1).jobs[0].draw_work(np.random.default_rng(1)) == [12.0]


def test_a_scenario_made_in_code_is_checked_like_one_from_a_file():
    job = JobSpec(name="pi", workload="pi", pods=2)
    assert checked(Scenario(name="x", description="", jobs=[job]), "here").jobs == [job]
    with pytest.raises(
        InvalidScenario, match=r"^here: jobs\[0\].pods: a whole number from 1 to 1000000 is needed, got '2'$"
    ):
        checked(Scenario(name="x", description="", jobs=[msgspec.structs.replace(job, pods="2")]), "here")


class TestLoading:
    @pytest.mark.parametrize("scenario", catalogue(), ids=lambda scenario: scenario.name)
    def test_the_catalogue(self, scenario):
        assert load_scenario(scenario.name) == scenario
        assert scenario.description
        assert all(job.demand.cpu_seconds > 0 for job in scenario.jobs)

    def test_the_catalogue_is_in_order_and_has_the_thesis_jobs(self):
        names = [scenario.name for scenario in catalogue()]
        assert names == sorted(names)
        assert {"pi-2000", "sklearn", "pi-and-sklearn"} <= set(names)

    @pytest.mark.parametrize("ending", ["yaml", "yml"])
    def test_a_file_of_the_users_own(self, tmp_path, ending):
        file = tmp_path / f"mine.{ending}"
        file.write_text(SMALL)
        assert load_scenario(str(file)).name == "small"

    def test_a_file_with_a_byte_order_mark(self, tmp_path):
        file = tmp_path / "windows.yaml"
        file.write_bytes(b"\xef\xbb\xbf" + SMALL.replace("\n", "\r\n").encode())
        assert load_scenario(str(file)).name == "small"

    def test_a_wrong_file_is_named(self, tmp_path):
        file = tmp_path / "mine.yaml"
        file.write_text(SMALL.replace("pods: 2", "pods: many"))
        with pytest.raises(
            InvalidScenario, match=rf"^{file}, line 5: pods: a whole number from 1 to 1000000 is needed, got 'many'$"
        ):
            load_scenario(str(file))

    @pytest.mark.parametrize("name", ["missing.yaml", "folder.yaml", "latin.yaml", "nul\0.yaml"])
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path, name):
        (tmp_path / "folder.yaml").mkdir()
        (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9")
        with pytest.raises(UnknownScenario, match=r"^cannot read the scenario .*yaml: "):
            load_scenario(str(tmp_path / name))

    def test_a_file_that_does_not_exist_is_told_with_what_was_meant(self, tmp_path):
        (tmp_path / "night-batch.yaml").write_text(SMALL)
        with pytest.raises(UnknownScenario, match=r"there is no such file, did you mean 'night-batch.yaml'\?$"):
            load_scenario(str(tmp_path / "night-bach.yaml"))
        with pytest.raises(UnknownScenario, match=r"there is no such file$"):
            load_scenario(str(tmp_path / "x.yml"))

    @pytest.mark.parametrize("name", ["", "pi", "PI-2000", "../catalogue/pi-2000", "pi-2000.yaml.txt"])
    def test_an_unknown_name_lists_the_catalogue(self, name):
        with pytest.raises(UnknownScenario) as error:
            load_scenario(name)
        assert repr(name) in str(error.value)
        assert "known: arriving-jobs, bursts-two-nodes, complementary-capacity" in str(error.value).lower()
        assert "or give a path that ends in .yaml" in str(error.value)


class TestInstalled:
    def test_the_catalogue_is_package_data(self):
        if not (ROOT / "pyproject.toml").exists():
            pytest.skip("these are not the sources")
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())
        patterns = project["tool"]["setuptools"]["package-data"]["workloads"]
        for file in (ROOT / "workloads" / "catalogue").iterdir():
            assert any(fnmatch(f"catalogue/{file.name}", pattern) for pattern in patterns), file.name

    def test_it_needs_no_folder_on_disk(self, tmp_path):
        package = Path(workloads.__file__).parent
        archive = tmp_path / "workloads.zip"
        with zipfile.ZipFile(archive, "w") as opened:
            for file in sorted(package.rglob("*")):
                if file.suffix in {".py", ".yaml"}:
                    opened.write(file, file.relative_to(package.parent))
        program = (
            f"import sys; sys.path.insert(0, {str(archive)!r}); import workloads; assert 'zip' in workloads.__file__; "
            "from workloads.scenario import catalogue, load_scenario; load_scenario('sklearn'); print(len(catalogue()))"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == (f"{len(catalogue())}\n", "")


def test_requests_may_be_plain_numbers_as_in_kubernetes():
    requests = Requests(cpu=2, memory=1048576)
    assert (requests.millicpu, requests.memory_bytes) == (2000, 2**20)
    assert Requests(cpu=0.5).millicpu == 500


class TestNodeChanges:
    def changed(self, *changes, nodes=3):
        changes = [NodeChange(at_s, node, change) for at_s, node, change in changes]
        job = JobSpec(name="pi", workload="pi", pods=1)
        shape = ClusterShape(nodes=nodes)
        return checked(Scenario(name="s", description="d", jobs=[job], cluster=shape, node_changes=changes), "here")

    def test_a_node_may_come_go_fail_and_recover(self):
        lives = [(0, "added"), (1, "failed"), (2, "recovered"), (3, "failed"), (4, "removed"), (5, "added")]
        assert self.changed(*[(at_s, "node-1", change) for at_s, change in reversed(lives)]).node_changes

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ([(1, "node-9", "failed")], "here: no node is named 'node-9': they are node-0 to node-2"),
            ([(1, "node-0", "recovered")], "node-0 cannot be recovered at 1 s: it is up then"),
            ([(1, "node-0", "failed"), (2, "node-0", "failed")], "node-0 cannot be failed at 2 s: it is down then"),
            ([(1, "node-0", "removed"), (2, "node-0", "recovered")], "cannot be recovered at 2 s: it is absent then"),
            ([(1, "node-0", "failed"), (2, "node-0", "added")], "node-0 cannot be added at 2 s: it is down then"),
            ([(-1, "node-0", "failed")], r"here: node_changes\[0\].at_s: a number from 0 to 1000000 is needed, got -1"),
            (
                [(1, "node-0", "failed"), (1, "node-0", "recovered")],
                "a node changes twice at the same time, node-0 at 1 s: give one of the two",
            ),
            ([(3600, "node-0", "failed")], "node-0 is failed at 3600 s, when the run is over: limit_s is 3600"),
            (
                [(1, "node-0", "moved")],
                r"node_changes\[0\].change: one of added, failed, recovered, removed is needed, got 'moved', did",
            ),
        ],
    )
    def test_what_cannot_happen_is_refused(self, changes, message):
        with pytest.raises(InvalidScenario, match=message):
            self.changed(*changes)


@pytest.mark.parametrize("field", [r'description: "\ud800"', r'description: a, "\ud800": 1'])
def test_half_of_a_character_is_refused(field):
    """YAML, like JSON, can write half of a pair of surrogates, which no results file can hold."""
    with pytest.raises(
        InvalidScenario, match=r"half\.yaml is not YAML: half of a pair of surrogates .*, line 1, column "
    ):
        read_scenario(f"{{name: a, {field}, jobs: [{{name: a, workload: pi, pods: 1}}]}}", "half.yaml")
