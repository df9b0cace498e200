"""Run one scheduling cycle for a pod, and turn its outcome into an explanation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kschedctl.api.arrays import NO_ROW, Bools, Scores
from kschedctl.api.copying import replace
from kschedctl.api.gangs import find_gangs
from kschedctl.api.objects import PersistentVolumeClaim, Pod, Volume
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.advice import iter_advice
from kschedctl.commands.explain.eliminations import find_causes, group_rejected_nodes, report_eliminations, report_nodes
from kschedctl.commands.explain.headline import build_headline
from kschedctl.commands.explain.preemption import report_preemption
from kschedctl.commands.explain.reach import Obstacle, find_obstacles
from kschedctl.commands.explain.report import (
    UNSCHEDULABLE,
    ClaimWithoutScheduler,
    DeviceReport,
    Explanation,
    PostFilterReport,
    PreFilterReport,
    VolumesReport,
)
from kschedctl.replay import unknown as doubts
from kschedctl.replay.placements import (
    MissingStorageClasses,
    find_missing_claim_templates,
    list_awaited_claim_templates,
)
from kschedctl.replay.unknown import (
    REMEDIES,
    VICTIMS,
    WHEN_GATED,
    WHEN_SCHEDULABLE,
    WHEN_UNSCHEDULABLE,
    build_unknown_fields,
    merge_unknown_kinds,
    summarize_unknowns,
)
from kschedctl.reports.plugin_answers import (
    EXTENDER_INPUT_NOTE,
    ExtenderCallReport,
    ExtenderErrorReport,
    FirstFailReport,
    SearchedNodes,
    SearchStart,
    StatusReport,
)
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.engine.cycle import Cycle, mask_allowed_nodes, run_cycle
from kschedctl.scheduler.engine.diagnosis import PostFilterOutcome, build_fit_error, format_histogram, run_post_filter
from kschedctl.scheduler.engine.extenders import CallWithFullPods
from kschedctl.scheduler.engine.permit import run_permit
from kschedctl.scheduler.engine.pod_groups.gangs import find_gang_object, find_gang_plugin
from kschedctl.scheduler.engine.sampling import SampledFrom
from kschedctl.scheduler.framework import (
    Code,
    PreFilterResult,
    Reservation,
    ReservePlugin,
    Status,
    UpstreamFault,
    can_report_upstream_fault,
    offers,
)
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.plugins.helper.volume_listers import (
    SELECTED_NODE,
    WAIT_FOR_FIRST_CONSUMER,
    format_claim_key,
    get_claim_class,
    get_listers,
)
from kschedctl.scheduler.plugins.volume_binding.facts import ClaimsUnbound
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.pods import get_group_key
from kschedctl.text.counts import agreeing, counted, first_few

REJECTED_AT_PERMIT = (Code.UNSCHEDULABLE, Code.UNRESOLVABLE)
EXTENDERS_GOT_MORE = "extenders got the pod without its environment and other fields that only kubelets read"


def explain_pod(scheduler: Scheduler, pod: Pod, *, nodes: bool = True) -> Explanation:
    """Explain a pod by running one scheduling cycle.

    `pod` is the pod as the API server stores it. A pod that the scheduler does not handle, such as a bound pod, is
    explained without a cycle. If the StorageClass of an unschedulable pod or the ResourceClaimTemplate of a pod that is
    held back does not exist, the headline starts by saying so. With `nodes=False`, the explanation lacks advice and
    per-node results, which take most of the time.
    """
    info = PodInfo(pod, scheduler.view.settings.requests)
    framework, unread_by_profile = scheduler.find_framework_for(info, scheduler.view)

    verdict = _find_verdict_on_unhandled_pod(pod, framework)
    if verdict or framework is None:
        report = _mark_gang_as_undecided(_report_unhandled_pod(scheduler, framework, info, verdict))
    else:
        report = _run_and_report_cycle(scheduler, framework, info, unread_by_profile, nodes=nodes)

    template_gap = _find_gap_in_claim_templates(report, pod, scheduler.cluster)
    unknown = merge_unknown_kinds((report.unknown, () if template_gap is None else (template_gap,)))
    unknown = doubts.add_objects_named_by_pod(unknown, pod, scheduler.cluster)
    report = replace(report, missing_class=_find_missing_class(report, pod, scheduler))
    explanation = replace(report, headline=build_full_headline(report, pod, scheduler), unknown=unknown)
    if not nodes:
        return explanation
    return replace(explanation, advice=tuple(iter_advice(explanation, pod, scheduler, framework)))


def _find_gap_in_claim_templates(report: Explanation, pod: Pod, cluster: Cluster) -> UnknownKind | None:
    """Return the kind ResourceClaimTemplate if its objects were not read and a gated pod waits for a claim from one.

    It is then unknown whether only the claim is missing, or its template too. Return None otherwise.
    """
    if report.verdict != "Gated" or not list_awaited_claim_templates(pod):
        return None
    gap = cluster.find_gap("ResourceClaimTemplate", pod.metadata.namespace)
    return None if gap is None else UnknownKind("ResourceClaimTemplate", gap.why, REMEDIES)


def _find_missing_class(report: Explanation, pod: Pod, scheduler: Scheduler) -> str:
    """Return the missing StorageClass that a claim of the unschedulable pod names, or "".

    Also return "" if a cause names the class.
    """
    if report.verdict != UNSCHEDULABLE:
        return ""
    facts = (cause.fact_data for cause in report.causes)
    if any(isinstance(fact, ClaimsUnbound) and fact.names_missing_class for fact in facts):
        return ""
    missing_class = MissingStorageClasses(scheduler.cluster).find_missing_class(pod)
    return "" if missing_class is None else missing_class.name


def build_full_headline(report: Explanation, pod: Pod, scheduler: Scheduler) -> str:
    """Build the headline of the pod's explanation, which starts with the missing object if there is one.

    This is the StorageClass of an unschedulable pod or the ResourceClaimTemplate of a pod that is held back.
    """
    headline = build_headline(report, pod, scheduler.configuration.profiles)
    if report.missing_class:
        return f"StorageClass {report.missing_class} does not exist: {headline}"
    if report.verdict == "Gated":
        missing_templates = find_missing_claim_templates(pod, scheduler.cluster)
        if missing_templates:
            do = agreeing(len(missing_templates), "does", "do")
            return f"ResourceClaimTemplate {first_few(missing_templates)} {do} not exist: {headline}"
    return headline


def _run_and_report_cycle(
    scheduler: Scheduler, framework: Framework, info: PodInfo, unread: tuple[Unknown, ...], *, nodes: bool
) -> Explanation:
    """Run a scheduling cycle for the pod, and report its outcome, the pod's group or gang, and what is uncertain.

    `unread` has the unread objects that the choice of the profile depends on. Without `nodes`, there are no per-node
    results.
    """
    cycle = run_cycle(framework, info, scheduler.view, scheduler.start_sampling())
    pod_report = report_cycle(cycle, scheduler, framework, nodes=nodes)
    cycle_unknowns = (*unread, *doubts.iter_cycle_uncertainties(cycle, framework))
    if not _names_group(info.pod):
        return _add_unread_kinds(pod_report, cycle_unknowns)

    # Imported only now, because few pods belong to a group
    from kschedctl.commands.explain import gang, pod_group  # noqa: PLC0415

    group = pod_group.report_pod_group_with_tree(scheduler, framework, info.pod)
    if group is None:
        group = gang.report_gang(scheduler, framework, info.pod)
    report_with_group = pod_group.add_group_report(pod_report, group)
    all_unknowns = (*cycle_unknowns, *pod_group.iter_unknowns_of_group_order(group))
    return _mark_gang_as_undecided(_add_unread_kinds(report_with_group, all_unknowns))


def _names_group(pod: Pod) -> bool:
    """Return whether the pod names a PodGroup or a gang of another project."""
    return get_group_key(pod) is not None or bool(find_gangs(pod))


def _find_verdict_on_unhandled_pod(pod: Pod, framework: Framework | None) -> str:
    """Return the verdict on a pod that the scheduler does not handle, or "" if the scheduler handles the pod."""
    if pod.terminated:
        return "Finished"
    if pod.spec.node_name:
        return "Bound"
    if framework is None or pod.metadata.deletion_timestamp is not None:
        return "NotResponsible"
    return ""


def _report_unhandled_pod(
    scheduler: Scheduler, framework: Framework | None, info: PodInfo, verdict: str
) -> Explanation:
    """Build the explanation of a pod that the scheduler does not handle, without a scheduling cycle.

    For a pod with spec.nodeName, the explanation names the claims that stay unbound. If no claim stays unbound, it says
    why the kubelet would reject the pod, if it would. For a pod of another scheduler that is not being deleted, it
    includes the pod's gang.
    """
    pod = info.pod
    report = Explanation(
        pod=pod.key,
        verdict=verdict,
        headline="",
        scheduler_name=pod.spec.scheduler_name,
        kube_version=scheduler.cluster.kube_version,
    )
    if verdict == "Bound":
        from kschedctl.commands.explain.kubelet_admission import find_kubelet_rejection  # noqa: PLC0415 - few pods name their node

        claims = find_claims_without_scheduler(pod, scheduler.view)
        rejection = "" if claims else find_kubelet_rejection(scheduler, framework, info)
        report = replace(report, claims_without_scheduler=claims, kubelet_rejection=rejection)
    if framework is None and verdict == "NotResponsible" and not info.terminating and _names_group(pod):
        from kschedctl.commands.explain.gang import report_gang  # noqa: PLC0415 - few pods belong to a gang

        report = replace(report, pod_group=report_gang(scheduler, framework=None, pod=pod))
    return report


def _add_unread_kinds(report: Explanation, unknowns: tuple[Unknown, ...]) -> Explanation:
    """Add the kinds of objects that were not read, each with what it could change about the verdict."""
    # Effect of an unread object -> the part of the answer that it could change
    affected_parts = {"Schedulable": WHEN_SCHEDULABLE, "Gated": WHEN_GATED}.get(report.verdict, WHEN_UNSCHEDULABLE)
    has_victims = report.preemption is not None and bool(report.preemption.candidates)
    if not has_victims:  # then unread objects cannot change whom preemption evicts
        affected_parts = {effect: part for effect, part in affected_parts.items() if part != VICTIMS}
    return replace(report, **build_unknown_fields(summarize_unknowns(unknowns, affected_parts)))


def _mark_gang_as_undecided(report: Explanation) -> Explanation:
    """Mark the answer undecided if another project places the pod's gang by rules that are not replayed."""
    project = report.pod_group.decided_by if report.pod_group else ""
    if not project:
        return report
    doubt = f"{project}'s own rules about gangs; the answer about this gang uses only kube-scheduler's filters"
    return replace(report, not_replayed=(*report.not_replayed, doubt), undecided=True)


