"""Credentials for an API server, and their renewal."""

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
    """Credentials that the client loaded from a kubeconfig or a service account."""

    configuration: Configuration
    load: Callable[[], None]
    """Function that loads the credentials into `configuration` again and may raise."""
    impersonated: tuple[tuple[str, str], ...]
    """Impersonation headers as pairs of name and value."""
    pool: urllib3.PoolManager
    """Connection pool that uses the client certificate."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _renewed: float = float("-inf")

    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the headers of the next request, after renewing an expired token.

        Raises ClusterError.
        """
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
        """Load the credentials again and return whether they differ from the rejected ones.

        Raises ClusterError if the credential plugin fails. Upstream: client-go's exec.go also runs the plugin again
        after a 401.
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
        """Return the current tokens and client certificate files for comparison."""
        return dict(self.configuration.api_key), self.configuration.cert_file, self.configuration.key_file

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Convert errors within the block to a ClusterError with the message of the plugin or client."""
        try:
            with said_by_client() as said:
                yield
        except Exception as error:
            said.append(" ".join(str(error).split()) or type(error).__name__)
        if said:
            raise ClusterError(f"no credentials: {' '.join(said)}", where=self.configuration.host)

    def _sendable(self, value: str, what: str) -> str:
        """Return the value as a header string that carries its UTF-8 bytes.

        Raises ClusterError if it contains line breaks or other control characters.
        """
        text = value.encode(errors="surrogateescape").decode("latin-1")
        if not _SENDABLE.fullmatch(text):
            problem = f"{what} cannot be sent: it has a line break or another control character within"
            raise ClusterError(problem, where=self.configuration.host, hint="check the credentials of this context")
        return text


@contextmanager
def said_by_client() -> Iterator[list[str]]:
    """Collect the errors that the client logs within the block.

    The client reports only there why a credential plugin failed.
    """
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
