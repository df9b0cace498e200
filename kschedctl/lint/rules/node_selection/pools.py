"""Nodes that Karpenter cannot make, and nodes of the cluster that are out of order."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated
from kschedctl.lint.analysis.node_requirements import Conditions, alternatives, equal
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import WARNING, Rule
from kschedctl.lint.objects.kinds import WELL_KNOWN_DOMAINS, WrittenNodePool
from kschedctl.lint.objects.subject import Problem, Subject, listed
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rules.node_selection.affinity import demands, where
from kschedctl.text.counts import counted

_OF_KARPENTER = ("karpenter.sh/", "karpenter.k8s.")
HEALTHY = {
    "Ready": "True",
    "MemoryPressure": "False",
    "DiskPressure": "False",
    "PIDPressure": "False",
    "NetworkUnavailable": "False",
}
"""Condition of a node -> how it is where all is well."""


def node_pool_impossible(context: LintContext) -> Iterator[Problem]:
    pools = context.linted(WrittenNodePool)
    of_pools = {key for _, pool in pools for key in (*pool.labels, *(r.key for r in pool.requirements))}
    for workload in context.workloads if pools else ():
        asked = {key for way in alternatives(workload.spec) for key in way.conditions.by_key}
        wants_pool = any(key in of_pools or key.startswith(_OF_KARPENTER) for key in asked)
        if not wants_pool or workload.kind == "DaemonSet":  # other nodes may do; of a DaemonSet, those that it finds
            continue
        if context.cluster is not None and context.facts.eligible(workload).any():
            continue
        if not any(_pool_fits(pool, workload) for _, pool in pools):
            names = ", ".join(subject.name for subject, _ in pools)
            yield workload.problem(
                where(workload), f"no NodePool ({names}) can make a node that meets {demands(workload)}"
            )


NA_NODEPOOL_IMPOSSIBLE = Rule(
    "na-nodepool-impossible",
    WARNING,
    node_pool_impossible,
    summary="No Karpenter NodePool can provide the required nodes",
    why="Karpenter creates no node, and the pods stay Pending unless other nodes have the labels. Checked for pods "
    "that select a label of Karpenter's, or of the NodePools among the manifests.",
    fix="Correct the labels or tolerations, or let a NodePool offer them",
    source="https://karpenter.sh/docs/concepts/scheduling/",
)


def _pool_fits(pool: WrittenNodePool, workload: Workload) -> bool:
    labels, declared = pool.labels, pool.requirements
    taints = pool.spec.template.spec.taints
    if find_untolerated(taints, workload.spec.tolerations, HARD_EFFECTS) is not None:
        return False
    own = {*labels, *(requirement.key for requirement in declared)}
    base = Conditions().also(equal(labels)).also(declared)
    return any(_meets(base, way.conditions, own) for way in alternatives(workload.spec))


def _meets(pool: Conditions, wanted: Conditions, own: set[str]) -> bool:
    for key, values in wanted.by_key.items():
        if key not in own and not any(domain in key for domain in WELL_KNOWN_DOMAINS):
            if values.must_exist or values.present:
                return False
            continue
        offered = pool.by_key.get(key)
        if offered is None:
            continue
        both = [v.allowed for v in (offered, values) if v.allowed is not None]
        left = frozenset.intersection(*both) - offered.excluded - values.excluded if both else None
        if values.present is False or (
            left is not None and not any(offered.accepts(v) and values.accepts(v) for v in left)
        ):
            return False
    return True


def not_ready(context: LintContext) -> Iterator[Problem]:
    assert context.cluster is not None
    nodes_in_state: dict[str, list[str]] = {}
    for node in context.cluster.nodes:
        for condition in node.status.conditions:
            if condition.status not in ("", HEALTHY.get(condition.type, condition.status)):
                state = f"{condition.type} is {condition.status}"
                nodes_in_state.setdefault(state, []).append(node.metadata.name)
    for state, names in nodes_in_state.items():
        message = f"{state} on {len(names):,} of {counted(len(context.cluster.nodes), 'node')}: {listed(names)}"
        yield Subject("Node", names[0]).problem(("status", "conditions"), message)


ND_NOT_READY = Rule(
    "nd-not-ready",
    WARNING,
    not_ready,
    summary="Nodes that are not ready, or under pressure",
    why="They take no new pods, and those that run there may be evicted: there is less room than it seems.",
    fix="Repair the nodes, or remove them",
    source=f"{doc.TAINTS}#taint-nodes-by-condition",
    needs_cluster=True,
)
