"""Annotations of pods that autoscalers read, under pseudonyms."""

from __future__ import annotations

import re

from kschedctl.sources.anonymize.rewriter import Rewriter

_SETTING = re.compile(r"true|false|on-completion|(?:[0-9.]+(?:ns|us|ms|s|m|h))*|-?[0-9]+")
"""What autoscalers understand of a pod's annotations."""


def setting(rewriter: Rewriter, value: str, obj: object) -> str:
    return value if _SETTING.fullmatch(value) else rewriter.name(value)


def list_of_names(rewriter: Rewriter, value: str, obj: object) -> str:
    """With commas, between which blanks count."""
    return ",".join(name and rewriter.own_name(name) for name in value.split(","))
