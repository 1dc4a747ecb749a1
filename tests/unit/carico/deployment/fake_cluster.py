"""A Kubernetes API server that keeps objects, over real HTTP: applied, read, listed by labels, deleted."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

KINDS = {
    "namespaces": ("v1", "Namespace"),
    "nodes": ("v1", "Node"),
    "pods": ("v1", "Pod"),
    "secrets": ("v1", "Secret"),
    "configmaps": ("v1", "ConfigMap"),
    "daemonsets": ("apps/v1", "DaemonSet"),
    "statefulsets": ("apps/v1", "StatefulSet"),
    "leases": ("coordination.k8s.io/v1", "Lease"),
}


class FakeCluster:
    """Serves until it is closed.

    Attributes
    ----------
    objects : dict
        By path.
    refuse : dict
        Status and message of requests that are refused, by verb and the end of the path.
    log : list
        Verb and path of what has changed something.
    """

    def __init__(self):
        self.objects = {}
        self.refuse = {}
        self.log = []
        self.queries = []
        self.proxied = {}
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # one packet an answer

            def do_GET(self):
                owner.answer(self, "GET")

            def do_PATCH(self):
                owner.answer(self, "PATCH")

            def do_DELETE(self):
                owner.answer(self, "DELETE")

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def add(self, path, **content):
        """Put an object there as somebody else would."""
        self.objects[path] = {"metadata": {"name": path.rpartition("/")[2]}} | content

    def answer(self, handler, verb):
        url = urlsplit(handler.path)
        path = unquote(url.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        length = int(handler.headers.get("Content-Length") or 0)
        body = json.loads(handler.rfile.read(length)) if length else None
        for (refused, end), (status, message) in self.refuse.items():
            if refused == verb and path.endswith(end):
                self._send(handler, status, {"kind": "Status", "message": message})
                return
        if verb != "GET":
            self.log.append((verb, path))
            self.queries.append(query)
        self._send(handler, *self._do(verb, path, query, body, handler.headers.get("Content-Type")))

    def _do(self, verb, path, query, body, kind):
        missing = 404, {"kind": "Status", "message": f"{path} not found"}
        if "/proxy/" in path:
            return (200, self.proxied[path]) if path in self.proxied else missing
        if verb == "PATCH" and kind == "application/apply-patch+yaml":
            self.objects[path] = body | {"metadata": {"creationTimestamp": "2030-01-01T00:00:00Z"} | body["metadata"]}
            return 200, body
        if path in self.objects:
            if verb == "DELETE":
                gone = self.objects.pop(path)
                for inside in [each for each in self.objects if each.startswith(f"{path}/")]:
                    del self.objects[inside]
                return 200, gone
            if verb == "PATCH":
                annotations = self.objects[path]["metadata"].setdefault("annotations", {})
                annotations.update(body["metadata"]["annotations"])
                for name in [name for name, value in annotations.items() if value is None]:
                    del annotations[name]
            return 200, self.objects[path]
        if verb == "GET" and path.rpartition("/")[2] in (*KINDS, *self._plurals()):
            return 200, {"metadata": {}, "items": list(self._listed(path, query.get("labelSelector", "")))}
        return missing

    def _plurals(self):
        return {path.rsplit("/", 2)[1] for path in self.objects} | {
            "services",
            "serviceaccounts",
            "networkpolicies",
            "poddisruptionbudgets",
            "roles",
            "rolebindings",
            "clusterroles",
            "clusterrolebindings",
            "priorityclasses",
            "validatingadmissionpolicies",
            "validatingadmissionpolicybindings",
        }

    def _listed(self, path, selector):
        group, _, plural = path.rpartition("/")
        wanted = dict(each.split("=") for each in selector.split(",") if each)
        for where, thing in self.objects.items():
            folder = where.rpartition("/")[0]
            everywhere = folder.startswith(f"{group}/namespaces/") and folder.endswith(f"/{plural}")
            if folder != path and not (everywhere and folder.count("/") == path.count("/") + 2):
                continue
            if wanted.items() <= (thing["metadata"].get("labels") or {}).items():
                yield {key: value for key, value in thing.items() if key not in ("apiVersion", "kind")}

    @staticmethod
    def _send(handler, status, content):
        body = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
