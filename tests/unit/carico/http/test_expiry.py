"""How long certificates remain valid: the gauge of every process, and its warnings."""

import http.client
import logging
import ssl
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from carico.aggregation.process import run_aggregator
from carico.config import AggregatorConfig, StatusConfig, TlsFiles
from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.errors import InvalidConfig
from carico.http.expiry import DAY_S, Expiry
from carico.rpc.validity import valid_between

NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture
def issue(tmp_path):
    """Return a function that makes a CA and a certificate of it, and returns their files."""

    def run(days, ca_days=3650, make=lambda authority: authority.make_node("node-a")):
        Authority(tmp_path, NOW, ca_days, overwrite=True).make_ca()
        made = make(Authority(tmp_path, NOW, days, overwrite=True))
        return TlsFiles(*(str(file) for file in (made, made.with_suffix(".key"), tmp_path / "ca.crt")))

    return run


class Watched:
    """The expiry of files, at a time that the test sets."""

    def __init__(self, files):
        self.days = 0.0
        self.registry = CollectorRegistry()
        self.expiry = Expiry(files, self.registry, lambda: NOW.timestamp() + self.days * DAY_S)

    def left_days(self, of):
        left_s = self.registry.get_sample_value("carico_certificate_expiry_seconds", {"of": of})
        return None if left_s is None else left_s / DAY_S

    def warnings(self, caplog, days):
        caplog.clear()
        self.days = days
        self.expiry.look()
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.fixture
def watch():
    opened = []

    def run(files):
        opened.append(Watched(files))
        return opened[-1]

    yield run
    for each in opened:
        each.expiry.close()


def valid_until(files):
    return {of: end for of, (_, end) in valid_between(files).items()}


@pytest.mark.parametrize(
    "make",
    [lambda authority: authority.make_node("node-a"), lambda authority: authority.make_server("aggregator", ["here"])],
    ids=["node", "server"],
)
def test_the_end_of_a_certificate_and_of_its_ca(issue, make):
    ends = valid_until(issue(90, make=make))
    assert ends == {
        "certificate": (NOW + timedelta(days=90)).timestamp(),
        "ca": (NOW + timedelta(days=3650)).timestamp(),
    }


def test_so_of_certificates_that_expired_long_ago(tmp_path):
    past = Authority(tmp_path, datetime(2001, 1, 1, tzinfo=UTC), 30, overwrite=True)
    past.make_ca()
    made = past.make_node("node-a")
    files = TlsFiles(str(made), str(made.with_suffix(".key")), str(tmp_path / "ca.crt"))
    assert set(valid_until(files).values()) == {datetime(2001, 1, 31, tzinfo=UTC).timestamp()}


def test_of_several_cas_the_last_one_to_expire_counts(issue, tmp_path):
    files = issue(90)
    Authority(tmp_path / "new", NOW, 5000).make_ca()
    with (tmp_path / "ca.crt").open("ab") as file:
        file.write((tmp_path / "new" / "ca.crt").read_bytes())
    assert valid_until(files)["ca"] == (NOW + timedelta(days=5000)).timestamp()


def test_a_certificate_of_another_ca_is_an_error(issue, other_pki):
    files = issue(90)
    strange = TlsFiles(files.certificate, files.key, other_pki.node("node-a").ca)
    with pytest.raises(InvalidConfig, match=r"node-a\.crt.* must be a certificate, its key and its CA"):
        valid_until(strange)


def test_the_gauge_counts_down_and_below_zero(issue, watch):
    watched = watch(issue(90))
    assert (watched.left_days("certificate"), watched.left_days("ca")) == (90, 3650)
    watched.days = 91.0
    assert watched.left_days("certificate") == -1


def test_how_long_a_certificate_lives_in_all_tells_short_lives_from_late_renewals(issue, watch):
    watched = watch(issue(7))
    watched.days = 5.0
    assert watched.left_days("certificate") == pytest.approx(2.0)
    life_s = watched.registry.get_sample_value("carico_certificate_lifetime_seconds", {"of": "certificate"})
    assert life_s == pytest.approx(7 * DAY_S, rel=0.001), "certificates begin some minutes before they are made"


def test_a_replaced_certificate_shows_at_once_and_a_damaged_one_changes_nothing(issue, watch, tmp_path):
    watched = watch(issue(10))
    issue(100)
    assert watched.left_days("certificate") == 100
    (tmp_path / "node-node-a.crt").write_text("rubbish")
    assert watched.left_days("certificate") == 100


