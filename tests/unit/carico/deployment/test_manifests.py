"""The shipped YAML: valid for the processes that read it, with only the rights stated here."""

import math
import os
import subprocess
import sys
from importlib.resources import files
from pathlib import PurePosixPath

import msgspec
import pytest
import yaml

from carico import __version__
from carico.config import (
    AgentConfig,
    AggregatorConfig,
    ExtenderConfig,
    KeptCostsConfig,
    SignerConfig,
    read_config,
)
from carico.deployment.authority import SIGNER
from carico.deployment.certificates import NODES_CA_SECRET, hosts_of
from carico.deployment.manifests import (
    IMAGE,
    KUBE_SCHEDULER_IMAGE,
    LABELS,
    LEASE,
    Choices,
    as_yaml,
    containers,
    let_reach_api_server,
    manifests,
)
from carico.enrolment.requester import NAME
from carico.enrolment.rules import ACCOUNT, NODE_OF_TOKEN, USAGES
from carico.enrolment.tokens import TOKEN, TOKEN_S
from carico.errors import InvalidInput, UnknownVariant
from carico.extender.process import ANNOTATION
from carico.podevents.pod_names import READY
from carico.podevents.source import PLATFORM_NAMESPACES
from carico.rpc.tls import is_loopback

FOLDER = files("carico") / "manifests"
OBJECTS = manifests(Choices())
WITH_PODS = [thing for thing in OBJECTS if "template" in thing.get("spec", {})]
CONFIGURATIONS = {
    "agent": AgentConfig,
    "aggregator": AggregatorConfig,
    "extender": ExtenderConfig,
    "signer": SignerConfig,
}


def waited_for(name):
    """Return the files without which a pod's containers do not begin: its last init container waits for them."""
    wait = pod(name)["initContainers"][-1]
    assert wait["command"][:3] == ["python3", "-m", "carico.waiting"]
    assert "restartPolicy" not in wait
    files = wait["command"][3:]
    mounts = [mount["mountPath"] for mount in wait["volumeMounts"]]
    assert sorted(mounts) == sorted(str(PurePosixPath(file).parent) for file in files)
    return files


def found(kind, name):
    (thing,) = [each for each in OBJECTS if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return thing


def pod(name):
    (thing,) = [each for each in WITH_PODS if each["metadata"]["name"] == name]
    return thing["spec"]["template"]["spec"]


def all_containers():
    return {
        f"{thing['metadata']['name']}/{container['name']}": (thing["spec"]["template"]["spec"], container)
        for thing in WITH_PODS
        for container in containers(thing["spec"]["template"])
    }


@pytest.fixture(params=CONFIGURATIONS)
def configuration(request, tmp_path):
    """A process's configuration from its pod's ConfigMap."""
    name = f"{request.param}.yaml"
    maps = [thing for thing in OBJECTS if thing["kind"] == "ConfigMap" and name in thing.get("data", ())]
    assert len(maps) == 1
    (tmp_path / name).write_text(maps[0]["data"][name])
    return read_config(tmp_path / name, CONFIGURATIONS[request.param])


class TestFiles:
    def test_every_file_is_listed(self):
        listed = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())
        named = {*listed["resources"], *(name for each in listed["configMapGenerator"] for name in each["files"])}
        there = {each.name for each in FOLDER.iterdir() if each.name.endswith(".yaml")}
        there |= {f"configuration/{each.name}" for each in (FOLDER / "configuration").iterdir()}
        assert named == there - {"kustomization.yaml"}

    def test_images_are_those_of_this_version(self):
        images = yaml.safe_load((FOLDER / "kustomization.yaml").read_text())["images"]
        assert {f"{each.get('newName', each['name'])}:{each['newTag']}" for each in images} == {
            IMAGE,
            KUBE_SCHEDULER_IMAGE,
        }
        assert IMAGE.endswith(__version__)

    def test_every_object_has_the_labels_that_undeploy_looks_for(self):
        for thing in OBJECTS:
            assert LABELS.items() <= thing["metadata"]["labels"].items(), thing["metadata"]["name"]
        for thing in WITH_PODS:
            labels = thing["spec"]["template"]["metadata"]["labels"]
            assert labels.items() >= {**LABELS, **thing["spec"]["selector"]["matchLabels"]}.items()

    def test_no_object_is_listed_twice(self):
        names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in OBJECTS]
        assert len(names) == len(set(names))


