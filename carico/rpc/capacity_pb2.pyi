from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class CapacityReport(_message.Message):
    __slots__ = ("node", "pod_capacity", "pods", "at_unix_s", "sequence", "silent")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    node: str
    pod_capacity: float
    pods: int
    at_unix_s: float
    sequence: int
    silent: bool
    def __init__(self, node: _Optional[str] = ..., pod_capacity: _Optional[float] = ..., pods: _Optional[int] = ..., at_unix_s: _Optional[float] = ..., sequence: _Optional[int] = ..., silent: bool = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
