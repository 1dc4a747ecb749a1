"""The real cert-manager: its controller, built from a Go module that pins all versions, and its kinds.

``python -m tests.kits.cert_manager`` builds the controller, which takes some minutes, and keeps it beside the testbed's
programs. Version 1.11 is the last whose controller is within the project's main module, which Go's proxy has.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from pathlib import Path

import yaml

from testbed.errors import BuildFailed
from testbed.images.programs import Programs, ProgramSet
from testbed.user_cache import user_cache

PROJECT = "github.com/cert-manager/cert-manager"
CONTROLLER = ProgramSet("cert-manager", {"controller": f"{PROJECT}/cmd/controller"})
BUILD = "python -m tests.kits.cert_manager"
_MODULES = Path(__file__).parent / "modules"
_KINDS = ("certificaterequests", "certificates", "clusterissuers", "issuers")
_CONTROLLERS = (
    "issuers",
    "clusterissuers",
    "certificaterequests-approver",
    "certificaterequests-issuer-ca",
    *(f"certificates-{one}" for one in ("trigger", "issuing", "key-manager", "request-manager", "readiness")),
    "certificates-revision-manager",
)


def programs():
    """Return what builds the controller, or finds it."""
    return Programs(user_cache(), modules=_MODULES)


def controller():
    """Return the controller's path; None if it is not built."""
    try:
        program = programs().place(CONTROLLER) / "controller"
    except BuildFailed:  # no Go
        return None
    return program if program.is_file() else None


def definitions():
    """Return the CustomResourceDefinitions, from the module, where they are templates of Helm."""
    version = programs().version(ProgramSet(CONTROLLER.name, CONTROLLER.packages, version_of=PROJECT))
    command = ["go", "mod", "download", "-json", f"{PROJECT}@{version}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    folder = Path(json.loads(done.stdout)["Dir"]) / "deploy" / "crds"
    for kind in _KINDS:
        lines = (folder / f"crd-{kind}.yaml").read_text(encoding="utf-8").splitlines()
        definition = yaml.safe_load("\n".join(line for line in lines if "{{" not in line))
        definition["metadata"].pop("labels", None)
        definition["spec"].pop("conversion", None)  # by a webhook, which does not run
        yield definition


@contextmanager
def running(program, kubeconfig, log):
    """Run the controller, without webhooks: whoever makes Certificates here makes sound ones."""
    command = [
        str(program),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--metrics-listen-address=127.0.0.1:0",
        f"--controllers={','.join(_CONTROLLERS)}",
    ]
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(30)


if __name__ == "__main__":
    print(programs().build(CONTROLLER, print))
