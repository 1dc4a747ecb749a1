"""Which digest a registry says that a tag stands for, over real HTTP: rights, redirections, and what goes wrong."""

import base64
import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from carico.cli import main
from carico.deployment import registry
from carico.deployment.registry import Registry
from carico.errors import InvalidInput, RegistryError

DIGEST = "sha256:" + "1" * 64
BASIC = "Basic " + base64.b64encode(b"ada:secret").decode()


class FakeRegistry:
    """A registry with one image, team/carico:7, that answers as `rule` says.

    Parameters
    ----------
    rule : callable
        Given the handler of a request, answers it. By default everybody gets the digest.
    """

    def __init__(self):
        self.asked = []
        self.rule = lambda request: request.answer(200, {"Docker-Content-Digest": DIGEST})
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self):
                outer.asked.append((self.command, self.path, self.headers.get("Authorization")))
                outer.rule(self)

            def do_GET(self):
                self.do_HEAD()

            def do_POST(self):
                self.form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                self.do_HEAD()

            def answer(self, status, headers=(), body=b""):
                self.send_response(status)
                for name, value in dict(headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_port}"
        self.image = f"{self.host}/team/carico:7"
        self.thread = Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def fakes():
    made = []

    def make():
        made.append(FakeRegistry())
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def fake(fakes):
    return fakes()


@pytest.fixture
def asking(tmp_path):
    return Registry({"HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}"})


@pytest.fixture
def logged_in(tmp_path):
    """Save credentials as `docker login` does."""

    def save(**config):
        (tmp_path / ".docker").mkdir(exist_ok=True)
        (tmp_path / ".docker" / "config.json").write_text(json.dumps(config))

    return save


