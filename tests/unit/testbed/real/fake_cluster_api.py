"""A Kubernetes cluster of a few lines, over real HTTP: objects by their paths, and pods that live in no time."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

STAMP = "2026-11-21T00:00:00Z"


class FakeClusterApi:
    """Jobs get their pods at once; these are bound to the first node, run and succeed, unless `ending` says otherwise.

    Parameters
    ----------
    ending : str
        Phase that pods end in; nothing leaves them unbound.
    """

    def __init__(self):
        self.objects = {}
        self.asked = []
        self.ending = "Succeeded"
        self.reason = "Completed"
        self.log = ""
        self.forbidden = set()
        self._events = []
        self._news = threading.Condition()
        self._over = False
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do(self):
                owner._answer(self)

            do_GET = do_POST = do_DELETE = do_PATCH = do  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        with self._news:
            self._over = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def within(self, prefix):
        """The objects of a collection, or of everything below a path."""
        with self._news:
            return [found for path, found in sorted(self.objects.items()) if path.startswith(f"{prefix}/")]

    def put(self, path, content):
        with self._news:
            self.objects[path] = content

    def _answer(self, handler):
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        body = json.loads(handler.rfile.read(int(handler.headers.get("Content-Length") or 0)) or b"{}")
        self.asked.append((handler.command, url.path))
        if query.get("watch", "").lower() == "true":
            self._watch(handler)
            return
        status, answer = getattr(self, f"_{handler.command.lower()}")(url.path, query, body)
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _get(self, path, query, body):
        if path.endswith("/serviceaccounts/default"):
            return 200, {}
        if path == "/version/":
            return 200, {"gitVersion": "v1.34.4"}
        name = path.rpartition("/")[2]
        if name == "log":
            return 200, self.log
        if name in ("namespaces", "nodes", "jobs", "events", "pods", "daemonsets", "statefulsets"):
            below = path
            if wanted := query.get("fieldSelector"):
                below = f"/api/v1/namespaces/{wanted.partition('=')[2]}/pods"
            items = [one for one in self._collection(below) if _has_labels(one, query.get("labelSelector"))]
            return 200, {"metadata": {"resourceVersion": str(len(self._events))}, "items": items}
        with self._news:
            return (200, self.objects[path]) if path in self.objects else (404, {})

    def _collection(self, path):
        depth = path.count("/") + 1
        with self._news:
            return [one for at, one in sorted(self.objects.items()) if at.startswith(path) and at.count("/") == depth]

    def _post(self, path, query, body):
        if path.endswith("/selfsubjectaccessreviews"):
            asked = body["spec"]["resourceAttributes"]
            return 201, {"status": {"allowed": f"{asked['verb']} {asked['resource']}" not in self.forbidden}}
        body["metadata"] |= {"uid": f"uid-{path}-{body['metadata']['name']}", "resourceVersion": "1"}
        kind = path.rpartition("/")[2]
        if kind == "nodes":
            body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            body["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready"}]}
        if "dryRun" not in query:
            self.put(f"{path}/{body['metadata']['name']}", body)
        if kind == "jobs":
            self._work(path, body)
        if kind == "pods":
            body["metadata"]["namespace"] = path.split("/")[4]
            self._live(body | {"status": {"phase": "Pending"}}, body["spec"].get("nodeName"))
        return 201, body

    def _patch(self, path, query, body):
        with self._news:
            if path not in self.objects:
                return 404, {}
            found = self.objects[path]
            if "metadata" in body:
                found["metadata"].setdefault("annotations", {}).update(body["metadata"]["annotations"])
            else:
                found["spec"].pop("taints")
        return 200, {}

    def _delete(self, path, query, body):
        with self._news:
            gone = [self.objects.pop(at) for at in list(self.objects) if at == path or at.startswith(f"{path}/")]
            self._events += [("DELETED", one) for one in gone if "phase" in one.get("status", {})]
            self._news.notify_all()
        return (200, {}) if gone or path.endswith(("/jobs", "/pods")) else (404, {})

    def _work(self, path, job):
        namespace = path.split("/")[5]
        node = self._collection("/api/v1/nodes")[0]["metadata"]["name"]
        for index in range(job["spec"]["completions"]):
            template = job["spec"]["template"]
            name = f"{job['metadata']['name']}-{index}-x"
            pod = {
                "metadata": {
                    **template["metadata"],
                    "name": name,
                    "namespace": namespace,
                    "uid": f"{namespace}-{name}",
                },
                "spec": dict(template["spec"]),
                "status": {"phase": "Pending"},
            }
            self._live(pod, node)
        if self.ending == "Failed":
            job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}

    def _live(self, pod, node):
        self._tell("ADDED", pod)
        if not self.ending or node is None:
            return
        bound = pod | {"spec": pod["spec"] | {"nodeName": node}}
        self._tell("MODIFIED", bound)
        self._tell("MODIFIED", bound | {"status": {"phase": "Running"}})
        ended = {"phase": self.ending, "containerStatuses": [{"state": {"terminated": {"reason": self.reason}}}]}
        self._tell("MODIFIED", bound | {"status": ended})

    def _tell(self, kind, pod):
        with self._news:
            version = str(len(self._events) + 1)
            pod = pod | {"metadata": pod["metadata"] | {"resourceVersion": version}}
            self._events.append((kind, pod))
            self.objects[f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"] = pod
            self._news.notify_all()

    def _watch(self, handler):
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        sent = 0
        while True:
            with self._news:
                while not self._over and len(self._events) == sent:
                    self._news.wait()
                if self._over:
                    break
                news, sent = self._events[sent:], len(self._events)
            for kind, pod in news:
                line = json.dumps({"type": kind, "object": pod}).encode() + b"\n"
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()
        handler.close_connection = True


def _has_labels(thing, selector):
    labels = thing["metadata"].get("labels", {})
    wanted = [term.partition("=") for term in selector.split(",")] if selector else []
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in wanted)
