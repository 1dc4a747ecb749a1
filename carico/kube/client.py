"""Calls of the Kubernetes API, as JSON: only those that CARICO needs.

The package kubernetes provides kubeconfig, authentication and REST. Its typed models are not used: they cost a multiple
of the JSON that they are made from, and fail on some answers. Every call has time-outs; without them, a call on a
connection that falls silent would wait for ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypeVar

import kubernetes.client
import kubernetes.config
import msgspec
import urllib3
import yaml
from kubernetes.client.exceptions import ApiException

from carico.errors import KubeRefused, KubeUnreachable, NoCluster

_PAGE = 500
_T = TypeVar("_T")


class _Version(msgspec.Struct):
    version: str = msgspec.field(name="resourceVersion")


class _Bookmark(msgspec.Struct):
    metadata: _Version


class _Owner(msgspec.Struct):
    kind: str | None = None


class _PodMetadata(_Version):
    uid: str
    namespace: str | None = None
    name: str | None = None
    annotations: dict[str, Any] | None = None
    owners: list[_Owner] | None = msgspec.field(name="ownerReferences", default=None)


class _PodSpec(msgspec.Struct):
    node: str | None = msgspec.field(name="nodeName", default=None)


class _ContainerStatus(msgspec.Struct):
    state: dict[str, Any] | None = None


class _PodStatus(msgspec.Struct):
    phase: str | None = None
    containers: list[_ContainerStatus] | None = msgspec.field(name="containerStatuses", default=None)
    init_containers: list[_ContainerStatus] | None = msgspec.field(name="initContainerStatuses", default=None)


class _Pod(msgspec.Struct):
    """The fields that callers that follow pods rely on."""

    metadata: _PodMetadata
    spec: _PodSpec | None = None
    status: _PodStatus | None = None


class _RequestMetadata(_Version):
    uid: str
    name: str


class _RequestSpec(msgspec.Struct):
    request: str
    signer: str = msgspec.field(name="signerName")
    usages: list[str] | None = None
    username: str = ""
    extra: dict[str, list[str]] | None = None
    expires_s: int | None = msgspec.field(name="expirationSeconds", default=None)


class _Token(msgspec.Struct):
    token: Annotated[str, msgspec.Meta(pattern=r"^[!-~]+$(?!\n)")]
    """Becomes a header."""


class _TokenSpec(msgspec.Struct):
    expires_s: Annotated[int, msgspec.Meta(ge=1, le=1 << 32)] = msgspec.field(name="expirationSeconds")
    """Kubernetes accepts as much; somebody waits for most of it."""


class _TokenRequest(msgspec.Struct):
    spec: _TokenSpec
    status: _Token


class _Condition(msgspec.Struct):
    type: str
    reason: str | None = None
    message: str | None = None


class _RequestStatus(msgspec.Struct):
    certificate: str | None = None
    conditions: list[_Condition] | None = None


class _SigningRequest(msgspec.Struct):
    """The fields of a CertificateSigningRequest that its signer and its maker rely on."""

    metadata: _RequestMetadata
    spec: _RequestSpec
    status: _RequestStatus | None = None


class _PageMetadata(_Version):
    following: str | None = msgspec.field(name="continue", default=None)


class _Page(msgspec.Struct):
    metadata: _PageMetadata
    items: list[dict[str, Any]] | None = None


class _Object(msgspec.Struct):
    metadata: dict[str, Any]


class _ConfigMap(msgspec.Struct):
    metadata: _Version
    data: dict[str, str] | None = None


class _LeaseSpec(msgspec.Struct):
    holder: str | None = msgspec.field(name="holderIdentity", default=None)
    renewed: str | None = msgspec.field(name="renewTime", default=None)


class _Lease(msgspec.Struct):
    spec: _LeaseSpec | None = None


class _Event(msgspec.Struct):
    type: str
    object: dict[str, Any]


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 500


def kubeconfig_problem(error: BaseException) -> str:
    """Return what is wrong with a kubeconfig, by the error that loading it has caused."""
    problem = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, yaml.YAMLError):
        return f"it is not YAML: {problem}"
    known = isinstance(error, (kubernetes.config.ConfigException, OSError))
    return problem if known else f"it has not the form of a kubeconfig ({type(error).__name__}: {problem})"


def _reason(error: BaseException) -> str:
    """Return where and why a call failed, in a few words: urllib3's have its classes and all of the address."""
    where = pool = ""
    if isinstance(error, urllib3.exceptions.MaxRetryError):
        where, pool = f" at {error.pool.scheme}://{error.pool.host}:{error.pool.port}", f"{error.pool}: "
        error = error.reason or error
    causes = (error.__cause__, *error.args, error)
    of_system = (one.strerror for one in causes if isinstance(one, OSError) and one.strerror)
    return f"{where}: {next(of_system, None) or str((error.args or [error])[-1]).removeprefix(pool)}"


