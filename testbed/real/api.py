"""The testbed's calls of a real cluster's API, beyond those that CARICO itself needs (`carico.kube`).

Objects are the API's own JSON. The namespaces and Jobs that a run creates bear our label, and no namespace without this
label is ever deleted. Pods and nodes are not checked: callers delete only what they have created.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from carico.errors import KubeRefused, KubeUnreachable
from carico.kube.client import KubeClient, Selection
from carico.kube.objects import KubeObject, KubeObjects

RUN_LABEL = "carico.dev/run"
"""Label of the namespaces and Jobs that a run creates; its value is the run's id."""
HEARTBEAT = "carico.dev/alive"
"""Annotation of a run's namespaces, whose value the run changes every few seconds while it is alive."""
APPLIED = "carico.dev/applied"
"""Annotation of a repetition's namespace: the objects that go with it, as JSON; see `testbed.real.applied`."""
_NOT_FOUND, _CONFLICT = 404, 409
_DELETED_AT_ONCE = 10
"""Page size for deleting pods: the answer comes after the whole page, and a busy machine deletes five a second."""

Json = dict[str, Any]


class ClusterApi:
    """The API server of one cluster.

    Every method raises KubeError (`carico.errors`) if the server does not answer or refuses.

    Parameters
    ----------
    client : KubeClient
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._core = client.api("CoreV1Api")
        self._batch = client.api("BatchV1Api")

    @property
    def objects(self) -> KubeObjects:
        """The same server, for objects of any kind."""
        return KubeObjects(self._client)

    def close(self) -> None:
        """Close idle connections."""
        self._client.close()

    def pods_in(self, namespace: str) -> Selection:
        """Return the pods of a namespace, to be listed and watched."""
        return self._client.pods(f"metadata.namespace={namespace}")

    def pods_on(self, node: str) -> Selection:
        """Return the pods of a node, to be listed and watched."""
        return self._client.pods(f"spec.nodeName={node}")

    def version(self) -> str:
        """Return the version of Kubernetes, for example "v1.34.4"."""
        return str(self._client.get(self._client.api("VersionApi").get_code).get("gitVersion"))

    def time(self) -> float:
        """Return the time by the server's clock, whole seconds since 1970."""
        answer = self._client.call(self._client.api("VersionApi").get_code)
        answer.drain_conn()
        date = answer.headers.get("Date", "")
        try:
            return parsedate_to_datetime(date).timestamp()
        except ValueError as error:
            raise KubeUnreachable(f"the Date header of the Kubernetes API is {date!r}, which is not a date") from error

    def may(self, verb: str, resource: str) -> bool:
        """Whether this client may use a verb on a resource ("pods/log", "jobs.batch") in all namespaces."""
        name, _, group = resource.partition(".")
        name, _, part = name.partition("/")
        asked = {"verb": verb, "group": group, "resource": name, "subresource": part}
        body = {"spec": {"resourceAttributes": asked}}
        review = self._client.get(self._client.api("AuthorizationV1Api").create_self_subject_access_review, body)
        return bool(review["status"]["allowed"])

    def create_namespace(self, name: str, run: str, only_try: bool = False) -> None:
        """Create a namespace of a run; with `only_try`, only check that the server would allow it."""
        body = {"metadata": {"name": name, "labels": {RUN_LABEL: run}}}
        self._client.get(self._core.create_namespace, body, dry_run="All" if only_try else None)

    def namespaces(self) -> list[Json]:
        """Return the namespaces of all runs: those that bear our label."""
        return self._all(self._core.list_namespace, label_selector=RUN_LABEL)

    def show_alive(self, name: str, beat: str) -> None:
        """Put a new heartbeat on a namespace."""
        body = {"metadata": {"annotations": {HEARTBEAT: beat}}}
        self._client.get(self._core.patch_namespace, name, body, _content_type="application/merge-patch+json")

    def delete_namespace(self, name: str) -> None:
        """Begin to remove a namespace with everything in it, if it exists and bears our label.

        What was applied for it goes first; see `note_applied`.
        """
        try:
            metadata = self._client.get(self._core.read_namespace, name)["metadata"]
            if RUN_LABEL in (metadata.get("labels") or {}):
                self._remove_applied(metadata)
                same = {"preconditions": {"uid": metadata["uid"]}}
                self._client.get(self._core.delete_namespace, name, body=same)
        except KubeRefused as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):  # conflict: already being removed
                raise

    def note_applied(self, name: str, things: Sequence[KubeObject]) -> None:
        """Note in a repetition's namespace which objects go with it, before they are applied."""
        listed = [
            {"apiVersion": thing["apiVersion"], "kind": thing["kind"], "metadata": _place(thing)} for thing in things
        ]
        body = {"metadata": {"annotations": {APPLIED: json.dumps(listed)}}}
        self._client.get(self._core.patch_namespace, name, body, _content_type="application/merge-patch+json")

    def remove_applied(self, name: str) -> None:
        """Begin to remove the objects that go with a namespace, the last first."""
        self._remove_applied(self._client.get(self._core.read_namespace, name)["metadata"])

    def _remove_applied(self, metadata: Json) -> None:
        run = metadata["labels"][RUN_LABEL]
        for thing in reversed(json.loads((metadata.get("annotations") or {}).get(APPLIED, "[]"))):
            found = self.objects.read(thing)
            if found is not None and (found["metadata"].get("labels") or {}).get(RUN_LABEL) == run:
                self.objects.delete(thing)

    def has_service_account(self, namespace: str) -> bool:
        """Whether pods can be created in a namespace: its service account appears shortly after the namespace."""
        try:
            self._client.get(self._core.read_namespaced_service_account, "default", namespace)
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return False
            raise
        return True

    def create_job(self, namespace: str, job: Json) -> None:
        """Create a Job."""
        self._client.get(self._batch.create_namespaced_job, namespace, job)

    def jobs(self, namespace: str) -> list[Json]:
        """Return the Jobs of a namespace."""
        return self._all(self._batch.list_namespaced_job, namespace)

    def log(self, namespace: str, pod: str, container: str, last_lines: int | None = None) -> str:
        """Return a container's log, or only its last lines."""
        options = {} if last_lines is None else {"tail_lines": last_lines}
        return self._client.text(self._core.read_namespaced_pod_log, pod, namespace, container=container, **options)

    def create_pod(self, namespace: str, pod: Json) -> None:
        """Create a pod that belongs to no Job."""
        self._client.get(self._core.create_namespaced_pod, namespace, pod)

    def delete_work(self, namespace: str) -> None:
        """Begin to remove all Jobs and pods of a namespace."""
        self._client.get(self._batch.delete_collection_namespaced_job, namespace, propagation_policy="Background")
        self._all(self._core.delete_collection_namespaced_pod, namespace, page=_DELETED_AT_ONCE)

    def events(self, namespace: str) -> list[Json]:
        """Return the Events of a namespace."""
        return self._all(self._core.list_namespaced_event, namespace)

    def nodes(self) -> list[Json]:
        """Return all nodes."""
        return self._all(self._core.list_node)

    def create_node(self, node: Json) -> None:
        """Create a node; only clusters without kubelets need this."""
        self._client.get(self._core.create_node, node)

    def remove_taints(self, name: str) -> None:
        """Remove all taints of a node, so that pods can be scheduled to it."""
        body = {"spec": {"taints": None}}
        self._client.get(self._core.patch_node, name, body, _content_type="application/merge-patch+json")

    def delete_node(self, name: str) -> None:
        """Remove a node."""
        self._client.get(self._core.delete_node, name)

    def cordon(self, name: str, cordoned: bool) -> None:
        """Cordon a node, or uncordon it."""
        self._client.get(self._core.patch_node, name, {"spec": {"unschedulable": cordoned}})

    def create_config_map(self, namespace: str, name: str, data: Mapping[str, str]) -> None:
        """Create a ConfigMap."""
        body = {"metadata": {"name": name}, "data": dict(data)}
        self._client.get(self._core.create_namespaced_config_map, namespace, body)

    def config_map(self, namespace: str, name: str) -> dict[str, str] | None:
        """Return the data of a ConfigMap; None if it does not exist."""
        try:
            found = self._client.get(self._core.read_namespaced_config_map, name, namespace)
        except KubeRefused as error:
            if error.status == _NOT_FOUND:
                return None
            raise
        return dict(found.get("data") or {})

    def _all(self, call: Any, *arguments: Any, **options: Any) -> list[Json]:
        return self._client.listing(call, *arguments, **options)[0]


def _place(thing: KubeObject) -> dict[str, str]:
    return {key: thing["metadata"][key] for key in ("name", "namespace") if key in thing["metadata"]}
