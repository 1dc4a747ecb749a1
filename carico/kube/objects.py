"""Applies, reads, lists and deletes objects of any kind, as JSON. For deploying; processes need only `client`.

The package kubernetes has a method for every verb and kind, which is found by the object's API version and kind. Kinds
that are not Kubernetes's own share methods that take the kind's plural as an argument, for which the server is asked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias, TypeVar

import kubernetes.client

from carico.clock import Clock, SystemClock
from carico.errors import InvalidInput, KubeRefused
from carico.kube.client import KubeClient

KubeObject: TypeAlias = Mapping[str, Any]
_T = TypeVar("_T")

MANAGER = "carico"
"""The field manager of server-side apply."""
_BUSY = 429
_BUSY_S = 30.0
"""How long a server may be too busy. It says so, too, while it prepares a kind that was defined a moment ago."""
_PAUSE_S = 1.0
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
"""The plurals of kinds that are not Kubernetes's own, for which the server need not be asked."""
_DEFINITION = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}


def title(thing: KubeObject) -> str:
    """Return an object's kind and name as kubectl writes them.

    Examples
    --------
    >>> title({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "carico-agent"}})
    'daemonset.apps/carico-agent'
    """
    group = thing["apiVersion"].rpartition("/")[0]
    return f"{thing['kind'].lower()}{'.' if group else ''}{group}/{thing['metadata']['name']}"


def is_definition(thing: KubeObject) -> bool:
    """Whether an object defines a kind of its own (CustomResourceDefinition)."""
    return {key: thing.get(key) for key in _DEFINITION} == _DEFINITION


def is_custom(thing: KubeObject) -> bool:
    """Whether an object's kind is not Kubernetes's own."""
    return thing["apiVersion"] not in _APIS


def defined(thing: KubeObject) -> dict[tuple[str, str], bool]:
    """Return the kinds that a definition adds, by API version and name, each with whether it has a namespace.

    Raises
    ------
    InvalidInput
        If the object is no whole CustomResourceDefinition.
    """
    try:
        spec = thing["spec"]
        group, kind, scope = spec["group"], spec["names"]["kind"], spec["scope"]
        served = [version["name"] for version in spec["versions"] if version.get("served")]
        return {(f"{group}/{version}", kind): scope == "Namespaced" for version in served}
    except (AttributeError, KeyError, TypeError) as error:
        raise InvalidInput(
            f"{title(thing)}: spec needs group, scope, names.kind, and versions with a name each; {error!r}"
        ) from None


def placed(thing: object, custom: Mapping[tuple[str, str], bool] | None = None) -> KubeObject:
    """Return an object of a user's manifest; if its kind has a namespace and it names none, in `default`.

    Parameters
    ----------
    thing : object
    custom : mapping, optional
        The kinds that the manifest itself defines; see `defined`.

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
    scoped = (custom or {}).get((version, kind))
    if version not in _APIS and scoped is None:
        raise InvalidInput(
            f"{kind}: apiVersion {version!r} cannot be applied; known: {', '.join(_APIS)}, and what a "
            f"CustomResourceDefinition of the same manifest defines"
        )
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"{kind}: metadata.name is needed, got {name!r}")
    if scoped is not None:
        return {**thing, "metadata": {"namespace": "default", **metadata}} if scoped else thing
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

    What a server is too busy for (status 429), so that it has done nothing, is tried again for half a minute.

    Parameters
    ----------
    client : KubeClient
    clock : Clock, optional
    """

    def __init__(self, client: KubeClient, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = SystemClock() if clock is None else clock

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
        listed, _ = self._retried_while_busy(partial(self._client.listing, call, *arguments, label_selector=labels))
        return [of_kind | thing for thing in listed]

    def has_kind(self, api_version: str, kind: str) -> bool:
        """Whether the server has a kind that is not Kubernetes's own."""
        try:
            return bool(self._plural(api_version, kind))
        except KubeRefused as error:
            if error.status == 404:
                return False
            raise

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
        return self._retried_while_busy(
            partial(self._client.get, call, thing["metadata"]["name"], *arguments, **options)
        )

    def _retried_while_busy(self, call: Callable[[], _T]) -> _T:
        end = self._clock.now() + _BUSY_S
        while True:
            try:
                return call()
            except KubeRefused as error:
                if error.status != _BUSY or self._clock.now() >= end:
                    raise
            self._clock.sleep_until(self._clock.now() + _PAUSE_S)

    def _method(self, verb: str, thing: KubeObject) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """The package's method for a verb and an object's kind, and the argument that names the namespace, if any."""
        if is_custom(thing):
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
        plural = self._plural(thing["apiVersion"], thing["kind"])
        named = "get" if verb == "read" else verb
        if namespace is None:
            return partial(getattr(api, f"{named}_cluster_custom_object"), group, version, plural)
        return partial(getattr(api, f"{named}_namespaced_custom_object"), group, version, namespace, plural)

    def _plural(self, api_version: str, kind: str) -> str:
        """Return the name of a kind in paths; raises KubeRefused with status 404 if the server has no such kind."""
        if kind in _CUSTOM.get(api_version, {}):
            return _CUSTOM[api_version][kind]
        group, version = api_version.split("/")
        resources = self._client.api("CustomObjectsApi").get_api_resources
        known = self._retried_while_busy(partial(self._client.get, resources, group, version))["resources"]
        for one in known:
            if one["kind"] == kind and "/" not in one["name"]:  # else a part, such as the status
                return str(one["name"])
        raise KubeRefused(f"the Kubernetes API has no kind {kind} in {api_version}", status=404)