def drop_unwritten_message(report: Explanation) -> Explanation:
    """Drop a gated pod's message, because kube-scheduler writes no event for gated pods.

    The dropped `message` is the one that kube-scheduler would write once the gates are removed.
    """
    return replace(report, message=None) if report.verdict == "Gated" else report


def report_cycle(cycle: Cycle, scheduler: Scheduler, framework: Framework, *, nodes: bool) -> Explanation:
    """Build the explanation of a scheduling cycle. Run PostFilter and Permit if kube-scheduler would.

    With `nodes=False`, the explanation has no per-node results, which take most of the time.
    """
    is_unschedulable = not cycle.schedulable and cycle.error is None
    post_filter = run_post_filter(cycle) if is_unschedulable else PostFilterOutcome()
    permit = _run_permit_on_best_nodes(cycle)

    message = build_fit_error(cycle, post_filter.message) if is_unschedulable else cycle.error
    if cycle.gated:
        verdict = "Gated"
    elif cycle.error is not None:
        verdict = "Error"
    elif not cycle.schedulable:
        verdict = "Unschedulable"
    elif permit:
        verdict, message = _find_permit_verdict(cycle, permit)
    else:
        verdict = "Schedulable"

    rejections = find_obstacles(cycle)
    may_preempt = is_unschedulable and bool(cycle.view.nodes.names)
    report = Explanation(
        pod=cycle.info.pod.key,
        verdict=verdict,
        headline="",
        message=message,
        permit=permit,
        not_replayed=doubts.find_unreplayed_parts(framework),
        upstream_faults=tuple(iter_upstream_bug_descriptions(cycle, framework)),
        ignored=scheduler.list_ignored_fields((cycle.info.spec,)),
        node_order=cycle.view.nodes.names,
        feasible=cycle.passed.names,
        best=tuple(dict.fromkeys(cycle.passed.names[i] for i in cycle.scores.top.tolist())),
        causes=find_causes(rejections, cycle) if is_unschedulable else (),
        preemption=report_preemption(post_filter, cycle, scheduler.cluster) if may_preempt else None,
        queue={name: _to_status_report(status) for name, status in cycle.queue.items()},
        pre_filter={name: _to_pre_filter_report(result) for name, result in cycle.pre_filter.results.items()},
        unschedulable_plugins=tuple(sorted(cycle.rejecting_plugins)),
        post_filter=_to_post_filter_report(post_filter),
        scheduler_name=cycle.info.spec.scheduler_name,
        kube_version=scheduler.cluster.kube_version,
        searched=_report_searched_nodes(cycle, scheduler.sampled),
    )
    report = _add_extender_answers(report, cycle, scheduler)
    return _add_node_results(report, cycle, framework, rejections) if nodes else report


