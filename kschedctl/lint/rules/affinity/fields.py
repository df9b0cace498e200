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
    iter_pod_terms,
    iter_required_anti_affinity,
    iter_spread_constraints,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, compile_selector
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, for_each_workload
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.snapshot.nodes import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted

_Preference = PreferredSchedulingTerm | WeightedPodAffinityTerm


def find_workloads_without_spread(workload: Workload) -> Iterator[Problem]:
    """Find serving workloads whose replicas nothing keeps apart."""
    apart = any("podAntiAffinity" in path for path, _ in iter_pod_terms(workload)) or any(iter_host_ports(workload))
    if workload.is_serving_replicas and not apart and not workload.spec.topology_spread_constraints:
        yield workload.build_problem((), f"{workload.replica_range} replicas, and nothing spreads them")


TS_MISSING = Rule(
    "ts-missing",
    NOTE,
    for_each_workload(find_workloads_without_spread),
    summary="Several replicas without spread constraints or anti-affinity",
    why="Only the scheduler's weak default preference keeps them apart; one node or zone may take all of them down.",
    fix="Add topologySpreadConstraints on kubernetes.io/hostname and topology.kubernetes.io/zone",
    source=doc.SPREAD,
    once_per_namespace=True,
)


def find_replicas_that_may_share_a_node(workload: Workload) -> Iterator[Problem]:
    """Find serving workloads whose replicas are kept apart by zone or another label, but not by node."""
    spec = workload.spec
    keys = {term.topology_key for path, term in iter_pod_terms(workload) if "podAntiAffinity" in path}
    keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
    apart = HOSTNAME in keys or any(iter_required_anti_affinity(workload)) or any(iter_host_ports(workload))
    if not workload.is_serving_replicas or not keys or apart:
        return
    field = "topologySpreadConstraints" if spec.topology_spread_constraints else "affinity"
    yield workload.build_problem((field,), f"kept apart by {', '.join(sorted(keys))} only: replicas may share a node")


AF_NO_HOST_ANTI = Rule(
    "af-no-host-anti",
    NOTE,
    for_each_workload(find_replicas_that_may_share_a_node),
    summary="Replicas are kept apart, but may share a node",
    why="Spreading across zones alone allows all replicas of a zone on one node.",
    fix="Add a spread constraint or an anti-affinity term on kubernetes.io/hostname",
    source=doc.AFFINITY,
)


def find_replicas_with_host_port(workload: Workload) -> Iterator[Problem]:
    """Find serving workloads with a host port, which only one pod per node can use."""
    host_port = next(iter_host_ports(workload), None)
    if host_port is not None and workload.is_serving_replicas and not workload.spec.host_network:
        path, number = host_port
        message = f"port {number} can be used once per node: {workload.replica_range} replicas need as many nodes"
        yield workload.build_problem(
            (*path, "hostPort"), message + ", an update one more" * (workload.compute_surge()[0] > 0)
        )


HP_ONE_A_NODE = Rule(
    "hp-one-a-node",
    NOTE,
    for_each_workload(find_replicas_with_host_port),
    summary="Several replicas with a host port",
    why="A host port can be used once per node: replicas that find no other node stay Pending.",
    fix="Use a Service, or a DaemonSet",
    source="pkg/scheduler/framework/plugins/nodeports (v1.36)",
)


def find_terms_without_selector(workload: Workload) -> Iterator[Problem]:
    """Find pod affinity and anti-affinity terms without labelSelector, which match no pods."""
    for path, term in iter_pod_terms(workload):
        if term.label_selector is None:
            required_affinity = "podAffinity" in path and PREFERRED not in path
            effect = "the pod can never be scheduled" if required_affinity else "it does nothing"
            yield workload.build_problem(path, f"a term without labelSelector matches no pods: {effect}")


AF_NULL_SELECTOR = Rule(
    "af-null-selector",
    WARNING,
    for_each_workload(find_terms_without_selector),
    summary="Pod (anti-)affinity term without labelSelector",
    why="A missing selector matches no pods, an empty one ({}) all: required affinity can then never be met, "
    "anything else does nothing.",
    fix="Add labelSelector; write {} to mean all pods",
    source="https://github.com/kubernetes/kubernetes/pull/117025",
)


