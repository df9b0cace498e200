"""Fixtures for tests of a live cluster: no kubeconfig of the user, and no waiting."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import urllib3

from kschedctl.sources.live.http import Server
from kschedctl.sources.live.limits import enforce_limits

WAITED: list[float] = []
"""The seconds that a Server of the fixture would have waited in the test."""


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the kubeconfig and the proxies of the user who runs the tests.

    Importing this fixture activates it in a module.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", *proxies, *map(str.lower, proxies)):
        monkeypatch.delenv(name, raising=False)
    WAITED.clear()


class _Hurried(threading.Event):
    """An Event whose wait() returns at once and records the timeout."""

    def wait(self, timeout: float | None = None) -> bool:
        WAITED.append(timeout or 0.0)
        return self.is_set()


@pytest.fixture(name="server_at", scope="session")
def fixture_server_at() -> Callable[..., Server]:
    """Return a function that builds a Server without credentials, which records how long it would wait."""

    def make(url: str, seconds: float = 20.0) -> Server:
        pool = enforce_limits(urllib3.PoolManager(maxsize=32))
        return Server(url, pool, urllib3.HTTPHeaderDict, seconds, seconds, closed=_Hurried())

    return make