def _add_node_results(
    report: Explanation, cycle: Cycle, framework: Framework, rejections: Sequence[Obstacle]
) -> Explanation:
    """Add the results for each node: why it is rejected, or its scores and what would be reserved on it."""
    nodes = report_nodes(rejections, cycle)
    reserved = _find_reservations(cycle)
    scores = cycle.scores
    evaluated = cycle.considered & mask_allowed_nodes(cycle.pre_filter, cycle.view)
    return replace(
        report,
        eliminations=report_eliminations(rejections, cycle),
        nodes=nodes,
        groups=group_rejected_nodes(nodes),
        volumes=_report_volumes_by_node(reserved),
        allocations=_report_devices_by_node(reserved),
        filter=_report_all_rejections(cycle),
        first_fail=_report_first_rejections(cycle, evaluated),
        score=_map_scores_by_node(cycle, scores.raw),
        normalized=_map_scores_by_node(cycle, scores.normalized),
        weighted=_map_scores_by_node(cycle, scores.weighted),
        weights={name: framework.profile.weights[name] for name in scores.raw},
        total=dict(zip(cycle.passed.names, scores.total.tolist(), strict=True)) if len(scores.rows) else {},
    )


def _to_status_report(status: Status) -> StatusReport:
    """Convert a plugin's status to its report."""
    return StatusReport(status.code, status.reasons)


