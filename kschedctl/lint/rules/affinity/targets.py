"""Rules about pod affinity, anti-affinity and host ports that need other objects: templates, or nodes and pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from kschedctl.api.labels import EQUALS, IN
from kschedctl.api.objects import PodAffinityTerm
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.near_names import find_similar_name
from kschedctl.lint.analysis.placement import (
    RequiredTerm,
    format_usable_domains,
    iter_host_ports,
    iter_pod_affinity_terms,
    iter_required_affinity,
    iter_required_anti_affinity,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.rules.affinity.fields import find_anti_affinity_without_matches
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.snapshot.nodes import HOSTNAME
from kschedctl.text.counts import agreeing, counted

_EQUALITY_OPERATORS = (EQUALS, IN)
_MAX_COMPARED = 500
"""With more values of one key, or keys with one value, no misspellings are searched for."""

LARGE_CLUSTER_NODES = 500
"""The number of nodes above which pod affinity slows down scheduling."""


class _SimilarLabel(NamedTuple):
    """A label of pod templates that is similar to a given one."""

    label: str
    """The label, as ``key=value``."""
    workloads: list[Workload]
    """The workloads that have the label in their template."""


class _MisspelledLabel(NamedTuple):
    """A label in a term that no pods have."""

    label: str
    similar_label: str
    """The similar label that some pods have."""
    owner: Workload
    """The workload with these pods."""


class _TemplateLabels:
    """The labels of pod templates, each with the workloads that have it."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._values_by_key: dict[str, dict[str, list[Workload]]] = {}
        self._keys_by_value: dict[str, dict[str, list[Workload]]] = {}
        for workload in workloads:
            for key, value in workload.labels.items():
                self._values_by_key.setdefault(key, {}).setdefault(value, []).append(workload)
                self._keys_by_value.setdefault(value, {}).setdefault(key, []).append(workload)

    def has_label(self, key: str, value: str) -> bool:
        """Return whether some template has the label."""
        return value in self._values_by_key.get(key, ())

    def find_similar_label(self, key: str, value: str) -> _SimilarLabel | None:
        """Find a label with the same key and a similar value or, if no template has the key, with a similar key.

        More than `_MAX_COMPARED` values or keys are not compared. Returns None if no label is similar.
        """
        values = self._values_by_key.get(key, {})
        if len(values) <= _MAX_COMPARED:
            similar_value = find_similar_name(value, values)
            if similar_value:
                return _SimilarLabel(f"{key}={similar_value}", values[similar_value])
        keys = self._keys_by_value.get(value, {})
        if not values and len(keys) <= _MAX_COMPARED:
            similar_key = find_similar_name(key, keys, min_length=2)
            if similar_key:
                return _SimilarLabel(f"{similar_key}={value}", keys[similar_key])
        return None


def find_misspelled_affinity_labels(context: LintContext) -> Iterator[Problem]:
    """Find pod affinity terms that select nothing because of a label that looks misspelled.

    Terms that ``af-anti-not-self`` reports are left out. Nothing is reported if a cluster is given, because pods of the
    cluster may have the label.
    """
    if context.cluster is not None:
        return
    reported = {(problem.subject, problem.path) for problem in find_anti_affinity_without_matches(context)}
    labels_by_namespace = {
        namespace: _TemplateLabels(workloads) for namespace, workloads in context.workloads_by_namespace.items()
    }
    for workload in context.workloads:
        for path, term in iter_pod_affinity_terms(workload):
            selector_path = (*path, "labelSelector")
            if (workload.subject, workload.get_path(*selector_path)) in reported:
                continue
            # A term for other namespaces is compared with the labels in all namespaces
            compared_labels = labels_by_namespace
            selects_own_namespace = not term.namespaces and term.namespace_selector is None
            if selects_own_namespace:
                compared_labels = {workload.namespace: labels_by_namespace[workload.namespace]}
            for misspelled in _iter_misspelled_labels(context, workload, term, compared_labels):
                yield _build_misspelling_problem(workload, selector_path, misspelled)


def _build_misspelling_problem(workload: Workload, selector_path: Path, misspelled: _MisspelledLabel) -> Problem:
    """Build the problem about a misspelled label in the selector of a workload's affinity term."""
    label, similar_label, owner = misspelled
    pods = "the workload's own pods" if owner is workload else f"the pods of {owner.subject}"
    message = f"no pods have the label {label}, but {pods} have {similar_label}"
    return workload.build_problem(selector_path, message, f"Write {similar_label}")


