"""The signer as a process: opens what its configuration names, signs, and closes everything."""

from __future__ import annotations

import logging
import os
import random
import threading
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry

from carico.clock import SystemClock
from carico.config import SignerConfig
from carico.deployment.authority import SIGNER, Authority
from carico.enrolment.metrics import SignerMetrics
from carico.enrolment.signer import Signer
from carico.errors import InvalidConfig
from carico.http.expiry import Expiry
from carico.http.health import serve_status
from carico.kube.client import KubeClient
from carico.kube.reflector import Reflector

_log = logging.getLogger(__name__)


def run_signer(config: SignerConfig, stop: threading.Event) -> None:
    """Run a signer until `stop` is set.

    Raises
    ------
    CaricoError
        If the configuration is unusable, or the folder holds no CA.
    """
    namespace = config.namespace or os.environ.get("NAMESPACE", "")
    if not namespace:
        raise InvalidConfig("the signer needs the agents' namespace: give `namespace`, or set NAMESPACE")
    authority = Authority(Path(config.authority), datetime.now(UTC))
    ca = authority.ca_digest()
    following = threading.Event()
    registry = CollectorRegistry()
    with ExitStack() as opened:
        named = config.kubernetes
        kube = KubeClient.from_config(named.kubeconfig, named.context, remedy=named.REMEDY)
        opened.callback(kube.close)
        signer = Signer(
            kube,
            authority,
            namespace,
            timedelta(hours=config.life_hours),
            lambda: datetime.now(UTC),
            SignerMetrics(registry),
        )
        reflector = opened.enter_context(
            Reflector(
                kube.signing_requests(SIGNER),
                signer.consider,
                SystemClock(),
                random.Random(),
                following=lambda follows: following.set() if follows else following.clear(),
                what="signing requests",
            )
        )
        opened.enter_context(Expiry(config.tls, registry))
        status = opened.enter_context(
            serve_status(
                config.status,
                config.tls,
                registry,
                healthy=lambda: "" if reflector.is_alive() else "the thread that follows requests has ended",
                ready=lambda: "" if following.is_set() else "requests are not followed: the log says why",
            )
        )
        _log.info("signing", extra={"namespace": namespace, "ca": ca, "status_port": status.port})
        stop.wait()
