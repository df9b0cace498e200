"""What wakes pods that the plugins refused which look at nodes alone."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import NodeSelectorTerm, SelectorRequirement
from kschedctl.api.tolerations import UNSCHEDULABLE
from kschedctl.scheduler.framework.events import NODE, POD, ActionType
from kschedctl.scheduler.plugins.node_declared_features import required_features
from kschedctl.studies.waking.ways.told import ADD, UPDATE, Told, Waiting, listed

TERMS_TOLD = 3
SYMBOLS = {"In": "in", "NotIn": "not in", "Gt": ">", "Lt": "<"}

GIVEN_TO_ALL = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the API server makes every pod tolerate for a while."""


def node_name(waiting: Waiting) -> Iterator[Told]:
    yield Told(NODE, ADD, f"a node is added (the pod asks for {waiting.info.spec.node_name or 'one by name'})")


def node_unschedulable(waiting: Waiting) -> Iterator[Told]:
    if waiting.changed_as_new:
        yield Told(NODE, ADD | UPDATE, "a node is added, or changes, that is not cordoned")
        return
    yield Told(NODE, ADD, "a node is added that is not cordoned")
    yield Told(NODE, ActionType.UPDATE_NODE_TAINT, "a node is uncordoned")
    yield Told(POD, ActionType.UPDATE_POD_TOLERATION, f"the pod comes to tolerate {UNSCHEDULABLE}")


def taint_toleration(waiting: Waiting) -> Iterator[Told]:
    tolerations = (each for each in waiting.info.spec.tolerations if each.key not in GIVEN_TO_ALL)
    tolerated = [each.key or "everything" for each in tolerations]
    but = f" but such as it tolerates ({listed(tolerated)})" if tolerated else ""
    yield Told(NODE, ADD, f"a node is added without NoSchedule and NoExecute taints{but}")
    yield Told(NODE, ActionType.UPDATE_NODE_TAINT, "the last taint goes from a node that keeps the pod away")
    yield Told(POD, ActionType.UPDATE_POD_TOLERATION, "the pod gets another toleration")


def node_affinity(waiting: Waiting) -> Iterator[Told]:
    wanted = demanded(waiting)
    if waiting.changed_as_new:
        yield Told(NODE, ADD | UPDATE, f"a node is added, or changes, that has {wanted}")
        return
    yield Told(NODE, ADD, f"a node is added with {wanted}")
    yield Told(NODE, ActionType.UPDATE_NODE_LABEL, f"a node that did not match comes to have {wanted}")


def node_declared_features(waiting: Waiting) -> Iterator[Told]:
    needed = listed(sorted(required_features(waiting.info.spec) & waiting.plugin.inferred)) or "what the pod needs"
    yield Told(NODE, ADD, f"a node is added (the pod needs one that declares {needed})")
    yield Told(NODE, ActionType.UPDATE_NODE_DECLARED_FEATURE, f"a node declares other features (needed: {needed})")
    yield Told(POD, UPDATE, "the pod comes to need other features")


def demanded(waiting: Waiting) -> str:
    """What the pod demands of its node: labels, and one of several terms.

    The profile's own demands are told without their terms.
    """
    spec = waiting.info.spec
    parts = [f"label {key}={value}" for key, value in spec.node_selector.items()]
    node_affinity = spec.affinity.node_affinity if spec.affinity else None
    required = node_affinity.required_during_scheduling_ignored_during_execution if node_affinity else None
    if required is not None:
        terms = [_term(term) for term in required.node_selector_terms]
        more = [f"one of {len(terms) - TERMS_TOLD:,} more terms"] if len(terms) > TERMS_TOLD else []
        parts.append(listed([*filter(None, terms[:TERMS_TOLD]), *more], "or") or "what no node can have")
    if waiting.plugin.added_required is not None:
        parts.append("what the profile's addedAffinity requires")
    return listed(parts)


def _term(term: NodeSelectorTerm) -> str:
    expressions = (f"label {_requirement(each)}" for each in term.match_expressions)
    fields = (_requirement(each) for each in term.match_fields)
    return " and ".join((*expressions, *fields))


def _requirement(wanted: SelectorRequirement) -> str:
    values = wanted.values or ()
    if wanted.operator == "In" and len(values) == 1:
        return f"{wanted.key}={values[0]}"
    if wanted.operator in ("Gt", "Lt"):
        return f"{wanted.key} {SYMBOLS[wanted.operator]} {', '.join(values)}"
    listed_values = f" ({', '.join(values)})" if values else ""
    return f"{wanted.key} {SYMBOLS.get(wanted.operator, wanted.operator)}{listed_values}"
