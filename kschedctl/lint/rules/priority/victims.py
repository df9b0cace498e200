"""Rules about pods that others may preempt, and about preemption that cannot work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kschedctl.api.arrays import Amounts, Bools
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import RequiredTerm, iter_required_affinity, iter_required_anti_affinity
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Problem
from kschedctl.lint.objects.workload import Workload
from kschedctl.lint.rule import NOTE, WARNING, Rule, RuleProfile
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.snapshot.nodes import HOSTNAME

LONG_GRACE_SECONDS = 600
SYSTEM_PRIORITY = 2_000_000_000
REQUIRED = ("affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")


def find_affinity_to_lower_priority(context: LintContext) -> Iterator[Problem]:
    """Find required affinity terms that match only bound pods of lower priority than the workload's own.

    Terms that match no pod, or the workload itself, are left out.
    """
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            priorities = _list_priorities_of_matched_pods(context, term)
            priority = context.get_priority(workload)
            if len(priorities) and not term.selects_itself and priorities.max() < priority:
                message = (
                    f"the pods that it has to run with have a priority of at most {priorities.max():,}, below its own "
                    f"{priority:,}"
                )
                yield workload.build_problem(term.path, message)


PC_AFFINITY_TO_LOWER = Rule(
    "pc-affinity-to-lower",
    WARNING,
    find_affinity_to_lower_priority,
    summary="Required pod affinity to pods of lower priority",
    why="Preemption would have to evict the very pods that the affinity requires, so it skips their nodes.",
    fix="Give both workloads the same priority",
    source=f"{doc.PRIORITY}#inter-pod-affinity-on-lower-priority-pods",
    needs_cluster=True,
)


def find_anti_affinity_across_nodes(context: LintContext) -> Iterator[Problem]:
    """Find anti-affinity to pods of lower priority on other nodes, which preemption cannot evict.

    A term is reported if these pods keep the workload away from all its eligible nodes, confirmed by a replay.
    """
    facts = context.facts
    for workload in context.workloads:
        priority = context.get_priority(workload)
        eligible = facts.get_eligible_nodes(workload)
        if priority <= 0 or not eligible.any():
            continue
        for term in iter_required_anti_affinity(workload):
            # Within one node, preemption can evict the pods
            if term.key == HOSTNAME:
                continue
            occupied = _find_nodes_in_domains_of_lower_priority_pods(context, term, priority)
            if not occupied[eligible].all():
                continue
            if facts.find_nodes_rejected_by(workload, InterPodAffinity)[eligible].all():
                message = (
                    f"every {term.key} has pods of lower priority that it must avoid, and preemption cannot evict "
                    "those on other nodes"
                )
                yield workload.build_problem(term.path, message)


PC_CROSS_NODE_PREEMPTION = Rule(
    "pc-cross-node-preemption",
    WARNING,
    find_anti_affinity_across_nodes,
    summary="Required zone-wide or region-wide anti-affinity to pods of lower priority",
    why="Preemption evicts pods only from the node that it picks. Conflicting pods on other nodes of the zone are not "
    "evicted, so the new pod stays Pending despite its priority. Reported only if no node fits in a "
    "replay.",
    fix="Use the topologyKey kubernetes.io/hostname, or keep the two workloads in different zones with node affinity",
    source=f"{doc.PRIORITY}#cross-node-preemption",
    needs_cluster=True,
)


def _find_nodes_in_domains_of_lower_priority_pods(context: LintContext, term: RequiredTerm, priority: int) -> Bools:
    """Return a mask (N,) of the nodes in domains with a bound pod of lower priority that the term matches."""
    view = context.facts.view
    is_lower_match = _match_pod_infos(context, term) & (view.pods.priority < priority)
    rows = view.node[is_lower_match[view.pods.info] & view.mask_placed()]
    codes = view.nodes.label(term.key).codes
    return np.isin(codes, codes[rows]) & (codes >= 0)


def find_victims_with_long_grace(context: LintContext) -> Iterator[Problem]:
    """Find workloads with a long termination grace period that pods of higher priority may preempt."""
    highest = _find_highest_preempting_priority(context)
    for workload in context.workloads:
        grace = workload.spec.termination_grace_period_seconds or 0
        priority = context.get_priority(workload)
        if grace >= LONG_GRACE_SECONDS and priority < highest:
            message = (
                f"its pods (priority {priority:,}) may take {grace:,} s to terminate, and pods of priority {highest:,} "
                "that preempt them wait that long"
            )
            yield workload.build_problem(("terminationGracePeriodSeconds",), message)


PC_VICTIMS_LONG_GRACE = Rule(
    "pc-victims-long-grace",
    NOTE,
    find_victims_with_long_grace,
    summary="Long termination grace period of pods that others may preempt",
    why="The preempting pod waits until the preempted pods have terminated, and other pods may take the room "
    "meanwhile.",
    fix="Shorten terminationGracePeriodSeconds, or raise the priority of the pods so that nothing preempts them",
    source=f"{doc.PRIORITY}#graceful-termination-of-preemption-victims",
    needs_cluster=True,
)


def find_budgets_of_first_victims(context: LintContext) -> Iterator[Problem]:
    """Find PodDisruptionBudgets for pods of the lowest priority, which preemption evicts first.

    Budgets are left out if no pods of a higher priority may preempt.
    """
    highest = _find_highest_preempting_priority(context)
    lowest = min((info.priority for info in context.facts.view.pods.infos), default=0)
    for subject, _budget, workloads in context.iter_disruption_budgets():
        if not workloads:
            continue
        priority = min(map(context.get_priority, workloads))
        if priority < highest and priority <= lowest:
            message = (
                f"its pods have the lowest priority, {priority:,}: pods of priority up to {highest:,} may preempt them"
            )
            yield subject.build_problem(("spec",), message)


PC_PDB_NOT_GUARANTEE = Rule(
    "pc-pdb-not-guarantee",
    NOTE,
    find_budgets_of_first_victims,
    summary="A PodDisruptionBudget for lowest-priority pods, which preemption can evict despite the budget",
    why="Preemption evicts pods of the lowest priority first. It tries to respect PodDisruptionBudgets, but violates "
    "them if nothing else makes room.",
    fix="Give pods that must not be preempted a higher priority",
    source=f"{doc.PRIORITY}#poddisruptionbudget-is-supported-but-not-guaranteed",
    needs_cluster=True,
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_low_priority_daemon_sets(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets with at most the default priority whose pods other pods may preempt."""
    highest = _find_highest_preempting_priority(context)
    for workload in context.workloads:
        priority = context.get_priority(workload)
        if workload.kind == "DaemonSet" and priority <= context.default_priority and priority < highest:
            message = f"priority {priority:,} is below the {highest:,} of other pods, which may preempt it"
            yield workload.build_problem(("priorityClassName",), message)