def _to_pre_filter_report(result: PreFilterResult) -> PreFilterReport:
    """Convert a PreFilter result to its report, with node names in alphabetical order."""
    names = None if result.node_names is None else tuple(sorted(result.node_names))
    return PreFilterReport(result.status.code, result.status.reasons, names)


def _to_post_filter_report(outcome: PostFilterOutcome) -> PostFilterReport | None:
    """Convert the outcome of PostFilter to its report, or return None if no plugin ran."""
    if not outcome.results and not outcome.plugin:
        return None
    status = FirstFailReport(outcome.plugin, outcome.status.code, outcome.status.reasons)
    return PostFilterReport(status, outcome.nominated_node)


def _report_searched_nodes(cycle: Cycle, sampled: SampledFrom | None) -> SearchedNodes | None:
    """Report where the search started and how many nodes it examined, or return None if the search was not sampled."""
    if sampled is None or cycle.search is None:
        return None
    return SearchedNodes(
        SearchStart(cycle.search.start, known=sampled.start is not None),
        nodes=int(mask_allowed_nodes(cycle.pre_filter, cycle.view).sum()),
        examined=int(cycle.search.examined.sum()),
        found=len(cycle.search.feasible),
        next=cycle.search.next,
    )


def _report_all_rejections(cycle: Cycle) -> dict[str, dict[str, StatusReport]]:
    """Return all Filter rejections, by node and plugin."""
    by_node: dict[str, dict[str, StatusReport]] = {}
    for plugin, verdict in cycle.filter.verdicts.items():
        for row in np.flatnonzero(verdict.rejected).tolist():
            by_node.setdefault(cycle.view.nodes.names[row], {})[plugin] = _to_status_report(verdict.get_status(row))
    return by_node


