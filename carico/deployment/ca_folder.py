"""The folder in which a user keeps a deployment's CA: ``ca.crt`` and ``ca.key``, as `carico certs --ca` makes them.

Whoever has the CA's key can pose as any process of CARICO, so the key is not on the cluster unless the user wants it
there. The default folder is named after the cluster, not after a context of the kubeconfig, which may change.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from carico.deployment.authority import CA
from carico.errors import InvalidInput
from carico.files import write_whole
from carico.kube.objects import KubeObjects

_MODES = {f"{CA}.key": 0o600, f"{CA}.crt": 0o644}


def default_folder(kube: KubeObjects, environment: Mapping[str, str]) -> Path:
    """Return the folder for a cluster's CA: ``carico/UID`` in the user's folder for configurations.

    The UID is that of the namespace kube-system, which lives as long as its cluster.

    Raises
    ------
    InvalidInput
        If the namespace cannot be found.
    KubeError
        If the API server does not answer, or refuses.
    """
    found = kube.read({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}})
    uid = (found or {"metadata": {}})["metadata"].get("uid")
    if not uid:
        raise InvalidInput(
            "the cluster's CA is kept in a folder named after the namespace kube-system, which there is not: "
            "give --certificates FOLDER"
        )
    home = environment.get("XDG_CONFIG_HOME") or ""
    base = Path(home) if Path(home).is_absolute() else Path.home() / ".config"
    return base / "carico" / str(uid)


def has_ca(folder: Path) -> bool:
    """Return whether a folder has a CA.

    Raises
    ------
    InvalidInput
        If it has only the certificate or only the key.
    """
    there = [(folder / name).exists() for name in _MODES]
    if any(there) and not all(there):
        raise InvalidInput(
            f"{folder} must hold both {' and '.join(_MODES)}, or none of them: restore the one that is missing, or "
            f"replace the CA and all certificates with --new-ca"
        )
    return all(there)


def copy_ca(source: Path, into: Path) -> None:
    """Copy a CA from one folder into another, which is made if it does not exist, for its owner alone.

    Raises
    ------
    InvalidInput
        If a file cannot be read or written; the CA that was there is complete.
    """
    try:
        into.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name, mode in _MODES.items():
            content = (source / name).read_bytes()
            file = into / name
            if not file.is_file() or file.read_bytes() != content:
                write_whole(file, content, mode)
    except OSError as error:
        raise InvalidInput(
            f"the CA cannot be copied from {source} to {into}: {error.strerror}; give another --certificates FOLDER"
        ) from error
