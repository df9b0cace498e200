"""Rules about pod affinity and anti-affinity that need the nodes and pods of a cluster."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import (
    RequiredTerm,
    format_usable_domains,
    iter_pod_affinity_terms,
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
    """Find required anti-affinity with fewer usable domains than replicas, confirmed by a replay."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            rows = facts.pick_row_per_domain(term.key, eligible)
            has_unlabelled_nodes = (eligible & ~facts.get_nodes_with_label(term.key)).any()
            if not term.selects_itself or has_unlabelled_nodes or not len(rows):
                continue
            if workload.highest_replicas <= len(rows):
                continue
            if facts.is_full_with_pods_on(workload, rows):
                excess = workload.highest_replicas - len(rows)
                domains = format_usable_domains(len(rows), term.key)
                message = (
                    f"{workload.highest_replicas} replicas, but only {domains}: {excess} "
                    f"{agreeing(excess, 'stays', 'stay')} Pending"
                )
                yield workload.build_problem(term.path, message)


AF_ANTI_REPLICAS_OVER_DOMAINS = Rule(
    "af-anti-replicas-over-domains",
    ERROR,
    find_more_replicas_than_domains,
    summary="Required anti-affinity with more replicas than domains",
    why="Each domain takes one replica, and the others stay Pending. Proved by replay with one replica in each domain.",
    fix="Lower replicas, add nodes, or use preferred anti-affinity or topologySpreadConstraints",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
)


def find_rollout_deadlocks(context: LintContext) -> Iterator[Problem]:
    """Find Deployments whose rollout cannot start because an old pod is in every domain, confirmed by a replay."""
    facts = context.facts
    for workload in context.workloads:
        surge, unavailable = workload.compute_surge()
        if workload.kind != "Deployment" or not workload.subject.document or unavailable or not surge:
            continue
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            rows = facts.pick_row_per_domain(term.key, eligible)
            has_unlabelled_nodes = (eligible & ~facts.get_nodes_with_label(term.key)).any()
            if not term.selects_itself or not term.matches_all_revisions or has_unlabelled_nodes:
                continue
            if len(rows) and workload.replicas == len(rows) and facts.is_full_with_pods_on(workload, rows):
                domains = format_usable_domains(len(rows), term.key)
                has_pod = agreeing(len(rows), "the only usable domain has", f"all {domains} have")
                message = f"{has_pod} an old pod, and no old pod may stop before a new one runs: no rollout ever ends"
                yield workload.build_problem(term.path, message)


AF_ROLLOUT_DEADLOCK = Rule(
    "af-rollout-deadlock",
    ERROR,
    find_rollout_deadlocks,
    summary="Required anti-affinity and a rollout that must surge",
    why="maxUnavailable rounds down to 0, so a new pod has to start first, but every domain has an old pod. "
    "Proved by replay.",
    fix="Set maxUnavailable: 1, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
    advised_field=AFFINITY_LABEL_KEYS,
)


def find_terms_without_target_pods(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match neither pods nor linted workloads, confirmed by a replay."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            namespaces = term.list_namespaces(facts.view.namespace_labels)
            if term.selects_itself or _may_match_any_pod(context, term, namespaces):
                continue
            if not context.are_all_read("Pod") or not len(facts):
                continue
            if facts.find_nodes_rejected_by(workload, InterPodAffinity).all():
                where = ", ".join(sorted(namespaces)) or "any namespace"
                yield workload.build_problem(term.path, f'no pod in {where} matches "{term.selector}"')


AF_TARGET_ABSENT = Rule(
    "af-target-absent",
    ERROR,
    find_terms_without_target_pods,
    summary="Required affinity to pods that do not exist",
    why="The pods stay Pending until a pod exists that matches the term. Checked against the pods of the "
    "cluster and the linted workloads, and proved by replay.",
    fix="Deploy the workload it must run with, or correct the selector and namespaces",
    source=f"{doc.PLUGINS}: interpodaffinity/filtering.go",
    needs_cluster=True,
)


def _may_match_any_pod(context: LintContext, term: RequiredTerm, namespaces: frozenset[str]) -> bool:
    """Return whether a term matches a linted workload or a pod of the cluster, or may match unknown pods.

    Returns True for a term without a selector, which ``af-null-selector`` reports.
    """
    if term.selector.matches_nothing or context.may_have_unknown_pods(namespaces):
        return True
    if any(w.is_selected_by(term.selector) and w.namespace in namespaces for w in context.workloads):
        return True
    return bool(context.facts.view.pods.match_infos(term.selector, namespaces).any())


def find_anti_affinity_on_missing_node_labels(context: LintContext) -> Iterator[Problem]:
    """Find required anti-affinity terms with a topologyKey that some usable nodes lack."""
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            unlabelled = eligible & ~facts.get_nodes_with_label(term.key)
            if unlabelled.any():
                count = int(unlabelled.sum())
                message = (
                    f"the term has no effect on {count:,} of {counted(eligible.sum(), 'usable node')}, which "
                    f"{agreeing(count, 'lacks', 'lack')} {term.key}: {facts.format_node_names(unlabelled)}"
                )
                yield workload.build_problem((*term.path, "topologyKey"), message)


AF_UNLABELLED_NODES = Rule(
    "af-unlabelled-nodes",
    WARNING,
    find_anti_affinity_on_missing_node_labels,
    summary="Anti-affinity on a label that some usable nodes lack",
    why="The term has no effect on nodes without the label: several of its pods may share such a node.",
    fix="Label all nodes",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def find_affinity_in_large_clusters(context: LintContext) -> Iterator[Problem]:
    """Find pod affinity by zone or any label except the hostname, in clusters of over ``LARGE_CLUSTER_NODES``."""
    node_count = len(context.facts)
    if node_count <= LARGE_CLUSTER_NODES:
        return
    for workload in context.workloads:
        paths = (path for path, term in iter_pod_affinity_terms(workload) if term.topology_key != HOSTNAME)
        first_path = next(paths, None)
        if first_path is not None:
            message = f"pod affinity slows scheduling down in a cluster of {counted(node_count, 'node')}"
            yield workload.build_problem(first_path, message)


AF_LARGE_CLUSTER = Rule(
    "af-large-cluster",
    NOTE,
    find_affinity_in_large_clusters,
    summary="Pod affinity in a cluster of several hundred nodes or more",
    why="It is the most expensive constraint that a pod can have, and slows scheduling down for every pod.",
    fix="Use topologySpreadConstraints if they can express the same rule",
    source=doc.AFFINITY,
    needs_cluster=True,
)