class TestPrivileges:
    @pytest.mark.parametrize("name", all_containers())
    def test_a_container_has_no_capability_and_a_read_only_image(self, name):
        spec, container = all_containers()[name]
        context = spec["securityContext"] | container["securityContext"]
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
        assert "privileged" not in context
        if name == "carico-agent/checkpoint-folder":
            assert (context["runAsUser"], context["runAsNonRoot"]) == (0, False), "root owns the folder"
            assert [mount["mountPath"] for mount in container["volumeMounts"]] == ["/var/lib/carico"]
        else:
            assert context["runAsNonRoot"] is True
            assert context["runAsUser"] > 0

    def test_only_agents_mount_host_folders_and_no_pod_shares_host_namespaces(self):
        for thing in WITH_PODS:
            spec = thing["spec"]["template"]["spec"]
            assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
            paths = {volume["hostPath"]["path"] for volume in spec["volumes"] if "hostPath" in volume}
            agents = {"/var/lib/carico", "/sys/fs/cgroup", "/var/log/pods"}
            assert paths == (agents if thing["kind"] == "DaemonSet" else set())

    def test_an_agent_can_only_write_its_checkpoint(self):
        (agent,) = pod("carico-agent")["containers"]
        assert [mount["mountPath"] for mount in agent["volumeMounts"] if not mount.get("readOnly")] == [
            "/var/lib/carico"
        ]
        assert not [mount for mount in agent["volumeMounts"] if "secrets" in mount["mountPath"]], "it has no token"

    def test_only_the_container_that_lists_pods_logs_is_in_roots_group_and_it_talks_to_nobody(self):
        """The kubelet lets root's group alone list /var/log/pods; the agent sees a copy of the folders' names."""
        in_roots_group, listing = set(), set()
        for name, (spec, container) in all_containers().items():
            pods = spec["securityContext"]
            groups = {(pods | container["securityContext"])["runAsGroup"], pods["fsGroup"]}
            assert groups <= {0, 65532}
            assert "supplementalGroups" not in pods
            if 0 in groups:
                in_roots_group.add(name)
            if any(mount["name"] == "pod-logs" for mount in container["volumeMounts"]):
                listing.add(name)
        assert in_roots_group == listing == {"carico-agent/pod-names"}
        _, container = all_containers()["carico-agent/pod-names"]
        assert {mount["name"] for mount in container["volumeMounts"]} == {"pod-logs", "pod-names"}, "it has no token"
        assert "ports" not in container

    def test_no_pod_has_a_token_unasked(self):
        for thing in WITH_PODS:
            name, spec = thing["metadata"]["name"], thing["spec"]["template"]["spec"]
            assert spec["serviceAccountName"] == name
            assert spec["automountServiceAccountToken"] is False
            assert found("ServiceAccount", name)["automountServiceAccountToken"] is False

    def test_only_five_containers_have_a_token_and_every_token_expires(self):
        folder = "/var/run/secrets/kubernetes.io/serviceaccount"
        (tokens,) = [container for name, (_, container) in all_containers().items() if name.endswith("/tokens")]
        kept = dict(each.split("=") for each in tokens["command"][2:])
        mounted = {mount["mountPath"]: mount["name"] for mount in tokens["volumeMounts"]}
        account_of = {mounted[at]: account for account, at in kept.items()}
        having = {}
        for name, (spec, container) in all_containers().items():
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            for mount in container["volumeMounts"]:
                volume = volumes[mount["name"]]
                assert "token" not in volume.get("secret", {}).get("secretName", "")
                for source in volume.get("projected", {}).get("sources", []):
                    if "serviceAccountToken" in source:
                        assert source["serviceAccountToken"]["expirationSeconds"] == TOKEN_S
                        having.setdefault(name, {})[mount["mountPath"]] = spec["serviceAccountName"]
                if mount["name"] in account_of:
                    assert volume["emptyDir"]["medium"] == "Memory"
                    assert mount.get("readOnly", False) is (name != "carico-scheduler/tokens")
                    having.setdefault(name, {})[mount["mountPath"]] = account_of[mount["name"]]
        assert having.pop("carico-scheduler/wait").keys() == set(kept.values()), "it may not read them"
        assert having == {
            "carico-scheduler/tokens": {
                folder: "carico-scheduler",
                "/run/carico/extender": "carico-extender",
                "/run/carico/signer": "carico-signer",
            },
            "carico-scheduler/kube-scheduler": {folder: "carico-scheduler"},
            "carico-scheduler/extender": {folder: "carico-extender"},
            "carico-scheduler/signer": {folder: "carico-signer"},
            "carico-agent/certificate": {folder: "carico-agent"},
        }

    def test_schedulers_wait_for_their_tokens(self):
        container, _ = pod("carico-scheduler")["initContainers"]
        assert container["restartPolicy"] == "Always", "it renews beside the schedulers"
        files = [f"{each.split('=')[1]}/{TOKEN}" for each in container["command"][2:]]
        assert waited_for("carico-scheduler") == files

    def test_only_the_signer_has_the_key_of_the_nodes_ca_and_nobody_that_of_many_nodes(self):
        mounting = set()
        for name, (spec, container) in all_containers().items():
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            for mount in container["volumeMounts"]:
                text = str(volumes[mount["name"]])
                assert "carico-agent-tls" not in text
                if NODES_CA_SECRET in text:
                    mounting.add(name)
        assert mounting == {"carico-scheduler/signer"}

    def test_a_nodes_key_is_in_memory_where_only_the_two_containers_of_its_pod_see_it(self):
        spec = pod("carico-agent")
        (volume,) = [each for each in spec["volumes"] if each["name"] == "certificate"]
        assert volume["emptyDir"]["medium"] == "Memory"
        mounts = {
            name: mount.get("readOnly", False)
            for name, (_, container) in all_containers().items()
            for mount in container["volumeMounts"]
            if mount["name"] == "certificate"
        }
        assert mounts.pop("carico-agent/wait"), "it may not read it"
        assert mounts == {"carico-agent/certificate": False, "carico-agent/agent": True}

    def test_who_waits_for_keys_and_tokens_may_not_read_them(self):
        """Both are written for their owner only."""
        for name in ("carico-agent", "carico-scheduler"):
            spec, container = all_containers()[f"{name}/wait"]
            assert spec["securityContext"]["runAsUser"] == 65532
            assert container["securityContext"]["runAsUser"] == 65533

    def test_roles_grant_exactly_these_rights(self):
        rules = {
            (each["kind"], each["metadata"]["name"]): each["rules"]
            for each in OBJECTS
            if each["kind"] in ("Role", "ClusterRole")
        }
        assert rules == {
            ("ClusterRole", "carico-agent"): [
                {
                    "apiGroups": ["certificates.k8s.io"],
                    "resources": ["certificatesigningrequests"],
                    "verbs": ["create", "get"],
                },
            ],
            ("ClusterRole", "carico-signer"): [
                {
                    "apiGroups": ["certificates.k8s.io"],
                    "resources": ["certificatesigningrequests"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["certificates.k8s.io"],
                    "resources": ["certificatesigningrequests/approval", "certificatesigningrequests/status"],
                    "verbs": ["update"],
                },
                {
                    "apiGroups": ["certificates.k8s.io"],
                    "resources": ["signers"],
                    "resourceNames": [SIGNER],
                    "verbs": ["approve", "sign"],
                },
            ],
            ("ClusterRole", "carico-extender"): [
                {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
            ],
            ("ClusterRole", "carico-extender-nodes"): [
                {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]},
            ],
            ("Role", "carico-scheduler-lock"): [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "resourceNames": [LEASE],
                    "verbs": ["get", "update"],
                },
            ],
            ("Role", "carico-scheduler"): [
                {
                    "apiGroups": [""],
                    "resources": ["serviceaccounts/token"],
                    "resourceNames": ["carico-extender", "carico-signer"],
                    "verbs": ["create"],
                },
            ],
            ("Role", "carico-extender"): [
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "resourceNames": [LEASE],
                    "verbs": ["get"],
                },
                {
                    "apiGroups": [""],
                    "resources": ["configmaps"],
                    "resourceNames": ["carico-costs"],
                    "verbs": ["get", "patch"],
                },
            ],
        }
        bindings = [each for each in OBJECTS if each["kind"].endswith("RoleBinding")]
        assert {each["roleRef"]["name"] for each in bindings} == {
            "carico-agent",
            "carico-extender",
            "carico-extender-nodes",
            "carico-scheduler",
            "carico-scheduler-lock",
            "carico-signer",
            "extension-apiserver-authentication-reader",
            "system:kube-scheduler",
            "system:volume-scheduler",
        }
        for each in bindings:
            role = each["roleRef"]["name"]
            accounts = ("carico-agent", "carico-extender", "carico-signer")
            account = next((name for name in accounts if role.startswith(name)), "carico-scheduler")
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": account, "namespace": "carico"}]

    def test_kube_scheduler_uses_the_lock_in_the_manifests(self):
        configuration = yaml.safe_load((FOLDER / "kube-scheduler.yaml").read_text())
        assert configuration["leaderElection"]["resourceName"] == LEASE
        (rule,) = found("ValidatingAdmissionPolicy", "carico-scheduler-lock")["spec"]["validations"]
        assert f"request.name == '{LEASE}'" in rule["expression"]

    def test_the_policy_admits_the_requests_that_agents_make(self):
        policy = found("ValidatingAdmissionPolicy", "carico-signing-requests")
        text = str(policy["spec"]["validations"])
        for wanted in (f"'{SIGNER}'", f"'{NODE_OF_TOKEN}'", f"'{NAME}'", *(f"'{usage}'" for usage in USAGES)):
            assert wanted in text
        assert policy["spec"]["matchConditions"][0]["expression"].endswith(f":{ACCOUNT}$')")

    def test_the_policy_admits_the_extenders_annotation(self):
        policy = found("ValidatingAdmissionPolicy", "carico-node-annotations")
        (rule,) = [each for each in policy["spec"]["validations"] if "annotations" in each["message"]]
        assert f"'{ANNOTATION}'" in rule["expression"]
        binding = found("ValidatingAdmissionPolicyBinding", "carico-node-annotations")
        assert binding["spec"]["policyName"] == policy["metadata"]["name"]


