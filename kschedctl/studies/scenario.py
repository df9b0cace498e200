"""Scenario documents: checked against their JSON Schema, with errors that name the step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kschedctl.errors import InputError
from kschedctl.reports.scenario import Part, Scenario, Step, scenario_schema

MESSAGES = {
    "minProperties": "says nothing to do",
    "maxProperties": "is more than one step: each step is an item of its own",
}
"""A keyword of the schema -> what its violation means."""


def load_scenario(document: Mapping[str, Any], where: str = "") -> Scenario:
    """The scenario that a document is. Raises InputError that names step and field."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 - takes longer to load than most answers
    from jsonschema.exceptions import best_match  # noqa: PLC0415

    error = best_match(Draft202012Validator(scenario_schema()).iter_errors(document))
    if error is not None:
        told = MESSAGES.get(str(error.validator), error.message)
        raise InputError(_words(told, list(error.absolute_path), document), where=where)
    found: Scenario = msgspec.convert(document, Scenario)
    return found


def _words(message: str, path: list[str | int], document: Mapping[str, Any]) -> str:
    """``step 2 (drain), nodes[0]: 5 is not of type 'string'``."""
    if len(path) < 2:
        return f"{'.'.join(map(str, path))}: {message}" if path else message
    number = int(path[1])
    step = document["steps"][number]
    verb = next(iter(step), "") if isinstance(step, Mapping) else ""
    named = f"step {number + 1} ({verb})" if verb else f"step {number + 1}"
    rest = path[3:] if len(path) > 2 else []
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in rest).lstrip(".")
    return f"{named}, {field}: {message}" if field else f"{named}: {message}"


def verb(step: Step) -> tuple[str, Part]:
    """What a step does, by its name in the document, and the particulars."""
    for name, field in zip(step.__struct_encode_fields__, step.__struct_fields__, strict=True):
        part: Part | None = getattr(step, field)
        if part is not None:
            return name, part
    raise InputError("a step says nothing to do")
