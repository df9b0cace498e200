"""A KubeSchedulerConfiguration without what is nobody else's business: keys, certificates, passwords, tokens.

An extender's tlsConfig holds them (keyData), its urlPrefix may (user and query), and so may the arguments of plugins
that are not in-tree, as the token of a metrics server. Nothing of this changes what is scheduled where.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kschedctl.errors import shown_url

REDACTED = "REDACTED"
"""Also a text in base64, so that a configuration stays one that kube-scheduler would take."""
_SECRET = re.compile(
    r"token|passw|pwd|passphrase|secret|credential|bearer|authorization|api_?key|access_?key|private_?key"
    r"|(key|cert|certificate|ca)_?data",
    re.IGNORECASE,
)


def without_secrets(document: Any, secret: bool = False) -> Any:
    """The document, whatever its shape, with every secret value redacted and every URL cut to where it leads.

    ``secret``: all of it is.

    >>> without_secrets({"keyData": "LS0t", "urlPrefix": "https://me:hunter2@extender.example", "weight": 1})
    {'keyData': 'REDACTED', 'urlPrefix': 'https://extender.example', 'weight': 1}
    """
    match document:
        case {"name": str(name), "args": _} if _is_typed(name):
            return document  # what they hold is typed: no secrets, and keys of labels that may be called like one
        case Mapping():
            return {
                key: without_secrets(value, secret or bool(_SECRET.search(str(key)))) for key, value in document.items()
            }
        case list() | tuple():
            return [without_secrets(value, secret) for value in document]
        case str() if not secret:
            return shown_url(document)
        case None | bool() | "":
            return document
    return REDACTED if secret else document


def _is_typed(name: str) -> bool:
    from kschedctl.scheduler.registry.in_tree import ARGS  # noqa: PLC0415 - the plugins, only where a configuration has args

    return name in ARGS
