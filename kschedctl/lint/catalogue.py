"""The one list of rules."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint.rule import ERROR, WARNING, Rule
from kschedctl.lint.rules import (
    affinity,
    affinity_cluster,
    anti_affinity,
    budget_selectors,
    budgets,
    claims,
    drains,
    node_pools,
    node_selection,
    preemption,
    priority_classes,
    priority_use,
    requests,
    room,
    room_now,
    special,
    spread_circumstances,
    spread_cluster,
    spread_domains,
    spread_fields,
    spread_label_keys,
    storage,
    taints,
    tolerations,
)
from kschedctl.lint.rules.admission import limit_ranges, quota_sums, quotas
from kschedctl.lint.rules.api import immutable, refused, versions
from kschedctl.lint.rules.likely_mistakes import (
    amounts,
    autoscalers,
    namespaces,
    node_labels,
    node_values,
    pod_annotations,
    pod_labels,
    references,
    taint_keys,
)
from kschedctl.lint.rules.volumes import binding
from kschedctl.lint.subject import Problem
from kschedctl.lint.world import World

FAMILIES = {
    "What the API server refuses": (refused, immutable, versions),
    "Priority": (priority_classes, priority_use, preemption),
    "Topology spread": (spread_fields, spread_label_keys, spread_cluster, spread_domains, spread_circumstances),
    "Affinity": (affinity, anti_affinity, pod_labels, affinity_cluster),
    "Node selection": (node_selection, node_labels, node_values, node_pools),
    "Taints and tolerations": (tolerations, taint_keys, taints),
    "Disruption budgets and drains": (budgets, budget_selectors, drains, pod_annotations),
    "Requests and capacity": (requests, amounts, quotas, quota_sums, limit_ranges, room, room_now),
    "Volumes, host ports, labels": (storage, claims, binding),
    "Schedulers, gates, gangs, devices": (special,),
    "Names that nothing has": (references, autoscalers, namespaces),
}
"""Heading -> the modules of its rules."""

RULES: tuple[Rule, ...] = tuple(rule for modules in FAMILIES.values() for module in modules for rule in module.RULES)


def _nothing(world: World) -> Iterator[Problem]:
    return iter(())


INVALID = Rule(
    "doc-invalid",
    ERROR,
    _nothing,
    summary="A field of the wrong type, or a quantity that cannot be read",
    why="The API server refuses the object. No other rule is checked on it.",
    fix="Correct the value",
    source="https://kubernetes.io/docs/reference/kubernetes-api/",
)
"""Found while reading, not by a check; it cannot be deselected."""

UNREADABLE = Rule(
    "doc-unreadable",
    ERROR,
    _nothing,
    summary="A file of manifests that cannot be read",
    why="Nothing in it is checked, and kubectl does not apply it.",
    fix="Correct the file, or exclude it with --exclude",
    source="https://kubernetes.io/docs/concepts/overview/working-with-objects/",
)
"""Found while reading too; it cannot be deselected."""

IGNORE_FAULTY = Rule(
    "ignore-faulty",
    WARNING,
    _nothing,
    summary="An annotation kschedctl/ignore that ignores nothing",
    why="It names no rule, or gives no reason: what it should silence is still reported.",
    fix="Write kschedctl/ignore: RULE reason",
    source="kschedctl lint",
)
