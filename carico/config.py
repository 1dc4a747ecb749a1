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


class AggregatorConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The aggregation server (``carico aggregator``).

    Parameters
    ----------
    host, port
        Where nodes and other replicas call.
    tls : TlsFiles, optional
        Without it nothing is encrypted, which needs `insecure_loopback` and a loopback `host`.
    insecure_loopback : bool
    resources : int
        Resources that every agent observes.
    rank : int, optional
        Components of the view; all by default.
    node_timeout_s : float
        A node that was not heard of for so long counts no more. Agents exchange at least every 5 s.
    max_nodes : int
        More than so many are refused: each may have one subspace waiting.
    merge_every_s : float
        What has arrived within that time is merged in one go.
    peers : tuple of str
        Other replicas, host:port each; one direction of every pair is enough.
    reconcile_every_s : float
        How often their views are exchanged, on average.
    """

    host: str = "127.0.0.1"
    port: Port = 50051
    tls: TlsFiles | None = None
    insecure_loopback: bool = False
    resources: Annotated[int, Meta(ge=1, le=64)] = 2
    rank: Annotated[int, Meta(ge=1, le=64)] | None = None
    node_timeout_s: Seconds = 30.0
    max_nodes: Annotated[int, Meta(ge=1, le=1_000_000)] = 20_000
    merge_every_s: Seconds = 0.05
    peers: tuple[Address, ...] = ()
    reconcile_every_s: Seconds = 1.0
    status: StatusConfig = StatusConfig()
    logs: LogConfig = LogConfig()


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
