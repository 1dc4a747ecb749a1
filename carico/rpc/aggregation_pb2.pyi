from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Subspace(_message.Message):
    __slots__ = ("resources", "basis", "singular_values")
    RESOURCES_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_VALUES_FIELD_NUMBER: _ClassVar[int]
    resources: int
    basis: _containers.RepeatedScalarFieldContainer[float]
    singular_values: _containers.RepeatedScalarFieldContainer[float]
    def __init__(self, resources: _Optional[int] = ..., basis: _Optional[_Iterable[float]] = ..., singular_values: _Optional[_Iterable[float]] = ...) -> None: ...

class ExchangeRequest(_message.Message):
    __slots__ = ("node", "subspace")
    NODE_FIELD_NUMBER: _ClassVar[int]
    SUBSPACE_FIELD_NUMBER: _ClassVar[int]
    node: str
    subspace: Subspace
    def __init__(self, node: _Optional[str] = ..., subspace: _Optional[_Union[Subspace, _Mapping]] = ...) -> None: ...

class ExchangeReply(_message.Message):
    __slots__ = ("subspace",)
    SUBSPACE_FIELD_NUMBER: _ClassVar[int]
    subspace: Subspace
    def __init__(self, subspace: _Optional[_Union[Subspace, _Mapping]] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("replica", "nodes", "subspace")
    REPLICA_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    SUBSPACE_FIELD_NUMBER: _ClassVar[int]
    replica: str
    nodes: int
    subspace: Subspace
    def __init__(self, replica: _Optional[str] = ..., nodes: _Optional[int] = ..., subspace: _Optional[_Union[Subspace, _Mapping]] = ...) -> None: ...