PC_DAEMONSET_LOW = Rule(
    "pc-daemonset-low",
    NOTE,
    find_low_priority_daemon_sets,
    summary="DaemonSet without its own PriorityClass and with a lower priority than other pods",
    why="A preempted DaemonSet pod cannot move to another node, so its node stays without the DaemonSet.",
    fix="Give the DaemonSet a class above that of ordinary workloads, such as system-node-critical",
    source="https://github.com/kubernetes/kubernetes/issues/141227",
    needs_cluster=True,
)


def find_claims_shared_with_lower_priority(context: LintContext) -> Iterator[Problem]:
    """Find ReadWriteOnce and ReadWriteOncePod claims that a workload shares with a workload of lower priority.

    The claim is reported at each workload with a higher priority than the lowest.
    """
    users_by_claim: dict[tuple[str, str], list[tuple[Workload, int]]] = {}
    for workload in context.workloads:
        for volume_index, claim in context.iter_claims(workload):
            if claim.spec.access_modes in (("ReadWriteOnce",), ("ReadWriteOncePod",)):
                users = users_by_claim.setdefault((workload.namespace, claim.metadata.name), [])
                users.append((workload, volume_index))
    for (_namespace, claim_name), users in users_by_claim.items():
        lowest = min((workload for workload, _ in users), key=context.get_priority)
        for workload, volume_index in users:
            if context.get_priority(workload) > context.get_priority(lowest):
                message = f"claim {claim_name} ties it to the node of {lowest.subject}, which has a lower priority"
                yield workload.build_problem(("volumes", volume_index), message)


PC_INVERSION = Rule(
    "pc-inversion",
    NOTE,
    find_claims_shared_with_lower_priority,
    summary="A PersistentVolumeClaim shared with a workload of lower priority",
    why="A volume that only one node can mount forces all pods that use it onto that node, so the lower-priority "
    "workload determines where the higher-priority one can run.",
    fix="Give both workloads the same priority, or each its own claim",
    source=doc.VOLUMES,
    needs_cluster=True,
)


def _match_pod_infos(context: LintContext, term: RequiredTerm) -> Bools:
    """Return a mask (T,) of the distinct PodInfos of the cluster that a term matches."""
    view = context.facts.view
    return view.pods.match_infos(term.selector, term.list_namespaces(view.namespace_labels))


def _list_priorities_of_matched_pods(context: LintContext, term: RequiredTerm) -> Amounts:
    """Return an array with the priority of each bound pod that a term matches."""
    view = context.facts.view
    pods = view.pods
    is_bound_match = _match_pod_infos(context, term)[pods.info] & view.mask_placed()
    return pods.priority[pods.info[is_bound_match]]


def _find_highest_preempting_priority(context: LintContext) -> int:
    """Return the highest priority of pods that may preempt others, or 0 without any. System priorities do not count."""
    preempting = [info for info in context.facts.view.pods.infos if info.spec.preemption_policy != "Never"]
    return max((info.priority for info in preempting if info.priority < SYSTEM_PRIORITY), default=0)
