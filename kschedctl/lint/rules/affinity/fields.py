"""Rules about pod affinity, pod anti-affinity and host ports that need nothing but the manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.labels import EVERYTHING, Selector
from kschedctl.api.objects import PreferredSchedulingTerm, WeightedPodAffinityTerm
from kschedctl.api.validation.placement import validate_weight
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import (
    HARD,
    PREFERRED,
    RequiredTerm,
    format_domain_noun,
    iter_host_ports,
    iter_pod_affinity_terms,
    iter_required_anti_affinity,
    iter_spread_constraints,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, for_each_workload
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.snapshot.nodes import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted, join_words

_Preference = PreferredSchedulingTerm | WeightedPodAffinityTerm


def find_workloads_without_spread(workload: Workload) -> Iterator[Problem]:
    """Report a serving workload with several replicas that no affinity, constraint or host port keeps apart."""
    has_anti_affinity = any("podAntiAffinity" in path for path, _ in iter_pod_affinity_terms(workload))
    are_kept_apart = has_anti_affinity or any(iter_host_ports(workload)) or workload.spec.topology_spread_constraints
    if workload.is_serving_replicas and not are_kept_apart:
        yield workload.build_problem((), f"nothing spreads its {workload.replica_range} replicas")


TS_MISSING = Rule(
    "ts-missing",
    NOTE,
    for_each_workload(find_workloads_without_spread),
    summary="Several replicas without spread constraints or anti-affinity",
    why="Only the scheduler's weak default preference keeps the replicas apart, so losing one node or zone may stop "
    "all of them.",
    fix="Add topologySpreadConstraints on kubernetes.io/hostname and topology.kubernetes.io/zone",
    source=doc.SPREAD,
    once_per_namespace=True,
)


def find_replicas_that_may_share_a_node(workload: Workload) -> Iterator[Problem]:
    """Report a serving workload whose replicas are spread by zone or another label but may share a node.

    Workloads that are not spread at all are left out.
    """
    spec = workload.spec
    keys = {term.topology_key for path, term in iter_pod_affinity_terms(workload) if "podAntiAffinity" in path}
    keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
    have_own_nodes = HOSTNAME in keys or any(iter_required_anti_affinity(workload)) or any(iter_host_ports(workload))
    if not workload.is_serving_replicas or not keys or have_own_nodes:
        return
    field = "topologySpreadConstraints" if spec.topology_spread_constraints else "affinity"
    message = f"replicas are spread only across domains of {join_words(sorted(keys))}, so several may run on one node"
    yield workload.build_problem((field,), message)


AF_NO_HOST_ANTI = Rule(
    "af-no-host-anti",
    NOTE,
    for_each_workload(find_replicas_that_may_share_a_node),
    summary="Nothing keeps replicas on different nodes",
    why="If replicas only prefer different nodes, or are only spread across zones, all replicas in a zone may run on "
    "one node.",
    fix="Add a spread constraint or an anti-affinity term on kubernetes.io/hostname",
    source=doc.AFFINITY,
)


def find_replicas_with_host_port(workload: Workload) -> Iterator[Problem]:
    """Report a serving workload of several replicas with a host port, which only one pod per node can use.

    Workloads with hostNetwork are left out.
    """
    host_port = next(iter_host_ports(workload), None)
    if host_port is not None and workload.is_serving_replicas and not workload.spec.host_network:
        path, number = host_port
        replicas = workload.replica_range
        message = f"only one pod per node can use port {number}, so {replicas} replicas need {replicas} nodes"
        surge = workload.compute_rollout_limits().surge
        if surge > 0:
            message += ", and one more for a rollout"
        yield workload.build_problem((*path, "hostPort"), message)


HP_ONE_A_NODE = Rule(
    "hp-one-a-node",
    NOTE,
    for_each_workload(find_replicas_with_host_port),
    summary="Several replicas with a host port",
    why="Only one pod per node can use a host port, so replicas beyond the number of usable nodes stay Pending.",
    fix="Use a Service instead of hostPort, or a DaemonSet",
    source="pkg/scheduler/framework/plugins/nodeports (v1.36)",
)


def find_terms_without_selector(workload: Workload) -> Iterator[Problem]:
    """Find pod affinity and anti-affinity terms without labelSelector, which match no pods.

    The message says whether the pod can then never be scheduled or the term has no effect.
    """
    for path, term in iter_pod_affinity_terms(workload):
        if term.label_selector is None:
            is_required_affinity = "podAffinity" in path and PREFERRED not in path
            effect = "the pod can never be scheduled" if is_required_affinity else "it has no effect"
            yield workload.build_problem(path, f"the term has no labelSelector, so it matches no pods: {effect}")


AF_NULL_SELECTOR = Rule(
    "af-null-selector",
    WARNING,
    for_each_workload(find_terms_without_selector),
    summary="Pod (anti-)affinity term without labelSelector",
    why="A missing labelSelector matches no pods, unlike an empty one ({}), which matches all pods. Required "
    "affinity can then never be met, and required anti-affinity and preferred terms have no effect.",
    fix="Add a labelSelector, or {} to select all pods",
    source="https://github.com/kubernetes/kubernetes/pull/117025",
)


def find_anti_affinity_without_matches(context: LintContext) -> Iterator[Problem]:
    """Find anti-affinity terms whose selector matches no pods, not even pods of the workload itself.

    Only serving workloads of several replicas are considered, and only terms for the workload's own namespace. The
    selector has to use the workload's label keys with other values.
    """
    for workload in context.workloads:
        if not workload.is_serving_replicas:
            continue
        for path, term in iter_pod_affinity_terms(workload):
            selector = compile_selector(term.label_selector)
            own_namespace_only = not term.namespaces and term.namespace_selector is None
            if "podAntiAffinity" not in path or not own_namespace_only or selector is None:
                continue
            if _uses_own_keys_with_other_values(workload, selector) and not _may_selector_match_pods(
                context, workload, selector
            ):
                message = f'selector "{selector}" matches no pods, not even the workload\'s own: nothing spreads them'
                yield workload.build_problem((*path, "labelSelector"), message)


AF_ANTI_NOT_SELF = Rule(
    "af-anti-not-self",
    WARNING,
    find_anti_affinity_without_matches,
    summary="Anti-affinity whose selector matches no pods, not even the workload's own",
    why="Replicas that do not match the selector are not kept apart.",
    fix="Make labelSelector match the labels of the pod template",
    source=doc.AFFINITY,
)


def _uses_own_keys_with_other_values(workload: Workload, selector: Selector) -> bool:
    """Return whether the selector uses label keys of the workload's pods but does not match the pods."""
    keys = {requirement.key for requirement in selector.requirements}
    return bool(keys & workload.labels.keys()) and not workload.is_selected_by(selector)


