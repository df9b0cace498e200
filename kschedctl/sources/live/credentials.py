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

RENEWAL_SECONDS = 5.0
"""The minimum number of seconds between two runs of a credential plugin."""

_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")


@dataclass
class Credentials:
    """The credentials that the client loaded from a kubeconfig or a service account."""

    configuration: Configuration
    load: Callable[[], None]
    """A function that loads the credentials into ``configuration`` again and may raise."""
    impersonation_headers: tuple[tuple[str, str], ...]
    """The impersonation headers as pairs of name and value."""
    pool: urllib3.PoolManager
    """The connection pool that uses the client certificate."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _renewed: float = float("-inf")

    def headers(self) -> urllib3.HTTPHeaderDict:
        """Return the headers of the next request, after renewing an expired token. Raises ClusterError."""
        headers = urllib3.HTTPHeaderDict({"User-Agent": "kschedctl"})
        with self._lock, self._convert_errors():
            settings: Mapping[str, Any] = self.configuration.auth_settings()
        for setting in settings.values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = self._encode_header(str(setting["value"]).strip(), "the token of this user")
        for name, value in self.impersonation_headers:
            headers.add(name, self._encode_header(value, f'"{value[:60]}"'))
        return headers

    def renew(self, rejected_headers: urllib3.HTTPHeaderDict) -> bool:
        """Load the credentials again and return whether they differ from the rejected ones.

        Raises ClusterError if the credential plugin fails. Upstream: client-go's exec.go also runs the plugin again
        after a 401.
        """
        with self._lock:
            if self.headers().get("authorization") != rejected_headers.get("authorization"):
                return True
            if monotonic() - self._renewed < RENEWAL_SECONDS:
                return False
            old_identity = self._get_identity()
            with self._convert_errors():
                self.load()
            self._renewed = monotonic()
            if self._get_identity()[1:] != old_identity[1:]:
                self.pool.connection_pool_kw.update(
                    cert_file=self.configuration.cert_file, key_file=self.configuration.key_file
                )
                self.pool.clear()
            return self._get_identity() != old_identity

    def _get_identity(self) -> tuple[object, ...]:
        """Return the current tokens and client certificate files for comparison."""
        return dict(self.configuration.api_key), self.configuration.cert_file, self.configuration.key_file

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        """Convert errors within the block to a ClusterError with the message of the plugin or client."""
        try:
            with collect_client_errors() as messages:
                yield
        except Exception as error:
            messages.append(" ".join(str(error).split()) or type(error).__name__)
        if messages:
            raise ClusterError(f"no credentials: {' '.join(messages)}", where=self.configuration.host)

    def _encode_header(self, value: str, subject: str) -> str:
        """Return the value as a header string that carries its UTF-8 bytes.

        Raises ClusterError if the value contains line breaks or other control characters.
        """
        text = value.encode(errors="surrogateescape").decode("latin-1")
        if not _SENDABLE.fullmatch(text):
            problem = f"{subject} cannot be sent: it has a line break or another control character within"
            raise ClusterError(problem, where=self.configuration.host, hint="check the credentials of this context")
        return text


@contextmanager
def collect_client_errors() -> Iterator[list[str]]:
    """Collect the errors that the client logs within the block.

    The client reports only in its log why a credential plugin failed.
    """
    messages: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name == root.name:  # other loggers' records come by here too
                messages.append(" ".join(record.getMessage().split()))

    root = logging.getLogger()
    keep = Keep(logging.ERROR)
    old_handlers = root.handlers
    root.handlers = [keep]
    try:
        yield messages
    finally:
        root.handlers = old_handlers
