"""matchLabelKeys of topology spread constraints, and where one of them, or a narrower selector, is missing."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.admission import merged_label_keys
from kschedctl.api.ownership import ADDED_LABELS, TEMPLATE_HASH
from kschedctl.api.validation.spread import match_label_keys
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.spread_fields import HARD, constraints
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World
from kschedctl.scheduler.configuration.version_fields import SPREAD_LABEL_KEYS

_MOST_COMPARED = 50


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


def counts_others(world: World) -> Iterator[Problem]:
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        if selector is None or constraint.when_unsatisfiable != HARD or not workload.selected_by(selector):
            continue
        told_apart = set(constraint.match_label_keys)
        others = world.selected_beside(workload.subject, workload.namespace, selector)
        for other in others[:_MOST_COMPARED]:
            differing = _differing(workload, other)
            same = constraint in other.spec.topology_spread_constraints  # else ts-inconsistent-group speaks
            if len(differing) == 1 and same and not told_apart & {*differing, TEMPLATE_HASH}:
                message = f"it counts the pods of {other.subject} too, which differ in {differing[0]} alone"
                yield workload.problem((*path, "labelSelector"), message)
                break


def _differing(workload: Workload, other: Workload) -> list[str]:
    """The labels in which two workloads of other names differ, where they have the same ones."""
    alike = workload.labels.keys() == other.labels.keys() and str(workload.subject) != str(other.subject)
    return [key for key in workload.labels if workload.labels[key] != other.labels[key]] if alike else []


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
    Rule(
        "ts-counts-others",
        WARNING,
        counts_others,
        summary="Hard spread of two workloads, as blue and green, that count each other's pods",
        why="Where the one has its pods decides where the other may go: a rollout or a scale-down of one leaves pods "
        "of the other Pending, or all in one domain.",
        fix="Add the label in which they differ to labelSelector, or to matchLabelKeys",
        source=f"{doc.SPREAD}#consistency",
    ),
)
