"""Calls of the Kubernetes API over real HTTP."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from types import SimpleNamespace

import kubernetes.client
import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, incluster_config

from carico.errors import InvalidConfig, KubeRefused, KubeUnreachable
from carico.kube.client import KubeClient
from tests.kits.fake_api_server import pod


def test_lists_pods_page_by_page(client, server):
    server.set_pods(*(pod(f"p{i}") for i in range(1200)))
    pods, version = client.pods("spec.schedulerName=carico").list()
    assert ([item["metadata"]["name"] for item in pods], version) == ([f"p{i}" for i in range(1200)], "100")
    assert [request.query.get("continue") for request in server.asked] == [None, "500", "1000"]
    assert {request.query["fieldSelector"] for request in server.asked} == {"spec.schedulerName=carico"}


def test_watches_from_a_version(client, server):
    server.watches = [[("ADDED", pod("a", 7)), ("BOOKMARK", {"metadata": {"resourceVersion": "9"}})]]
    events = list(client.pods("spec.schedulerName=carico").watch("5"))
    assert [(kind, event["metadata"]["resourceVersion"]) for kind, event in events] == [
        ("ADDED", "7"),
        ("BOOKMARK", "9"),
    ]
    (query,) = [request.query for request in server.asked]
    assert (query["resourceVersion"], query["fieldSelector"]) == ("5", "spec.schedulerName=carico")
    assert query["allowWatchBookmarks"].lower() == "true"


def test_an_event_may_come_in_pieces(client, server):
    line = json.dumps({"type": "ADDED", "object": pod("a")}).encode() + b"\n"
    server.watches = [[line[:10], line[10:] + line]]
    assert [kind for kind, _ in client.pods("x=y").watch("5")] == ["ADDED", "ADDED"]


@pytest.mark.parametrize("silence_s", [0.3])
def test_a_stream_that_falls_silent_ends(client, server):
    server.watches = [[("ADDED", pod("a")), "stall"]]
    assert [kind for kind, _ in client.pods("x=y").watch("5")] == ["ADDED"]


def test_a_stream_that_breaks_off_is_an_error(client, server):
    server.watches = [[("ADDED", pod("a")), "cut"]]
    events = client.pods("x=y").watch("5")
    assert next(events)[0] == "ADDED"
    with pytest.raises(KubeUnreachable, match="broke off"):
        next(events)


NO_PODS = [
    {"metadata": {"name": "a", "resourceVersion": "1"}},
    pod("a") | {"spec": 3},
    pod("a") | {"metadata": None},
    pod("a") | {"metadata": {"uid": "a", "resourceVersion": "1", "ownerReferences": ["Job"]}},
    pod("a") | {"metadata": {"uid": "a", "resourceVersion": "1", "annotations": "many"}},
]


@pytest.mark.parametrize("no_pod", NO_PODS)
def test_a_malformed_pod_is_an_error(client, server, no_pod):
    server.set_pods(no_pod)
    server.watches = [[("ADDED", no_pod)]]
    with pytest.raises(KubeUnreachable, match="sent a malformed object"):
        client.pods("x=y").list()
    with pytest.raises(KubeUnreachable, match="sent a malformed object"):
        list(client.pods("x=y").watch("5"))


@pytest.mark.parametrize(
    "line",
    [
        b"nonsense\n",
        b"[]\n",
        b"{}\n",
        b'{"type": "ERROR", "object": 3}\n',
        b'{"type": "BOOKMARK", "object": {}}\n',
        b'{"type": "AD',
    ],
)
def test_a_malformed_event_is_an_error(client, server, line):
    server.watches = [[line]]
    with pytest.raises(KubeUnreachable):
        list(client.pods("x=y").watch("5"))


@pytest.mark.parametrize("script", [["gone"], [("ERROR", {"code": 410, "message": "too old"})]], ids=["http", "event"])
def test_a_version_that_is_too_old_is_refused_with_410(client, server, script):
    server.watches = [script]
    with pytest.raises(KubeRefused) as refused:
        list(client.pods("x=y").watch("5"))
    assert refused.value.status == 410


def test_a_watch_that_waits_in_another_thread_ends_with_the_selection(client, server):
    server.watches = [[("ADDED", pod("a")), "stall"]]
    pods = client.pods("x=y")
    events = pods.watch("5")
    assert next(events)[0] == "ADDED"
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(list, events)
        pods.close()
        assert rest.result(timeout=2) == []
    assert list(pods.watch("5")) == [], "nor does a later one wait"


def test_annotates_a_node(client, server):
    server.put("/api/v1/nodes/node-1")
    client.annotate_node("node-1", {"carico.dev/capacity": "1.50"})
    (change,) = server.changes
    assert (change.method, change.path) == ("PATCH", "/api/v1/nodes/node-1")
    assert change.content_type == "application/merge-patch+json"
    assert change.body == {"metadata": {"annotations": {"carico.dev/capacity": "1.50"}}}


def test_fetches_a_node_and_its_metrics(client, server):
    node, metrics = "/api/v1/nodes/node-1", "/apis/metrics.k8s.io/v1beta1/nodes/node-1"
    server.put(node, status={"allocatable": {"cpu": "4", "memory": "8Gi"}})
    server.put(metrics, usage={"cpu": "1"})
    assert client.node("node-1")["status"]["allocatable"] == {"cpu": "4", "memory": "8Gi"}
    assert client.node_metrics("node-1") == {"metadata": {"name": "node-1"}, "usage": {"cpu": "1"}}
    assert [request.path for request in server.asked] == [node, metrics]


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_has_the_servers_status(client, server, status):
    server.statuses = [status]
    with pytest.raises(KubeRefused, match=f"answered {status}") as refused:
        client.pods("x=y").list()
    assert refused.value.status == status


@pytest.mark.parametrize("body", [b"", b"no", b"\xff", b'{"message": 3}', b'{"more":' + b"[" * 100_000])
def test_a_refusal_whose_body_makes_no_sense_is_one_all_the_same(client, body):
    def refused(**options):
        error = ApiException(status=403, reason="Forbidden")
        error.body = body
        raise error

    with pytest.raises(KubeRefused, match="answered 403: Forbidden"):
        client.get(refused)


def test_a_missing_server_is_an_error():
    client = KubeClient(kubernetes.client.Configuration(host="http://127.0.0.1:9"), connect_s=1)
    wanted = "^the Kubernetes API cannot be reached at http://127.0.0.1:9: Connection refused$"
    with pytest.raises(KubeUnreachable, match=wanted):
        client.pods("x=y").list()


def test_a_server_that_is_silent_is_one_plain_sentence():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        client = KubeClient(kubernetes.client.Configuration(host=address), connect_s=1, silence_s=0.1)
        with pytest.raises(KubeUnreachable, match=rf"^the Kubernetes API .* reached at {address}: Read timed out\."):
            client.pods("x=y").list()


def test_an_empty_token_file_is_an_error(server):
    def refresh(configuration):
        raise ConfigException("Token file exists but empty.")

    configuration = kubernetes.client.Configuration(host=server.url, api_key={"BearerToken": "old"})
    configuration.refresh_api_key_hook = refresh
    with pytest.raises(KubeUnreachable, match="Token file exists but empty"):
        KubeClient(configuration).pods("x=y").list()


class TestTokens:
    """The token of an account expires, and whoever keeps it replaces the file."""

    def test_a_token_of_an_account_and_how_long_it_lasts(self, client, server):
        path = "/api/v1/namespaces/carico/serviceaccounts/carico-extender/token"
        server.tokens[path] = "fresh", 1800
        assert client.account_token("carico", "carico-extender", 3600) == ("fresh", 1800)
        assert server.asked[-1].body == {"spec": {"expirationSeconds": 3600}}

    @pytest.mark.parametrize(
        "token",
        [
            *(("", 3600), (None, 3600), ("fresh", None)),
            *((token, 3600) for token in ("fr\u00e9sh", "fresh\n", "fresh\r\nHost: another")),
            *(("fresh", life_s) for life_s in (0, -3600, 10**11, 10**30)),
        ],
    )
    def test_an_answer_without_one_is_an_error(self, client, server, token):
        server.tokens["/api/v1/namespaces/carico/serviceaccounts/carico-extender/token"] = token
        with pytest.raises(KubeUnreachable, match="malformed object"):
            client.account_token("carico", "carico-extender", 3600)

    def test_a_pods_file_is_read_again_after_a_minute_so_that_a_replaced_token_is_used(
        self, server, tmp_path, monkeypatch
    ):
        for name in ("TOKEN", "CERT"):
            (tmp_path / name).write_text("first")
            monkeypatch.setattr(incluster_config, f"SERVICE_{name}_FILENAME", str(tmp_path / name))
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")

        class OverHttp(incluster_config.InClusterConfigLoader):
            def _load_config(self):
                super()._load_config()
                self.host = server.url

        monkeypatch.setattr(incluster_config, "InClusterConfigLoader", OverHttp)
        client = KubeClient.from_config()
        client.pods("x=y").list()
        (tmp_path / "TOKEN").write_text("second")

        class InAMinute(datetime):
            @classmethod
            def now(cls, tz=None):
                return datetime.now(tz) + timedelta(seconds=61)

        monkeypatch.setattr(incluster_config, "datetime", SimpleNamespace(datetime=InAMinute, timedelta=timedelta))
        client.pods("x=y").list()
        client.close()
        assert [each.token for each in server.asked] == ["bearer first", "bearer second"]


class TestConfiguration:
    def test_a_kubeconfig_is_used(self, server, tmp_path):
        server.set_pods(pod("a"))
        client = KubeClient.from_config(str(server.kubeconfig(tmp_path)))
        assert len(client.pods("x=y").list()[0]) == 1
        client.close()

    def test_a_kubeconfig_that_does_not_exist_is_said_to_be_missing(self, tmp_path):
        with pytest.raises(InvalidConfig, match=r"the kubeconfig .*/gone: there is no such file;"):
            KubeClient.from_config(str(tmp_path / "gone"))

    @pytest.mark.parametrize("content", ["", "[]", "{", "contexts: 3"])
    def test_a_bad_kubeconfig_is_an_error(self, tmp_path, content):
        file = tmp_path / "kubeconfig"
        file.write_text(content)
        with pytest.raises(InvalidConfig, match="the kubeconfig"):
            KubeClient.from_config(str(file))

    def test_outside_a_cluster_a_kubeconfig_is_needed(self, monkeypatch):
        monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
        with pytest.raises(InvalidConfig, match="name a kubeconfig"):
            KubeClient.from_config()
