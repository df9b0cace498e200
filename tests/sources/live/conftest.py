"""What every test of a live cluster needs: no kubeconfig of whoever runs the tests, no waiting."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import urllib3
from api_server import WAITED

from kschedctl.sources.live_http import Server


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    WAITED.clear()


@pytest.fixture
def server_at() -> Callable[..., Server]:
    """A Server without credentials that notes how long it would wait."""

    def make(url: str, seconds: float = 20.0) -> Server:
        headers = urllib3.HTTPHeaderDict
        return Server(url, urllib3.PoolManager(maxsize=32), headers, seconds, sleep=WAITED.append)

    return make
