"""Rules about pod affinity and anti-affinity that need the nodes and pods of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import (
    format_usable_domains,
    iter_pod_terms,
    iter_required_affinity,
    iter_required_anti_affinity,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import agreeing, counted

LARGE_CLUSTER_NODES = 500
"""The number of nodes above which pod affinity slows down scheduling."""


def find_more_replicas_than_domains(context: LintContext) -> Iterator[Problem]:
    """Find required anti-affinity between more replicas than there are usable domains, proved by a replay."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            rows = facts.pick_row_per_domain(term.key, eligible)
            unlabelled = (eligible & ~facts.get_nodes_with_label(term.key)).any()
            if not term.selects_itself or unlabelled or not len(rows) or workload.highest_replicas <= len(rows):
                continue
            if facts.is_full_after(workload, rows):
                excess = workload.highest_replicas - len(rows)
                message = (
                    f"{workload.highest_replicas} replicas, but only {format_usable_domains(len(rows), term.key)}: "
                )
                yield workload.build_problem(
                    term.path, f"{message}{excess} {agreeing(excess, 'stays', 'stay')} Pending"
                )


AF_ANTI_REPLICAS_OVER_DOMAINS = Rule(
    "af-anti-replicas-over-domains",
    ERROR,
    find_more_replicas_than_domains,
    summary="Required anti-affinity with more replicas than domains",
    why="Each domain takes one replica; the rest stay Pending. Proved by replay with one replica in each domain.",
    fix="Lower replicas, add nodes, or use preferred anti-affinity or topologySpreadConstraints",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
)


def find_rollout_deadlocks(context: LintContext) -> Iterator[Problem]:
    """Find Deployments whose rollout can never start since an old pod is in every domain, proved by a replay."""
    facts = context.facts
    for workload in context.workloads:
        surge, unavailable = workload.compute_surge()
        if workload.kind != "Deployment" or not workload.subject.document or unavailable or not surge:
            continue
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            rows = facts.pick_row_per_domain(term.key, eligible)
            if (
                not term.selects_itself
                or not term.matches_all_revisions
                or (eligible & ~facts.get_nodes_with_label(term.key)).any()
            ):
                continue
            if len(rows) and workload.replicas == len(rows) and facts.is_full_after(workload, rows):
                message = (
                    f"all {format_usable_domains(len(rows), term.key)} {agreeing(len(rows), 'holds', 'hold')} an old "
                    "pod, none may go first: no "
                    "rollout ever ends"
                )
                yield workload.build_problem(term.path, message)


AF_ROLLOUT_DEADLOCK = Rule(
    "af-rollout-deadlock",
    ERROR,
    find_rollout_deadlocks,
    summary="Required anti-affinity and a rollout that must surge",
    why="maxUnavailable rounds down to 0, so a new pod must start first, but every domain is taken by an old one. "
    "Proved by replay.",
    fix="Set maxUnavailable: 1, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
    advised_field=AFFINITY_LABEL_KEYS,
)


def find_terms_without_target_pods(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match no pod of the cluster and no linted workload."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            namespaces = term.list_namespaces(facts.view.namespace_labels, workload.namespace)
            if term.selects_itself or any(
                w.is_selected_by(term.selector) and w.namespace in namespaces for w in context.workloads
            ):
                continue
            if facts.view.pods.matching(term.selector, namespaces).any() or term.selector.matches_nothing:
                continue
            if context.may_have_unknown_pods(namespaces):
                continue
            if (
                context.are_all_read("Pod")
                and len(facts)
                and facts.get_rejected_nodes(workload, InterPodAffinity).all()
            ):
                yield workload.build_problem(
                    term.path, f'no pod matches "{term.selector}" in {", ".join(sorted(namespaces)) or "any namespace"}'
                )


AF_TARGET_ABSENT = Rule(
    "af-target-absent",
    ERROR,
    find_terms_without_target_pods,
    summary="Required affinity to pods that do not exist",
    why="Unless the pods match the term themselves, they wait until others do. Checked against the pods of the "
    "cluster and the linted workloads, and proved by replay.",
    fix="Deploy the workload it must run with, or correct the selector and namespaces",
    source=f"{doc.PLUGINS}: interpodaffinity/filtering.go",
    needs_cluster=True,
)


def find_anti_affinity_on_partial_labels(context: LintContext) -> Iterator[Problem]:
    """Find required anti-affinity terms whose topologyKey some usable nodes lack."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            without = eligible & ~facts.get_nodes_with_label(term.key)
            if without.any() and eligible.any():
                lack = agreeing(without.sum(), "lacks", "lack")
                message = (
                    f"{without.sum():,} of {counted(eligible.sum(), 'usable node')} {lack} {term.key}; the term "
                    "has no effect "
                    f"there: {facts.format_node_names(without)}"
                )
                yield workload.build_problem((*term.path, "topologyKey"), message)


AF_UNLABELLED_NODES = Rule(
    "af-unlabelled-nodes",
    WARNING,
    find_anti_affinity_on_partial_labels,
    summary="Anti-affinity on a label that some usable nodes lack",
    why="The term has no effect on nodes without the label: several such pods may share one.",
    fix="Label all nodes",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def find_affinity_in_large_clusters(context: LintContext) -> Iterator[Problem]:
    """Find pod affinity by other labels than the hostname in clusters of more than ``LARGE_CLUSTER_NODES`` nodes."""
    nodes = len(context.facts)
    for workload in context.workloads:
        first = next((path for path, term in iter_pod_terms(workload) if term.topology_key != HOSTNAME), None)
        if nodes > LARGE_CLUSTER_NODES and first is not None:
            yield workload.build_problem(
                first, f"affinity between pods costs much in a cluster of {counted(nodes, 'node')}"
            )


AF_LARGE_CLUSTER = Rule(
    "af-large-cluster",
    NOTE,
    find_affinity_in_large_clusters,
    summary="Pod affinity in a cluster of several hundred nodes or more",
    why="It is the most expensive constraint a pod can have, and slows scheduling for every pod.",
    fix="Use topologySpreadConstraints where they can say the same",
    source=doc.AFFINITY,
    needs_cluster=True,
)
