"""Rules about which pods preempt which, and about preemption that cannot work."""

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
    """Find required affinity to pods that all have a lower priority."""
    for workload in context.workloads:
        for term in iter_required_affinity(workload):
            priorities = _list_bound_priorities(context, workload, term)
            priority = context.get_priority(workload)
            if len(priorities) and not term.selects_itself and priorities.max() < priority:
                highest = f"{priorities.max():,} at most, its own is {priority:,}"
                message = f"the pods that it must be with have priority {highest}"
                yield workload.build_problem(term.path, message)


PC_AFFINITY_TO_LOWER = Rule(
    "pc-affinity-to-lower",
    WARNING,
    find_affinity_to_lower_priority,
    summary="Required affinity to pods of lower priority",
    why="Preemption would have to evict the very pods that this one must be with, so it refuses the node.",
    fix="Give both workloads the same priority",
    source=f"{doc.PRIORITY}#inter-pod-affinity-on-lower-priority-pods",
    needs_cluster=True,
)


def find_anti_affinity_across_nodes(context: LintContext) -> Iterator[Problem]:
    """Find anti-affinity to pods of lower priority on other nodes, which preemption cannot evict.

    Reported if such pods keep the workload from all its eligible nodes.
    """
    facts = context.facts
    for workload in context.workloads:
        priority = context.get_priority(workload)
        for term in iter_required_anti_affinity(workload):
            if term.key == HOSTNAME or priority <= 0:
                continue
            view, matching = facts.view, _match_pod_infos(context, workload, term)
            rows = view.node[matching[view.pods.info] & (view.pods.priority[view.pods.info] < priority)]
            rows = rows[rows >= 0]
            codes = view.nodes.label(term.key).codes
            eligible = facts.get_eligible_nodes(workload)
            occupied = np.isin(codes, codes[rows]) & (codes >= 0)
            if not len(rows) or not eligible.any() or not occupied[eligible].all():
                continue
            if facts.get_rejected_nodes(workload, InterPodAffinity)[eligible].all():
                message = (
                    f"every {term.key} holds pods of lower priority that it must avoid; those on other nodes of it stay"
                )
                yield workload.build_problem(term.path, message)


PC_CROSS_NODE_PREEMPTION = Rule(
    "pc-cross-node-preemption",
    WARNING,
    find_anti_affinity_across_nodes,
    summary="Anti-affinity wider than a node against pods of lower priority",
    why="Preemption only evicts pods of the node it makes room on: pods to avoid on other nodes of the zone stay, "
    "and the pod stays Pending despite its priority. Reported when the replay finds no node now.",
    fix="Use the topologyKey kubernetes.io/hostname, or keep the two in different zones by node affinity",
    source=f"{doc.PRIORITY}#cross-node-preemption",
    needs_cluster=True,
)


def find_victims_with_long_grace(context: LintContext) -> Iterator[Problem]:
    """Find workloads with a long termination grace period that pods of higher priority may preempt."""
    highest = _find_highest_preempting_priority(context)
    for workload in context.workloads:
        grace = workload.spec.termination_grace_period_seconds or 0
        priority = context.get_priority(workload)
        if grace >= LONG_GRACE_SECONDS and priority < highest:
            message = f"pods that evict it (priority {highest:,} against {priority:,}) wait up to {grace:,} s"
            yield workload.build_problem(("terminationGracePeriodSeconds",), message)


PC_VICTIMS_LONG_GRACE = Rule(
    "pc-victims-long-grace",
    NOTE,
    find_victims_with_long_grace,
    summary="Long termination grace period of pods that others may preempt",
    why="The preemptor waits until they have ended, and others may take the room meanwhile.",
    fix="Shorten terminationGracePeriodSeconds, or raise the priority so that nothing preempts it",
    source=f"{doc.PRIORITY}#graceful-termination-of-preemption-victims",
    needs_cluster=True,
)


def find_budgets_of_first_victims(context: LintContext) -> Iterator[Problem]:
    """Find budgets that cover pods of the lowest priority, which preemption evicts first."""
    highest = _find_highest_preempting_priority(context)
    lowest = min((info.priority for info in context.facts.view.pods.infos), default=0)
    for subject, _, workloads in context.iter_budgets():
        if not workloads:
            continue
        priority = min(map(context.get_priority, workloads))
        if priority < highest and priority <= lowest:
            message = f"its pods have the lowest priority, {priority:,}: those of up to {highest:,} may evict them"
            yield subject.build_problem(("spec",), message)


