"""Affinity to other pods, and against them, as host ports are too: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.labels import EVERYTHING, Selector
from kschedctl.api.objects import PreferredSchedulingTerm, WeightedPodAffinityTerm
from kschedctl.api.validation.node_affinity import validate_weight
from kschedctl.lint.analysis.placement import (
    HARD,
    PREFERRED,
    Term,
    anti_affinity_terms,
    domains_of,
    host_ports,
    pod_terms,
    spread_constraints,
)
from kschedctl.lint.framework import documentation as doc
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, NOTE, WARNING, Rule, each_workload
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload, compiled
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.snapshot.node_order import HOSTNAME, REGION, ZONE
from kschedctl.text.counts import counted

_Preference = PreferredSchedulingTerm | WeightedPodAffinityTerm


def spread_missing(workload: Workload) -> Iterator[Problem]:
    apart = any("podAntiAffinity" in path for path, _ in pod_terms(workload)) or any(host_ports(workload))
    if workload.serving and not apart and not workload.spec.topology_spread_constraints:
        yield workload.problem((), f"{workload.range} replicas, and nothing spreads them")


TS_MISSING = Rule(
    "ts-missing",
    NOTE,
    each_workload(spread_missing),
    summary="Several replicas without spread constraints or anti-affinity",
    why="Only the scheduler's weak default preference keeps them apart; one node or zone may take all of them down.",
    fix="Add topologySpreadConstraints on kubernetes.io/hostname and topology.kubernetes.io/zone",
    source=doc.SPREAD,
    once=True,
)


def no_host_anti_affinity(workload: Workload) -> Iterator[Problem]:
    spec = workload.spec
    keys = {term.topology_key for path, term in pod_terms(workload) if "podAntiAffinity" in path}
    keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
    apart = HOSTNAME in keys or any(anti_affinity_terms(workload)) or any(host_ports(workload))
    if not workload.serving or not keys or apart:
        return
    field = "topologySpreadConstraints" if spec.topology_spread_constraints else "affinity"
    yield workload.problem((field,), f"kept apart by {', '.join(sorted(keys))} only: replicas may share a node")


AF_NO_HOST_ANTI = Rule(
    "af-no-host-anti",
    NOTE,
    each_workload(no_host_anti_affinity),
    summary="Replicas are kept apart, but may share a node",
    why="Spreading across zones alone allows all replicas of a zone on one node.",
    fix="Add a spread constraint or an anti-affinity term on kubernetes.io/hostname",
    source=doc.AFFINITY,
)


def one_a_node(workload: Workload) -> Iterator[Problem]:
    taken = next(host_ports(workload), None)
    if taken is not None and workload.serving and not workload.spec.host_network:
        path, number = taken
        message = f"port {number} can be used once per node: {workload.range} replicas need as many nodes"
        yield workload.problem((*path, "hostPort"), message + ", an update one more" * (workload.surge()[0] > 0))


HP_ONE_A_NODE = Rule(
    "hp-one-a-node",
    NOTE,
    each_workload(one_a_node),
    summary="Several replicas with a host port",
    why="A host port can be used once per node: replicas that find no other node stay Pending.",
    fix="Use a Service, or a DaemonSet",
    source="pkg/scheduler/framework/plugins/nodeports (v1.36)",
)


def null_selector(workload: Workload) -> Iterator[Problem]:
    for path, term in pod_terms(workload):
        if term.label_selector is None:
            effect = (
                "the pod can never be scheduled"
                if "podAffinity" in path and PREFERRED not in path
                else "it does nothing"
            )
            yield workload.problem(path, f"a term without labelSelector matches no pods: {effect}")


AF_NULL_SELECTOR = Rule(
    "af-null-selector",
    WARNING,
    each_workload(null_selector),
    summary="Pod (anti-)affinity term without labelSelector",
    why="A missing selector matches no pods, an empty one ({}) all: required affinity can then never be met, "
    "anything else does nothing.",
    fix="Add labelSelector; write {} to mean all pods",
    source="https://github.com/kubernetes/kubernetes/pull/117025",
)


def anti_affinity_not_self(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads:
        for path, term in pod_terms(workload) if workload.serving else ():
            selector = compiled(term.label_selector)
            own = not term.namespaces and term.namespace_selector is None and "podAntiAffinity" in path
            if not own or selector is None or not _nearly_selected(workload, selector):
                continue
            if not _selects_any(context, workload, selector):
                message = f'selector "{selector}" matches no pods, not even their own: nothing keeps them apart'
                yield workload.problem((*path, "labelSelector"), message)


AF_ANTI_NOT_SELF = Rule(
    "af-anti-not-self",
    WARNING,
    anti_affinity_not_self,
    summary="Anti-affinity whose selector matches no pods, not even its own",
    why="Replicas that do not match the selector are not kept apart.",
    fix="Make labelSelector match the labels of the pod template",
    source=doc.AFFINITY,
)


def _nearly_selected(workload: Workload, selector: Selector) -> bool:
    """Whether it asks for labels that the pods have, but with other values."""
    keys = {requirement.key for requirement in selector.requirements}
    return bool(keys & workload.labels.keys()) and not workload.selected_by(selector)


def _selects_any(context: LintContext, workload: Workload, selector: Selector) -> bool:
    """Whether it matches a known pod of the workload's namespace, or there may be one."""
    if context.selected(workload.namespace, selector) or not context.all_known("Pod"):
        return True
    pods = context.facts.view.pods if context.cluster else None
    return pods is not None and bool(pods.matching(selector, frozenset((workload.namespace,))).any())