AF_MISSPELT = Rule(
    "af-misspelt",
    WARNING,
    find_misspelled_affinity_labels,
    summary="Pod (anti-)affinity by a label that looks misspelled",
    why="The term selects no pods. Required affinity can then never be met, and other terms have no effect.",
    fix="Correct the label",
    source=doc.AFFINITY,
)


def _iter_misspelled_labels(
    context: LintContext, workload: Workload, term: PodAffinityTerm, labels_by_namespace: Mapping[str, _TemplateLabels]
) -> Iterator[_MisspelledLabel]:
    """Yield the labels in a term's selector that no pod template has but that look like a misspelled template label.

    Only requirements for a single value are checked. Yields nothing if the term selects a workload.
    """
    selector = compile_selector(term.label_selector)
    if selector is None or any(context.select_workloads(namespace, selector) for namespace in labels_by_namespace):
        return
    for requirement in selector.requirements:
        if requirement.operator not in _EQUALITY_OPERATORS or len(requirement.values) != 1:
            continue
        key, value = requirement.key, requirement.values[0]
        if any(labels.has_label(key, value) for labels in labels_by_namespace.values()):
            continue
        for labels in labels_by_namespace.values():
            similar = labels.find_similar_label(key, value)
            if similar is None:
                continue
            # The similar label has to be in the same cluster
            owners = [
                owner for owner in similar.workloads if context.variants.can_coexist(workload.subject, owner.subject)
            ]
            if owners:
                owner = workload if workload in owners else owners[0]
                yield _MisspelledLabel(f"{key}={value}", similar.label, owner)
                break


