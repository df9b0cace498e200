"""Advice on how to correct a field that the API server rejects."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from kschedctl.api.field_errors import FieldError
from kschedctl.api.json_values import field_at, object_at
from kschedctl.lint.objects.subject import Subject

_UNSUPPORTED_VALUE = re.compile(r'Unsupported value: "([^"]*)": supported values: (.*)')
_QUOTED_WORD = re.compile(r'"([^"]+)"')
_LIMIT = re.compile(r"must be less than or equal to (\S+) limit of (\S+)$")
_MIN_SIMILARITY = 0.6
"""The similarity, from 0 to 1, from which on a supported value may be the intended one."""


def advise_correction(subject: Subject, error: FieldError) -> str:
    """Return advice for the error of a manifest, or "" if nothing more specific than the error can be said.

    There is advice for four kinds of errors: an unsupported value, a selector that does not match the template, a limit
    that is missing or exceeded, and a toleration with a malformed key.
    """
    if unsupported := _UNSUPPORTED_VALUE.match(error.body):
        return _suggest_supported_value(unsupported[1], _QUOTED_WORD.findall(unsupported[2]))
    if error.body.endswith("`selector` does not match template `labels`"):
        return _suggest_template_labels(subject)
    if limit := _LIMIT.search(error.body):
        return f"Request at most {limit[2]} of {limit[1]}, or raise the limit"
    if error.body.endswith("Limit must be set for non overcommitable resources"):
        return "Set a limit that equals the request"
    if error.path[-1:] == ("key",) and "tolerations" in error.path:
        return _render_toleration_advice(field_at(subject.document, *error.field))
    return ""


def _suggest_supported_value(value: str, supported: list[str]) -> str:
    """Suggest the supported value that resembles a value most, or return "" if none is similar."""
    by_lower_case = {word.lower(): word for word in supported}
    similar = difflib.get_close_matches(value.lower(), by_lower_case, 1, _MIN_SIMILARITY)
    return f"Did you mean {by_lower_case[similar[0]]}?" if similar else ""


def _suggest_template_labels(subject: Subject) -> str:
    """Suggest the labels of the selector that the pod template lacks, or return "" if no labels are missing."""
    wanted_labels = object_at(subject.document, "spec", "selector", "matchLabels")
    labels = object_at(subject.document, "spec", "template", "metadata", "labels")
    missing_labels = [f"{key}={value}" for key, value in wanted_labels.items() if labels.get(key) != value]
    if not missing_labels:
        return ""
    noun = "label" if len(missing_labels) == 1 else "labels"
    return f"Give the pod template the {noun} {', '.join(missing_labels)}, or change the selector"


def _render_toleration_advice(key: object) -> str:
    """Return advice that splits a toleration's key of the form KEY=VALUE or KEY=VALUE:EFFECT into separate fields.

    Return "" for a key of another form.
    """
    name, equals, value_and_effect = str(key).partition("=")
    if not (name and equals):
        return ""
    value, _, effect = value_and_effect.partition(":")
    fields: Mapping[str, str] = {"key": name, "value": value, "effect": effect}
    return f"Write {', '.join(f'{field}: {text}' for field, text in fields.items() if text)}"