def _report_first_rejections(cycle: Cycle, evaluated: Bools) -> dict[str, FirstFailReport]:
    """Return each node's first Filter rejection, by node name.

    Only nodes in the mask `evaluated` (N,) are included, and only nodes that a plugin rejects.
    """
    reports = {}
    rejected_rows = np.flatnonzero(evaluated & ~cycle.filter.passing)
    for row in rejected_rows.tolist():
        plugin, status = cycle.filter.find_first_rejection(row)
        reports[cycle.view.nodes.names[row]] = FirstFailReport(plugin, status.code, status.reasons)
    return reports


def _map_scores_by_node(cycle: Cycle, scores: Mapping[str, Scores]) -> dict[str, dict[str, int]]:
    """Convert each plugin's score array to a mapping from feasible nodes to scores."""
    return {plugin: dict(zip(cycle.passed.names, values.tolist(), strict=True)) for plugin, values in scores.items()}


# -- Permit ------------------------------------------------------------------------------------------------------------


def _run_permit_on_best_nodes(cycle: Cycle) -> dict[str, FirstFailReport]:
    """Run the Permit plugins on each of the best nodes, and report where they reject the pod or make it wait.

    Permit is not run for a pod that is bound together with its group.
    """
    if not cycle.schedulable or _is_bound_with_group(cycle) or not cycle.framework.plugins_at("permit"):
        return {}
    reports = {}
    for row in cycle.scores.best.tolist():
        if row == NO_ROW:  # an extender returned a node that the cluster does not have
            continue
        outcome = run_permit(cycle.framework, cycle.info, cycle.view, row)
        if outcome.status.code is not Code.SUCCESS:
            name = cycle.view.nodes.names[row]
            reports[name] = FirstFailReport(outcome.plugin, outcome.status.code, outcome.status.reasons)
    return reports


def _is_bound_with_group(cycle: Cycle) -> bool:
    """Return whether the pod is bound together with its PodGroup or gang."""
    if get_group_key(cycle.info.pod) is not None:
        return True
    plugin = find_gang_plugin(cycle.framework)
    gang = plugin.find_gang(cycle.info.pod) if plugin else None
    return gang is not None and find_gang_object(cycle.view, gang) is not None


def _find_permit_verdict(cycle: Cycle, reports: Mapping[str, FirstFailReport]) -> tuple[str, str | None]:
    """Return the verdict after Permit, and kube-scheduler's message, which is None if the pod is schedulable.

    `reports` has Permit's rejections, errors and waits, by best node. The pod is schedulable if Permit accepts it or
    makes it wait on any best node. Otherwise, the first best node decides, although upstream runs Permit on a node
    chosen at random: the verdict is Error if Permit fails there, and Unschedulable if Permit rejects the pod there.
    """
    best_nodes = [cycle.passed.names[i] for i in cycle.scores.top.tolist()]
    reports_of_best_nodes = [reports[name] for name in best_nodes if name in reports]
    failures = [report for report in reports_of_best_nodes if report.code != Code.WAIT]
    fails_on_all_best_nodes = bool(best_nodes) and len(failures) == len(best_nodes)
    if not fails_on_all_best_nodes:
        return "Schedulable", None
    first_failure = failures[0]
    if first_failure.code not in REJECTED_AT_PERMIT:
        return "Error", ", ".join(first_failure.reasons)
    return "Unschedulable", format_histogram(1, Counter(first_failure.reasons))


# -- Reserve -----------------------------------------------------------------------------------------------------------


def _find_reservations(cycle: Cycle) -> dict[str, Reservation]:
    """Return the bindings, provisions and allocations that Reserve would make on each feasible node.

    Nodes on which Reserve has nothing to do are left out.
    """
    # The plugins that PreFilter did not skip, each with its state
    reserving = []
    for plugin in cycle.framework.plugins_at("reserve"):
        if offers(plugin, ReservePlugin):
            result = cycle.pre_filter.results.get(plugin.name, PreFilterResult())
            if result.status.code is Code.SUCCESS:
                reserving.append((plugin, result.state))
    if not reserving:
        return {}

    by_node = {}
    for row in cycle.feasible.tolist():
        reservations = [plugin.reservation(cycle.info, cycle.view, row, state) for plugin, state in reserving]
        if any(reservation != Reservation() for reservation in reservations):
            by_node[cycle.view.nodes.names[row]] = _merge_reservations(reservations)
    return by_node