class TestConfigurations:
    def test_all_connections_beyond_loopback_use_tls(self, configuration):
        assert configuration.tls is not None
        assert not getattr(configuration, "insecure_loopback", False)
        assert configuration.status.tls or is_loopback(configuration.status.host)

    def test_all_configured_files_are_mounted(self, configuration):
        name = type(configuration).__name__.removesuffix("Config").lower()
        ((spec, container),) = [each for path, each in all_containers().items() if path.endswith(f"/{name}")]
        assert container["command"][:2] == ["carico", name]
        mounts = tuple(mount["mountPath"] + "/" for mount in container["volumeMounts"])
        needed = [*msgspec.structs.astuple(configuration.tls), container["command"][-1]]
        if name == "agent":
            needed += [configuration.checkpoint, configuration.cgroup + "/", configuration.pod_events.cgroup_root + "/"]
            needed += [configuration.pod_events.pod_logs + "/"]
        if name == "signer":
            needed.append(f"{configuration.authority}/ca.key")
        if name == "extender":
            needed += [configuration.journal.file, configuration.status.key]
        for file in needed:
            assert file.startswith(mounts), file
        volumes = {volume["name"] for volume in spec["volumes"]}
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes

    def test_configured_ports_are_declared_by_the_pod(self, configuration):
        name = type(configuration).__name__.removesuffix("Config").lower()
        ((_, container),) = [each for path, each in all_containers().items() if path.endswith(f"/{name}")]
        declared = {port["name"]: port["containerPort"] for port in container["ports"]}
        own = {
            "agent": {},
            "aggregator": {
                "grpc": getattr(configuration, "port", 0),
                "replicas": getattr(configuration, "replica_port", 0),
            },
            "extender": {"reports": getattr(configuration, "report_port", 0)},
            "signer": {},
        }
        status = "signer-status" if name == "signer" else "status"
        assert declared == own[name] | {status: configuration.status.port}
        for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
            probe = container[kind]
            assert (probe["httpGet"]["port"], probe["httpGet"]["scheme"]) == (status, "HTTPS")
            assert probe["timeoutSeconds"] == 5, "the default of 1 s is too short on a node that has no CPU left"

    def test_a_container_that_starts_slowly_is_not_restarted(self):
        for name in ("carico-agent", "carico-aggregator", "carico-scheduler"):
            for container in pod(name)["containers"]:
                probe = container["startupProbe"]
                longest_s = probe["periodSeconds"] * probe["failureThreshold"]
                assert longest_s == 300, container["name"]

    def test_no_probe_starts_a_program(self):
        """Where no CPU is left, starting a program takes longer than a probe may, and makes everything slower."""
        for name in ("carico-agent", "carico-aggregator", "carico-scheduler"):
            for container in (*pod(name).get("initContainers", ()), *pod(name)["containers"]):
                probes = [value for key, value in container.items() if key.endswith("Probe")]
                assert not [probe for probe in probes if "exec" in probe], container["name"]

    def test_agents_call_every_replica_by_a_name_in_its_certificate(self, tmp_path):
        (tmp_path / "agent.yaml").write_text(found("ConfigMap", "carico-agent")["data"]["agent.yaml"])
        agent = read_config(tmp_path / "agent.yaml", AgentConfig)
        hosts = hosts_of(OBJECTS)
        called = [address.rpartition(":")[0] for address in agent.schedulers]
        assert called == [host for host in hosts["extender"] if "." in host]
        assert len(called) == found("StatefulSet", "carico-scheduler")["spec"]["replicas"]
        assert agent.aggregator.rpartition(":")[0] in hosts["aggregator"]

    def test_aggregators_exchange_with_all_replicas(self, tmp_path):
        (tmp_path / "aggregator.yaml").write_text(found("ConfigMap", "carico-aggregator")["data"]["aggregator.yaml"])
        peers = read_config(tmp_path / "aggregator.yaml", AggregatorConfig).peers
        names = [host for host in hosts_of(OBJECTS)["aggregator"] if "." in host]
        assert [peer.rpartition(":")[0] for peer in peers] == names