def _may_selector_match_pods(context: LintContext, workload: Workload, selector: Selector) -> bool:
    """Return whether the selector matches a workload or pod of the workload's namespace, or may match an unread pod."""
    if context.select_workloads(workload.namespace, selector) or not context.are_all_read("Pod"):
        return True
    pods = context.facts.view.pods if context.cluster else None
    return pods is not None and bool(pods.match_infos(selector, frozenset((workload.namespace,))).any())


def find_invalid_weights(workload: Workload) -> Iterator[Problem]:
    """Find preferred terms of node affinity and pod (anti-)affinity whose weight is not between 1 and 100."""
    affinity = workload.spec.affinity
    if affinity is None:
        return
    parts = (
        ("nodeAffinity", affinity.node_affinity),
        ("podAffinity", affinity.pod_affinity),
        ("podAntiAffinity", affinity.pod_anti_affinity),
    )
    for name, part in parts:
        if part is None:
            continue
        preferred: Iterable[_Preference] = part.preferred_during_scheduling_ignored_during_execution
        for i, term in enumerate(preferred):
            path = workload.get_path("affinity", name, PREFERRED, i, "weight")
            yield from workload.to_problems(validate_weight(term.weight, path))


AF_WEIGHT_RANGE = Rule(
    "af-weight-range",
    ERROR,
    for_each_workload(find_invalid_weights),
    summary="Weight of a preference outside 1 to 100",
    why="The API server rejects the pods.",
    fix="Choose a weight from 1 to 100",
    source=f"{doc.AFFINITY}; {doc.VALIDATION}",
)


USUAL_MAX_DOMAINS = {ZONE: 4, REGION: 1, "kubernetes.io/os": 1, "kubernetes.io/arch": 2}
"""Node label -> the maximum number of values in most clusters. Few cloud regions have more than three zones."""
_USUAL_ZONES = 3


def find_anti_affinity_against_all_pods(workload: Workload) -> Iterator[Problem]:
    """Find required anti-affinity terms with an empty labelSelector, which matches every pod.

    Terms that are limited to one revision of the workload are left out.
    """
    for term in iter_required_anti_affinity(workload):
        if term.selector == EVERYTHING and term.matches_all_revisions:
            where = "in all namespaces that the term selects"
            if term.namespaces:
                where = f"of {', '.join(sorted(term.namespaces))}"
            domain = format_domain_noun(term.key).removesuffix("s")
            message = f"the empty selector matches every pod {where}: none of them can share a {domain} with this pod"
            yield workload.build_problem((*term.path, "labelSelector"), message)


AF_ANTI_EVERYTHING = Rule(
    "af-anti-everything",
    WARNING,
    for_each_workload(find_anti_affinity_against_all_pods),
    summary="Required anti-affinity to every pod in the namespace",
    why="An empty labelSelector matches all pods, so none of these pods can share a node (or another topology domain) "
    "with any other pod in the namespace.",
    fix="Select the pods that must be kept apart by their labels",
    source=doc.AFFINITY,
)


