"""Requests of kube-scheduler and their answers: the part of `k8s.io/kube-scheduler/extender/v1` that is used here.

Go's types define no JSON names, so the fields are spelled as in Go. Of a node, only the name is read; of a pod, only
its identity, its labels, and what determines its workload and placement. A node that arrives as an object is returned
byte for byte.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from carico.errors import InvalidRequest
from carico.scheduling.report import POD_UID

Name = Annotated[str, Meta(max_length=253, pattern=r"\A[a-z0-9]([a-z0-9.-]*[a-z0-9])?\Z")]
"""The name of a pod or a namespace."""
Uid = Annotated[str, Meta(pattern=rf"\A{POD_UID}\Z")]
NodeName = Annotated[str, Meta(min_length=1, max_length=253)]


class PodId(msgspec.Struct, frozen=True):
    """The identity of a pod; only the UID tells it from an earlier pod with the same name."""

    name: Name
    uid: Uid
    namespace: Name = "default"


class _Metadata(PodId, frozen=True, rename={"owners": "ownerReferences"}):
    owners: msgspec.Raw = msgspec.Raw(b"[]")
    labels: msgspec.Raw = msgspec.Raw(b"{}")


class _Pod(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: msgspec.Raw = msgspec.Raw(b"{}")

    @property
    def id(self) -> PodId:
        """The pod's identity."""
        return PodId(self.metadata.name, self.metadata.uid, self.metadata.namespace)

    def as_object(self) -> dict[str, Any]:
        """Return those parts of the API's pod that determine what the pod demands and where it may go.

        Raises
        ------
        InvalidRequest
            If they are not JSON.
        """
        try:
            parts = (self.metadata.owners, self.metadata.labels, self.spec)
            owners, labels, spec = map(msgspec.json.decode, parts)
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"the pod {self.metadata.uid} cannot be read: {error}") from error
        metadata = {"namespace": self.metadata.namespace, "ownerReferences": owners, "labels": labels}
        return {"metadata": metadata, "spec": spec}


class _NodeMetadata(msgspec.Struct, frozen=True):
    name: NodeName


class _Node(msgspec.Struct, frozen=True):
    metadata: _NodeMetadata


class NodeList(msgspec.Struct, frozen=True):
    """Nodes as objects: what kube-scheduler sends and wants where `nodeCacheCapable` is false."""

    items: list[msgspec.Raw]


class ExtenderArgs(msgspec.Struct, frozen=True, rename="pascal"):
    """The request: which of the candidates can take this pod? Candidates are names or objects."""

    pod: _Pod
    nodes: NodeList | None = None
    node_names: list[NodeName] | None = None


class ExtenderFilterResult(msgspec.Struct, frozen=True, rename="pascal", omit_defaults=True):
    """The answer: the candidates that remain, and why the others are refused."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] = {}
    """Why nodes are refused, by node; evicting pods would not help on these."""


_ARGS = msgspec.json.Decoder(ExtenderArgs)
_NODE = msgspec.json.Decoder(_Node)
_ENCODER = msgspec.json.Encoder()


def read_args(body: bytes) -> ExtenderArgs:
    """Return the arguments that a request's body holds.

    Raises
    ------
    InvalidRequest
        If the body is not JSON, or not ExtenderArgs; the message names the field.
    """
    try:
        # Parts that are passed on unread, such as a node's labels, must be text, too; msgspec does not look at them.
        args = _ARGS.decode(body.decode())
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"the request is not an ExtenderArgs of kube-scheduler's extender/v1: {error}") from error
    if args.node_names is None and args.nodes is None:
        raise InvalidRequest("the request names no candidates: NodeNames (nodeCacheCapable: true) or Nodes is needed")
    return args


def candidates(args: ExtenderArgs) -> list[str]:
    """Return the names of the candidates, in the order of the request.

    Raises
    ------
    InvalidRequest
        If an object among the candidates is not a node.
    """
    if args.node_names is not None:
        return args.node_names
    try:
        return [_NODE.decode(item).metadata.name for item in (args.nodes.items if args.nodes else ())]
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InvalidRequest(f"Nodes.items holds something that is not a node: {error}") from error


def answer(args: ExtenderArgs, choice: int | None, refused: dict[str, str]) -> ExtenderFilterResult:
    """Return the result, with nodes as names or as objects, like the request.

    Parameters
    ----------
    args : ExtenderArgs
    choice : int or None
        Index of the one candidate that remains.
    refused : dict
        Why the other candidates are refused, by node.
    """
    if args.node_names is not None:
        names = [] if choice is None else [args.node_names[choice]]
        return ExtenderFilterResult(node_names=names, failed_and_unresolvable_nodes=refused)
    items = [] if choice is None or args.nodes is None else [args.nodes.items[choice]]
    return ExtenderFilterResult(nodes=NodeList(items), failed_and_unresolvable_nodes=refused)


def write_result(result: ExtenderFilterResult) -> bytes:
    """Return the answer's body."""
    return _ENCODER.encode(result)
