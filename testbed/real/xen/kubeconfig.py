"""A kubeconfig that is used in another folder than its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import yaml

from testbed.errors import ClusterError


class _Files(msgspec.Struct, rename="kebab"):
    certificate_authority: str | None = None
    client_certificate: str | None = None
    client_key: str | None = None
    tokenFile: str | None = None  # noqa: N815 (its name in the file)


class _Entry(msgspec.Struct):
    cluster: _Files | None = None
    user: _Files | None = None


class _Kubeconfig(msgspec.Struct):
    """What has to be known of a kubeconfig's form to move it."""

    clusters: list[_Entry] | None = None
    users: list[_Entry] | None = None


def movable_kubeconfig(text: str, file: Path) -> str:
    """Return a valid kubeconfig with absolute paths.

    Parameters
    ----------
    text : str
        A kubeconfig.
    file : Path
        Where it lies; its paths are relative to that folder.

    Raises
    ------
    ClusterError
        If it has not the form of a kubeconfig.

    Examples
    --------
    >>> print(movable_kubeconfig("clusters: [{cluster: {certificate-authority: ca.crt}}]", Path("/home/c")), end="")
    clusters:
    - cluster:
        certificate-authority: /home/ca.crt
    """
    document: dict[str, Any] = _read(text, file)
    for kind in ("cluster", "user"):
        for entry in document.get(f"{kind}s") or ():
            described = entry.get(kind) or {}
            files = (field.encode_name for field in msgspec.structs.fields(_Files))
            described |= {name: str(file.parent / described[name]) for name in files if described.get(name)}
    return yaml.safe_dump(document, sort_keys=False)


def _read(text: str, file: Path) -> Any:
    """Return what a kubeconfig says; no message quotes it, because it holds secrets."""
    wrong = f"the kubeconfig {file} (control_plane) cannot be used"
    try:
        document = yaml.safe_load(text)
        msgspec.convert(document, _Kubeconfig)
    except msgspec.ValidationError as error:
        raise ClusterError(f"{wrong}: it has not the form of a kubeconfig: {error}") from None
    except (yaml.YAMLError, ValueError) as error:  # PyYAML raises ValueError for a date that is none
        mark = error.problem_mark if isinstance(error, yaml.MarkedYAMLError) else None
        where = "" if mark is None else f" from line {mark.line + 1} on"
        raise ClusterError(f"{wrong}: it is no YAML{where}") from None
    return document
