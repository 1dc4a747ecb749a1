"""Tokens of accounts in files: whole, private, replaced in time, and whatever the API server does."""

import random
import stat
import threading

import pytest

from carico.cli import main
from carico.enrolment.tokens import TOKEN_S, TokenKeeper
from carico.errors import KubeRefused, KubeUnreachable


class FakeTokens:
    """Gives numbered tokens, or raises what it is told to."""

    def __init__(self, life_s=TOKEN_S):
        self.life_s, self.asked, self.failures = life_s, [], []

    def account_token(self, namespace, account, life_s):
        self.asked.append((namespace, account, life_s))
        if self.failures:
            raise self.failures.pop(0)
        return f"{account}-{len(self.asked)}", self.life_s


class Stop(threading.Event):
    """Waits not at all, and is set after some waits."""

    def __init__(self, waits):
        super().__init__()
        self.waited, self.times = [], waits

    def wait(self, timeout=None):
        self.waited.append(timeout)
        if len(self.waited) == self.times:
            self.set()
        return self.is_set()


@pytest.fixture
def keeper(tmp_path):
    folders = {name: tmp_path / name for name in ("carico-extender", "carico-signer")}
    for folder in folders.values():
        folder.mkdir()
    (tmp_path / "ca").write_text("the API server's")
    return TokenKeeper(FakeTokens(), "carico", folders, tmp_path / "ca", random.Random(1))


def test_each_account_has_its_token_where_only_its_owner_can_read_it(keeper):
    keeper.renew()
    for number, (account, folder) in enumerate(keeper.folders.items(), 1):
        assert (folder / "token").read_text() == f"{account}-{number}"
        assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o400
        assert (folder / "ca.crt").read_text() == "the API server's"
    assert keeper.kube.asked == [("carico", account, 3600) for account in keeper.folders]


@pytest.mark.parametrize(("life_s", "least", "most"), [(3600, 2040, 2400), (600, 340, 400), (30, 60, 60)])
def test_tokens_are_replaced_after_two_thirds_of_the_life_that_the_api_server_gives(keeper, life_s, least, most):
    keeper.kube.life_s = life_s
    assert all(least <= keeper.renew() <= most for _ in range(20))


def test_replaced_tokens_are_new_ones(keeper):
    keeper.run(Stop(2))
    assert [(folder / "token").read_text() for folder in keeper.folders.values()] == [
        "carico-extender-3",
        "carico-signer-4",
    ]


@pytest.mark.parametrize("error", [KubeUnreachable("gone"), KubeRefused("no right", 403)])
def test_after_a_failure_the_tokens_stay_and_it_tries_again_soon(keeper, error, caplog):
    keeper.renew()
    before = [(folder / "token").read_text() for folder in keeper.folders.values()]
    keeper.kube.failures = [error] * 12
    stop = Stop(12)
    keeper.run(stop)
    assert [(folder / "token").read_text() for folder in keeper.folders.values()] == before
    assert stop.waited[0] <= 1
    assert 30 <= stop.waited[-1] <= 60
    assert f"no new tokens: {error}" in caplog.text
    keeper.run(again := Stop(1))
    assert again.waited[0] > 2000


def test_a_folder_that_cannot_be_written_is_no_end(keeper, caplog):
    keeper.folders["carico-signer"].rmdir()
    keeper.run(Stop(3))
    assert caplog.text.count("no new tokens: ") == 3


class TestCommand:
    @pytest.mark.parametrize(
        ("folder", "message"),
        [("carico-extender", "given as ACCOUNT=FOLDER, got"), ("a=/nowhere", "must exist: make it")],
    )
    def test_what_makes_no_sense_is_refused(self, folder, message, capsys):
        with pytest.raises(SystemExit, match="2"):
            main(["tokens", folder])
        assert message in capsys.readouterr().err

    def test_the_namespace_must_be_known(self, tmp_path, capsys, monkeypatch):
        monkeypatch.delenv("NAMESPACE", raising=False)
        assert main(["tokens", f"a={tmp_path}"]) == 1
        assert "give --namespace, or set NAMESPACE" in capsys.readouterr().err
