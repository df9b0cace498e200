"""Rules about NodePools that cannot create the nodes that pods need, and about unhealthy nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.node_requirements import (
    AllowedValues,
    Conditions,
    list_node_condition_alternatives,
    to_requirements,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.node_selection.affinity import describe_node_requirements, get_selection_path
from kschedctl.text.counts import counted

_KARPENTER_PREFIXES = ("karpenter.sh/", "karpenter.k8s.")
HEALTHY_STATUS = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
}
"""Type of a condition -> its status on a healthy node."""


def find_pods_without_node_pool(context: LintContext) -> Iterator[Problem]:
    """Find workloads that select nodes of NodePools although no NodePool can create a node for them.

    DaemonSets are left out, as they run on the nodes that exist. Workloads that may use an existing node of the cluster
    are left out as well.
    """
    pools = context.list_linted_objects(WrittenNodePool)
    if not pools:
        return
    pool_keys = {key for _, pool in pools for key in _list_declared_keys(pool)}
    for workload in context.workloads:
        # A workload that uses no label of a pool may be for other nodes
        keys = _find_selected_keys(workload)
        selects_pool_nodes = any(key in pool_keys or key.startswith(_KARPENTER_PREFIXES) for key in keys)
        if not selects_pool_nodes or workload.kind == "DaemonSet":
            continue
        if context.cluster is not None and context.facts.get_eligible_nodes(workload).any():
            continue
        if not any(_can_pool_create_node_for(pool, workload) for _, pool in pools):
            names = ", ".join(subject.name for subject, _ in pools)
            message = f"no NodePool ({names}) can create a node that meets {describe_node_requirements(workload)}"
            yield workload.build_problem(get_selection_path(workload), message)


def _find_selected_keys(workload: Workload) -> set[str]:
    """Return the keys of the node labels by which the workload selects nodes, in any alternative of its affinity."""
    keys: set[str] = set()
    for alternative in list_node_condition_alternatives(workload.spec):
        keys.update(alternative.conditions.by_key)
    return keys


NA_NODEPOOL_IMPOSSIBLE = Rule(
    "na-nodepool-impossible",
    WARNING,
    find_pods_without_node_pool,
    summary="No Karpenter NodePool can provide the required nodes",
    why="Karpenter creates no node, and the pods stay Pending unless other nodes have the labels. Checked only for "
    "pods that select a label of Karpenter or of the NodePools among the manifests.",
    fix="Correct the labels or tolerations, or add the labels to a NodePool",
    source="https://karpenter.sh/docs/concepts/scheduling/",
)


def _list_declared_keys(pool: WrittenNodePool) -> set[str]:
    """Return the label keys that a NodePool declares in its labels and requirements."""
    return {*pool.labels, *(requirement.key for requirement in pool.requirements)}


def _can_pool_create_node_for(pool: WrittenNodePool, workload: Workload) -> bool:
    """Return whether the NodePool can create a node whose taints and labels suit the workload."""
    taints = pool.spec.template.spec.taints
    if find_untolerated_taint(taints, workload.spec.tolerations, HARD_EFFECTS) is not None:
        return False
    declared_keys = _list_declared_keys(pool)
    pool_conditions = Conditions().restrict(to_requirements(pool.labels)).restrict(pool.requirements)

    def can_meet(conditions: Conditions) -> bool:
        """Return whether the pool's nodes can have every label that the conditions require."""
        for key, values in conditions.by_key.items():
            is_declared = key in declared_keys or _may_nodes_have_label(key)
            if not _can_pool_offer_label_value(values, pool_conditions.by_key.get(key), is_declared=is_declared):
                return False
        return True

    return any(can_meet(alternative.conditions) for alternative in list_node_condition_alternatives(workload.spec))


def _may_nodes_have_label(key: str) -> bool:
    """Return whether nodes of a pool may have a label that the pool does not declare."""
    return any(domain in key for domain in WELL_KNOWN_DOMAINS)


def _can_pool_offer_label_value(needed: AllowedValues, offered: AllowedValues | None, *, is_declared: bool) -> bool:
    """Return whether a node of a pool can have a label value that the pod needs.

    ``offered`` are the values that the pool allows, or None if it allows any value. If ``is_declared`` is False, the
    pool's nodes do not have the label.
    """
    if not is_declared:
        return not needed.requires_label
    if offered is None:
        return True
    must_be_absent = needed.present is False
    if must_be_absent:
        return False
    allowed_sets = [values.allowed for values in (offered, needed) if values.allowed is not None]
    if not allowed_sets:
        return True
    common_values = frozenset.intersection(*allowed_sets) - offered.excluded - needed.excluded
    return any(offered.is_in_bounds(value) and needed.is_in_bounds(value) for value in common_values)


def find_unhealthy_nodes(context: LintContext) -> Iterator[Problem]:
    """Find nodes of the cluster that are not ready or under pressure.

    Each state is reported once, at the first node that has it. Conditions of unknown types or without a status do not
    count.
    """
    assert context.cluster is not None
    names_by_state: dict[str, list[str]] = {}
    for node in context.cluster.nodes:
        for condition in node.status.conditions:
            healthy_status = HEALTHY_STATUS.get(condition.type)
            if condition.status and healthy_status and condition.status != healthy_status:
                state = f"{condition.type} is {condition.status}"
                names_by_state.setdefault(state, []).append(node.metadata.name)
    for state, names in names_by_state.items():
        message = f"{state} on {len(names):,} of {counted(len(context.cluster.nodes), 'node')}: {join_names(names)}"
        yield Subject("Node", names[0]).build_problem(("status", "conditions"), message)


ND_NOT_READY = Rule(
    "nd-not-ready",
    WARNING,
    find_unhealthy_nodes,
    summary="Nodes that are not ready or under pressure",
    why="These nodes accept no new pods, and their pods may be evicted, so the cluster has less room than it "
    "seems to have.",
    fix="Repair the nodes, or remove them",
    source=f"{doc.TAINTS}#taint-nodes-by-condition",
    needs_cluster=True,
)
