from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CapacityReport(_message.Message):
    __slots__ = ("node", "pod_capacity", "pods", "at_unix_s", "sequence", "silent", "demand", "version", "counted")
    NODE_FIELD_NUMBER: _ClassVar[int]
    POD_CAPACITY_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    AT_UNIX_S_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SILENT_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    node: str
    pod_capacity: float
    pods: int
    at_unix_s: float
    sequence: int
    silent: bool
    demand: Demand
    version: str
    counted: CountedPods
    def __init__(self, node: _Optional[str] = ..., pod_capacity: _Optional[float] = ..., pods: _Optional[int] = ..., at_unix_s: _Optional[float] = ..., sequence: _Optional[int] = ..., silent: bool = ..., demand: _Optional[_Union[Demand, _Mapping]] = ..., version: _Optional[str] = ..., counted: _Optional[_Union[CountedPods, _Mapping]] = ...) -> None: ...

class CountedPods(_message.Message):
    __slots__ = ("uids",)
    UIDS_FIELD_NUMBER: _ClassVar[int]
    uids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, uids: _Optional[_Iterable[str]] = ...) -> None: ...

class Demand(_message.Message):
    __slots__ = ("cores", "gib", "demand_cores", "demand_cores_variance", "held_gib", "baseline_gib", "workloads", "unknown_workloads", "counted", "disk")
    CORES_FIELD_NUMBER: _ClassVar[int]
    GIB_FIELD_NUMBER: _ClassVar[int]
    DEMAND_CORES_FIELD_NUMBER: _ClassVar[int]
    DEMAND_CORES_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    HELD_GIB_FIELD_NUMBER: _ClassVar[int]
    BASELINE_GIB_FIELD_NUMBER: _ClassVar[int]
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    DISK_FIELD_NUMBER: _ClassVar[int]
    cores: float
    gib: float
    demand_cores: float
    demand_cores_variance: float
    held_gib: float
    baseline_gib: float
    workloads: _containers.RepeatedCompositeFieldContainer[Workload]
    unknown_workloads: _containers.RepeatedScalarFieldContainer[str]
    counted: _containers.RepeatedCompositeFieldContainer[Pod]
    disk: Disk
    def __init__(self, cores: _Optional[float] = ..., gib: _Optional[float] = ..., demand_cores: _Optional[float] = ..., demand_cores_variance: _Optional[float] = ..., held_gib: _Optional[float] = ..., baseline_gib: _Optional[float] = ..., workloads: _Optional[_Iterable[_Union[Workload, _Mapping]]] = ..., unknown_workloads: _Optional[_Iterable[str]] = ..., counted: _Optional[_Iterable[_Union[Pod, _Mapping]]] = ..., disk: _Optional[_Union[Disk, _Mapping]] = ...) -> None: ...

class Disk(_message.Message):
    __slots__ = ("reads", "level")
    READS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    reads: float
    level: float
    def __init__(self, reads: _Optional[float] = ..., level: _Optional[float] = ...) -> None: ...

class Workload(_message.Message):
    __slots__ = ("name", "pods", "stops_per_s", "cores", "cores_variance", "gib", "gib_variance", "reads", "reads_variance", "measured", "exposed")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PODS_FIELD_NUMBER: _ClassVar[int]
    STOPS_PER_S_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    CORES_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    GIB_FIELD_NUMBER: _ClassVar[int]
    GIB_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    READS_FIELD_NUMBER: _ClassVar[int]
    READS_VARIANCE_FIELD_NUMBER: _ClassVar[int]
    MEASURED_FIELD_NUMBER: _ClassVar[int]
    EXPOSED_FIELD_NUMBER: _ClassVar[int]
    name: str
    pods: int
    stops_per_s: float
    cores: float
    cores_variance: float
    gib: float
    gib_variance: float
    reads: float
    reads_variance: float
    measured: bool
    exposed: float
    def __init__(self, name: _Optional[str] = ..., pods: _Optional[int] = ..., stops_per_s: _Optional[float] = ..., cores: _Optional[float] = ..., cores_variance: _Optional[float] = ..., gib: _Optional[float] = ..., gib_variance: _Optional[float] = ..., reads: _Optional[float] = ..., reads_variance: _Optional[float] = ..., measured: bool = ..., exposed: _Optional[float] = ...) -> None: ...

class Pod(_message.Message):
    __slots__ = ("uid", "workload")
    UID_FIELD_NUMBER: _ClassVar[int]
    WORKLOAD_FIELD_NUMBER: _ClassVar[int]
    uid: str
    workload: int
    def __init__(self, uid: _Optional[str] = ..., workload: _Optional[int] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("workloads", "version")
    class WorkloadsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    WORKLOADS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    workloads: _containers.ScalarMap[str, str]
    version: str
    def __init__(self, workloads: _Optional[_Mapping[str, str]] = ..., version: _Optional[str] = ...) -> None: ...