def test_without_tls_there_is_no_gauge(watch):
    assert watch(None).left_days("certificate") is None


def test_there_is_one_warning_a_day_in_the_last_14_days(issue, watch, caplog):
    watched = watch(issue(90))
    assert watched.warnings(caplog, 75.9) == []
    (first,) = watched.warnings(caplog, 76.1)
    assert "node-node-a.crt expires at 2030-04-01 00:00 UTC" in first
    assert "`carico deploy`" in first
    assert watched.warnings(caplog, 76.9) == []
    assert len(watched.warnings(caplog, 77.2)) == 1
    (last,) = watched.warnings(caplog, 91)
    assert "node-node-a.crt has expired at 2030-04-01" in last


def test_the_warning_names_the_ca_if_that_expires_first(issue, watch, caplog):
    (warning,) = watch(issue(90, ca_days=30)).warnings(caplog, 20)
    assert "ca.crt expires at 2030-01-31" in warning


def test_a_renewal_ends_the_warnings(issue, watch, caplog):
    watched = watch(issue(90))
    assert watched.warnings(caplog, 80)
    issue(365)
    assert watched.warnings(caplog, 82) == []


def test_a_process_that_begins_with_an_old_certificate_warns_and_exports_it(tmp_path, caplog):
    """The other processes open the same object."""
    authority = Authority(tmp_path, datetime.now(UTC), valid_days=10)
    authority.make_ca()
    made = authority.make_server("aggregator", ["localhost"])
    files = TlsFiles(str(made), str(made.with_suffix(".key")), str(tmp_path / "ca.crt"))
    config = AggregatorConfig(port=0, tls=files, status=StatusConfig(port=0, tls=True))
    stop = threading.Event()
    caplog.set_level(logging.INFO, "carico")
    running = threading.Thread(target=run_aggregator, args=(config, stop))
    running.start()
    try:
        while not (serving := [each for each in caplog.records if each.getMessage() == "serving"]):
            stop.wait(0.01)
        trusting = ssl.create_default_context(cafile=config.tls.ca)
        with closing(http.client.HTTPSConnection("localhost", serving[0].status_port, context=trusting)) as status:
            status.request("GET", "/metrics")
            lines = status.getresponse().read().decode().splitlines()
    finally:
        stop.set()
        running.join()
    (left_s,) = [
        float(line.split()[1]) for line in lines if line.startswith('carico_certificate_expiry_seconds{of="ce')
    ]
    assert 9 * DAY_S < left_s <= 10 * DAY_S
    assert [each for each in caplog.records if "server-aggregator.crt expires at" in each.getMessage()]


@pytest.fixture
def of_nodes_ca(tmp_path):
    """Return a function that makes a node's certificate of a CA for nodes, which lives for some days."""

    def run(days):
        Authority(tmp_path, NOW, 3650, overwrite=True).make_ca()
        nodes = Authority(tmp_path / "nodes", NOW, 2000, overwrite=True)
        nodes.make_ca(NODES_CA_NAME)
        made = Authority(tmp_path / "nodes", NOW, days, overwrite=True).make_node("node-a")
        return TlsFiles(
            str(made), str(made.with_suffix(".key")), str(tmp_path / "ca.crt"), str(tmp_path / "nodes" / "ca.crt")
        )

    return run


def test_a_nodes_certificate_may_be_of_the_cas_for_nodes_which_is_shown_too(of_nodes_ca):
    files = of_nodes_ca(7)
    assert {of: (end - NOW.timestamp()) / DAY_S for of, end in valid_until(files).items()} == {
        "certificate": 7,
        "ca": 3650,
        "nodes_ca": 2000,
    }


def test_a_certificate_that_is_renewed_by_itself_is_warned_of_when_that_has_failed(of_nodes_ca, watch, caplog):
    watched = watch(of_nodes_ca(7))
    assert watched.warnings(caplog, 0) == []
    assert watched.warnings(caplog, 7 * 2 / 3) == [], "the renewal is due"
    (warning,) = watched.warnings(caplog, 5.5)
    assert "node-node-a.crt expires at 2030-01-08" in warning
    assert "the log of the pod's container `certificate` says why" in warning


def test_one_that_lives_for_long_is_warned_of_as_any_other(of_nodes_ca, watch, caplog):
    watched = watch(of_nodes_ca(365))
    assert watched.warnings(caplog, 350.9) == []
    (warning,) = watched.warnings(caplog, 351.1)
    assert "`carico deploy`" in warning