def find_too_many_anti_affine_replicas(context: LintContext) -> Iterator[Problem]:
    """Yield a problem for required anti-affinity that needs more zones or regions than most clusters have.

    Only serving workloads are considered. If a cluster was read, ``af-anti-replicas-over-domains`` compares the
    replicas with the cluster's domains instead.
    """
    if context.cluster is not None:
        return
    for workload in context.workloads:
        for term in iter_required_anti_affinity(workload):
            usual_max = USUAL_MAX_DOMAINS.get(term.key)
            if usual_max is None or not workload.is_serving_replicas:
                continue
            if term.selects_itself and workload.highest_replicas > usual_max:
                domains = format_domain_noun(term.key)
                message = (
                    f"{workload.replica_range} replicas need the same number of {domains}, but most clusters have fewer"
                )
                yield workload.build_problem((*term.path, "topologyKey"), message)


AF_ANTI_MANY_REPLICAS = Rule(
    "af-anti-many-replicas",
    WARNING,
    find_too_many_anti_affine_replicas,
    summary="Required anti-affinity across zones or regions with many replicas",
    why="Each domain takes at most one replica, and the "
    "surplus replicas stay Pending. Reported if the replicas need at "
    "least five zones or two regions. If a cluster is given, af-anti-replicas-over-domains counts its domains.",
    fix="Use kubernetes.io/hostname, or topologySpreadConstraints with maxSkew 1 over the zones",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
)


def find_anti_affinity_with_surge(context: LintContext) -> Iterator[Problem]:
    """Find Deployments whose rollout must start a new pod first, although anti-affinity leaves no domain for it.

    Only Deployments with several replicas are considered. With a cluster, ``af-rollout-deadlock`` replays the rollout
    instead.
    """
    if context.cluster is not None:
        return
    for workload in context.workloads:
        must_start_new_pod_first = workload.compute_rollout_limits().must_start_new_pod_first
        if workload.kind != "Deployment" or not workload.is_serving_replicas or not must_start_new_pod_first:
            continue
        for term in iter_required_anti_affinity(workload):
            if term.selects_itself and term.matches_all_revisions and _lacks_spare_domain(workload, term):
                domains = format_domain_noun(term.key)
                replicas = workload.lowest_replicas
                message = (
                    f"a rollout has to start a new pod first, so {counted(replicas, 'replica')} need {replicas + 1} "
                    f"{domains}: with {replicas}, it never ends"
                )
                yield workload.build_problem(term.path, message)


AF_ANTI_SURGE = Rule(
    "af-anti-surge",
    WARNING,
    find_anti_affinity_with_surge,
    summary="Required anti-affinity and a rollout that has to start a new pod first",
    why="With maxUnavailable: 0, the new pod needs a domain without an old pod. If there are as many replicas as "
    "domains, no rollout ever ends. With a cluster, af-rollout-deadlock verifies this by replay.",
    fix="Set maxUnavailable: 1 and maxSurge: 0, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    advised_field=AFFINITY_LABEL_KEYS,
)


def _lacks_spare_domain(workload: Workload, term: RequiredTerm) -> bool:
    """Return whether the first new pod of a rollout probably finds no free domain.

    This is assumed if maxUnavailable is explicitly 0, or if there are as many replicas as most clusters have zones.
    With more replicas than usual domains, ``af-anti-many-replicas`` reports the term instead.
    """
    usual_max = USUAL_MAX_DOMAINS.get(term.key)
    if usual_max is not None and workload.highest_replicas > usual_max:
        return False
    is_zero_explicit = workload.strategy.rolling_update.max_unavailable in (0, "0%")
    are_domains_few = term.key in (ZONE, REGION) and workload.lowest_replicas >= _USUAL_ZONES
    return is_zero_explicit or are_domains_few


def find_daemon_sets_kept_off_nodes(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets with anti-affinity or a hard spread constraint that keeps their pods away from some nodes.

    Only terms and constraints that select the DaemonSet's own pods are considered. Terms and constraints for hostnames
    do no harm.
    """
    daemon_sets = [workload for workload in context.workloads if workload.kind == "DaemonSet"]
    for workload in daemon_sets:
        for term in iter_required_anti_affinity(workload):
            if term.selects_itself and term.key != HOSTNAME:
                message = f"only one pod per {term.key} is allowed: the other nodes get none"
                yield workload.build_problem((*term.path, "topologyKey"), message)
    for workload, path, constraint in iter_spread_constraints(daemon_sets):
        if constraint.when_unsatisfiable != HARD or constraint.topology_key == HOSTNAME:
            continue
        selector = compile_selector(constraint.label_selector)
        if selector is not None and workload.is_selected_by(selector):
            message = f"if one {constraint.topology_key} has more nodes than another, some of them get no pod"
            yield workload.build_problem((*path, "topologyKey"), message)


DS_KEPT_APART = Rule(
    "ds-kept-apart",
    WARNING,
    find_daemon_sets_kept_off_nodes,
    summary="DaemonSet with anti-affinity or a spread constraint against its own pods",
    why="A DaemonSet pod can run only on its own node: if the anti-affinity or spread constraint rejects that node, "
    "the pod stays Pending.",
    fix="Remove the anti-affinity term or spread constraint: a DaemonSet has one pod per node anyway",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled",
)
