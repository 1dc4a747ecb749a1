"""The Docker daemon, called through its command; only the calls that the testbed needs.

The command is used rather than a library, because it reaches the same daemon as the user's `docker` does (contexts,
DOCKER_HOST), and because kind uses it, too.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from testbed.errors import DockerFailed, Unprepared
from testbed.images.step import LAST_LINES, STEP_S, run_step

Content = bytes | Path
"""A file in a build: its content, or the path of a file or folder that is copied with its modes."""

STAGE = "io.carico.stage"
"""Label of the intermediate images of a build."""

_ANSWER_S = 20.0


class Docker:
    """A Docker daemon.

    Parameters
    ----------
    command : str, optional
        The command to call; any other command must take the same arguments.
    """

    def __init__(self, command: str = "docker") -> None:
        self._command = command

    def version(self) -> str:
        """Return the daemon's version.

        Raises
        ------
        Unprepared
            If there is no such command, or no daemon answers.
        """
        try:
            return self.call("version", "--format", "{{.Server.Version}}", limit_s=_ANSWER_S).strip()
        except DockerFailed as error:
            raise Unprepared(
                f"no Docker daemon answers: {error}; start one (systemctl start docker), or name one "
                f"(DOCKER_HOST, docker context use)"
            ) from error

    def root(self) -> str:
        """Return the folder in which the daemon keeps images."""
        return self.call("info", "--format", "{{.DockerRootDir}}", limit_s=_ANSWER_S).strip()

    def size(self, image: str) -> int:
        """Return an image's size, bytes."""
        return int(self.call("image", "inspect", "--format", "{{.Size}}", image))

    def has(self, image: str) -> bool:
        """Whether the daemon has an image."""
        return bool(self.call("images", "--quiet", image).strip())

    def tags(self, pattern: str) -> list[str]:
        """Return the names and tags of the images whose repository matches a pattern."""
        return self.call("images", "--format", "{{.Repository}}:{{.Tag}}", pattern).split()

    def identity(self, image: str) -> tuple[str, str]:
        """Return the digest of an image's configuration, and when it was made, as in ISO 8601."""
        identity, created = self.call("image", "inspect", "--format", "{{.Id}} {{.Created}}", image).split()
        return identity, created

    def label(self, image: str, name: str) -> str:
        """Return a label of an image; an empty string if it has no such label."""
        return self.call("image", "inspect", "--format", f'{{{{index .Config.Labels "{name}"}}}}', image).strip()

    def build(
        self,
        tag: str,
        files: Mapping[str, Content],
        arguments: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Build an image from files, one of them named Containerfile; steps have no network.

        Parameters
        ----------
        tag : str
        files : mapping
            The files by name in the build, without a leading slash.
        arguments, labels : mapping, optional
            As ``--build-arg`` and ``--label``.

        Raises
        ------
        DockerFailed
            If a step fails; the message has its last lines.
        """
        options = [f"--build-arg={name}={value}" for name, value in (arguments or {}).items()]
        options += [f"--label={name}={value}" for name, value in (labels or {}).items()]
        command = ["build", "--network=none", "--force-rm", f"--tag={tag}", "--file=Containerfile", *options, "-"]
        with tempfile.TemporaryFile() as context:
            with tarfile.open(mode="w", fileobj=context) as packed:
                for name, content in sorted(files.items()):
                    _pack(packed, name, content)
            context.seek(0)
            self._end(self._started(command, context), command)
        # Builders other than BuildKit leave the images of earlier stages.
        self.call("image", "prune", "--force", f"--filter=label={STAGE}")

    def import_root(self, tag: str, folder: Path, without: Sequence[str] = ()) -> None:
        """Make an image of one layer from a folder with a root file system.

        Parameters
        ----------
        tag : str
        folder : Path
        without : sequence of str
            Patterns of files to leave out, in tar's syntax.
        """
        tar = ["tar", f"--directory={folder}", "--numeric-owner", *(f"--exclude={name}" for name in without)]
        with subprocess.Popen([*tar, "--create", "."], stdout=subprocess.PIPE) as packed:
            self._end(self._started(["import", "-", tag], packed.stdout), ["import", "-", tag])
        if packed.returncode:
            raise DockerFailed(f"tar of {folder} ended with {packed.returncode}")

    def save(self, images: Sequence[str], target: Sequence[str]) -> None:
        """Pipe images into another docker command, as in ``docker save IMAGE | docker exec -i CONTAINER ctr …``."""
        with subprocess.Popen([self._command, "save", *images], stdout=subprocess.PIPE) as saved:
            self._end(self._started(target, saved.stdout), target)
        if saved.returncode:
            raise DockerFailed(f"docker save {' '.join(images)} ended with {saved.returncode}")

    def unpack(self, arguments: Sequence[str], folder: Path) -> None:
        """Unpack the tar archive that a docker command writes into a folder, with owners and attributes; needs root."""
        folder.mkdir(parents=True, exist_ok=True)
        tar = ["tar", f"--directory={folder}", "--extract", "--preserve-permissions", "--same-owner", "--numeric-owner"]
        with subprocess.Popen([self._command, *arguments], stdout=subprocess.PIPE) as written:
            run_step([*tar, "--xattrs", "--xattrs-include=*"], lambda line: None, stdin=written.stdout)
        if written.returncode:
            raise DockerFailed(f"docker {' '.join(arguments)} ended with {written.returncode}")

    @contextmanager
    def exported(self, image: str) -> Iterator[IO[bytes]]:
        """Give an image's files as the stream of a tar archive.

        Raises
        ------
        DockerFailed
            If the daemon does not have the image.
        """
        container = self.call("create", "--network=none", image, "none").strip()
        try:
            with subprocess.Popen([self._command, "export", container], stdout=subprocess.PIPE) as exported:
                assert exported.stdout is not None
                yield exported.stdout
        finally:
            self.call("rm", container)

    def call(self, *arguments: str, limit_s: float = STEP_S, given: bytes = b"") -> str:
        """Run a docker command with `given` as its standard input, and return its output.

        Raises
        ------
        DockerFailed
            If it fails or takes longer than `limit_s`; the message has its last lines.
        Unprepared
            If Docker is not installed.
        """
        with tempfile.TemporaryFile() as stdin:
            stdin.write(given)
            stdin.seek(0)
            return self._end(self._started(arguments, stdin), arguments, limit_s)

    def _started(self, arguments: Sequence[str], stdin: IO[bytes] | int | None) -> subprocess.Popen[bytes]:
        try:
            return subprocess.Popen(
                [self._command, *arguments], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
        except FileNotFoundError as error:
            raise Unprepared(
                f"there is no command {self._command}: install Docker (Debian: docker.io), and start its daemon"
            ) from error

    def _end(self, process: subprocess.Popen[bytes], arguments: Sequence[str], limit_s: float = STEP_S) -> str:
        with process:
            try:
                out, err = process.communicate(timeout=limit_s)
            except BaseException as error:
                process.kill()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise DockerFailed(f"docker {' '.join(arguments)} did not end within {limit_s:.0f} s") from error
                raise
        if process.returncode:
            said = (err or out).decode(errors="replace").strip().splitlines()[-LAST_LINES:]
            raise DockerFailed(f"docker {' '.join(arguments)} ended with {process.returncode}:\n" + "\n".join(said))
        return out.decode(errors="replace")


def _pack(packed: tarfile.TarFile, name: str, content: Content) -> None:
    """Add a file or a whole folder, owned by root and without times, so that equal contents give equal layers."""
    if isinstance(content, Path):
        packed.add(content, name, filter=_plain)
    else:
        entry = _plain(tarfile.TarInfo(name))
        assert entry is not None
        entry.size = len(content)
        packed.addfile(entry, io.BytesIO(content))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if "__pycache__" in entry.name.split("/"):
        return None
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = 0
    return entry
