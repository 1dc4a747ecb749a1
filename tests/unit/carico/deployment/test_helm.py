"""The Helm chart: what Helm makes of it is what `carico deploy` applies, for every option."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

from carico import __version__
from carico.cli import main
from carico.deployment.helm import chart
from carico.deployment.manifests import IMAGE, KUBE_SCHEDULER_IMAGE, Choices, let_reach_api_server, manifests
from carico.deployment.monitoring import operator_objects
from carico.variants import VARIANTS

HELM = shutil.which("helm")
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not on PATH: go install helm.sh/helm/v3/cmd/helm@v3.18.4")
OPTIONS = {
    "defaults": ({}, {}),
    "images": (
        {"image": "r.example/c@sha256:" + "0" * 64, "kubeSchedulerImage": "r.example/k:v1.33.0"},
        {"image": "r.example/c@sha256:" + "0" * 64, "kube_scheduler_image": "r.example/k:v1.33.0"},
    ),
    "another namespace": ({}, {"namespace": "elsewhere"}),
    "cgroup": ({"telemetry": "cgroup"}, {"telemetry": "cgroup"}),
    "observe": ({"observe": True}, {"observe": True}),
    "on the control plane": ({"onControlPlane": True}, {"on_control_plane": True}),
    **{f"the variant {name}": ({"variant": name}, {"variant": name}) for name in VARIANTS},
    "the thesis in another namespace": (
        {"variant": "thesis-rebased", "telemetry": "cgroup", "onControlPlane": True},
        {"variant": "thesis-rebased", "telemetry": "cgroup", "on_control_plane": True, "namespace": "elsewhere"},
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chart") / "carico"
    assert main(["helm-chart", str(folder)]) == 0
    return folder


@pytest.fixture
def render(folder, tmp_path):
    def run(values, namespace="carico"):
        file = tmp_path / "values.yaml"
        file.write_text(yaml.safe_dump(values))
        command = [HELM, "template", "carico", folder, "-n", namespace, "-f", file, "--kube-version", "1.34.0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ValueError(done.stderr)
        return list(yaml.safe_load_all(done.stdout))

    return run


def by_name(objects):
    found = {(thing["kind"], thing["metadata"].get("namespace"), thing["metadata"]["name"]): thing for thing in objects}
    assert len(found) == len(objects)
    return found


@needs_helm
class TestWithHelm:
    @pytest.mark.parametrize("option", OPTIONS)
    def test_it_renders_what_carico_deploy_applies(self, render, option):
        values, choices = OPTIONS[option]
        wanted = Choices(**{"variant": "demand"} | choices)
        namespace, *others = manifests(wanted)
        assert namespace["kind"] == "Namespace", "it must exist before Helm can install anything in it"
        assert by_name(render(values, wanted.namespace)) == by_name(others)

    def test_further_ports_of_the_api_server(self, render):
        objects = manifests(Choices(variant="demand"))[1:]
        let_reach_api_server(objects, {8443, 16443})
        assert by_name(render({"apiServerPorts": [8443, 16443]})) == by_name(objects)

    def test_monitoring(self, render):
        objects = [*manifests(Choices(variant="demand", namespace="elsewhere"))[1:], *operator_objects("elsewhere")]
        assert by_name(render({"monitoring": True}, "elsewhere")) == by_name(objects)

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"variant": "damand"}, "variant"),
            ({"imgae": "a:b"}, "imgae"),
            ({"variant": "thesis-rebased", "observe": True}, "so there is nothing to observe: use the variant demand"),
        ],
    )
    def test_values_that_make_no_sense_are_refused(self, render, values, message):
        with pytest.raises(ValueError, match=message):
            render(values)


class TestFiles:
    def test_values_are_the_defaults_of_carico_deploy_and_the_schema_knows_each(self):
        files = chart()
        values, schema = yaml.safe_load(files["values.yaml"]), json.loads(files["values.schema.json"])
        assert values.keys() == schema["properties"].keys() - {"global"}
        assert (values["image"], values["kubeSchedulerImage"]) == (IMAGE, KUBE_SCHEDULER_IMAGE)
        assert schema["properties"]["variant"]["enum"] == list(VARIANTS)
        assert yaml.safe_load(files["Chart.yaml"])["version"] == __version__

    def test_no_mark_is_left_and_every_value_that_is_used_has_a_default(self):
        files = chart()
        templates = {name: text for name, text in files.items() if name.startswith("templates/")}
        assert not [name for name, text in templates.items() if re.search(r"\bx-(?!ms)", text)]
        used = {name for text in templates.values() for name in re.findall(r"\.Values\.(\w+)", text)}
        assert used == yaml.safe_load(files["values.yaml"]).keys()

    def test_every_object_but_the_namespace_is_in_a_template(self):
        text = "\n".join(text for name, text in chart().items() if name.startswith("templates/"))
        for thing in manifests(Choices())[1:]:
            assert f"kind: {thing['kind']}\nmetadata:\n  name: {thing['metadata']['name']}\n" in text

    def test_who_observes_gets_no_template_of_rights_to_schedule(self):
        text = chart()["templates/scheduling.yaml"]
        assert text.startswith("{{- if not .Values.observe }}\n")
        assert text.endswith("\n{{- end }}\n")
        assert text.count("{{- if") == 1, "no other condition ends this one early"


def test_the_command_writes_a_chart_and_spares_what_is_there(tmp_path, capsys):
    folder = tmp_path / "carico"
    assert main(["helm-chart", str(folder)]) == 0
    written = {str(file.relative_to(folder)): file.read_text() for file in folder.rglob("*") if file.is_file()}
    assert written == chart()
    assert "helm install carico" in capsys.readouterr().out
    assert main(["helm-chart", str(folder)]) == 0, "a chart may be replaced"
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert main(["helm-chart", str(tmp_path / "mine")]) == 1
    assert "is not empty and holds no chart of CARICO's" in capsys.readouterr().err