def find_terms_without_template(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match no pod template in the manifests.

    Misspelled terms and terms for other namespaces are left to their own rules. With a cluster, ``af-target-absent``
    checks the pods instead.
    """
    if context.cluster is not None or not context.all_manifests_read:
        return
    reported = {(problem.subject, problem.path) for problem in find_misspelled_affinity_labels(context)}
    reported |= {(problem.subject, problem.path) for problem in find_terms_for_other_namespaces(context)}
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            paths = (workload.get_path(*term.path), workload.get_path(*term.path, "labelSelector"))
            is_reported = any((workload.subject, path) in reported for path in paths)
            if is_reported or not _selects_no_workload(context, workload, term):
                continue
            noun = "namespace" if len(term.namespaces) == 1 else "namespaces"
            namespaces = ", ".join(sorted(term.namespaces))
            message = f'no pod template in {noun} {namespaces} has the labels "{term.selector}"'
            yield workload.build_problem((*term.path, "labelSelector"), message)


AF_NOBODY = Rule(
    "af-nobody",
    WARNING,
    find_terms_without_template,
    summary="Required pod affinity to labels that no pod template in the namespace has",
    why="No node ever matches and the pods stay Pending, unless something else creates pods with these labels. "
    "Checked only if the manifests have other workloads in the namespace and no custom resources that may create pods.",
    fix="Correct the labels, or deploy the workload whose pods have them",
    source=doc.AFFINITY,
)


def _selects_no_workload(context: LintContext, workload: Workload, term: RequiredTerm) -> bool:
    """Return whether a term selects no workload although each of its namespaces has other workloads.

    Returns False if the term matches pods of its own workload, or if it can match no pods at all. Also returns False if
    custom resources may create matching pods.
    """
    if term.selects_itself or term.selector.matches_nothing or not term.namespace_selector.matches_nothing:
        return False
    for namespace in term.namespaces:
        neighbours = [other for other in context.workloads_by_namespace.get(namespace, ()) if other is not workload]
        if not any(context.variants.can_coexist(neighbour.subject, workload.subject) for neighbour in neighbours):
            return False
        if context.select_workloads(namespace, term.selector):
            return False
    return bool(term.namespaces) and not context.may_have_unknown_pods(term.namespaces)


def find_terms_for_other_namespaces(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match only pods of another namespace, which the term does not include.

    Nothing is reported if a cluster is given, because pods of the cluster may match the term.
    """
    if context.cluster is not None:
        return
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            own_namespace_only = term.namespaces == {workload.namespace} and term.namespace_selector.matches_nothing
            if not own_namespace_only or term.selects_itself:
                continue
            if context.select_workloads(workload.namespace, term.selector):
                continue
            matches = [
                match
                for namespace in context.workloads_by_namespace
                for match in context.select_coexisting_workloads(workload.subject, namespace, term.selector)
            ]
            if matches and not context.may_have_unknown_pods((workload.namespace,)):
                message = f"matches only pods in namespace {workload.namespace}, not those of {matches[0].subject}"
                yield workload.build_problem(term.path, message)


AF_OTHER_NAMESPACE = Rule(
    "af-other-namespace",
    WARNING,
    find_terms_for_other_namespaces,
    summary="Required pod affinity to pods in another namespace",
    why="A term without namespaces or namespaceSelector applies only to the pod's own namespace: no node ever "
    "matches, and the pods stay Pending.",
    fix="Add namespaces or namespaceSelector to the term",
    source=doc.AFFINITY,
)


def find_more_replicas_than_domains(context: LintContext) -> Iterator[Problem]:
    """Find required anti-affinity with fewer usable domains than replicas, confirmed by a replay.

    Terms that do not match the workload's own pods are left out, and so are terms whose label some usable nodes lack.
    Workloads of the cluster that a linted autoscaler scales are included.
    """
    facts = context.facts
    for workload in (*context.workloads, *context.autoscaler_by_scaled_workload):
        for term in iter_required_anti_affinity(workload):
            eligible = facts.get_eligible_nodes(workload)
            rows = facts.pick_row_per_domain(term.key, eligible)
            has_unlabelled_nodes = (eligible & ~facts.get_nodes_with_label(term.key)).any()
            if not term.selects_itself or has_unlabelled_nodes or not len(rows):
                continue
            if workload.highest_replicas <= len(rows):
                continue
            if facts.is_cluster_full_after_placing(workload, rows):
                excess = workload.highest_replicas - len(rows)
                domains = format_usable_domains(len(rows), term.key)
                message = (
                    f"{workload.highest_replicas_text}, but only {domains}: at least {excess} "
                    f"{agreeing(excess, 'stays', 'stay')} Pending"
                )
                at_maximum = workload.lowest_replicas <= len(rows)
                yield context.build_replica_problem(workload, term.path, message, at_maximum=at_maximum)


AF_ANTI_REPLICAS_OVER_DOMAINS = Rule(
    "af-anti-replicas-over-domains",
    ERROR,
    find_more_replicas_than_domains,
    summary="Required anti-affinity with more replicas than domains",
    why="Each domain takes at most one replica, and the "
    "surplus replicas stay Pending. Verified by replay: with one replica "
    "in each domain, no further replica fits.",
    fix="Lower replicas, add nodes, or use preferred anti-affinity or topologySpreadConstraints",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
)


def find_more_replicas_than_hosts(context: LintContext) -> Iterator[Problem]:
    """Find replicated workloads with a host port that have more replicas than usable nodes, so that some stay Pending.

    A rollout that may not stop an old pod before a new one runs needs one node more. A workload is reported only if,
    in a replay, no node has room once each usable node runs one replica.
    """
    facts = context.facts
    for workload in context.workloads:
        host_port = next(iter_host_ports(workload), None)
        if host_port is None or workload.kind not in SERVING_KINDS:
            continue
        path, _port = host_port
        rows = np.flatnonzero(facts.get_eligible_nodes(workload))
        is_manifest = bool(workload.subject.document)
        must_start_new_pod_first = is_manifest and workload.compute_rollout_limits().must_start_new_pod_first
        # As many replicas as nodes: only a rollout has too few
        is_rollout_stuck = must_start_new_pod_first and workload.replicas == len(rows)
        excess = workload.highest_replicas - len(rows)
        has_too_few_nodes = excess > 0 or is_rollout_stuck
        if not len(rows) or not has_too_few_nodes or not facts.is_cluster_full_after_placing(workload, rows):
            continue
        if is_rollout_stuck:
            all_nodes = _name_all_usable_nodes(len(rows))
            message = f"the port is in use on {all_nodes}, so a rollout has no room for its first new pod"
        else:
            nodes = counted(len(rows), "usable node")
            message = (
                f"{workload.highest_replicas_text}, but only {nodes} with room for one replica each: at least {excess} "
                f"{agreeing(excess, 'stays', 'stay')} Pending"
            )
        yield workload.build_problem(path, message)


def _name_all_usable_nodes(count: int) -> str:
    """Return `the only usable node`, `both usable nodes` or, for more nodes, a text such as `all 3 usable nodes`."""
    if count == 2:
        return "both usable nodes"
    return agreeing(count, "the only usable node", f"all {count:,} usable nodes")


HP_HOSTPORT_OVER_NODES = Rule(
    "hp-hostport-over-nodes",
    ERROR,
    find_more_replicas_than_hosts,
    summary="hostPort with more replicas than usable nodes",
    why="Only one pod per node can use a host port, so the surplus replicas stay Pending. Verified by replay: with "
    "one replica on each node, no further replica fits.",
    fix="Use a Service or a DaemonSet instead of hostPort, or lower replicas",
    source="https://github.com/kubernetes/kubernetes/issues/91340",
    needs_cluster=True,
)


def find_rollout_deadlocks(context: LintContext) -> Iterator[Problem]:
    """Find Deployments whose rollout cannot start because an old pod is in every domain, confirmed by a replay.

    Only Deployments in manifests are considered, and only if they have to start a new pod before an old pod stops.
    """
    facts = context.facts
    for workload in context.workloads:
        must_start_new_pod_first = workload.compute_rollout_limits().must_start_new_pod_first
        if workload.kind != "Deployment" or not workload.subject.document or not must_start_new_pod_first:
            continue
        for term in iter_required_anti_affinity(workload):
            if not term.selects_itself or not term.matches_all_revisions:
                continue
            eligible = facts.get_eligible_nodes(workload)
            has_unlabelled_nodes = (eligible & ~facts.get_nodes_with_label(term.key)).any()
            rows = facts.pick_row_per_domain(term.key, eligible)
            is_pod_in_every_domain = len(rows) > 0 and workload.replicas == len(rows) and not has_unlabelled_nodes
            if is_pod_in_every_domain and facts.is_cluster_full_after_placing(workload, rows):
                domains = format_usable_domains(len(rows), term.key)
                has_pod = agreeing(len(rows), "the only usable domain has", f"all {domains} have")
                message = f"{has_pod} an old pod, and no old pod may stop before a new one runs: no rollout ever ends"
                yield workload.build_problem(term.path, message)


AF_ROLLOUT_DEADLOCK = Rule(
    "af-rollout-deadlock",
    ERROR,
    find_rollout_deadlocks,
    summary="Required anti-affinity that leaves no free domain for the new pod of a rollout",
    why="maxUnavailable rounds down to 0, so a new pod has to start before an old pod stops. Verified by replay: with "
    "an old pod in every domain, the new pod fits nowhere.",
    fix="Set maxUnavailable: 1, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    needs_cluster=True,
    advised_field=AFFINITY_LABEL_KEYS,
)


def find_terms_without_target_pods(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match neither pods nor linted workloads, confirmed by a replay.

    Terms that match their own workload are left out. Finds nothing unless all pods are known.
    """
    facts = context.facts
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            namespaces = term.list_namespaces(facts.view.namespace_labels)
            if term.selects_itself or _may_match_any_pod(context, term, namespaces):
                continue
            if not context.are_all_read("Pod") or not len(facts):
                continue
            if facts.find_nodes_rejected_by(workload, InterPodAffinity).all():
                noun = agreeing(len(namespaces), "namespace", "namespaces")
                where = f"{noun} {', '.join(sorted(namespaces))}" if namespaces else "any namespace"
                yield workload.build_problem(term.path, f'no pod in {where} matches "{term.selector}"')


AF_TARGET_ABSENT = Rule(
    "af-target-absent",
    ERROR,
    find_terms_without_target_pods,
    summary="Required pod affinity to pods that do not exist",
    why="The pods stay Pending until a pod exists that matches the term. The pods of the cluster and the linted "
    "workloads are checked. Verified by replay: the term rejects every node.",
    fix="Deploy the workload that the pods must run with, or correct labelSelector or namespaces",
    source=f"{doc.PLUGINS}: interpodaffinity/filtering.go",
    needs_cluster=True,
)


def _may_match_any_pod(context: LintContext, term: RequiredTerm, namespaces: frozenset[str]) -> bool:
    """Return whether a term matches a linted workload or a pod of the cluster, or may match unknown pods.

    Returns True for a term without a selector, which ``af-null-selector`` reports.
    """
    if term.selector.matches_nothing or context.may_have_unknown_pods(namespaces):
        return True
    if any(
        workload.is_selected_by(term.selector) and workload.namespace in namespaces for workload in context.workloads
    ):
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
    summary="Anti-affinity with a topologyKey that some usable nodes lack",
    why="The term has no effect on nodes without the label: several pods of the workload may share such a node.",
    fix="Add the label to all nodes",
    source=doc.AFFINITY,
    needs_cluster=True,
)


def find_affinity_in_large_clusters(context: LintContext) -> Iterator[Problem]:
    """Find pod (anti-)affinity by any label except the hostname, in clusters of over ``LARGE_CLUSTER_NODES`` nodes.

    Each workload is reported once, at its first such term.
    """
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
    why="Pod affinity is the most expensive constraint to evaluate, and slows scheduling down for every pod.",
    fix="Use topologySpreadConstraints if they can express the same rule",
    source=doc.AFFINITY,
    needs_cluster=True,
)