POLICIES = [each for each in OBJECTS if each["kind"] == "NetworkPolicy"]


class TestNetworkPolicies:
    """Network policies admit exactly the connections that the components make."""

    @staticmethod
    def component(thing):
        return thing["metadata"]["labels"]["app.kubernetes.io/component"]

    def open_ports(self, component):
        """Return the ports that pods of a component declare."""
        (thing,) = [each for each in WITH_PODS if self.component(each) == component]
        return {
            port["containerPort"]
            for container in containers(thing["spec"]["template"])
            for port in container.get("ports", [])
        }

    def test_every_component_has_a_policy_that_selects_its_pods(self):
        assert {self.component(each) for each in POLICIES} == {self.component(each) for each in WITH_PODS}
        for policy in POLICIES:
            (thing,) = [each for each in WITH_PODS if self.component(each) == self.component(policy)]
            chosen = policy["spec"]["podSelector"]["matchLabels"]
            assert chosen.items() <= thing["spec"]["template"]["metadata"]["labels"].items()
            assert chosen["app.kubernetes.io/component"] == self.component(policy)

    def test_exactly_the_declared_ports_are_open(self):
        for policy in POLICIES:
            let_in = {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]}
            assert let_in == self.open_ports(self.component(policy))

    def test_egress_rules_match_ingress_rules(self):
        asked, let_in = set(), set()
        for policy in POLICIES:
            here = self.component(policy)
            for direction, pairs in (("egress", asked), ("ingress", let_in)):
                for rule in policy["spec"].get(direction, []):
                    for peer in rule.get("to", rule.get("from", [])):
                        there = peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"]
                        ends = (here, there) if direction == "egress" else (there, here)
                        pairs.update((*ends, port["port"]) for port in rule["ports"])
        assert (
            asked
            == let_in
            == {
                ("agent", "aggregator", 50051),
                ("agent", "scheduler", 50052),
                ("aggregator", "aggregator", 50053),
            }
        )

    def test_no_pod_may_connect_anywhere_but_to_the_api_server_and_dns(self):
        anywhere = {
            self.component(policy): [
                [port["port"] for port in rule["ports"]] for rule in policy["spec"]["egress"] if "to" not in rule
            ]
            for policy in POLICIES
        }
        assert all("Egress" in policy["spec"]["policyTypes"] for policy in POLICIES), "or everything is allowed"
        assert anywhere == {"agent": [[443, 6443], [53, 53]], "aggregator": [[53, 53]], "scheduler": [[443, 6443]]}

    def test_another_port_of_the_api_server_is_opened_where_it_is_needed(self):
        made = manifests(Choices())
        let_reach_api_server(made, {6443, 16443})
        opened = {
            self.component(each)
            for each in made
            if each["kind"] == "NetworkPolicy"
            and {"port": 16443} in [p for r in each["spec"]["egress"] for p in r["ports"]]
        }
        assert opened == {"agent", "scheduler"}