def weight_range(workload: Workload) -> Iterator[Problem]:
    affinity = workload.spec.affinity
    parts = (
        ("nodeAffinity", affinity.node_affinity if affinity else None),
        ("podAffinity", affinity.pod_affinity if affinity else None),
        ("podAntiAffinity", affinity.pod_anti_affinity if affinity else None),
    )
    for name, part in parts:
        preferred: Iterable[_Preference] = part.preferred_during_scheduling_ignored_during_execution if part else ()
        for i, term in enumerate(preferred):
            at = workload.at_field("affinity", name, PREFERRED, i, "weight")
            yield from workload.refused(validate_weight(term.weight, at))


AF_WEIGHT_RANGE = Rule(
    "af-weight-range",
    ERROR,
    each_workload(weight_range),
    summary="Preference weight outside 1 to 100",
    why="The API server refuses the pods.",
    fix="Choose a weight from 1 to 100",
    source=f"{doc.AFFINITY}; {doc.VALIDATION}",
)


MOST_DOMAINS = {ZONE: 4, REGION: 1, "kubernetes.io/os": 1, "kubernetes.io/arch": 2}
"""Label of nodes -> how many values of it most clusters have at most: regions of clouds have three zones, few six."""
_ZONES = 3


def everything(workload: Workload) -> Iterator[Problem]:
    for term in anti_affinity_terms(workload):
        if term.selector == EVERYTHING and term.every_version:
            where = ", ".join(sorted(term.namespaces)) if term.namespaces else "other namespaces too"
            message = f"the empty selector matches every pod ({where}): none of them may share its {_one(term.key)}"
            yield workload.problem((*term.path, "labelSelector"), message)


AF_ANTI_EVERYTHING = Rule(
    "af-anti-everything",
    WARNING,
    each_workload(everything),
    summary="Required anti-affinity against every pod of the namespace",
    why="An empty labelSelector matches all pods: any other pod of the namespace on a node keeps these away, and "
    "these keep all others away.",
    fix="Select the pods to keep apart by their labels",
    source=doc.AFFINITY,
)


def _one(key: str) -> str:
    return domains_of(key).removesuffix("s")


def too_many_replicas(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads if context.cluster is None else ():  # else af-anti-replicas-over-domains counts
        for term in anti_affinity_terms(workload):
            most = MOST_DOMAINS.get(term.key)
            if most is not None and term.selects_itself and workload.at_most > most and workload.serving:
                message = f"{workload.range} replicas need as many {domains_of(term.key)}: most clusters have fewer"
                yield workload.problem((*term.path, "topologyKey"), message)


AF_ANTI_MANY_REPLICAS = Rule(
    "af-anti-many-replicas",
    WARNING,
    too_many_replicas,
    summary="Required anti-affinity across zones or regions with many replicas",
    why="Each domain takes one replica; the rest stay Pending. Reported from five zones or two regions up; with a "
    "cluster, af-anti-replicas-over-domains counts the domains.",
    fix="Use kubernetes.io/hostname, or topologySpreadConstraints with maxSkew 1 over the zones",
    source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
)


def surge(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads if context.cluster is None else ():  # else af-rollout-deadlock replays
        surging, unavailable = workload.surge()
        if workload.kind != "Deployment" or not workload.serving or unavailable or not surging:
            continue
        for term in anti_affinity_terms(workload):
            if term.selects_itself and term.every_version and _tight(workload, term):
                domains, count = domains_of(term.key), workload.at_least
                message = (
                    f"no old pod may go first, so a rollout needs {count + 1} {domains} for {counted(count, 'replica')}"
                )
                yield workload.problem(term.path, f"{message}: with {count} it never ends")


AF_ANTI_SURGE = Rule(
    "af-anti-surge",
    WARNING,
    surge,
    summary="Required anti-affinity and a rollout that must start a new pod first",
    why="With maxUnavailable 0 the new pod needs a domain that no old one is in: where replicas and domains are as "
    "many, no rollout ever ends. With a cluster af-rollout-deadlock proves it.",
    fix="Set maxUnavailable: 1 and maxSurge: 0, or add matchLabelKeys: [pod-template-hash] to the term",
    source="https://github.com/kubernetes/kubernetes/issues/116891",
    advises=AFFINITY_LABEL_KEYS,
)


def _tight(workload: Workload, term: Term) -> bool:
    """Whether somebody asked for maxUnavailable 0, or there are hardly more domains than replicas."""
    asked = workload.strategy.rolling_update.max_unavailable in (0, "0%")
    few = term.key in (ZONE, REGION) and workload.at_least >= _ZONES
    return (asked or few) and workload.at_most <= MOST_DOMAINS.get(term.key, workload.at_most)


def daemon_set(context: LintContext) -> Iterator[Problem]:
    for workload in context.workloads:
        if workload.kind != "DaemonSet":
            continue
        for term in anti_affinity_terms(workload):
            if term.selects_itself and term.key != HOSTNAME:
                message = f"one pod per {term.key}: the other nodes get none"
                yield workload.problem((*term.path, "topologyKey"), message)
    for workload, path, constraint in spread_constraints(context.workloads):
        selector = compiled(constraint.label_selector)
        hard = workload.kind == "DaemonSet" and constraint.when_unsatisfiable == HARD
        if hard and constraint.topology_key != HOSTNAME and selector is not None and workload.selected_by(selector):
            message = f"where one {constraint.topology_key} has more nodes than another, some are left without a pod"
            yield workload.problem((*path, "topologyKey"), message)


DS_KEPT_APART = Rule(
    "ds-kept-apart",
    WARNING,
    daemon_set,
    summary="DaemonSet whose pods exclude each other from nodes",
    why="Each pod of a DaemonSet can only go to its own node: where the term or constraint refuses that, the pod "
    "stays Pending.",
    fix="Remove the term or constraint: a DaemonSet has one pod per node anyway",
    source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled",
)