def find_anti_affinity_without_matches(context: LintContext) -> Iterator[Problem]:
    """Find anti-affinity terms whose selector matches no pods, not even the workload's own."""
    for workload in context.workloads:
        for path, term in iter_pod_terms(workload) if workload.is_serving_replicas else ():
            selector = compile_selector(term.label_selector)
            own_namespace_only = not term.namespaces and term.namespace_selector is None
            if "podAntiAffinity" not in path or not own_namespace_only or selector is None:
                continue
            if not _uses_own_keys_with_other_values(workload, selector):
                continue
            if not _may_match_pods(context, workload, selector):
                message = f'selector "{selector}" matches no pods, not even their own: nothing keeps them apart'
                yield workload.build_problem((*path, "labelSelector"), message)


AF_ANTI_NOT_SELF = Rule(
    "af-anti-not-self",
    WARNING,
    find_anti_affinity_without_matches,
    summary="Anti-affinity whose selector matches no pods, not even its own",
    why="Replicas that do not match the selector are not kept apart.",
    fix="Make labelSelector match the labels of the pod template",
    source=doc.AFFINITY,
)


def _uses_own_keys_with_other_values(workload: Workload, selector: Selector) -> bool:
    """Return whether the selector uses labels that the workload's pods have and still does not match the pods."""
    keys = {requirement.key for requirement in selector.requirements}
    return bool(keys & workload.labels.keys()) and not workload.is_selected_by(selector)


def _may_match_pods(context: LintContext, workload: Workload, selector: Selector) -> bool:
    """Return whether the selector matches a pod of the workload's namespace, or could since not all pods are known."""
    if context.select_workloads(workload.namespace, selector) or not context.are_all_read("Pod"):
        return True
    pods = context.facts.view.pods if context.cluster else None
    return pods is not None and bool(pods.matching(selector, frozenset((workload.namespace,))).any())


def find_invalid_weights(workload: Workload) -> Iterator[Problem]:
    """Find preferred terms whose weight is not between 1 and 100."""
    affinity = workload.spec.affinity
    parts = (
        ("nodeAffinity", affinity.node_affinity if affinity else None),
        ("podAffinity", affinity.pod_affinity if affinity else None),
        ("podAntiAffinity", affinity.pod_anti_affinity if affinity else None),
    )
    for name, part in parts:
        preferred: Iterable[_Preference] = part.preferred_during_scheduling_ignored_during_execution if part else ()
        for i, term in enumerate(preferred):
            at = workload.get_path("affinity", name, PREFERRED, i, "weight")
            yield from workload.to_problems(validate_weight(term.weight, at))


AF_WEIGHT_RANGE = Rule(
    "af-weight-range",
    ERROR,
    for_each_workload(find_invalid_weights),
    summary="Preference weight outside 1 to 100",
    why="The API server refuses the pods.",
    fix="Choose a weight from 1 to 100",
    source=f"{doc.AFFINITY}; {doc.VALIDATION}",
)


USUAL_MAX_DOMAINS = {ZONE: 4, REGION: 1, "kubernetes.io/os": 1, "kubernetes.io/arch": 2}
"""How many values of a node label most clusters have at most. Few cloud regions have more than three zones."""
_USUAL_ZONES = 3


def find_anti_affinity_against_all_pods(workload: Workload) -> Iterator[Problem]:
    """Find required anti-affinity terms with an empty labelSelector, which matches every pod."""
    for term in iter_required_anti_affinity(workload):
        if term.selector == EVERYTHING and term.matches_all_revisions:
            where = ", ".join(sorted(term.namespaces)) if term.namespaces else "other namespaces too"
            domain = format_domain_noun(term.key).removesuffix("s")
            message = f"the empty selector matches every pod ({where}): none of them may share its {domain}"
            yield workload.build_problem((*term.path, "labelSelector"), message)


AF_ANTI_EVERYTHING = Rule(
    "af-anti-everything",
    WARNING,
    for_each_workload(find_anti_affinity_against_all_pods),
    summary="Required anti-affinity against every pod of the namespace",
    why="An empty labelSelector matches all pods: any other pod of the namespace on a node keeps these away, and "
    "these keep all others away.",
    fix="Select the pods to keep apart by their labels",
    source=doc.AFFINITY,
)


