"""What a registry says: the digest of the image that a tag stands for at this moment.

The protocol is that of the OCI distribution specification, and the credentials are those of ``docker login``.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import urllib3
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import parse_dict_header

from carico.deployment.images import DIGEST, check_image, full_name
from carico.errors import RegistryError
from carico.printable import printable
from carico.rpc.tls import is_loopback

_KINDS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)
"""What a tag may stand for. Lists of images for several architectures come first: their digest is good on all nodes."""
_WITHIN_S = (3.0, 10.0)
"""For a connection and for an answer: nobody waits for long who deploys where no registry can be reached."""
_MOST_REDIRECTS = 5
_MOST_BYTES = 1 << 20
"""The longest answer with a token that is read."""
_DOCKER_HUB = "docker.io"
_CLIENT = "carico"
"""Who wants a token: registries ask for a name, and accept any."""
_HELPER = re.compile(r"[A-Za-z0-9._-]+")


class Registry:
    """Asks registries for digests.

    Parameters
    ----------
    environment : mapping
        Where ``DOCKER_CONFIG`` and ``HOME`` say which folder has the credentials of ``docker login``, and ``PATH``
        where its helpers are.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def pinned(self, image: str) -> str:
        """Return the image as ``NAME:TAG@sha256:DIGEST``; a name that has a digest already stays as it is.

        Raises
        ------
        InvalidInput
            If the name makes no sense.
        RegistryError
            If the registry does not say which digest the tag stands for.
        """
        check_image(image)
        if "@" in image:
            return image
        host, _, name = full_name(image).partition("/")
        tag = image.rpartition("/")[2].partition(":")[2] or "latest"
        path = f"/v2/{name}/manifests/{tag}"
        with _told(host), requests.Session() as session:
            if _is_here(host):  # a proxy would look for it on its own machine
                session.trust_env = False
                session.verify = self._environment.get("REQUESTS_CA_BUNDLE") or True
            answer = self._asked(session, host, _first(session, host, path))
        digest = answer.headers.get("Docker-Content-Digest", "")
        if not DIGEST.fullmatch(digest):
            raise RegistryError(f"the registry {host} gave no digest, but {printable(repr(digest[:100]))}")
        return f"{image}@{digest}"

    def _asked(self, session: requests.Session, host: str, answer: requests.Response) -> requests.Response:
        """Ask again with what the registry wants if its first answer is a refusal; return the answer, a success."""
        if answer.status_code == 401:
            # Saved credentials are for this registry alone, not for another host that it redirects to.
            credentials = self._credentials(host) if urlsplit(answer.url).netloc == _server(host) else None
            header = answer.headers.get("WWW-Authenticate", "")
            auth: AuthBase | None = None
            if bearer := re.search(r"(?i)(?:^|,)\s*bearer\s+(.*)", header):
                challenge = parse_dict_header(bearer[1])  # type: ignore[no-untyped-call]
                auth = _Bearer(_token(session, challenge, credentials))
            elif isinstance(credentials, HTTPBasicAuth) and re.search(r"(?i)(?:^|,)\s*basic\b", header):
                auth = credentials
            if auth is not None:
                answer = _head(session, answer.url, auth)
        if answer.status_code in (401, 403):
            raise RegistryError(f"the registry {host} shows the image to nobody without rights (docker login {host})")
        if answer.status_code == 404:
            raise RegistryError(f"the registry {host} has no such image")
        if answer.status_code != 200:
            raise RegistryError(f"the registry {host} answered with status {answer.status_code}")
        return answer

    def _credentials(self, host: str) -> HTTPBasicAuth | _RefreshToken | None:
        """Return what ``docker login`` has saved for a registry, if anything."""
        home = self._environment.get("HOME", "/")
        folder = Path(self._environment.get("DOCKER_CONFIG") or f"{home}/.docker")
        try:
            config = json.loads((folder / "config.json").read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            raise RegistryError(f"{folder}/config.json cannot be read: {error}") from error
        names = ["https://index.docker.io/v1/"] if host == _DOCKER_HUB else [host, f"https://{host}"]
        for name in names:
            helper = _entry(config, "credHelpers", name) or _entry(config, "credsStore")
            if isinstance(helper, str) and (found := self._of_helper(helper, name)) is not None:
                return found
            refresh = _entry(config, "auths", name, "identitytoken")
            if isinstance(refresh, str) and refresh:
                return _RefreshToken(refresh)
            saved = _entry(config, "auths", name, "auth")
            if isinstance(saved, str) and saved:
                try:
                    user, colon, password = base64.b64decode(saved, validate=True).decode().partition(":")
                except ValueError:
                    colon = ""
                if not colon:
                    raise RegistryError(f"the entry of {name} in {folder}/config.json is damaged: docker login {host}")
                return HTTPBasicAuth(user.encode(), password.encode())
        return None

    def _of_helper(self, helper: str, name: str) -> HTTPBasicAuth | _RefreshToken | None:
        """Return what one of Docker's credential helpers knows of a registry; None if it knows nothing."""
        if not _HELPER.fullmatch(helper):
            raise RegistryError(f"{helper!r} is no name of a credential helper of Docker")
        program = f"docker-credential-{helper}"
        try:
            done = subprocess.run(  # noqa: S603  # the user's own program, as Docker runs it
                [program, "get"], input=name.encode(), capture_output=True, timeout=30, env=dict(self._environment)
            )
            answer = json.loads(done.stdout) if done.returncode == 0 else {}
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise RegistryError(f"{program}, which has the credentials of {name}, cannot be used: {error}") from error
        user, secret = _entry(answer, "Username"), _entry(answer, "Secret")
        if not isinstance(user, str) or not isinstance(secret, str):
            return None
        return _RefreshToken(secret) if user == "<token>" else HTTPBasicAuth(user.encode(), secret.encode())


@dataclass(frozen=True)
class _RefreshToken:
    """What ``docker login`` saves instead of a password where a registry gives it, as Azure's does (OAuth 2)."""

    value: str


class _Bearer(AuthBase):
    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Nobody(AuthBase):
    """No credentials, not even those of ``~/.netrc``, which requests would take by itself."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


def _first(session: requests.Session, host: str, path: str) -> requests.Response:
    """Ask without credentials: over TLS, or as Docker does, without it where nothing leaves this machine."""
    if _is_here(host):
        with suppress(requests.exceptions.ConnectionError):
            return _head(session, f"https://{host}{path}", _Nobody())
        return _head(session, f"http://{host}{path}", _Nobody())
    return _head(session, f"https://{_server(host)}{path}", _Nobody())


def _server(host: str) -> str:
    """Return the host, with its port, that answers for a registry."""
    return "registry-1.docker.io" if host == _DOCKER_HUB else host


def _head(session: requests.Session, url: str, auth: AuthBase) -> requests.Response:
    """Ask for a manifest.

    Redirections are followed here, because requests would take passwords from ``~/.netrc`` to where they lead, and
    would follow them to connections without TLS. Credentials stay with the host that they are for.
    """
    for _ in range(_MOST_REDIRECTS + 1):
        answer = session.head(
            _safe(url), headers={"Accept": _KINDS}, auth=auth, timeout=_WITHIN_S, allow_redirects=False
        )
        if not answer.is_redirect:
            return answer
        following = urljoin(url, answer.headers["Location"])
        if urlsplit(following).netloc != urlsplit(url).netloc:
            auth = _Nobody()
        url = following
    raise RegistryError(f"{urlsplit(url).netloc} redirects more than {_MOST_REDIRECTS} times")


def _token(
    session: requests.Session, challenge: Mapping[str, Any], credentials: HTTPBasicAuth | _RefreshToken | None
) -> str:
    """Get the token that a registry wants from the server that it names."""
    realm = _safe(str(challenge.get("realm") or ""))
    wanted = {name: str(challenge[name]) for name in ("service", "scope") if challenge.get(name)}
    auth = credentials if isinstance(credentials, HTTPBasicAuth) else _Nobody()
    asking = partial(session.request, url=realm, auth=auth, timeout=_WITHIN_S, stream=True, allow_redirects=False)
    if isinstance(credentials, _RefreshToken):
        grant = {"grant_type": "refresh_token", "client_id": _CLIENT, "refresh_token": credentials.value}
        asked = asking("POST", data=wanted | grant)
    else:
        asked = asking("GET", params=wanted)
    with asked as answer:
        body = answer.raw.read(_MOST_BYTES, decode_content=True) if answer.status_code == 200 else b""
    try:
        document = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        document = None
    token = _entry(document, "token") or _entry(document, "access_token")
    if not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
        where = printable(urlsplit(realm).netloc[:100])
        raise RegistryError(f"{where} gave no token for the image (status {answer.status_code})")
    return token


def _safe(url: str) -> str:
    """Return a URL that nobody on the way can read or change what is sent to, and refuse all others."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and _is_here(parts.netloc)):
        return url
    raise RegistryError(f"the registry sends to {printable(repr(url[:100]))}, which is not https://")


@contextmanager
def _told(host: str) -> Iterator[None]:
    """Say in a line what kept a registry from answering."""
    try:
        yield
    except requests.exceptions.SSLError as error:
        raise RegistryError(
            f"there is no trusted connection to the registry {host}: {_cause(error)} (REQUESTS_CA_BUNDLE: the file of "
            f"the authorities that are trusted)"
        ) from error
    except requests.exceptions.ConnectTimeout as error:
        raise RegistryError(f"the registry {host} cannot be reached within {_WITHIN_S[0]:g} s") from error
    except requests.exceptions.Timeout as error:
        raise RegistryError(f"the registry {host} did not answer within {_WITHIN_S[1]:g} s") from error
    except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError, ValueError) as error:
        raise RegistryError(f"the registry {host} cannot be asked: {_cause(error)}") from error


def _cause(error: BaseException) -> str:
    """Return what the innermost error says; the outer ones repeat the URL and the names of classes."""
    reason = error
    while (inner := getattr(reason, "reason", None) or reason.__cause__ or reason.__context__) is not None:
        if not isinstance(inner, BaseException):
            break
        reason = inner
    return printable(str(reason)[:200])


def _entry(document: Any, *path: str) -> Any:
    """Return what a document has at a path; None where there is nothing."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _is_here(host: str) -> bool:
    """Whether a host, with or without a port, is this machine."""
    return is_loopback(urlsplit(f"//{host}").hostname or "")