class KubeClient:
    """The API server.

    Parameters
    ----------
    configuration : kubernetes.client.Configuration
    connect_s : float
        How long connecting may take, seconds.
    silence_s : float
        After how long without a byte a connection counts as ended, seconds.
    """

    def __init__(
        self, configuration: kubernetes.client.Configuration, connect_s: float = 3.0, silence_s: float = 30.0
    ) -> None:
        configuration.retries = urllib3.Retry(0, redirect=0)  # the caller decides when to call again
        self._timeouts = (connect_s, silence_s)
        self._api = kubernetes.client.ApiClient(configuration)
        self._core = kubernetes.client.CoreV1Api(self._api)
        self._custom = kubernetes.client.CustomObjectsApi(self._api)
        self._coordination = kubernetes.client.CoordinationV1Api(self._api)
        self._certificates = kubernetes.client.CertificatesV1Api(self._api)

    @classmethod
    def from_config(
        cls,
        kubeconfig: str | None = None,
        context: str | None = None,
        silence_s: float = 30.0,
        remedy: str = "name a kubeconfig that leads to a cluster",
    ) -> KubeClient:
        """Return the client that a kubeconfig describes; without one, the client of the pod that runs this process.

        Parameters
        ----------
        kubeconfig, context : str, optional
        silence_s : float
            See the class.
        remedy : str
            What the error tells to do, in the words of where the kubeconfig is named.

        Raises
        ------
        NoCluster
            If there is no such file or context, or the process does not run in a pod.
        """
        configuration = kubernetes.client.Configuration()
        try:
            if kubeconfig is None:
                load: Any = kubernetes.config.load_incluster_config  # untyped, in some versions
                load(configuration)
            elif not any(Path(one).expanduser().exists() for one in kubeconfig.split(os.pathsep) if one):
                raise FileNotFoundError("there is no such file")  # the package says that it is no configuration
            else:
                load = kubernetes.config.load_kube_config
                load(kubeconfig, context, configuration, persist_config=False)
        except Exception as error:  # a file may cause any: YAML's, the package's own, TypeError
            where = "this pod's service account" if kubeconfig is None else f"the kubeconfig {kubeconfig}"
            problem = f"the Kubernetes API cannot be reached with {where}: {kubeconfig_problem(error)}; {remedy}"
            raise NoCluster(problem) from error
        return cls(configuration, silence_s=silence_s)

    def api(self, name: str) -> Any:
        """Return one of the package's APIs, such as ``AppsV1Api``, for `get`."""
        return getattr(kubernetes.client, name)(self._api)

    def close(self) -> None:
        """Close idle connections."""
        self._api.rest_client.pool_manager.clear()

    def pods(self, field_selector: str) -> Selection:
        """Return the pods of all namespaces that match a field selector."""
        return Selection(self, self._core.list_pod_for_all_namespaces, field_selector)

    def signing_requests(self, signer: str) -> Selection:
        """Return the CertificateSigningRequests to a signer."""
        call = self._certificates.list_certificate_signing_request
        return Selection(self, call, f"spec.signerName={signer}", "signing requests", _SigningRequest)

    def signing_request(self, name: str) -> dict[str, Any]:
        """Return a CertificateSigningRequest.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or sends no such object.
        """
        return _signing_request(self.get(self._certificates.read_certificate_signing_request, name))

    def create_signing_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Create a CertificateSigningRequest; raises as `signing_request` does."""
        return _signing_request(self.get(self._certificates.create_certificate_signing_request, dict(request)))

    def approve_signing_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Write the conditions Approved or Denied of a request that nobody has changed since it was read.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses: with status 409 if somebody has changed the request.
        """
        call = self._certificates.replace_certificate_signing_request_approval
        return _signing_request(self.get(call, request["metadata"]["name"], dict(request)))

    def answer_signing_request(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Write the certificate, or the condition Failed, of a request; raises as `approve_signing_request` does."""
        call = self._certificates.replace_certificate_signing_request_status
        return _signing_request(self.get(call, request["metadata"]["name"], dict(request)))

    def annotate_node(self, node: str, annotations: Mapping[str, str | None]) -> None:
        """Set annotations of a node; None removes one.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        body = {"metadata": {"annotations": dict(annotations)}}
        self.get(self._core.patch_node, node, body, _content_type="application/merge-patch+json")

    def node(self, node: str) -> dict[str, Any]:
        """Return a node.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        return self.get(self._core.read_node, node)

    def node_metrics(self, node: str) -> dict[str, Any]:
        """Return a node's NodeMetrics of the resource-metrics API.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses, as it does where no metrics server is installed.
        """
        return self.get(self._custom.get_cluster_custom_object, "metrics.k8s.io", "v1beta1", "nodes", node)

    def config_map(self, namespace: str, name: str) -> tuple[dict[str, str], str]:
        """Return the data of a ConfigMap, and its resource version.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or sends no ConfigMap.
        """
        answer = self.get(self._core.read_namespaced_config_map, name, namespace)
        found = read_as(_ConfigMap, answer)
        return found.data or {}, found.metadata.version

    def set_in_config_map(self, namespace: str, name: str, data: Mapping[str, str], version: str) -> str:
        """Set entries of a ConfigMap that nobody has changed since `version`, and return its new resource version.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses: with status 409 if somebody has changed the ConfigMap.
        """
        body = {"metadata": {"resourceVersion": version}, "data": dict(data)}
        answer = self.get(
            self._core.patch_namespaced_config_map,
            name,
            namespace,
            body,
            _content_type="application/merge-patch+json",
        )
        return read_as(_ConfigMap, answer).metadata.version

    def lease(self, namespace: str, name: str) -> tuple[str, str]:
        """Return who holds a lease, and when it was renewed, as the API writes it; empty texts if nobody ever did.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        answer = self.get(self._coordination.read_namespaced_lease, name, namespace)
        spec = read_as(_Lease, answer).spec
        return (spec.holder or "", spec.renewed or "") if spec else ("", "")

    def account_token(self, namespace: str, account: str, life_s: int) -> tuple[str, int]:
        """Return a token of a service account, and how long it is valid, seconds: the API server may change that.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or sends no token.
        """
        body = {"spec": {"expirationSeconds": life_s}}
        answer = read_as(
            _TokenRequest, self.get(self._core.create_namespaced_service_account_token, account, namespace, body)
        )
        return answer.status.token, answer.spec.expires_s

    def get(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> dict[str, Any]:
        """Make a call and return its answer, an object.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or sends no object.
        """
        content = _decoded(self._content(call, *arguments, **options))
        if not isinstance(content, dict):
            raise KubeUnreachable(f"the Kubernetes API sent {str(content)[:100]} instead of an object")
        return content

    def listing(
        self, call: Callable[..., Any], *arguments: Any, page: int = _PAGE, **options: Any
    ) -> tuple[list[dict[str, Any]], str]:
        """Make a call that answers with a list, page by page, and return its objects and their resource version.

        Parameters
        ----------
        call : callable
        *arguments, **options
            The call's arguments.
        page : int
            Objects per page.

        Raises
        ------
        KubeError
            If the API server does not answer, refuses, or sends no list.
        """
        objects: list[dict[str, Any]] = []
        following = None
        while True:
            answer = read_as(_Page, self.get(call, *arguments, limit=page, _continue=following, **options))
            for thing in answer.items or ():
                read_as(_Object, thing)
                objects.append(thing)
            following = answer.metadata.following
            if not following:
                return objects, answer.metadata.version

    def text(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
        """Make a call and return the answer as text; raises as `get` does."""
        return self._content(call, *arguments, **options).decode(errors="replace")

    def call(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> urllib3.BaseHTTPResponse:
        """Make a call and return the unread response, because the package's types for answers are not used."""
        given = {name: value for name, value in options.items() if value not in (None, "")}
        given.setdefault("_request_timeout", self._timeouts)
        try:
            response: urllib3.BaseHTTPResponse = call(*arguments, **given, _preload_content=False)
        except ApiException as error:
            if error.status:
                why = _message(error.body) or error.reason
                raise KubeRefused(f"the Kubernetes API answered {error.status}: {why}", error.status) from error
            raise KubeUnreachable(f"the Kubernetes API cannot be reached: {error.reason}") from error
        # ConfigException: the file with the pod's token, which is read again every minute, was empty.
        except (urllib3.exceptions.HTTPError, kubernetes.config.ConfigException, OSError) as error:
            raise KubeUnreachable(f"the Kubernetes API cannot be reached{_reason(error)}") from error
        return response

    def _content(self, call: Callable[..., Any], *arguments: Any, **options: Any) -> bytes:
        response = self.call(call, *arguments, **options)
        try:
            return response.read()
        except urllib3.exceptions.HTTPError as error:
            raise KubeUnreachable(f"the Kubernetes API broke off: {error}") from error
        finally:
            response.release_conn()


class Selection:
    """Objects of a kind to be listed and watched, by one thread at a time; made by `KubeClient`."""

    def __init__(
        self,
        client: KubeClient,
        call: Callable[..., Any],
        field_selector: str,
        what: str = "pods",
        kind: type[msgspec.Struct] = _Pod,
    ) -> None:
        self._client = client
        self._call = call
        self._fields = field_selector
        self._what = what
        self._kind = kind
        self._watched: urllib3.BaseHTTPResponse | None = None
        self._closed = False

    def list(self) -> tuple[list[dict[str, Any]], str]:
        """Return the objects and their resource version.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        """
        things, version = self._client.listing(self._call, field_selector=self._fields)
        for thing in things:
            read_as(self._kind, thing)
        return things, version

    def watch(self, version: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ADDED, MODIFIED, DELETED or BOOKMARK, and the object.

        The watch ends when the server closes the stream, as it does every few minutes, when nothing has come for
        `silence_s`, or with `close`.

        Parameters
        ----------
        version : str
            The resource version after which events are wanted.

        Raises
        ------
        KubeRefused
            If the server refuses; with status 410 if it does not remember `version`.
        KubeUnreachable
            If the stream breaks off.
        """
        response = self._client.call(
            self._call,
            field_selector=self._fields,
            watch=True,
            allow_watch_bookmarks=True,
            resource_version=version,
        )
        self._watched = response
        try:
            for line in () if self._closed else _lines(response):
                event = read_as(_Event, _decoded(line))
                if event.type == "ERROR":
                    status = read_as(_Status, event.object)
                    raise KubeRefused(f"the watch on {self._what} has ended: {status.message}", status.code)
                read_as(_Bookmark if event.type == "BOOKMARK" else self._kind, event.object)
                yield event.type, event.object
        except Exception:  # a connection that is shut down under a read may fail in any way
            if not self._closed:
                raise
        finally:
            self._watched = None
            response.close()

    def close(self) -> None:
        """End the watch that another thread waits in, and every later one; listing goes on."""
        self._closed = True
        watched = self._watched
        if watched is not None:
            with suppress(OSError, RuntimeError, ValueError):  # it ends at this moment anyway
                watched.shutdown()


def _lines(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Yield the lines of a stream until it is closed or falls silent."""
    rest = b""
    try:
        for chunk in response.stream(1 << 16, decode_content=True):
            *lines, rest = (rest + chunk).split(b"\n")
            yield from filter(None, lines)
    except urllib3.exceptions.ReadTimeoutError:
        return
    except (urllib3.exceptions.HTTPError, OSError) as error:
        raise KubeUnreachable(f"a watch broke off: {error}") from error
    if rest:
        raise KubeUnreachable("a watch broke off within an event")


def _signing_request(answer: dict[str, Any]) -> dict[str, Any]:
    read_as(_SigningRequest, answer)
    return answer


def _message(body: str | bytes | None) -> str:
    """The reason that Kubernetes gives for a refusal; empty if the refusal does not come from Kubernetes."""
    try:
        return msgspec.json.decode(body or b"", type=_Status).message
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return ""


def _decoded(content: bytes) -> Any:
    try:
        return msgspec.json.decode(content)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise KubeUnreachable(f"the Kubernetes API sent malformed JSON: {error}") from error


def read_as(kind: type[_T], answer: Any) -> _T:
    """Return an answer, or a part of it, as a type that has the fields that are relied on.

    Raises
    ------
    KubeUnreachable
        If it is of another type.
    """
    try:
        return msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        raise KubeUnreachable(f"the Kubernetes API sent a malformed object: {error}") from error