def _merge_reservations(reservations: Sequence[Reservation]) -> Reservation:
    """Merge the reservations that several plugins make on one node."""
    merged = Reservation()
    for reservation in reservations:
        merged = Reservation(
            bindings={**merged.bindings, **reservation.bindings},
            provisions=(*merged.provisions, *reservation.provisions),
            allocations={**merged.allocations, **reservation.allocations},
        )
    return merged


def _report_volumes_by_node(reservations: Mapping[str, Reservation]) -> dict[str, VolumesReport]:
    """Return the volumes that would be bound or provisioned, by node."""
    return {
        node: VolumesReport(dict(reserved.bindings), reserved.provisions)
        for node, reserved in reservations.items()
        if reserved.bindings or reserved.provisions
    }


def _report_devices_by_node(reservations: Mapping[str, Reservation]) -> dict[str, dict[str, tuple[DeviceReport, ...]]]:
    """Return the devices that would be allocated, by node and claim. Claims without a new allocation are left out."""
    by_node: dict[str, dict[str, tuple[DeviceReport, ...]]] = {}
    for node, reserved in reservations.items():
        for claim, allocation in reserved.allocations.items():
            if allocation.devices.results:
                by_node.setdefault(node, {})[claim] = tuple(
                    DeviceReport(
                        result.request,
                        result.driver,
                        pool=result.pool,
                        device=result.device,
                        admin_access=bool(result.admin_access),
                        consumed_capacity={name: str(amount) for name, amount in result.consumed_capacity.items()},
                    )
                    for result in allocation.devices.results
                )
    return by_node


# -- extenders ---------------------------------------------------------------------------------------------------------


def _add_extender_answers(report: Explanation, cycle: Cycle, scheduler: Scheduler) -> Explanation:
    """Return the report with the extenders' calls, errors, refusals, scores and rejections, and the binding extender.

    Return the report unchanged if the configuration has no extenders.
    """
    if not scheduler.extenders:
        return report
    calls = cycle.consultation.calls
    pod = cycle.info.pod
    call_extender = scheduler.call_extender
    got_full_pod = isinstance(call_extender, CallWithFullPods) and pod.key in call_extender.full_pods
    input_note = EXTENDERS_GOT_MORE if got_full_pod else EXTENDER_INPUT_NOTE
    binders = (
        extender.url for extender in scheduler.extenders if extender.settings.bind_verb and extender.is_interested(pod)
    )
    return replace(
        report,
        extended=(input_note,) if calls else (),
        extender_order=tuple(extender.url for extender in scheduler.extenders),
        binder=next(binders, ""),
        calls=tuple(ExtenderCallReport(call.extender, call.verb, call.nodes, call.full) for call in calls),
        extender_errors=tuple(
            ExtenderErrorReport(call.extender, call.verb, call.error) for call in calls if call.error
        ),
        extender_refusals=cycle.consultation.refusals,
        diagnosis=_build_diagnosis(cycle),
        extender_scores=_sum_extender_scores(cycle),
    )


def _build_diagnosis(cycle: Cycle) -> dict[str, FirstFailReport]:
    """Return the first rejection of each rejected node, by node name.

    An extender's rejection, which has no plugin, replaces the rejection by a Filter plugin.
    """
    diagnosis = _report_first_rejections(cycle, cycle.considered)
    for name, status in cycle.consultation.statuses.items():
        diagnosis[name] = FirstFailReport(plugin="", code=status.code, reasons=status.reasons)
    return diagnosis


def _sum_extender_scores(cycle: Cycle) -> dict[str, dict[str, int]]:
    """Return the score of each feasible node by extender, summed over all calls of the extender."""
    scores: dict[str, dict[str, int]] = {}
    for url, added in cycle.scores.extended:
        by_node = scores.setdefault(url, {})
        for name, score in zip(cycle.passed.names, added.tolist(), strict=True):
            by_node[name] = by_node.get(name, 0) + score
    return scores


