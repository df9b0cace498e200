"""Rules about NodePools that cannot create the nodes that pods need, and about unhealthy nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.node_requirements import Conditions, list_alternatives, to_requirements
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.subject import Problem, Subject, join_names
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.node_selection.affinity import describe_demands, find_selection_path
from kschedctl.text.counts import counted

_KARPENTER_PREFIXES = ("karpenter.sh/", "karpenter.k8s.")
HEALTHY_STATUS = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
}
"""The status that each condition of a healthy node has."""


def find_pods_without_node_pool(context: LintContext) -> Iterator[Problem]:
    """Find workloads that select nodes of NodePools although no NodePool can create nodes for them.

    DaemonSets are left out, as they run on the nodes that exist, and so are workloads that present nodes suit.
    """
    pools = context.list_linted(WrittenNodePool)
    pool_keys = {key for _, pool in pools for key in (*pool.labels, *(r.key for r in pool.requirements))}
    for workload in context.workloads if pools else ():
        keys = {key for alternative in list_alternatives(workload.spec) for key in alternative.conditions.by_key}
        selects_pool_nodes = any(key in pool_keys or key.startswith(_KARPENTER_PREFIXES) for key in keys)
        if not selects_pool_nodes or workload.kind == "DaemonSet":
            continue
        if context.cluster is not None and context.facts.get_eligible_nodes(workload).any():
            continue
        if not any(_can_pool_serve(pool, workload) for _, pool in pools):
            names = ", ".join(subject.name for subject, _ in pools)
            yield workload.build_problem(
                find_selection_path(workload),
                f"no NodePool ({names}) can make a node that meets {describe_demands(workload)}",
            )


NA_NODEPOOL_IMPOSSIBLE = Rule(
    "na-nodepool-impossible",
    WARNING,
    find_pods_without_node_pool,
    summary="No Karpenter NodePool can provide the required nodes",
    why="Karpenter creates no node, and the pods stay Pending unless other nodes have the labels. Checked for pods "
    "that select a label of Karpenter's, or of the NodePools among the manifests.",
    fix="Correct the labels or tolerations, or let a NodePool offer them",
    source="https://karpenter.sh/docs/concepts/scheduling/",
)


def _can_pool_serve(pool: WrittenNodePool, workload: Workload) -> bool:
    """Return whether the NodePool can create a node whose taints and labels suit the workload."""
    taints = pool.spec.template.spec.taints
    if find_untolerated(taints, workload.spec.tolerations, HARD_EFFECTS) is not None:
        return False
    declared_keys = {*pool.labels, *(requirement.key for requirement in pool.requirements)}
    offered = Conditions().restrict(to_requirements(pool.labels)).restrict(pool.requirements)
    alternatives = list_alternatives(workload.spec)
    return any(_can_pool_meet(offered, alternative.conditions, declared_keys) for alternative in alternatives)


def _can_pool_meet(pool: Conditions, conditions: Conditions, declared_keys: set[str]) -> bool:
    """Return whether a node of the pool can meet the conditions."""
    for key, values in conditions.by_key.items():
        if key not in declared_keys and not any(domain in key for domain in WELL_KNOWN_DOMAINS):
            if values.requires_label or values.present:
                return False
            continue
        offered = pool.by_key.get(key)
        if offered is None:
            continue
        if values.present is False:
            return False
        allowed_sets = [v.allowed for v in (offered, values) if v.allowed is not None]
        if not allowed_sets:
            continue
        common = frozenset.intersection(*allowed_sets) - offered.excluded - values.excluded
        if not any(offered.is_in_bounds(value) and values.is_in_bounds(value) for value in common):
            return False
    return True


def find_unhealthy_nodes(context: LintContext) -> Iterator[Problem]:
    """Find nodes that are not ready or under pressure, grouped by condition."""
    assert context.cluster is not None
    nodes_in_state: dict[str, list[str]] = {}
    for node in context.cluster.nodes:
        for condition in node.status.conditions:
            if condition.status not in ("", HEALTHY_STATUS.get(condition.type, condition.status)):
                state = f"{condition.type} is {condition.status}"
                nodes_in_state.setdefault(state, []).append(node.metadata.name)
    for state, names in nodes_in_state.items():
        message = f"{state} on {len(names):,} of {counted(len(context.cluster.nodes), 'node')}: {join_names(names)}"
        yield Subject("Node", names[0]).build_problem(("status", "conditions"), message)


ND_NOT_READY = Rule(
    "nd-not-ready",
    WARNING,
    find_unhealthy_nodes,
    summary="Nodes that are not ready, or under pressure",
    why="They take no new pods, and those that run there may be evicted: there is less room than it seems.",
    fix="Repair the nodes, or remove them",
    source=f"{doc.TAINTS}#taint-nodes-by-condition",
    needs_cluster=True,
)