class TestDisruption:
    def test_a_disruption_may_stop_only_one_replica(self):
        budgets = {each["metadata"]["name"]: each["spec"] for each in OBJECTS if each["kind"] == "PodDisruptionBudget"}
        replicated = {
            each["metadata"]["name"]: each["spec"] for each in WITH_PODS if each["spec"].get("replicas", 1) > 1
        }
        assert budgets.keys() == replicated.keys()
        for name, budget in budgets.items():
            assert (
                budget["selector"]["matchLabels"].items() <= replicated[name]["template"]["metadata"]["labels"].items()
            )
            assert budget["maxUnavailable"] == 1, "so that a node with the only replica can be drained"

    def test_prometheus_scrapes_every_component(self):
        for thing in WITH_PODS:
            annotations = thing["spec"]["template"]["metadata"]["annotations"]
            statuses = {
                str(port["containerPort"])
                for container in containers(thing["spec"]["template"])
                for port in container.get("ports", [])
                if port["name"] == "status"
            }
            assert annotations["prometheus.io/scrape"] == "true"
            assert annotations["prometheus.io/scheme"] == "https"
            assert annotations["prometheus.io/port"] in statuses


class TestChoices:
    def test_another_namespace_replaces_only_our_own(self):
        moved = manifests(Choices("batch"))
        text = as_yaml(moved)
        assert "namespace: carico\n" not in text
        (reader,) = [each for each in moved if each["metadata"]["name"] == "carico-scheduler-authentication"]
        assert reader["metadata"]["namespace"] == "kube-system"
        assert reader["subjects"][0]["namespace"] == "batch"
        assert moved[0]["metadata"]["name"] == "batch"
        (configuration,) = [each for each in moved if each["metadata"]["name"] == "carico-agent" and "data" in each]
        assert "batch" in yaml.safe_load(configuration["data"]["agent.yaml"])["pod_events"]["excluded_namespaces"]

    def test_servers_and_schedulers_may_run_on_the_control_plane_only(self):
        for chosen in (False, True):
            templates = {
                each["kind"]: each["spec"]["template"]["spec"]
                for each in manifests(Choices(on_control_plane=chosen))
                if "template" in each.get("spec", {})
            }
            assert ("nodeSelector" in templates["StatefulSet"]) == chosen
            assert "nodeSelector" not in templates["DaemonSet"]
        assert templates["StatefulSet"]["tolerations"][0]["key"] in templates["StatefulSet"]["nodeSelector"]

    def test_extenders_know_the_namespaces_whose_pods_agents_do_not_count(self):
        made = manifests(Choices("batch", excluded_namespaces=("probes",)))
        maps = {each["metadata"]["name"]: each["data"] for each in made if "data" in each}
        agent = msgspec.convert(yaml.safe_load(maps["carico-agent"]["agent.yaml"]), AgentConfig)
        extender = msgspec.convert(yaml.safe_load(maps["carico-scheduler"]["extender.yaml"]), ExtenderConfig)
        assert extender.excluded_namespaces == (*PLATFORM_NAMESPACES, "batch", "probes")
        assert extender.excluded_namespaces == agent.pod_events.excluded_namespaces

    def test_agents_get_the_variant_and_the_excluded_namespaces(self):
        made = manifests(Choices(variant="thesis-literal", excluded_namespaces=("kube-system", "probes")))
        (configuration,) = [each for each in made if each["metadata"]["name"] == "carico-agent" and "data" in each]
        read = msgspec.convert(yaml.safe_load(configuration["data"]["agent.yaml"]), AgentConfig)
        assert read.variant == "thesis-literal"
        assert read.pod_events.excluded_namespaces == (*PLATFORM_NAMESPACES, "probes")
        with pytest.raises(UnknownVariant, match="no variant is named 'none'"):
            Choices(variant="none")

    def test_demand_is_for_agents_and_extenders_and_needs_no_aggregator(self):
        made = manifests(Choices(variant="demand"))
        assert not any("aggregator" in thing["metadata"]["name"] for thing in made)
        maps = {each["metadata"]["name"]: each["data"] for each in made if "data" in each}
        agent = msgspec.convert(yaml.safe_load(maps["carico-agent"]["agent.yaml"]), AgentConfig)
        extender = msgspec.convert(yaml.safe_load(maps["carico-scheduler"]["extender.yaml"]), ExtenderConfig)
        assert (agent.variant, extender.variant, agent.aggregator) == ("demand", "demand", None)

    @pytest.mark.parametrize("replicas", [1, 3])
    def test_any_number_of_replicas_know_each_other_and_are_called(self, replicas):
        made = manifests(Choices(replicas=replicas))
        maps = {each["metadata"]["name"]: each["data"] for each in made if "data" in each}
        hosts = hosts_of(made)
        schedulers, aggregators = (
            [host for host in hosts[server] if "." in host] for server in ("extender", "aggregator")
        )
        assert len(schedulers) == len(aggregators) == replicas
        agent = msgspec.convert(yaml.safe_load(maps["carico-agent"]["agent.yaml"]), AgentConfig)
        assert [address.rpartition(":")[0] for address in agent.schedulers] == schedulers
        aggregator = msgspec.convert(yaml.safe_load(maps["carico-aggregator"]["aggregator.yaml"]), AggregatorConfig)
        assert [address.rpartition(":")[0] for address in aggregator.peers] == aggregators

    def test_patience_lets_probes_wait_longer(self):
        def limits(choices):
            return {
                (thing["metadata"]["name"], container["name"], probe, limit): value
                for thing in manifests(choices)
                if "template" in thing.get("spec", {})
                for container in containers(thing["spec"]["template"])
                for probe, settings in container.items()
                if probe.endswith("Probe")
                for limit, value in settings.items()
                if limit != "httpGet"
            }

        usual, patient = limits(Choices()), limits(Choices(patience=2.5))
        assert usual.keys() == patient.keys()
        for key, value in usual.items():
            assert patient[key] == (value if key[-1] == "periodSeconds" else math.ceil(2.5 * value)), key

    @pytest.mark.parametrize(("choices", "until_counted"), [(Choices(), True), (Choices(until_counted=False), False)])
    def test_reservations_last_until_a_report_counts_the_pod(self, choices, until_counted):
        maps = {each["metadata"]["name"]: each["data"] for each in manifests(choices) if "data" in each}
        extender = msgspec.convert(yaml.safe_load(maps["carico-scheduler"]["extender.yaml"]), ExtenderConfig)
        assert extender.until_counted is until_counted

    @pytest.mark.parametrize("choices", [Choices(), Choices(namespace="other", variant="demand", observe=True)])
    def test_what_workloads_cost_is_kept_in_a_config_map_that_no_deployment_resets(self, choices):
        made = manifests(choices)
        (kept,) = [each for each in made if each["metadata"]["name"] == "carico-costs"]
        assert kept["metadata"]["namespace"] == choices.namespace
        assert "data" not in kept, "server-side apply leaves what this does not mention to the extender"
        (configuration,) = [each for each in made if each["metadata"]["name"] == "carico-scheduler" and "data" in each]
        extender = msgspec.convert(yaml.safe_load(configuration["data"]["extender.yaml"]), ExtenderConfig)
        assert extender.kept_costs == KeptCostsConfig("carico-costs", lease=LEASE)
        (schedulers,) = [
            each
            for each in made
            if each["metadata"]["name"] == "carico-scheduler" and "template" in each.get("spec", {})
        ]
        (container,) = [each for each in containers(schedulers["spec"]["template"]) if each["name"] == "extender"]
        assert [each["name"] for each in container["env"]] == ["NAMESPACE"]

    def test_who_observes_runs_no_kube_scheduler(self):
        (schedulers,) = [
            each for each in manifests(Choices(variant="demand", observe=True)) if each["kind"] == "StatefulSet"
        ]
        assert [each["name"] for each in containers(schedulers["spec"]["template"])] == [
            "tokens",
            "wait",
            "extender",
            "signer",
        ]
        with pytest.raises(InvalidInput, match="there is nothing to observe: use the variant demand"):
            Choices(observe=True)

    def test_who_observes_may_not_schedule(self):
        observing = manifests(Choices(variant="demand", observe=True))
        rules = {
            each["metadata"]["name"]: [(rule["resources"], rule["verbs"]) for rule in each["rules"]]
            for each in observing
            if each["kind"] in ("Role", "ClusterRole")
        }
        assert rules["carico-scheduler"] == [(["serviceaccounts/token"], ["create"])]
        assert "carico-extender-nodes" not in rules
        bindings = [each for each in observing if each["kind"].endswith("RoleBinding")]
        assert {each["roleRef"]["name"] for each in bindings} == {
            "carico-agent",
            "carico-extender",
            "carico-scheduler",
            "carico-signer",
        }
        policies = [each["metadata"]["name"] for each in observing if each["kind"] == "ValidatingAdmissionPolicy"]
        assert policies == ["carico-signing-requests"], "there is nothing for the others to limit"

    def test_rights_are_limited_before_they_are_given(self):
        order = [(each["kind"], each["metadata"]["name"]) for each in OBJECTS]
        for policy, right in {
            "carico-scheduler-lock": ("ClusterRoleBinding", "carico-scheduler"),
            "carico-node-annotations": ("ClusterRoleBinding", "carico-extender-nodes"),
            "carico-signing-requests": ("ClusterRoleBinding", "carico-agent"),
        }.items():
            assert order.index(("ValidatingAdmissionPolicyBinding", policy)) < order.index(right)

    def test_images(self):
        moved = manifests(
            Choices(image="registry.example/carico:7", kube_scheduler_image="registry.example/ks:v1.33.1")
        )
        used = {
            container["image"]
            for thing in moved
            if "template" in thing.get("spec", {})
            for container in containers(thing["spec"]["template"])
        }
        assert used == {"registry.example/carico:7", "registry.example/ks:v1.33.1"}

    def test_changed_telemetry_rolls_only_the_agents(self):
        def digests(choices):
            return {
                thing["metadata"]["name"]: thing["spec"]["template"]["metadata"]["annotations"][
                    "carico.dev/configuration"
                ]
                for thing in manifests(choices)
                if "template" in thing.get("spec", {})
            }

        procfs, cgroup = digests(Choices()), digests(Choices(telemetry="cgroup"))
        assert {name for name in procfs if procfs[name] != cgroup[name]} == {"carico-agent"}

    @pytest.mark.parametrize(
        "wrong",
        [
            {"namespace": "Batch"},
            {"namespace": "a.b"},
            {"namespace": "a" * 64},
            {"image": ""},
            {"image": "a b"},
            {"image": "carico@sha256:12"},
            {"kube_scheduler_image": "ks@md5:" + "0" * 64},
            {"image": "@sha256:" + "0" * 64},
            {"replicas": 0},
            {"patience": 0.5},
            {"patience": math.inf},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, wrong):
        with pytest.raises(InvalidInput, match="got"):
            Choices(**wrong)


class TestInitContainers:
    """The programs of init containers, run with folders of the test in place of the container's."""

    def run(self, name, folder, *, beforehand="", **environment):
        (container,) = [each for each in pod("carico-agent")["initContainers"] if each["name"] == name]
        _, flag, program = container["command"]
        program = program.replace("/var/lib/carico", str(folder / "var/lib/carico"))
        return subprocess.run(
            [sys.executable, flag, beforehand + program], env=environment, capture_output=True, text=True, timeout=60
        )

    def test_the_agent_waits_for_its_certificate_in_the_file_that_it_reads(self, tmp_path):
        (container,) = [each for each in pod("carico-agent")["initContainers"] if each["name"] == "certificate"]
        agent = yaml.safe_load(found("ConfigMap", "carico-agent")["data"]["agent.yaml"])
        assert container["restartPolicy"] == "Always", "it renews beside the agent"
        options = dict(option.removeprefix("--").split("=") for option in container["command"][3:])
        assert options == {"out": agent["tls"]["certificate"], "nodes-ca": agent["tls"]["nodes_ca"]}
        assert agent["tls"]["key"] == options["out"]
        assert waited_for("carico-agent") == [options["out"], f"{agent['pod_events']['pod_logs']}/{READY}"]
        parsed = subprocess.run(
            [sys.executable, "-m", "carico", "enrol", *container["command"][3:], "--help"],
            capture_output=True,
            timeout=60,
        )
        assert parsed.returncode == 0, parsed.stderr

    def test_the_checkpoint_folder_becomes_writable_for_the_group(self, tmp_path):
        folder = tmp_path / "var/lib/carico"
        folder.mkdir(parents=True, mode=0o755)
        done = self.run("checkpoint-folder", tmp_path)
        assert done.returncode == 0, done.stderr
        assert folder.stat().st_mode & 0o777 == 0o770
        assert folder.stat().st_gid == os.getgid()

    def test_a_read_only_disk_does_not_keep_the_agent_from_starting(self, tmp_path):
        read_only = (
            "import os\ndef refuse(path, *_): raise OSError(30, 'Read-only file system', path)\nos.chown = refuse\n"
        )
        done = self.run("checkpoint-folder", tmp_path, beforehand=read_only)
        assert (done.returncode, done.stderr) == (0, "")
        assert "Read-only file system" in done.stdout
        assert "mend the node's disk" in done.stdout
