"""Configuration files of CARICO's processes: YAML, declared as msgspec types; needs the extra `agent` or `scheduler`.

Every process has one struct, here, with a default for all that has one. Whoever reads a file names the struct; an
unknown key, a wrong type or a number out of range is an error that names file and field.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, TypeVar

import msgspec
import yaml
from msgspec import Meta

from carico.errors import InvalidConfig
from carico.podevents.source import PLATFORM_NAMESPACES

Port = Annotated[int, Meta(ge=0, le=65535)]
"""A TCP port; 0 lets the system choose one."""
Seconds = Annotated[float, Meta(gt=0, le=86_400)]
Address = Annotated[str, Meta(pattern=r"^(\[[0-9a-fA-F:.]+\]|[^\[\]:/\s]+):[0-9]{1,5}$")]
"""host:port, of an IPv6 address [host]:port."""


class TlsFiles(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PEM files of a process: its certificate and key, and the CA that the other side's certificate must be from."""

    certificate: str
    key: str
    ca: str


class StatusConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where /healthz, /readyz and /metrics are served; plain HTTP, and nothing secret."""

    host: str = "127.0.0.1"
    port: Port = 0


class LogConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is logged, on standard error."""

    format: Literal["text", "json"] = "text"
    level: Literal["debug", "info", "warning", "error"] = "info"


class PodEventsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a node learns which pods run on it, see `carico.podevents`."""

    source: Literal["containerd", "cgroups", "kubernetes"] = "containerd"
    excluded_namespaces: tuple[str, ...] = PLATFORM_NAMESPACES
    """Kubernetes namespaces whose pods do not count; control groups know of none."""
    containerd_socket: str = "/run/containerd/containerd.sock"
    containerd_namespace: str = "k8s.io"
    cgroup_root: str = "/sys/fs/cgroup"


Config = TypeVar("Config", bound=msgspec.Struct)


def read_config(path: Path, kind: type[Config]) -> Config:
    """Return the configuration that a YAML file holds; an empty file is the defaults.

    Raises
    ------
    InvalidConfig
        If it cannot be read, is no YAML, or not what `kind` declares; the message names file and field.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InvalidConfig(f"cannot read the configuration {path}: {error}") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidConfig(f"{path} is no YAML: {' '.join(str(error).split())}") from error
    try:
        return msgspec.convert({} if document is None else document, kind)
    except msgspec.ValidationError as error:
        raise InvalidConfig(f"{path}: {error}") from error
