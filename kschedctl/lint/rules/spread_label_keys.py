"""matchLabelKeys of topology spread constraints."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.admission import merged_label_keys
from kschedctl.api.ownership import ADDED_LABELS, TEMPLATE_HASH
from kschedctl.api.validation.spread import match_label_keys
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.spread_fields import HARD, constraints
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import Workload
from kschedctl.lint.world import World
from kschedctl.scheduler.version_fields import SPREAD_LABEL_KEYS


def label_keys_invalid(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        labels = dict.fromkeys(_labels(workload), "")
        options = world.validation_options
        created = merged_label_keys(constraint, labels) if options.selector_merge else constraint
        yield from workload.refused(match_label_keys(created, workload.at_field(*path), options))


def label_keys_missing(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        if workload.kind != "Deployment" or not workload.serving or constraint.when_unsatisfiable != HARD:
            continue
        if TEMPLATE_HASH not in constraint.match_label_keys and workload.strategy.type != "Recreate":
            yield workload.problem(
                path, "pods of the old ReplicaSet count during a rollout, and the new ones end up skewed"
            )


def label_key_not_on_pod(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        for i, key in enumerate(constraint.match_label_keys):
            if key not in _labels(workload):
                yield workload.problem(
                    (*path, "matchLabelKeys", i), f"the pods have no label {key}: the key is ignored"
                )


def _labels(workload: Workload) -> set[str]:
    """The keys of the labels that its pods have once they are created."""
    return {*workload.labels, *ADDED_LABELS.get(workload.kind, ())}


RULES = (
    Rule(
        "ts-mlk-without-selector",
        ERROR,
        label_keys_invalid,
        summary="matchLabelKeys without labelSelector, or with a key that is in it or is no label",
        why="The API server refuses the pods, where a template with the same key in both is still accepted.",
        fix="Add a labelSelector, and leave out of it the keys in matchLabelKeys",
        source=f"{doc.SPREAD}; {doc.VALIDATION}: ValidateMatchLabelKeysAndMismatchLabelKeys (v1.36)",
    ),
    Rule(
        "ts-mlk-missing",
        NOTE,
        label_keys_missing,
        summary="Hard spread of a Deployment without matchLabelKeys: [pod-template-hash]",
        why="In a rolling update the pods of the old ReplicaSet count too; when they are gone the new ones are uneven.",
        fix="Add matchLabelKeys: [pod-template-hash]",
        advises=SPREAD_LABEL_KEYS,
        source="https://github.com/kubernetes/enhancements/tree/master/keps/sig-scheduling/3243-respect-pod-topology-spread-after-rolling-upgrades",
    ),
    Rule(
        "ts-mlk-key-not-on-pod",
        WARNING,
        label_key_not_on_pod,
        summary="matchLabelKeys names a label that the pods do not have",
        why="Such a key is ignored without a word.",
        fix="Add the label to the pod template, or correct the key",
        source=doc.SPREAD,
    ),
)
