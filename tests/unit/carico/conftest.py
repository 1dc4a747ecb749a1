"""A CA and its certificates, made once for all tests with TLS, and a fixture that restores logging."""

import logging

import pytest

from tests.kits.certificates import Certificates


@pytest.fixture(scope="session")
def pki(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("pki"))


@pytest.fixture(scope="session")
def other_pki(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("other-pki"))


@pytest.fixture
def logs_restored():
    """Restore the logger `carico` after a test that sets up logs as a process does."""
    logger = logging.getLogger("carico")
    handlers, propagate, level = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)
