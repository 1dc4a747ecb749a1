"""Approves or refuses requests for nodes' certificates, and signs; several replicas may do so at the same time.

A replica that another one was faster than is refused by the API server (409), because it changes a version of the
request that is not the latest.
"""

from __future__ import annotations

import base64
import copy
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Protocol

from carico.deployment.authority import Authority
from carico.enrolment.metrics import SignerMetrics
from carico.enrolment.rules import Granted, granted
from carico.errors import KubeRefused, NotSigned
from carico.logs import FewLines
from carico.printable import printable

_log = logging.getLogger(__name__)

Json = dict[str, Any]
_ELSEWHERE = frozenset({404, 409})
"""Statuses that mean that the request is gone, or another replica was faster."""
_MOST_LETTERS = 500
"""Of a reason why not, which may quote what the request says."""


class SigningRequests(Protocol):
    """The part of the Kubernetes API that is needed (`carico.kube.client.KubeClient`)."""

    def approve_signing_request(self, request: Mapping[str, Any]) -> Json:
        """Write Approved or Denied."""
        ...

    def answer_signing_request(self, request: Mapping[str, Any]) -> Json:
        """Write the certificate, or Failed."""
        ...


class Signer:
    """Decides on requests, one after the other.

    Parameters
    ----------
    api : SigningRequests
    authority : Authority
        The folder of the CA for nodes.
    namespace : str
        That of the agents.
    life : timedelta
        How long certificates are valid.
    now : callable
        Returns the time, with a time zone.
    metrics : SignerMetrics
    """

    def __init__(
        self,
        api: SigningRequests,
        authority: Authority,
        namespace: str,
        life: timedelta,
        now: Callable[[], datetime],
        metrics: SignerMetrics,
    ) -> None:
        self._api = api
        self._authority = authority
        self._namespace = namespace
        self._life = life
        self._now = now
        self._metrics = metrics
        self._refused = FewLines(_log, logging.WARNING, "a request was refused")

    def consider(self, request: Json) -> None:
        """Decide on a request that is new or has changed; one that has been decided on stays as it is.

        Raises
        ------
        KubeError
            If the API server does not answer, or is too busy.
        InvalidInput
            If the CA cannot be used.
        """
        status = request.get("status") or {}
        conditions = {condition["type"] for condition in status.get("conditions") or ()}
        if status.get("certificate") or conditions & {"Denied", "Failed"}:
            return
        try:
            self._decide(request, approved="Approved" in conditions)
        except KubeRefused as error:
            if error.may_pass:
                raise
            if error.status in _ELSEWHERE:
                self._metrics.requests.labels("lost").inc()
            else:
                self._metrics.requests.labels("error").inc()
                _log.error("%s cannot be answered: %s", request["metadata"]["name"], error)

    def _decide(self, request: Json, approved: bool) -> None:
        name = request["metadata"]["name"]
        try:
            given = granted(request["spec"], self._namespace, self._life)
        except NotSigned as why:
            # Somebody else may have approved what is refused here, and that cannot be undone.
            write, kind = (
                (self._api.answer_signing_request, "Failed")
                if approved
                else (self._api.approve_signing_request, "Denied")
            )
            message = printable(why)[:_MOST_LETTERS]
            write(self._with(request, kind, why.reason, message))
            self._metrics.requests.labels("refused").inc()
            self._refused.add(message, request=name, reason=why.reason)
            return
        # First, because a request that is approved and gets no certificate would wait for ever.
        certificate = self._signed(given)
        if not approved:
            text = f"the token of the request is that of an agent on the node {given.node}"
            request = self._api.approve_signing_request(self._with(request, "Approved", "AgentOfNode", text))
        answer = copy.deepcopy(request)
        answer.setdefault("status", {})["certificate"] = base64.b64encode(certificate).decode("ascii")
        self._api.answer_signing_request(answer)
        self._metrics.requests.labels("signed").inc()
        _log.info("signed", extra={"node": given.node, "request": name})

    def _signed(self, given: Granted) -> bytes:
        return replace(self._authority, now=self._now()).sign_node(given.node, given.key, given.life)

    def _with(self, request: Json, kind: str, reason: str, message: str) -> Json:
        """Return a request with one more condition."""
        changed = copy.deepcopy(request)
        at = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        condition = {"type": kind, "status": "True", "reason": reason, "message": message, "lastUpdateTime": at}
        status = changed.setdefault("status", {})
        status["conditions"] = [*(status.get("conditions") or ()), condition]
        return changed
