"""Redaction of secrets in a KubeSchedulerConfiguration: keys, certificates, passwords and tokens.

An extender's tlsConfig contains secrets (keyData), its urlPrefix may (user and query), and so may the arguments of
plugins that are not in-tree, such as the token of a metrics server. They do not affect scheduling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kschedctl.text.printable import strip_url

REDACTED = "REDACTED"
"""Replaces a secret. It is valid base64, so kube-scheduler would still accept the configuration."""
_SECRET = re.compile(
    r"token|passw|pwd|passphrase|secret|credential|bearer|authorization|api_?key|access_?key|private_?key"
    r"|(key|cert|certificate|ca)_?data|connection_?string|cookie|^auth$|^dsn$",
    re.IGNORECASE,
)
_LIKE_A_SECRET = re.compile(
    r"\b(bearer|basic) \S|-----BEGIN |\beyJ[\w-]{8,}\.|\b(AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\bgh[opsur]_\w{20}|\bglpat-\S|\bxox[abeprs]-"
    r"|(token|passw(or)?d|pwd|secret|api[_-]?key)\s*[=:]\s*\S",
    re.IGNORECASE,
)
"""Matches values that are secrets regardless of their key: headers, keys, JSON web tokens, options with a password."""


def redact_secrets(document: Any, *, secret: bool = False) -> Any:
    """Return a document of any structure with secrets redacted and URLs reduced to their location.

    A value is secret if its key, or the `name` beside it, looks like the key of a secret, and so is everything nested
    in the value. A string that looks like a token or a private key is redacted under any key. If `secret` is true, the
    whole document is secret. None, booleans, empty strings and the typed arguments of known plugins are never redacted.

    >>> redact_secrets({"keyData": "LS0t", "urlPrefix": "https://me:hunter2@extender.example", "weight": 1})
    {'keyData': 'REDACTED', 'urlPrefix': 'https://extender.example', 'weight': 1}
    """
    match document:
        case {"name": str(name), "args": _} if _has_typed_args(name):
            return document  # typed arguments hold no secrets, but label keys that may look like one
        case {"name": str(name), "value": _} if _SECRET.search(name):
            return {**document, "value": REDACTED}
        case Mapping():
            redacted = {}
            for key, value in document.items():
                is_secret = secret or bool(_SECRET.search(str(key)))
                redacted[key] = redact_secrets(value, secret=is_secret)
            return redacted
        case list() | tuple():
            return [redact_secrets(value, secret=secret) for value in document]
        case None | bool() | "":
            return document
    return REDACTED if secret else _redact_value(document)


def _redact_value(value: object) -> object:
    """Return a string with URLs stripped of user and query, or REDACTED if it still looks like a secret.

    Values other than strings stay as they are.
    """
    if not isinstance(value, str):
        return value
    stripped = strip_url(value)
    return REDACTED if _LIKE_A_SECRET.search(stripped) else stripped


def _has_typed_args(name: str) -> bool:
    """Return whether a plugin's arguments are typed, so that they contain no secrets."""
    from kschedctl.scheduler.in_tree_plugins import ARGS  # noqa: PLC0415 - the plugins, only where a configuration has args

    return name in ARGS
