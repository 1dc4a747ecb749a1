"""A small fake Kubernetes API server over real HTTP: it stores objects by path and serves watches of pods.

No controller acts on its objects; `fake_cluster` does. It supports label selectors and the field selector of a pod's
namespace. It serves watches of signing requests, too, whose maker it notes as the real one does.
"""

import json
import re
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from carico.http.key import HEADER

CREATED = "2030-01-01T00:00:00Z"
_PATH = re.compile(
    r"(?P<group>/api/v1|/apis/[^/]+/[^/]+)(/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<plural>[^/]+)(/(?P<name>[^/]+)(?P<part>/.+)?)?"
)
_GROUP_VERSION = re.compile(r"/apis/[^/]+/[^/]+/?")


def pod(name, version=1, node="", phase="Pending"):
    return {
        "metadata": {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"schedulerName": "carico"} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    }


class Request(NamedTuple):
    method: str
    path: str
    query: dict[str, str]
    content_type: str | None
    body: Any
    key: str | None = None
    """The header Carico-Key, for a pod."""
    token: str | None = None
    """The header Authorization."""


class FakeApiServer:
    """Serves until closed.

    Attributes
    ----------
    objects : dict
        Answers to GET requests, by path.
    asked : list of Request
        All requests.
    changes : list of Request
        Requests that were not refused and may have changed objects.
    unknown : set of str
        Groups of the API that the server does not have.
    refuse : dict
        Status and message of refused requests, by method and end of the path.
    statuses : list of int
        Statuses with which the next requests are refused, in turn.
    forbidden : set of str
        Rights such as "patch namespaces" that access reviews deny.
    silent : tuple of str and threading.Event
        A path whose requests are answered only when the event is set.
    log : str
        The log of every container.
    tokens : dict
        Token and life, seconds, with which requests for tokens of accounts are answered, by path.
    user : dict
        The `username` and `extra` of who makes signing requests.
    watches : list of list
        Scripts of the next watches. A step is an event (kind, object), raw bytes, "cut" (the connection breaks) or
        "stall" (silence until the server closes); a script of "gone" alone answers 410 instead of a stream. Watches
        without a script serve the changes of pods.
    """

    def __init__(self):
        self.objects = {}
        self.asked, self.changes = [], []
        self.unknown = {"cert-manager.io"}
        self.refuse, self.statuses, self.forbidden = {}, [], set()
        self.silent = "", threading.Event()
        self.log = ""
        self.user, self.tokens = {}, {}
        self.watches = []
        self.version = 100
        self._events = []
        self._news = threading.Condition()
        self._over = False
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do(self):
                owner._answer(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do  # noqa: N815

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self):
        with self._news:
            self._over = True
            self._news.notify_all()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def kubeconfig(self, folder):
        """Write a kubeconfig that names this server, and return its path."""
        named = {"name": "fake"}
        config = {
            "clusters": [named | {"cluster": {"server": self.url}}],
            "users": [named | {"user": {"token": "secret"}}],
            "contexts": [named | {"context": {"cluster": "fake", "user": "fake"}}],
            "current-context": "fake",
        }
        file = folder / "kubeconfig"
        file.write_text(json.dumps(config))  # JSON is YAML
        return file

    def put(self, path, **content):
        """Add or replace an object; watches report it if it is a pod."""
        thing = {"metadata": {"name": path.rpartition("/")[2]}} | content
        with self._news:
            self.objects[path] = self._recorded("MODIFIED" if path in self.objects else "ADDED", path, thing)

    def set_pods(self, *pods):
        """Replace all pods by these; no watch reports it."""
        with self._news:
            self.objects = {path: thing for path, thing in self.objects.items() if "/pods/" not in path}
            self.objects |= {f"/api/v1/namespaces/jobs/pods/{number:05}": one for number, one in enumerate(pods)}

    def within(self, path):
        """Return the objects below a path."""
        with self._news:
            return [thing for at, thing in sorted(self.objects.items()) if at.startswith(f"{path}/")]

    def created(self, path, thing):
        """React to an object that a request has created; subclasses override this."""

    def _recorded(self, event, path, thing):
        """Record a change of a pod for the watches, and return the object with its new version."""
        place = _PATH.fullmatch(path)
        if place and place["plural"] in ("pods", "certificatesigningrequests") and not place["part"]:
            self.version += 1
            thing = thing | {"metadata": thing["metadata"] | {"resourceVersion": str(self.version)}}
            self._events.append((self.version, place, event, thing))
            self._news.notify_all()
        return thing

    def _answer(self, handler):
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        content = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        body = json.loads(content) if content else {}
        path, method = unquote(url.path), handler.command
        content_type, key, token = map(handler.headers.get, ("Content-Type", HEADER, "Authorization"))
        request = Request(method, path, query, content_type, body, key, token)
        self.asked.append(request)
        if path == self.silent[0]:
            self.silent[1].wait(20)
        refused = [why for (verb, end), why in self.refuse.items() if verb == method and path.endswith(end)]
        if path.startswith(tuple(f"/apis/{group}/" for group in self.unknown)):
            refused.append((404, "the server could not find the requested resource"))
        if self.statuses:
            refused.append((self.statuses.pop(0), "the test refuses this request"))
        if refused:
            status, message = refused[0]
            self._send(handler, status, {"kind": "Status", "message": message})
        elif query.get("watch", "").lower() == "true":
            self._watch(handler, path, query)
        else:
            if method != "GET":
                self.changes.append(request)
            with self._news:
                status, answer = getattr(self, f"_{method.lower()}")(request)
            self._send(handler, status, answer)

    def _get(self, request):
        path, place = request.path, _PATH.fullmatch(request.path)
        if path == "/version/":
            return 200, {"gitVersion": "v1.34.4"}
        if path in self.objects:
            return 200, self.objects[path]
        if _GROUP_VERSION.fullmatch(path):
            return self._kinds(path)
        if place["part"] == "/log":
            return 200, self.log
        if place["name"]:
            return 404, {"kind": "Status", "message": f"{path} not found"}
        items = list(self._listed(place, request.query))
        first, size = int(request.query.get("continue", 0)), int(request.query.get("limit", len(items)))
        more = {"continue": str(first + size)} if first + size < len(items) else {}
        return 200, {"metadata": {"resourceVersion": str(self.version)} | more, "items": items[first : first + size]}

    def _kinds(self, path):
        """Answer which custom resources a version of a group has."""
        resources = [
            {"name": crd["spec"]["names"]["plural"], "kind": crd["spec"]["names"]["kind"]}
            for crd in self.within("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
            for version in crd["spec"]["versions"]
            if path == f"/apis/{crd['spec']['group']}/{version['name']}"
        ]
        return (200, {"resources": resources}) if resources else (404, {"kind": "Status", "message": "not found"})

    def _listed(self, wanted, query):
        labels = [label.partition("=") for label in query.get("labelSelector", "").split(",") if label]
        namespace = wanted["namespace"] or _namespace(query)
        for path, thing in sorted(self.objects.items()):
            place = _PATH.fullmatch(path)
            if (
                place["name"]
                and not place["part"]
                and (place["group"], place["plural"]) == (wanted["group"], wanted["plural"])
                and namespace in (None, place["namespace"])
                and all(_has_label(thing, *label) for label in labels)
            ):
                yield {key: value for key, value in thing.items() if key not in ("apiVersion", "kind")}

    def _post(self, request):
        path, thing = request.path, request.body
        if path.endswith("/selfsubjectaccessreviews"):
            wanted = thing["spec"]["resourceAttributes"]
            return 201, {"status": {"allowed": f"{wanted['verb']} {wanted['resource']}" not in self.forbidden}}
        if path in self.tokens:
            token, life_s = self.tokens[path]
            return 201, {"spec": {"expirationSeconds": life_s}, "status": {"token": token}}
        name, place = thing["metadata"]["name"], _PATH.fullmatch(path)
        thing["metadata"] |= {"uid": f"uid-{path}-{name}", "resourceVersion": "1"}
        if place["namespace"]:
            thing["metadata"]["namespace"] = place["namespace"]
        if place["plural"] == "pods":
            thing["status"] = {"phase": "Pending"}
        if place["plural"] == "certificatesigningrequests":
            if f"{path}/{name}" in self.objects:
                return 409, {"kind": "Status", "message": f"{name} already exists"}
            thing["spec"] |= self.user
        if "dryRun" not in request.query:
            self.put(f"{path}/{name}", **thing)
            self.created(path, thing)
        return 201, self.objects.get(f"{path}/{name}", thing)

    def _put(self, request):
        """Replace the status of a signing request, by its parts `approval` and `status`."""
        path = request.path.rpartition("/")[0]
        if path not in self.objects:
            return 404, {"kind": "Status", "message": f"{path} not found"}
        if request.body["metadata"]["resourceVersion"] != self.objects[path]["metadata"]["resourceVersion"]:
            return 409, {"kind": "Status", "message": "the object has been modified"}
        self.put(path, **self.objects[path] | {"status": request.body.get("status") or {}})
        return 200, self.objects[path]

    def _patch(self, request):
        path, body = request.path, request.body
        if request.content_type == "application/apply-patch+yaml":
            self.put(path, **body | {"metadata": {"creationTimestamp": CREATED} | body["metadata"]})
        elif path in self.objects:
            wanted = (body.get("metadata") or {}).get("resourceVersion")
            if wanted not in (None, self.objects[path]["metadata"].get("resourceVersion")):
                return 409, {"kind": "Status", "message": "the object has been modified"}
            self.version += 1
            changed = _merged(self.objects[path], body)
            self.put(path, **changed | {"metadata": changed["metadata"] | {"resourceVersion": str(self.version)}})
        else:
            return 404, {"kind": "Status", "message": f"{path} not found"}
        return 200, self.objects[path]

    def _delete(self, request):
        path = request.path
        gone = [at for at in self.objects if at == path or at.startswith(f"{path}/")]
        things = [self._recorded("DELETED", at, self.objects.pop(at)) for at in gone]
        if not _PATH.fullmatch(path)["name"]:
            return 200, {"metadata": {"resourceVersion": str(self.version)}, "items": things}
        return (200, {}) if gone else (404, {"kind": "Status", "message": f"{path} not found"})

    def _watch(self, handler, path, query):
        script = self.watches.pop(0) if self.watches else None
        if script == ["gone"]:
            self._send(handler, 410, {"kind": "Status", "code": 410})
            return
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        with suppress(OSError):  # the client is gone
            for step in self._changes(path, query) if script is None else script:
                if step == "stall":
                    with self._news:
                        self._news.wait_for(lambda: self._over, 20)
                if step in ("cut", "stall"):
                    handler.close_connection = True
                    return
                line = step
                if not isinstance(step, bytes):
                    line = json.dumps({"type": step[0], "object": step[1]}).encode() + b"\n"
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.write(b"0\r\n\r\n")

    def _changes(self, path, query):
        """Yield the changes of a kind since a version until the server closes."""
        seen, namespace = int(query.get("resourceVersion", 0)), _namespace(query)
        plural = _PATH.fullmatch(path)["plural"]
        while True:
            with self._news:
                while self.version <= seen and not self._over:
                    self._news.wait()
                if self._over:
                    return
                news, seen = [event for event in self._events if event[0] > seen], self.version
            yield from (
                (event, thing)
                for _, place, event, thing in news
                if place["plural"] == plural and namespace in (None, place["namespace"])
            )

    @staticmethod
    def _send(handler, status, answer):
        content = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)


def _namespace(query):
    field, _, value = query.get("fieldSelector", "").partition("=")
    return value if field == "metadata.namespace" else None


def _has_label(thing, name, equals, value):
    labels = thing["metadata"].get("labels") or {}
    return name in labels and (not equals or labels[name] == value)


def _merged(thing, changes):
    """Return the object after a JSON merge patch."""
    if not isinstance(changes, dict) or not isinstance(thing, dict):
        return changes
    merged = thing | {name: _merged(thing.get(name, {}), change) for name, change in changes.items()}
    return {name: value for name, value in merged.items() if value is not None}
