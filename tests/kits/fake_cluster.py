"""A small fake Kubernetes cluster over real HTTP: an API server whose Jobs complete immediately."""

from tests.kits.fake_api_server import FakeApiServer


class FakeCluster(FakeApiServer):
    """A Job's pods are created with it, bound to the first node, run and end immediately.

    Attributes
    ----------
    ending : str
        The final phase of pods; empty leaves them unbound.
    reason : str
        The reason of a container's termination.
    """

    def __init__(self):
        super().__init__()
        self.ending = "Succeeded"
        self.reason = "Completed"

    def created(self, path, thing):
        kind = path.rpartition("/")[2]
        if kind == "nodes":
            thing["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
            thing["spec"] = {"taints": [{"key": "node.kubernetes.io/not-ready"}]}
            self.put(f"{path}/{thing['metadata']['name']}", **thing)
        elif kind == "jobs":
            self._work(thing)
        elif kind == "pods":
            self._live(thing, thing["spec"].get("nodeName"))

    def _get(self, request):
        if request.path.endswith("/serviceaccounts/default"):
            return 200, {}
        return super()._get(request)

    def _work(self, job):
        node = self.within("/api/v1/nodes")[0]["metadata"]["name"]
        namespace, template = job["metadata"]["namespace"], job["spec"]["template"]
        for index in range(job["spec"]["completions"]):
            name = f"{job['metadata']['name']}-{index}-x"
            names = {"name": name, "namespace": namespace, "uid": f"{namespace}-{name}"}
            self._live({"metadata": template["metadata"] | names, "spec": template["spec"]}, node)
        if self.ending == "Failed":
            job["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
            self.put(f"/apis/batch/v1/namespaces/{namespace}/jobs/{job['metadata']['name']}", **job)

    def _live(self, pod, node):
        ended = {"phase": self.ending, "containerStatuses": [{"state": {"terminated": {"reason": self.reason}}}]}
        unbound, bound = pod["spec"], pod["spec"] | {"nodeName": node}
        states = [(unbound, {"phase": "Pending"})]
        if self.ending and node is not None:
            states += [(bound, {"phase": "Pending"}), (bound, {"phase": "Running"}), (bound, ended)]
        for spec, status in states:
            metadata = pod["metadata"]
            path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
            self.put(path, **pod | {"spec": spec, "status": status})