def wants_token(fake, credentials=None, token="t.0-k~e+n/="):
    """Let a registry name itself as the server of tokens, as Docker Hub and others name theirs."""

    def rule(request):
        if request.path.startswith("/token"):
            right = request.headers.get("Authorization") == credentials
            request.answer(200, body=json.dumps({"token": token} if right else {}).encode())
        elif request.headers.get("Authorization") == f"Bearer {token}":
            request.answer(200, {"Docker-Content-Digest": DIGEST})
        else:
            scope = 'service="registry",scope="repository:team/carico:pull"'
            request.answer(401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token",{scope}'})

    fake.rule = rule


def wants_refresh_token(fake, refresh):
    """Let a registry give tokens as Azure's does."""
    wants_token(fake)
    without = fake.rule

    def rule(request):
        if not request.path.startswith("/token"):
            return without(request)
        granted = request.command == "POST" and request.form == {
            "grant_type": ["refresh_token"],
            "client_id": ["carico"],
            "service": ["registry"],
            "scope": ["repository:team/carico:pull"],
            "refresh_token": [refresh],
        }
        token = {"access_token": "t.0-k~e+n/="} if granted else {}
        return request.answer(200 if granted else 401, body=json.dumps(token).encode())

    fake.rule = rule


def wants_password(request):
    if request.headers.get("Authorization") == BASIC:
        request.answer(200, {"Docker-Content-Digest": DIGEST})
    else:
        request.answer(401, {"WWW-Authenticate": 'Basic realm="here"'})


class TestAnswers:
    def test_a_tag_gets_the_digest_that_it_stands_for(self, fake, asking):
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"
        assert fake.asked == [("HEAD", "/v2/team/carico/manifests/7", None)]

    def test_a_name_without_a_tag_means_the_latest(self, fake, asking):
        assert asking.pinned(f"{fake.host}/carico") == f"{fake.host}/carico@{DIGEST}"
        assert fake.asked[0][1] == "/v2/carico/manifests/latest"

    def test_a_digest_needs_no_registry(self, asking):
        assert asking.pinned(f"registry.invalid/carico@{DIGEST}") == f"registry.invalid/carico@{DIGEST}"

    @pytest.mark.parametrize(
        ("image", "url"),
        [
            ("carico:7", "https://registry-1.docker.io/v2/library/carico/manifests/7"),
            ("docker.io/carico:7", "https://registry-1.docker.io/v2/library/carico/manifests/7"),
            ("index.docker.io/team/carico:7", "https://registry-1.docker.io/v2/team/carico/manifests/7"),
            ("team/carico:7", "https://registry-1.docker.io/v2/team/carico/manifests/7"),
            ("registry.k8s.io/kube-scheduler:v1.34.4", "https://registry.k8s.io/v2/kube-scheduler/manifests/v1.34.4"),
        ],
    )
    def test_names_mean_what_docker_means_by_them(self, asking, monkeypatch, image, url):
        asked = []

        def head(session, url, **_):
            asked.append(url)
            raise requests.exceptions.ConnectionError("no network here")

        monkeypatch.setattr(requests.Session, "head", head)
        with pytest.raises(RegistryError, match="no network here"):
            asking.pinned(image)
        assert asked == [url]  # not a second time without TLS

    @pytest.mark.parametrize("name", ["", "a b", "carico@sha256:12"])
    def test_a_name_that_makes_no_sense_is_refused(self, asking, name):
        with pytest.raises(InvalidInput):
            asking.pinned(name)


class TestRights:
    def test_a_token_for_everybody_is_fetched(self, fake, asking):
        wants_token(fake)
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"
        (_, path, _) = fake.asked[1]
        assert parse_qs(urlsplit(path).query) == {"service": ["registry"], "scope": ["repository:team/carico:pull"]}

    def test_a_token_is_fetched_with_the_credentials_of_docker_login(self, fake, asking, logged_in):
        wants_token(fake, BASIC)
        with pytest.raises(RegistryError, match=r"gave no token for the image \(status 200\)"):
            asking.pinned(fake.image)
        logged_in(auths={fake.host: {"auth": BASIC.removeprefix("Basic ")}})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    def test_a_password_is_used_where_one_is_wanted(self, fake, asking, logged_in):
        fake.rule = wants_password
        with pytest.raises(RegistryError, match=f"to nobody without rights \\(docker login {fake.host}\\)"):
            asking.pinned(fake.image)
        logged_in(auths={f"https://{fake.host}": {"auth": BASIC.removeprefix("Basic ")}})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    @pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
    def test_a_helper_of_docker_is_asked(self, fake, asking, logged_in, tmp_path, key):
        fake.rule = wants_password
        helper = tmp_path / "docker-credential-vault"
        helper.write_text('#!/bin/sh\nread name\necho "$1 $name" >&2\necho \'{"Username":"ada","Secret":"secret"}\'\n')
        helper.chmod(0o755)
        logged_in(**{key: "vault" if key == "credsStore" else {fake.host: "vault"}})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    def test_a_refresh_token_is_used_where_docker_login_has_saved_one(self, fake, asking, logged_in):
        wants_refresh_token(fake, "r/e+f r")
        nobody = base64.b64encode(b"00000000-0000-0000-0000-000000000000:").decode()
        logged_in(auths={fake.host: {"auth": nobody, "identitytoken": "another"}})
        with pytest.raises(RegistryError, match=r"gave no token for the image \(status 401\)"):
            asking.pinned(fake.image)
        logged_in(auths={fake.host: {"auth": nobody, "identitytoken": "r/e+f r"}})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"
        assert "r/e+f" not in str(fake.asked)  # neither in a path nor in a header

    def test_a_refresh_token_of_a_helper_is_used(self, fake, asking, logged_in, tmp_path):
        wants_refresh_token(fake, "refresh")
        helper = tmp_path / "docker-credential-vault"
        helper.write_text('#!/bin/sh\necho \'{"Username":"<token>","Secret":"refresh"}\'\n')
        helper.chmod(0o755)
        logged_in(credsStore="vault")
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    def test_a_refresh_token_is_no_password(self, fake, asking, logged_in):
        fake.rule = wants_password
        logged_in(auths={fake.host: {"identitytoken": "refresh"}})
        with pytest.raises(RegistryError, match="to nobody without rights"):
            asking.pinned(fake.image)
        assert "refresh" not in str(fake.asked)

    @pytest.mark.parametrize("says", ["exit 1", "echo '[]'", 'echo \'{"Username":"ada"}\''])
    def test_a_helper_that_knows_no_password_is_no_error(self, fake, asking, logged_in, tmp_path, says):
        helper = tmp_path / "docker-credential-vault"
        helper.write_text(f"#!/bin/sh\n{says}\n")
        helper.chmod(0o755)
        logged_in(credsStore="vault")
        wants_token(fake)
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    def test_credentials_are_not_for_a_host_that_a_registry_redirects_to(self, fake, fakes, asking, logged_in):
        other = fakes()
        wants_token(other)
        fake.rule = lambda request: request.answer(307, {"Location": f"http://{other.host}{request.path}"})
        logged_in(auths={host: {"auth": BASIC.removeprefix("Basic ")} for host in (fake.host, other.host)})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"
        assert {credentials for _, _, credentials in other.asked} == {None, "Bearer t.0-k~e+n/="}

    def test_a_password_in_netrc_is_not_sent_not_even_to_where_a_redirection_leads(self, fake, tmp_path, monkeypatch):
        (tmp_path / "netrc").write_text("machine 127.0.0.1 login ada password secret\n")
        monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
        fake.rule = lambda request: request.answer(200 if request.path == "/new" else 307, {"Location": "/new"})
        # A session as for registries elsewhere: that for one on this machine heeds nothing of the environment.
        with requests.Session() as session:
            answer = registry._head(session, f"http://{fake.host}/old", registry._Nobody())
        assert (answer.status_code, answer.url) == (200, f"http://{fake.host}/new")
        assert [credentials for _, _, credentials in fake.asked] == [None, None]

    @pytest.mark.parametrize("way", ["redirects", "wants a token"])
    def test_neither_passwords_nor_requests_go_to_others_without_tls(self, fake, asking, logged_in, monkeypatch, way):
        asked, send = [], requests.Session.send

        def sending(session, request, **options):
            asked.append(urlsplit(request.url).hostname)
            return send(session, request, **options)

        def rule(request):
            if way == "redirects":
                request.answer(307, {"Location": f"http://other.example{request.path}"})
            else:
                request.answer(401, {"WWW-Authenticate": 'Bearer realm="http://other.example/token"'})

        monkeypatch.setattr(requests.Session, "send", sending)
        fake.rule = rule
        logged_in(auths={fake.host: {"auth": BASIC.removeprefix("Basic ")}})
        with pytest.raises(RegistryError, match=r"http://other\.example/.*', which is not https://"):
            asking.pinned(fake.image)
        assert set(asked) == {"127.0.0.1"}

    def test_one_of_several_ways_is_taken(self, fake, asking, logged_in):
        ways = 'Negotiate, Basic realm="here"'

        def rule(request):
            if request.headers.get("Authorization") == BASIC:
                request.answer(200, {"Docker-Content-Digest": DIGEST})
            else:
                request.answer(401, {"WWW-Authenticate": ways})

        fake.rule = rule
        logged_in(auths={fake.host: {"auth": BASIC.removeprefix("Basic ")}})
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    def test_a_registry_on_this_machine_is_not_looked_for_behind_a_proxy(self, fake, asking, monkeypatch):
        for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"

    @pytest.mark.parametrize("realm", ["file:///etc/passwd", "ftp://example", "", "http:"])
    def test_tokens_come_from_servers_only(self, fake, asking, realm):
        fake.rule = lambda request: request.answer(401, {"WWW-Authenticate": f'Bearer realm="{realm}"'})
        with pytest.raises(RegistryError):
            asking.pinned(fake.image)


class TestWhatGoesWrong:
    @pytest.mark.parametrize(
        ("status", "headers", "says"),
        [
            (404, {}, "has no such image"),
            (403, {}, "without rights"),
            (401, {}, "without rights"),
            (401, {"WWW-Authenticate": "Negotiate"}, "without rights"),
            (500, {}, "answered with status 500"),
            (200, {}, "gave no digest, but ''"),
            (200, {"Docker-Content-Digest": "sha256:12"}, "gave no digest, but 'sha256:12'"),
            (200, {"Docker-Content-Digest": "\x1b[2J" + "x" * 1000}, r"gave no digest, but '[^\x1b]{1,110}'$"),
            (307, {"Location": "/v2/"}, "redirects more than 5 times"),
            (307, {"Location": "ftp://example/"}, "sends to 'ftp://example/', which is not https://"),
        ],
    )
    def test_answers_without_a_digest_are_told(self, fake, asking, status, headers, says):
        fake.rule = lambda request: request.answer(status, headers)
        with pytest.raises(RegistryError, match=says):
            asking.pinned(fake.image)

    @pytest.mark.parametrize(
        "body", [b"", b"{", b"[]", b'{"token": 7}', b'{"token": "a\\nb"}', b"[" * 100_000, b" " * (2 << 20) + b"{}"]
    )
    def test_no_token_is_told(self, fake, asking, body):
        def rule(request):
            if request.path.startswith("/token"):
                request.answer(200, body=body)
            else:
                request.answer(401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token"'})

        fake.rule = rule
        with pytest.raises(RegistryError, match=f"{fake.host} gave no token"):
            asking.pinned(fake.image)

    def test_a_token_server_that_breaks_off_is_told(self, fake, asking):
        def rule(request):
            if request.path.startswith("/token"):
                request.send_response(200)
                request.send_header("Content-Encoding", "gzip")
                request.send_header("Content-Length", "3")
                request.end_headers()
                request.wfile.write(b"abc")
            else:
                request.answer(401, {"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token"'})

        fake.rule = rule
        with pytest.raises(RegistryError, match="cannot be asked"):
            asking.pinned(fake.image)

    def test_a_registry_that_is_not_there(self, fakes, asking):
        gone = fakes()
        gone.close()
        with pytest.raises(RegistryError, match=r"cannot be asked: .*Connection refused"):
            asking.pinned(gone.image)

    def test_a_registry_that_says_nothing(self, fake, asking, monkeypatch):
        monkeypatch.setattr(registry, "_WITHIN_S", (0.2, 0.2))
        fake.rule = lambda request: request.rfile.read(1)
        with pytest.raises(RegistryError, match=r"did not answer within 0\.2 s"):
            asking.pinned(fake.image)

    def test_only_on_this_machine_a_registry_is_asked_without_tls(self, fake, asking, monkeypatch):
        monkeypatch.setattr(registry, "_is_here", lambda host: False)
        with pytest.raises(RegistryError, match="there is no trusted connection to the registry"):
            asking.pinned(fake.image)
        assert fake.asked == []

    @pytest.mark.parametrize(
        ("config", "says"),
        [
            ("{", "cannot be read"),
            ("[" * 100_000, "cannot be read"),
            ('{"auths": {"HOST": {"auth": "?"}}}', "is damaged: docker login"),
            ('{"auths": {"HOST": {"auth": "YWRh"}}}', "is damaged: docker login"),
            ('{"credsStore": "../../evil"}', "is no name of a credential helper"),
            ('{"credsStore": "missing"}', "docker-credential-missing, which has the credentials of"),
        ],
    )
    def test_credentials_that_cannot_be_used_are_told(self, fake, asking, tmp_path, config, says):
        fake.rule = wants_password
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker" / "config.json").write_text(config.replace("HOST", fake.host))
        with pytest.raises(RegistryError, match=says):
            asking.pinned(fake.image)

    @pytest.mark.parametrize("config", ["[]", '{"auths": []}', '{"auths": {"HOST": {"identitytoken": 7}}}', "{}"])
    def test_other_entries_count_as_none(self, fake, asking, tmp_path, config):
        wants_token(fake)
        (tmp_path / ".docker").mkdir()
        (tmp_path / ".docker" / "config.json").write_text(config.replace("HOST", fake.host))
        assert asking.pinned(fake.image) == f"{fake.image}@{DIGEST}"


class TestDeploy:
    AGENTS = "/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"

    @pytest.fixture
    def deploy(self, cluster, tmp_path, monkeypatch, capsys):
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.delenv("DOCKER_CONFIG", raising=False)
        cluster.put("/api/v1/namespaces/kube-system", metadata={"uid": "1-2-3"})
        kubeconfig = str(cluster.kubeconfig(tmp_path))

        def run(image, *options):
            other = f"registry.example/kube-scheduler@{DIGEST}"
            arguments = ["--image", image, "--kube-scheduler-image", other, "--kubeconfig", kubeconfig, "--wait", "0"]
            assert main(["deploy", *arguments, *options]) == 0
            pods = cluster.objects[self.AGENTS]["spec"]["template"]["spec"]
            return pods["containers"][0]["image"], capsys.readouterr().out

        return run

    def test_images_are_deployed_by_digest(self, deploy, fake):
        image, out = deploy(fake.image)
        assert image == f"{fake.image}@{DIGEST}"
        assert f"{fake.image} is {DIGEST}, and is deployed as that (--by-tag: by its tag)" in out

    def test_by_tag_asks_nobody(self, deploy, fake):
        image, out = deploy(fake.image, "--by-tag")
        assert image == fake.image
        assert fake.asked == []
        assert DIGEST not in out

    def test_without_an_answer_what_is_pinned_stays(self, deploy, fake):
        deploy(fake.image)
        fake.rule = lambda request: request.answer(429)
        image, out = deploy(fake.image)
        assert image == f"{fake.image}@{DIGEST}"
        assert (
            f"{fake.image} stays {DIGEST}, which is deployed: the registry {fake.host} answered with status 429" in out
        )
        image, _ = deploy(fake.image.replace(":7", ":8"))
        assert image == fake.image.replace(":7", ":8")

    def test_without_an_answer_the_tag_stays_and_that_is_said(self, deploy, fake):
        fake.rule = lambda request: request.answer(404)
        image, out = deploy(fake.image)
        assert image == fake.image
        assert (
            f"{fake.image} is deployed by its tag, which may move to another image: the registry {fake.host} has no "
            f"such image" in out
        )
