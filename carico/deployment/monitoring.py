"""What Prometheus and Grafana need: alerts, a dashboard, and both as objects of the Prometheus operator.

`carico deploy` applies none of it, because a cluster need not have the operator.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any

import yaml

FOLDER = files("carico") / "manifests" / "monitoring"
_LABELS = {
    "app.kubernetes.io/name": "carico",
    "app.kubernetes.io/component": "monitoring",
    "app.kubernetes.io/part-of": "carico",
}


def alerts() -> str:
    """Return the alerts, as a file that Prometheus reads."""
    return (FOLDER / "alerts.yaml").read_text(encoding="utf-8")


def dashboard() -> str:
    """Return the dashboard, as JSON that Grafana imports."""
    return (FOLDER / "dashboard.json").read_text(encoding="utf-8")


def operator_objects(namespace: str) -> list[dict[str, Any]]:
    """Return a PodMonitor and a PrometheusRule, and a ConfigMap that Grafana's sidecar loads."""
    monitor = yaml.safe_load((FOLDER / "pod-monitor.yaml").read_text(encoding="utf-8"))
    monitor["metadata"]["namespace"] = namespace
    rule = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "carico", "namespace": namespace, "labels": _LABELS},
        "spec": yaml.safe_load(alerts()),
    }
    grafana = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "carico-dashboard",
            "namespace": namespace,
            "labels": _LABELS | {"grafana_dashboard": "1"},
        },
        "data": {"carico.json": dashboard()},
    }
    return [monitor, rule, grafana]
