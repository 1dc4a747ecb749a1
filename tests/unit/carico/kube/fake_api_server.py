"""A Kubernetes API server of a few lines, over real HTTP: it does what the script of its watches says."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


def pod(name, version=1, node="", phase="Pending"):
    return {
        "metadata": {"name": name, "namespace": "jobs", "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {"schedulerName": "carico"} | ({"nodeName": node} if node else {}),
        "status": {"phase": phase},
    }


class FakeApiServer:
    """Serves a list of pods and, one after the other, watches that were scripted.

    A watch is a list of what is sent: an event (kind, object), bytes as they are, or one of ``"cut"`` (the connection
    breaks), ``"stall"`` (silence until the server closes) and ``"gone"`` (410 instead of a stream). After the script
    every watch stalls.
    """

    def __init__(self):
        self.pods = []
        self.metrics = {"timestamp": "t0", "window": "15s", "usage": {"cpu": "1", "memory": "2Gi"}}
        self.version = "100"
        self.watches = []
        self.asked = []
        self.patches = []
        self.statuses = []
        self._over = threading.Event()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                owner._get(self)

            def do_PATCH(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                owner.patches.append((self.path, self.headers["Content-Type"], body))
                owner._json(self, owner.statuses.pop(0) if owner.statuses else 200, {})

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
        self._over.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _get(self, handler):
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.asked.append((url.path, query))
        if self.statuses:
            self._json(handler, self.statuses.pop(0), {"kind": "Status", "message": "as the test wants it"})
        elif url.path.startswith("/apis/metrics.k8s.io"):
            self._json(handler, 200, self.metrics | {"metadata": {"name": url.path.rpartition("/")[2]}})
        elif url.path.startswith("/api/v1/nodes/"):
            self._json(handler, 200, {"status": {"allocatable": {"cpu": "4", "memory": "8Gi"}}})
        elif query.get("watch", "").lower() == "true":
            self._watch(handler)
        else:
            first, size = int(query.get("continue", 0)), int(query.get("limit", 1000))
            more = {"continue": str(first + size)} if first + size < len(self.pods) else {}
            items = self.pods[first : first + size]
            self._json(handler, 200, {"metadata": {"resourceVersion": self.version} | more, "items": items})

    def _watch(self, handler):
        script = self.watches.pop(0) if self.watches else ["stall"]
        if script == ["gone"]:
            self._json(handler, 410, {"kind": "Status", "code": 410})
            return
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for step in script:
            if step == "stall":
                self._over.wait(20)
            if step in ("cut", "stall"):
                handler.close_connection = True
                return
            line = (
                step if isinstance(step, bytes) else json.dumps({"type": step[0], "object": step[1]}).encode() + b"\n"
            )
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
            handler.wfile.flush()
        handler.wfile.write(b"0\r\n\r\n")

    @staticmethod
    def _json(handler, status, content):
        body = json.dumps(content).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
