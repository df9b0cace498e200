"""Whatever else the API server refuses in a pod or in what makes pods, in its words."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kschedctl.api.validation.manifests import KINDS, errors
from kschedctl.cluster import without_nulls
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, Rule
from kschedctl.lint.rules import affinity, requests, spread_fields, spread_label_keys, tolerations
from kschedctl.lint.subject import Problem, Subject
from kschedctl.lint.workload import in_core_group
from kschedctl.lint.world import World

PARTS = (
    affinity.weight_range,
    requests.unknown_resource,
    spread_label_keys.label_keys_invalid,
    spread_fields.min_domains_soft,
    spread_fields.selector_invalid,
    tolerations.seconds_on_no_schedule,
)
"""The rules that speak of a part of it, and explain that part."""


def refused(world: World) -> Iterator[Problem]:
    said = {(p.subject, p.path) for check in PARTS for p in check(world)}
    invalid = {problem.subject for problem in world.invalid}
    for subject in world.subjects:
        for problem in _problems(subject, world) if subject not in invalid else ():
            if (subject, problem.path) not in said:
                yield problem


def _problems(subject: Subject, world: World) -> Iterator[Problem]:
    """Of a manifest that somebody wrote; one whose fields have the wrong type is reported as that."""
    metadata = subject.document.get("metadata")
    made = isinstance(metadata, dict) and (metadata.get("uid") or metadata.get("ownerReferences"))
    if subject.kind not in KINDS or not in_core_group(subject) or made:
        return
    try:
        found = msgspec.convert(without_nulls(subject.document), KINDS[subject.kind])
    except msgspec.ValidationError:
        return
    for error in errors(subject.kind, found, world.validation_options):
        yield subject.problem(error.field, str(error))


RULES = (
    Rule(
        "api-refused",
        ERROR,
        refused,
        summary="A pod, or a template of pods, that the API server refuses",
        why="It is not created at all. simulate, explain and capacity refuse it in the same words.",
        fix="Correct the field",
        source=f"{doc.VALIDATION}; pkg/apis/apps/validation and pkg/apis/batch/validation (v1.36)",
    ),
)