def find_more_replicas_than_usual_domains(context: LintContext) -> Iterator[Problem]:
    """Find required anti-affinity between more replicas than most clusters have zones or regions.

    With a cluster, ``af-anti-replicas-over-domains`` counts the domains instead.
    """
    for workload in context.workloads if context.cluster is None else ():
        for term in iter_required_anti_affinity(workload):
            usual_max = USUAL_MAX_DOMAINS.get(term.key)
            if usual_max is None or not workload.is_serving_replicas:
                continue
            if term.selects_itself and workload.highest_replicas > usual_max:
                domains = format_domain_noun(term.key)
                message = f"{workload.replica_range} replicas need as many {domains}: most clusters have fewer"
                yield workload.build_problem((*term.path, "topologyKey"), message)


AF_ANTI_MANY_REPLICAS = Rule(
    "af-anti-many-replicas",
    WARNING,
    find_more_replicas_than_usual_domains,
    summary="Required anti-affinity across zones or regions with many replicas",
    why="Each domain takes one replica; the rest stay Pending. Reported from five zones or two regions up; with a "
    "cluster, af-anti-replicas-over-domains counts the domains.",
    fix="Use kubernetes.io/hostname, or topologySpreadConstraints with maxSkew 1 over the zones",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
)


def find_anti_affinity_with_surge(context: LintContext) -> Iterator[Problem]:
    """Find Deployments whose rollout must start a pod that required anti-affinity leaves no domain for.

    With a cluster, ``af-rollout-deadlock`` replays the rollout instead.
    """
    for workload in context.workloads if context.cluster is None else ():
        surging, unavailable = workload.compute_surge()
        if workload.kind != "Deployment" or not workload.is_serving_replicas or unavailable or not surging:
            continue
        for term in iter_required_anti_affinity(workload):
            if term.selects_itself and term.matches_all_revisions and _lacks_spare_domain(workload, term):
                domains, count = format_domain_noun(term.key), workload.lowest_replicas
                message = (
                    f"no old pod may go first, so a rollout needs {count + 1} {domains} for {counted(count, 'replica')}"
                )
                yield workload.build_problem(term.path, f"{message}: with {count} it never ends")


AF_ANTI_SURGE = Rule(
    "af-anti-surge",
    WARNING,
    find_anti_affinity_with_surge,
    summary="Required anti-affinity and a rollout that must start a new pod first",
    why="With maxUnavailable 0 the new pod needs a domain that no old one is in: where replicas and domains are as "
    "many, no rollout ever ends. With a cluster af-rollout-deadlock proves it.",
    fix="Set maxUnavailable: 1 and maxSurge: 0, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    advised_field=AFFINITY_LABEL_KEYS,
)


def _lacks_spare_domain(workload: Workload, term: RequiredTerm) -> bool:
    """Return whether there is probably no free domain for the first new pod of a rollout.

    That is so if maxUnavailable is explicitly 0 or there are hardly more domains than replicas.
    """
    explicit_zero = workload.strategy.rolling_update.max_unavailable in (0, "0%")
    few_domains = term.key in (ZONE, REGION) and workload.lowest_replicas >= _USUAL_ZONES
    return (explicit_zero or few_domains) and workload.highest_replicas <= USUAL_MAX_DOMAINS.get(
        term.key, workload.highest_replicas
    )


def find_daemon_sets_kept_apart(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets whose anti-affinity or spread constraint keeps pods away from some nodes."""
    for workload in context.workloads:
        if workload.kind != "DaemonSet":
            continue
        for term in iter_required_anti_affinity(workload):
            if term.selects_itself and term.key != HOSTNAME:
                message = f"one pod per {term.key}: the other nodes get none"
                yield workload.build_problem((*term.path, "topologyKey"), message)
    for workload, path, constraint in iter_spread_constraints(context.workloads):
        selector = compile_selector(constraint.label_selector)
        if workload.kind != "DaemonSet" or constraint.when_unsatisfiable != HARD:
            continue
        if constraint.topology_key != HOSTNAME and selector is not None and workload.is_selected_by(selector):
            message = f"where one {constraint.topology_key} has more nodes than another, some are left without a pod"
            yield workload.build_problem((*path, "topologyKey"), message)


DS_KEPT_APART = Rule(
    "ds-kept-apart",
    WARNING,
    find_daemon_sets_kept_apart,
    summary="DaemonSet whose pods exclude each other from nodes",
    why="Each pod of a DaemonSet can only go to its own node: where the term or constraint refuses that, the pod "
    "stays Pending.",
    fix="Remove the term or constraint: a DaemonSet has one pod per node anyway",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled",
)