def iter_upstream_bug_descriptions(cycle: Cycle, framework: Framework) -> Iterator[str]:
    """Yield a description of each kube-scheduler bug that affects this cycle.

    If the cycle can be run again without the bug, the bug counts only if the outcome then differs, and the description
    says how.
    """
    for plugin in framework.plugins.values():
        fault = plugin.find_upstream_fault(cycle) if can_report_upstream_fault(plugin) else None
        if fault is None:
            continue
        if fault.plugin_without_fault is None:
            yield fault.text
        elif difference := _describe_effect_of_bug(cycle, _rerun_cycle_without_fault(fault, cycle, framework)):
            yield f"{fault.text}; {difference}"


def _rerun_cycle_without_fault(fault: UpstreamFault, cycle: Cycle, framework: Framework) -> Cycle:
    """Run the cycle again, without extenders, and with the faulty plugin replaced by a corrected one."""
    assert fault.plugin_without_fault is not None
    return run_cycle(framework.without_extenders().with_plugin(fault.plugin_without_fault), cycle.info, cycle.view)


def _describe_effect_of_bug(cycle: Cycle, corrected: Cycle) -> str:
    """Describe how the outcome would differ without the bug, or return an empty string if it would not."""
    if cycle.error != corrected.error:
        return f"otherwise the answer would be: {corrected.error or 'no error'}"
    if not np.array_equal(cycle.feasible, corrected.feasible):
        nodes = len(cycle.view.nodes)
        return f"otherwise {len(corrected.feasible)} of {counted(nodes, 'node')} would fit, not {len(cycle.feasible)}"
    same_nodes_pass = np.array_equal(cycle.filter.passing, corrected.filter.passing)
    if not same_nodes_pass or _count_reasons(cycle) != _count_reasons(corrected):
        return "otherwise nodes would be rejected for other reasons"
    if not np.array_equal(cycle.scores.best, corrected.scores.best):
        names = [cycle.view.nodes.names[row] for row in corrected.scores.best.tolist()]
        return f"otherwise the best would be {', '.join(names[:3])}" + (", …" if len(names) > 3 else "")
    return "" if np.array_equal(cycle.scores.total, corrected.scores.total) else "otherwise the scores would differ"


def _count_reasons(cycle: Cycle) -> dict[str, int]:
    """Count the rejected nodes by reported reason."""
    return dict(cycle.filter.count_nodes_by_reason(cycle.considered))


# -- claims of pods that bypass the scheduler --------------------------------------------------------------------------


STARTING = frozenset({"", "Pending"})
"""The phases of a pod whose containers have not started yet."""


def find_claims_without_scheduler(pod: Pod, view: Fork) -> tuple[ClaimWithoutScheduler, ...]:
    """Find the pod's claims that stay unbound because spec.nodeName bypasses the scheduler.

    The volume controller provisions a volume of a WaitForFirstConsumer class only after kube-scheduler has annotated
    the claim with the selected node. Kube-scheduler annotates the claims of pods that it binds, never of a pod that is
    created with a node. Return () for a pod without spec.nodeName, and for a pod that has started. Upstream: shouldSkip
    and syncUnboundClaim in pkg/controller/volume/persistentvolume (v1.36).
    """
    if not pod.spec.node_name or pod.status.phase not in STARTING:
        return ()
    storage = get_listers(view)
    names = (_get_claim_name(pod, volume) for volume in pod.spec.volumes)
    claims = (storage.claims.get((pod.metadata.namespace, name)) for name in names if name)
    return tuple(
        ClaimWithoutScheduler(format_claim_key(claim), get_claim_class(claim))
        for claim in claims
        if claim is not None and _waits_for_first_consumer(claim, view)
    )


def _get_claim_name(pod: Pod, volume: Volume) -> str:
    """Return the name of the volume's claim, or an empty string if the volume has no claim."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return f"{pod.metadata.name}-{volume.name}" if volume.ephemeral is not None else ""


def _waits_for_first_consumer(claim: PersistentVolumeClaim, view: Fork) -> bool:
    """Return whether the claim still waits for a scheduler to select the node of its first consumer."""
    if claim.spec.volume_name or SELECTED_NODE in claim.metadata.annotations:
        return False
    storage_class = get_listers(view).classes.get(get_claim_class(claim))
    return storage_class is not None and storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
