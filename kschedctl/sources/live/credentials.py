"""Who we are to an API server: the headers that say so, and others when it does not take them any more."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Any

import urllib3

from kschedctl.errors import ClusterError

if TYPE_CHECKING:
    from kubernetes.client import Configuration

RENEWED_EVERY = 5.0
"""Seconds; a credential plugin that gave what is refused is not run again sooner."""

_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass
class Credentials:
    """What the client took from a kubeconfig or a service account. ``load`` takes it anew and may raise.

    ``impersonated``: headers that say for whom we act. ``pool`` makes the connections, with the client's certificate.
    """

    configuration: Configuration
    load: Callable[[], None]
    impersonated: tuple[tuple[str, str], ...]
    pool: urllib3.PoolManager
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _renewed: float = float("-inf")

    def headers(self) -> urllib3.HTTPHeaderDict:
        """The headers of the next request; a token that is known to have expired is renewed. Raises ClusterError."""
        headers = urllib3.HTTPHeaderDict({"User-Agent": "kschedctl"})
        with self._lock, self._explained():
            settings: Mapping[str, Any] = self.configuration.auth_settings()
        for setting in settings.values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = self._sendable(str(setting["value"]).strip(), "the token of this user")
        for name, value in self.impersonated:
            headers.add(name, self._sendable(value, f'"{value[:60]}"'))
        return headers

    def renew(self, refused: urllib3.HTTPHeaderDict) -> bool:
        """Whether there are others than those that were refused: a token file or plugin may have new ones by now.

        Raises ClusterError when the plugin fails. Upstream: client-go's exec.go runs it again after a 401, too.
        """
        with self._lock:
            if self.headers().get("authorization") != refused.get("authorization"):
                return True
            if monotonic() - self._renewed < RENEWED_EVERY:
                return False
            before = self._identity()
            with self._explained():
                self.load()
            self._renewed = monotonic()
            if self._identity()[1:] != before[1:]:
                self.pool.connection_pool_kw.update(
                    cert_file=self.configuration.cert_file, key_file=self.configuration.key_file
                )
                self.pool.clear()
            return self._identity() != before

    def _identity(self) -> tuple[object, ...]:
        return dict(self.configuration.api_key), self.configuration.cert_file, self.configuration.key_file

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """What goes wrong within, as a ClusterError in the words of the plugin or the client."""
        try:
            with said_by_client() as said:
                yield
        except Exception as error:
            said.append(" ".join(str(error).split()) or type(error).__name__)
        if said:
            raise ClusterError(f"no credentials: {' '.join(said)}", where=self.configuration.host)

    def _sendable(self, value: str, what: str) -> str:
        """The value as a header can have it: its UTF-8 bytes. Raises ClusterError for line breaks and the like."""
        text = value.encode(errors="surrogateescape").decode("latin-1")
        if not _SENDABLE.fullmatch(text):
            problem = f"{what} cannot be sent: it has a line break or another control character within"
            raise ClusterError(problem, where=self.configuration.host, hint="check the credentials of this context")
        return text


@contextmanager
def said_by_client() -> Iterator[list[str]]:
    """What the client logs, which is the only place where it tells why a credential plugin failed."""
    said: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == root.name:  # other loggers' records come by here too
                said.append(" ".join(record.getMessage().split()))

    root = logging.getLogger()
    keep = Keep(logging.ERROR)
    before, root.handlers = root.handlers, [keep]
    try:
        yield said
    finally:
        root.handlers = before
