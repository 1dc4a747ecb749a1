"""What `docker login` has saved, and what registries answer to `carico deploy`."""

import io
import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch
from urllib.parse import urlsplit

import requests
import urllib3

from carico.deployment.registry import Registry
from carico.errors import RegistryError
from tests.fuzz.target import Target

IMAGE = "registry.example/team/carico:7"
DIGEST = "sha256:" + "1" * 64
BEARER = 'Bearer realm="https://tokens.example/token",service="registry",scope="repository:team/carico:pull"'
PASSWORD = {"auths": {"registry.example": {"auth": "YWRhOnNlY3JldA=="}}}
REFRESH = {"auths": {"registry.example": {"auth": "MDo=", "identitytoken": "refresh"}}}
HELPER = {"credHelpers": {"registry.example": "vault"}, "credsStore": "desktop"}
FOUND = [200, {"Docker-Content-Digest": DIGEST}, ""]
TOKEN = [200, {}, json.dumps({"token": "t"})]


class Answering(requests.Session):
    """A session that gets its answers from a list, and looks what is sent to whom."""

    answers = ()

    def send(self, request, **options):
        """Answer a request."""
        parts = urlsplit(request.url)
        assert parts.scheme == "https", "only a registry on this machine is asked without TLS"
        if request.method == "HEAD" and request.headers.get("Authorization", "").startswith("Basic"):
            assert parts.netloc == "registry.example", "credentials are not for where it redirects to"
        status, headers, body = next(self.answers, (500, {}, b""))
        answer = requests.Response()
        answer.status_code, answer.url, answer.request = status, request.url, request
        answer.headers.update(headers)
        answer.raw = urllib3.HTTPResponse(io.BytesIO(body), headers, status, preload_content=False)
        return answer


def asked_for(data):
    """Return what is saved and what is answered; an input that has neither is what is saved."""
    try:
        document = json.loads(data)
        saved = json.dumps(document["saved"]).encode()
        answers = [
            (int(status), {str(name): str(value) for name, value in headers.items()}, str(body).encode())
            for status, headers, body in document["answers"]
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
        saved, answers = data, [(401, {"WWW-Authenticate": BEARER}, b"")]
    return saved, answers


def read_answers(data):
    saved, answers = asked_for(data)
    Answering.answers = iter(answers)
    with TemporaryDirectory() as folder, patch.object(requests, "Session", Answering):
        (Path(folder) / "config.json").write_bytes(saved)
        return Registry({"DOCKER_CONFIG": folder, "PATH": folder}).pinned(IMAGE)


def is_pinned(image):
    name, _, digest = image.partition("@")
    assert name == IMAGE
    assert re.fullmatch("sha256:[0-9a-f]{64}", digest)


def seed(saved, *answers):
    return json.dumps({"saved": saved, "answers": answers}).encode()


TARGETS = [
    Target(
        "registry.answers",
        "what docker login has saved, and what registries and servers of tokens answer",
        read_answers,
        (RegistryError,),
        is_pinned,
        seeds=(
            seed({}, FOUND),
            seed(PASSWORD, [401, {"WWW-Authenticate": BEARER}, ""], TOKEN, FOUND),
            seed(PASSWORD, [401, {"WWW-Authenticate": 'Negotiate, Basic realm="here"'}, ""], FOUND),
            seed(REFRESH, [401, {"WWW-Authenticate": BEARER}, ""], TOKEN, FOUND),
            seed(HELPER, [401, {"WWW-Authenticate": "Basic"}, ""]),
            seed(PASSWORD, [307, {"Location": "https://o.example/"}, ""], [401, {"WWW-Authenticate": BEARER}, ""]),
            seed({}, [404, {}, ""]),
            json.dumps(PASSWORD).encode(),
        ),
        form="json",
    )
]
