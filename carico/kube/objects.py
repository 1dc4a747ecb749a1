"""Applies, reads, lists and deletes objects of any kind, as JSON. For deploying; processes need only `client`.

The package kubernetes has a method for every verb and kind, which is found by the object's API version and kind. Kinds
that are not Kubernetes's own share methods that take the kind as an argument.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

import kubernetes.client

from carico.errors import InvalidInput, KubeRefused
from carico.kube.client import KubeClient

KubeObject: TypeAlias = Mapping[str, Any]

MANAGER = "carico"
"""The field manager of server-side apply."""
_APIS = {
    "v1": "CoreV1Api",
    "apps/v1": "AppsV1Api",
    "batch/v1": "BatchV1Api",
    "storage.k8s.io/v1": "StorageV1Api",
    "apiextensions.k8s.io/v1": "ApiextensionsV1Api",
    "policy/v1": "PolicyV1Api",
    "networking.k8s.io/v1": "NetworkingV1Api",
    "rbac.authorization.k8s.io/v1": "RbacAuthorizationV1Api",
    "scheduling.k8s.io/v1": "SchedulingV1Api",
    "certificates.k8s.io/v1": "CertificatesV1Api",
    "coordination.k8s.io/v1": "CoordinationV1Api",
    "admissionregistration.k8s.io/v1": "AdmissionregistrationV1Api",
}
_CUSTOM = {"cert-manager.io/v1": {"Certificate": "certificates", "Issuer": "issuers"}}
"""The plurals of kinds that are not Kubernetes's own; all of them are in namespaces."""


def title(thing: KubeObject) -> str:
    """Return an object's kind and name as kubectl writes them.

    Examples
    --------
    >>> title({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "carico-agent"}})
    'daemonset.apps/carico-agent'
    """
    group = thing["apiVersion"].rpartition("/")[0]
    return f"{thing['kind'].lower()}{'.' if group else ''}{group}/{thing['metadata']['name']}"


def placed(thing: object) -> KubeObject:
    """Return an object of a user's manifest; if its kind has a namespace and it names none, in `default`.

    Raises
    ------
    InvalidInput
        If it is no object, or its kind is none that can be applied.

    Examples
    --------
    >>> placed({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}})["metadata"]["namespace"]
    'default'
    """
    if not isinstance(thing, Mapping) or not isinstance(metadata := thing.get("metadata"), Mapping):
        raise InvalidInput(f"an object with apiVersion, kind and metadata is needed, got {str(thing)[:60]!r}")
    version, kind, name = str(thing.get("apiVersion")), str(thing.get("kind")), metadata.get("name")
    if version not in _APIS:
        raise InvalidInput(f"{kind}: apiVersion {version!r} cannot be applied; known: {', '.join(_APIS)}")
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{kind}: metadata.name is needed, got {name!r}")
    api = getattr(kubernetes.client, _APIS[version])
    snake = _snake(kind)
    if hasattr(api, f"patch_namespaced_{snake}"):
        return {**thing, "metadata": {"namespace": "default", **metadata}}
    if hasattr(api, f"patch_{snake}"):
        return thing
    raise InvalidInput(f"{version} has no kind {kind!r}")


def _snake(kind: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


class KubeObjects:
    """Calls on objects; all raise KubeUnreachable or KubeRefused, see `KubeClient`.

    Parameters
    ----------
    client : KubeClient
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def apply(self, thing: KubeObject, force: bool = False) -> None:
        """Create or change an object to be as given (server-side apply); other fields are left to their owners.

        Parameters
        ----------
        thing : mapping
        force : bool, optional
            Take over fields that another manager owns; otherwise they cause a refusal with status 409.
        """
        self._call(
            "patch",
            thing,
            body=dict(thing),
            field_manager=MANAGER,
            force=force,
            _content_type="application/apply-patch+yaml",
        )

    def patch(self, thing: KubeObject, changes: KubeObject) -> None:
        """Change an object (JSON merge patch); None removes a field."""
        self._call("patch", thing, body=dict(changes), _content_type="application/merge-patch+json")

    def read(self, thing: KubeObject) -> dict[str, Any] | None:
        """Return the object of that kind and name as the server has it; None if there is none."""
        return self._unless_missing("read", thing)

    def delete(self, thing: KubeObject) -> bool:
        """Delete the object of that kind and name, and its dependents in the background; False if there is none."""
        return self._unless_missing("delete", thing, propagation_policy="Background") is not None

    def list(self, api_version: str, kind: str, namespace: str | None = None, labels: str = "") -> list[dict[str, Any]]:
        """Return the objects of a kind that match a label selector, in one namespace or in all."""
        of_kind = {"apiVersion": api_version, "kind": kind}
        call, arguments = self._method("list", of_kind | {"metadata": {"namespace": namespace}})
        return [of_kind | thing for thing in self._client.listing(call, *arguments, label_selector=labels)[0]]

    def annotate_node(self, node: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of a node; None removes one."""
        self._client.annotate_node(node, annotations)

    def ask_pod(
        self, namespace: str, pod: str, port: int, path: str, headers: Mapping[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the JSON object that a pod serves over HTTPS, through the API server, which hands on the headers."""
        return self._client.get(self._proxy, f"https:{pod}:{port}", namespace, path, _headers=dict(headers or {}))

    def text_of_pod(self, namespace: str, pod: str, port: int, path: str, within_s: float | None = None) -> str:
        """Return the text that a pod serves over HTTPS, through the API server, which waits if the pod has gone."""
        return self._client.text(self._proxy, f"https:{pod}:{port}", namespace, path, _request_timeout=within_s)

    @property
    def _proxy(self) -> Any:
        return self._client.api("CoreV1Api").connect_get_namespaced_pod_proxy_with_path

    def _unless_missing(self, verb: str, thing: KubeObject, **options: Any) -> dict[str, Any] | None:
        try:
            return self._call(verb, thing, **options)
        except KubeRefused as error:
            if error.status == 404:
                return None
            raise

    def _call(self, verb: str, thing: KubeObject, **options: Any) -> dict[str, Any]:
        call, arguments = self._method(verb, thing)
        return self._client.get(call, thing["metadata"]["name"], *arguments, **options)

    def _method(self, verb: str, thing: KubeObject) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """The package's method for a verb and an object's kind, and the argument that names the namespace, if any."""
        if thing["apiVersion"] in _CUSTOM:
            return self._custom(verb, thing), ()
        api = self._client.api(_APIS[thing["apiVersion"]])
        kind = _snake(thing["kind"])
        namespace = thing["metadata"].get("namespace")
        if namespace is not None:
            return getattr(api, f"{verb}_namespaced_{kind}"), (namespace,)
        for_all = f"{verb}_{kind}_for_all_namespaces"
        return getattr(api, for_all if hasattr(api, for_all) else f"{verb}_{kind}"), ()

    def _custom(self, verb: str, thing: KubeObject) -> Callable[..., Any]:
        api, namespace = self._client.api("CustomObjectsApi"), thing["metadata"].get("namespace")
        group, version = thing["apiVersion"].split("/")
        plural = _CUSTOM[thing["apiVersion"]][thing["kind"]]
        if namespace is None:  # only listing is possible in all namespaces
            return partial(getattr(api, f"{verb}_cluster_custom_object"), group, version, plural)
        named = "get" if verb == "read" else verb
        return partial(getattr(api, f"{named}_namespaced_custom_object"), group, version, namespace, plural)