PC_PDB_NOT_GUARANTEE = Rule(
    "pc-pdb-not-guarantee",
    NOTE,
    find_budgets_of_first_victims,
    summary="A disruption budget for the pods that preemption evicts first",
    why="Preemption tries to respect budgets but breaks them when nothing else makes room, and takes the pods of "
    "the lowest priority first.",
    fix="Give pods that must not be evicted a higher priority",
    source=f"{doc.PRIORITY}#poddisruptionbudget-is-supported-but-not-guaranteed",
    needs_cluster=True,
    profile=RuleProfile.STRICT,
    once_per_namespace=True,
)


def find_low_priority_daemon_sets(context: LintContext) -> Iterator[Problem]:
    """Find DaemonSets without a priority of their own that other pods may preempt."""
    highest = _find_highest_preempting_priority(context)
    for workload in context.workloads:
        priority = context.get_priority(workload)
        if workload.kind == "DaemonSet" and priority <= context.default_priority and priority < highest:
            message = f"priority {priority:,} is below {highest:,} of other pods, that may evict it"
            yield workload.build_problem(("priorityClassName",), message)


PC_DAEMONSET_LOW = Rule(
    "pc-daemonset-low",
    NOTE,
    find_low_priority_daemon_sets,
    summary="DaemonSet without its own PriorityClass, below other pods",
    why="A pod of a DaemonSet that is evicted cannot go to another node: the node stays without it.",
    fix="Give the DaemonSet a class above that of ordinary workloads, such as system-node-critical",
    source="https://github.com/kubernetes/kubernetes/issues/141227",
    needs_cluster=True,
)


def find_claims_shared_with_lower_priority(context: LintContext) -> Iterator[Problem]:
    """Find single-node claims that a workload shares with one of lower priority."""
    users_of_claim: dict[tuple[str, str], list[Workload]] = {}
    for workload in context.workloads:
        for _, claim in context.iter_claims(workload):
            if claim.spec.access_modes in (("ReadWriteOnce",), ("ReadWriteOncePod",)):
                users_of_claim.setdefault((workload.namespace, claim.metadata.name), []).append(workload)
    for (_, claim_name), users in users_of_claim.items():
        lowest = min(users, key=context.get_priority)
        for workload in users:
            if context.get_priority(workload) > context.get_priority(lowest):
                i = next(i for i, c in context.iter_claims(workload) if c.metadata.name == claim_name)
                message = f"claim {claim_name} ties it to the node of {lowest.subject}, which has a lower priority"
                yield workload.build_problem(("volumes", i), message)


PC_INVERSION = Rule(
    "pc-inversion",
    NOTE,
    find_claims_shared_with_lower_priority,
    summary="A claim shared with a workload of lower priority",
    why="A volume for one node keeps its users together: where the lower one runs decides where the higher one can.",
    fix="Give both the same priority, or each its own claim",
    source=doc.VOLUMES,
    needs_cluster=True,
)


def _match_pod_infos(context: LintContext, workload: Workload, term: RequiredTerm) -> Bools:
    """Return (T,) which distinct PodInfos of the cluster a term matches."""
    view = context.facts.view
    return view.pods.matching(term.selector, term.list_namespaces(view.namespace_labels, workload.namespace))


def _list_bound_priorities(context: LintContext, workload: Workload, term: RequiredTerm) -> Amounts:
    """Return the priorities of the bound pods that a term matches."""
    view = context.facts.view
    pods = view.pods
    bound_matches = _match_pod_infos(context, workload, term)[pods.info] & (view.node >= 0)
    return pods.priority[pods.info[bound_matches]]


def _find_highest_preempting_priority(context: LintContext) -> int:
    """Return the highest priority of pods that may preempt others, system priorities apart, or 0."""
    preempting = [info for info in context.facts.view.pods.infos if info.spec.preemption_policy != "Never"]
    return max((info.priority for info in preempting if info.priority < SYSTEM_PRIORITY), default=0)
