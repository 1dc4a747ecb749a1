"""Containers of the built images, restricted as on a cluster: no root, no capabilities, nothing to write to."""

from __future__ import annotations

import http.client
import ssl
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from testbed.images.catalogue import Catalogue
from testbed.images.docker import Docker
from testbed.images.programs import Programs
from testbed.real.waiting import wait_until
from testbed.user_cache import user_cache
from tests.kits.certificates import Certificates

USER = 65532
START_S = 60.0
FOLDER = "/etc/carico"
"""The folder of a container's given files."""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.components)


class Container:
    """A running container."""

    def __init__(self, container):
        self._container = container
        self._docker = container.get_wrapped_container()

    def port(self, number):
        """Return this machine's port that leads to a port of the container."""
        return int(self._container.get_exposed_port(number))

    def logged(self):
        return self._docker.logs().decode()

    def status(self, ca, path):
        """Return the HTTP status of the status port, as a kubelet would see it; 0 as long as there is no answer."""
        context = ssl.create_default_context(cafile=ca)
        host = self._container.get_container_host_ip()
        try:
            with closing(http.client.HTTPSConnection(host, self.port(9443), timeout=5, context=context)) as asked:
                asked.request("GET", path)
                return asked.getresponse().status
        except (OSError, http.client.HTTPException):
            return 0

    def handles(self, signal):
        """Whether the first process has a handler for a signal."""
        shown = "while read -r line; do echo $line; done < /proc/1/status"
        lines = self._docker.exec_run(["sh", "-c", shown]).output.decode().splitlines()
        (caught,) = (line.split(": ")[1] for line in lines if line.startswith("SigCgt"))
        return bool(int(caught, 16) >> (signal - 1) & 1)

    @property
    def processes(self):
        return len(self._docker.top()["Processes"])

    def wait_until(self, awaited, lacking):
        wait_until(awaited, lambda: f"not yet; it has logged: {self.logged()}" if lacking() else "", START_S)

    def wait(self):
        """Return the exit code, once there is one."""
        return self._docker.wait(timeout=START_S)["StatusCode"]

    def end(self):
        """Send SIGTERM and return the exit code and the seconds until the end."""
        began = time.monotonic()
        self._docker.kill("SIGTERM")
        return self.wait(), time.monotonic() - began


@pytest.fixture(scope="session")
def image():
    """A function that returns the tag of an image, and builds the image if it is missing."""
    docker = Docker()
    catalogue = Catalogue(docker, Programs(user_cache()))
    return lambda name: catalogue.image(name).ensure(docker, lambda text: None)


@pytest.fixture(scope="session")
def containers():
    """testcontainers without its helper, which would be pulled; containers that are started here are removed here."""
    from testcontainers.core import config, container

    config.testcontainers_config.ryuk_disabled = True
    # Use this machine's ports even if it looks like a container itself, because certificates name the host.
    config.testcontainers_config.connection_mode_override = config.ConnectionMode.docker_host
    return container


@pytest.fixture(scope="session")
def host(containers):
    """The host name by which this machine's clients reach containers."""
    return containers.DockerClient().host()


@pytest.fixture
def run(image, containers):
    """A function that starts a container of an image."""
    with ExitStack() as stack:

        def start(name, *command, ports=(), folder=None, writable=None, **options):
            container = containers.DockerContainer(
                image(name),
                command=list(command),
                ports=list(ports),
                volumes=[(str(folder), FOLDER, "ro")] if folder else [],
                user=f"{USER}:{USER}",
                read_only=True,
                cap_drop=["ALL"],
                security_opt=["no-new-privileges"],
                **options,
            )
            if writable:
                container.with_tmpfs_mount(writable, f"uid={USER},mode=0700")
            return Container(stack.enter_context(container))

        yield start


@pytest.fixture
def pki(tmp_path, host):
    """A function that makes a CA in a new folder."""
    return lambda name="pki": Certificates(tmp_path / name)
