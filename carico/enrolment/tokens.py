"""Keeps files with tokens of service accounts, for containers whose account is not that of their pod.

A pod has one account, and the kubelet keeps a token of that account only, which it replaces before it expires. For the
other accounts that a pod's containers need, this process asks the API server for tokens, with the pod's own one, and
replaces them likewise. Clients of the Kubernetes API read the file again every minute.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from carico.backoff import Backoff
from carico.errors import KubeError
from carico.files import write_whole

TOKEN_S = 3600
"""How long a token is valid, seconds; as that of a pod's own account in the manifests."""
TOKEN = "token"  # noqa: S105  a file's name
CA_FILE = "ca.crt"
_RENEW_AFTER = 2 / 3
"""The share of its life after which a token is replaced; a random tenth of its life is taken off."""
_AGAIN = Backoff(first_s=1.0, longest_s=60.0)
_LEAST_S = 60.0

_log = logging.getLogger(__name__)


class Tokens(Protocol):
    """The part of the Kubernetes API that is needed (`carico.kube.client.KubeClient`)."""

    def account_token(self, namespace: str, account: str, life_s: int) -> tuple[str, int]:
        """Return a token of a service account, and how long it is valid, seconds."""
        ...


@dataclass(frozen=True)
class TokenKeeper:
    """Keeps a folder for each account, with the files ``token`` and ``ca.crt``, as Kubernetes mounts them in a pod.

    Parameters
    ----------
    kube : Tokens
    namespace : str
        Of the accounts.
    folders : mapping of str to Path
        By account; they must exist.
    ca : Path
        The CA of the API server, which is copied into each folder.
    rng : random.Random
        Spreads renewals.
    """

    kube: Tokens
    namespace: str
    folders: Mapping[str, Path]
    ca: Path
    rng: random.Random

    def renew(self) -> float:
        """Replace all tokens, and return after how many seconds they are to be replaced again.

        Raises
        ------
        KubeError
            If the API server does not answer, or refuses.
        OSError
            If a file cannot be read or written.
        """
        lives = []
        for account, folder in self.folders.items():
            token, life_s = self.kube.account_token(self.namespace, account, TOKEN_S)
            write_whole(folder / CA_FILE, self.ca.read_bytes(), 0o444)
            write_whole(folder / TOKEN, token.encode(), 0o400)  # last: whoever waits for it finds all files
            lives.append(life_s)
        return max(min(lives) * (_RENEW_AFTER - self.rng.uniform(0.0, 0.1)), _LEAST_S)

    def run(self, stop: threading.Event) -> None:
        """Replace all tokens now and whenever they are due, and sooner after a failure, until `stop` is set."""
        failures = 0
        while not stop.is_set():
            try:
                wait_s = self.renew()
            except (KubeError, OSError) as error:
                failures += 1
                wait_s = _AGAIN.wait_s(failures, self.rng)
                _log.warning("no new tokens: %s", error, extra={"failures": failures, "again_in_s": round(wait_s)})
            else:
                failures = 0
                _log.info("new tokens", extra={"accounts": sorted(self.folders), "due_in_s": round(wait_s)})
            stop.wait(wait_s)
