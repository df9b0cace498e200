"""Why is this pod Pending? One cycle replayed, and its findings put into the document that users see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypedDict

import numpy as np
from msgspec.structs import replace

from kschedctl.api.arrays import Scores
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.objects import Pod
from kschedctl.cluster import Cluster, convert, describe, namespaced
from kschedctl.commands.explain.advice import advice
from kschedctl.commands.explain.bypassed_scheduler import claims_without_scheduler
from kschedctl.commands.explain.causes import causes
from kschedctl.commands.explain.eliminations import eliminations, node_groups, node_reports
from kschedctl.commands.explain.extenders import extended
from kschedctl.commands.explain.gang import gang_report
from kschedctl.commands.explain.group_tree import chance
from kschedctl.commands.explain.headline import headline
from kschedctl.commands.explain.own_group import own_group_report
from kschedctl.commands.explain.permit import permit_reports, permitted
from kschedctl.commands.explain.pod_group import in_group
from kschedctl.commands.explain.preemption import preemption_report
from kschedctl.commands.explain.reach import Obstacle, obstacles
from kschedctl.commands.explain.report import (
    FINE,
    DeviceReport,
    Elimination,
    Explanation,
    NodeGroup,
    NodeReport,
    PostFilterReport,
    PreFilterReport,
    VolumesReport,
)
from kschedctl.commands.explain.reports import Explanations
from kschedctl.commands.explain.reservations import devices_by_node, reservations, volumes_by_node
from kschedctl.commands.explain.searches import searched_nodes
from kschedctl.commands.explain.upstream_faults import upstream_faults
from kschedctl.errors import InputError, UsageError
from kschedctl.replay import unknown as doubts
from kschedctl.replay.controllers.creation import admit_pod
from kschedctl.replay.controllers.manifests import sort_manifests
from kschedctl.replay.controllers.target_creation import create_targets
from kschedctl.replay.controllers.target_pod import TargetPod, with_other_priority
from kschedctl.replay.controllers.unreplayed_admission import (
    HOOK_KINDS,
    describe_unreplayed_limits,
    find_unasked_hooks,
    find_unread_limits,
)
from kschedctl.replay.denials import raise_if_denied, raise_if_struct_denied
from kschedctl.replay.missing_storage_classes import MissingStorageClasses
from kschedctl.replay.unknown import (
    VICTIMS,
    WHEN_GATED,
    WHEN_SCHEDULABLE,
    WHEN_UNSCHEDULABLE,
    merge_unknown_kinds,
    summarize_unknowns,
    unknown_fields,
)
from kschedctl.reports.not_created import NOT_CREATED, NotCreated, OnceCreated
from kschedctl.reports.plugin_answers import FirstFailReport, StatusReport
from kschedctl.reports.unknown import UnknownKind, reasons
from kschedctl.reports.waiting_elsewhere import WaitingElsewhere, is_not_admitted
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.scheduler.engine.messages import fit_error
from kschedctl.scheduler.engine.post_filter import PostFilterOutcome, run_post_filter
from kschedctl.scheduler.engine.pre_filter import selected_by_name
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo

PodReference = str | JsonObject | Pod


def explain(
    cluster: Cluster,
    pod: PodReference,
    *,
    as_if_priority: int | None = None,
    as_if_priority_class: str = "",
    call_extender: CallExtender | None = None,
) -> Explanation:
    """Explain a pod of the cluster (``namespace/name``), or a manifest that is not in it yet, of a workload one pod.

    With ``as_if_priority`` or ``as_if_priority_class`` the pod is replayed with another priority. The configuration's
    extenders are asked by ``call_extender(extender, verb, payload) -> (HTTP status, body)``: the extender as in the
    configuration, and decoded JSON of k8s.io/kube-scheduler/extender/v1; the body is None unless the status is 200.
    Without it the answer says what they might change. Raises UsageError when there is no such pod or class, InputError
    and ConfigurationError for what cannot be read.
    """
    asked = stand_in_of(Scheduler(cluster, call_extender), pod)
    return explain_stand_in(asked._replace(pod=with_other_priority(asked, as_if_priority, as_if_priority_class)))


def stand_in_of(scheduler: Scheduler, pod: PodReference) -> TargetPod:
    """The pod that is asked about. Raises what ``explain`` raises."""
    if isinstance(pod, Mapping) and not (pod.get("kind") == "Pod" and object_at(pod, "metadata").get("uid")):
        return _of_manifest(scheduler, pod)
    asked_pod = TargetPod(scheduler, find_pod(scheduler, pod))
    return asked_pod if isinstance(pod, str) else asked_pod._replace(workload=_typed(pod))


def explain_stand_in(asked: TargetPod) -> Explanation:
    """Explain a pod, or the one that stands for a workload, which may not be able to create it."""
    report = explain_pod(asked.scheduler, asked.pod) if asked.is_known else _of_nothing(asked)
    left = (*report.not_replayed, *_limits(asked))
    hidden = _hidden(asked) if report.verdict in FINE else ()
    left += () if report.verdict in FINE else tuple(_hooks_in_words(asked))
    unknown = merge_unknown_kinds((report.unknown, asked.unread, hidden))
    undecided = report.undecided or bool(hidden)
    report = replace(report, stands_for=asked.note, not_replayed=left, unknown=unknown, undecided=undecided)
    report = replace(report, fewer_pods=asked.fewer_reasons)
    return _unless_waiting(unless_not_created(report, asked.not_created), asked.waiting_elsewhere)


def _unless_waiting(report: Explanation, waiting: tuple[WaitingElsewhere, ...]) -> Explanation:
    """Return the explanation of a pod whose workload waits elsewhere: until that lets it start it has no pods."""
    report = replace(report, waiting_elsewhere=waiting)
    if not is_not_admitted(waiting) or report.verdict not in FINE:
        return report
    once = OnceCreated(report.verdict, report.headline) if report.headline else None
    headline = f"{waiting[0].resource} {waiting[0].headline}"
    return replace(report, verdict=NOT_CREATED, headline=headline, once_created=once, undecided=False)


def _hidden(asked: TargetPod) -> tuple[UnknownKind, ...]:
    """What might keep a pod that would be scheduled from being created, and is not known."""
    cluster, namespaces = asked.scheduler.cluster, _to_create(asked)
    refused = asked.not_created is not None
    hooks = find_unasked_hooks(cluster, [asked.pod] if namespaces else [], denied=refused)
    return hooks if refused else (*find_unread_limits(cluster, namespaces), *hooks)


def _hooks_in_words(asked: TargetPod) -> Iterator[str]:
    """Yield, in one line, the webhooks and policies that would be asked about a pod that has to be created first.

    They do not make it undecided that the pod as it is written fits nowhere.
    """
    hooks = find_unasked_hooks(asked.scheduler.cluster, [asked.pod] if _to_create(asked) else [])
    if hooks:
        yield f"admission, which may refuse or change the pod: {reasons(hooks)}"


def _limits(asked: TargetPod) -> tuple[str, ...]:
    """What may keep a pod that is not there yet from being created."""
    namespaces = _to_create(asked)
    replayed = {} if asked.admitted is None else dict.fromkeys(namespaces, asked.admitted)
    return describe_unreplayed_limits(asked.scheduler.cluster, namespaces, replayed)


def _to_create(asked: TargetPod) -> Sequence[str]:
    """The namespace in which a pod has to be created first, if it has."""
    meta, cluster = asked.pod.metadata, asked.scheduler.cluster
    there = asked.workload is None and cluster.pod(meta.namespace, meta.name) is not None
    return () if there else (meta.namespace,)


def unless_not_created(report: Explanation, lacking: NotCreated | None) -> Explanation:
    """The explanation of a pod of a workload that could not create some: whether this one would be scheduled is
    another question, as long as nobody creates it."""
    if lacking is None or lacking.past or report.verdict not in (*FINE, NOT_CREATED):
        return replace(report, not_created=lacking)
    once = OnceCreated(report.verdict, report.headline) if report.headline else None
    changed = any(u.kind in HOOK_KINDS.values() for u in report.unknown)  # then what is refused may be another
    report = replace(report, undecided=report.undecided and changed)
    return replace(report, verdict=NOT_CREATED, headline=lacking.headline, not_created=lacking, once_created=once)


def _of_nothing(asked: TargetPod) -> Explanation:
    """The explanation of a pod of which nothing is known."""
    return Explanation(asked.pod.key, NOT_CREATED, headline="", kube_version=asked.scheduler.cluster.kube_version)


def explanations(reports: Sequence[Explanation]) -> Explanations:
    """Several of them as one document."""
    unknown = merge_unknown_kinds(report.unknown for report in reports)
    certain = any(report.verdict not in FINE and not report.undecided for report in reports)
    return Explanations(
        tuple(reports),
        not_replayed=tuple(dict.fromkeys(what for report in reports for what in report.not_replayed)),
        ignored=tuple(dict.fromkeys(what for report in reports for what in report.ignored)),
        extended=tuple(dict.fromkeys(what for report in reports for what in report.extended)),
        unknown=unknown,
        undecided=any(report.undecided for report in reports) and not certain,
    )


def _of_manifest(scheduler: Scheduler, document: JsonObject) -> TargetPod:
    """A pod of a workload that is not in the cluster yet. Raises InputError for what makes no pods."""
    manifests = sort_manifests([document])
    if len(manifests.workloads) != 1:
        raise InputError("not a Pod, nor one workload that makes pods", where=describe(document))
    return create_targets(scheduler, manifests.workloads.values(), manifests.documents)[0]


def find_pod(scheduler: Scheduler, pod: PodReference) -> Pod:
    """The pod as the API server holds it, or would hold it once created."""
    if isinstance(pod, str):
        namespace, _, name = pod.rpartition("/")
        stored = scheduler.cluster.pod(namespace, name)
        if stored is None:
            raise UsageError(f'pod "{pod}" not found', hint="" if namespace else "name it as namespace/name")
        return scheduler.view.stored(stored)
    incoming = _typed(pod)
    if not incoming.metadata.uid:  # not created yet
        if isinstance(pod, Pod):
            raise_if_struct_denied(incoming, scheduler.cluster, admission=False)
        else:
            raise_if_denied({"kind": "Pod", **pod}, scheduler.cluster, admission=False)
        incoming = admit_pod(incoming, scheduler.cluster)
    return scheduler.view.admitted(scheduler.view.stored(incoming))


def _typed(pod: JsonObject | Pod) -> Pod:
    typed: Pod = namespaced(pod if isinstance(pod, Pod) else convert(pod))
    return typed


def explain_pod(scheduler: Scheduler, pod: Pod, *, nodes: bool = True) -> Explanation:
    """One pod's explanation; the pod is as the API server holds it.

    Without ``nodes`` nothing is told of single nodes, which takes most of the time, nor what to look at next.
    """
    info = PodInfo(pod, scheduler.view.settings.requests)
    framework, unknown = scheduler.framework_for(info, scheduler.view)
    settled = _settled(pod, framework)
    if settled or framework is None:
        version = scheduler.cluster.kube_version
        profile = pod.spec.scheduler_name
        report = Explanation(pod=pod.key, verdict=settled, headline="", scheduler_name=profile, kube_version=version)
        if settled == "Bound":
            report = replace(report, claims_without_scheduler=claims_without_scheduler(pod, scheduler.view))
        if framework is None and settled == "NotResponsible" and not info.terminating:
            report = decided_elsewhere(replace(report, pod_group=gang_report(scheduler, None, pod)))
    else:
        cycle = run_cycle(framework, info, scheduler.view, scheduler.sampling())
        report = _document(cycle, scheduler, framework, nodes)
        report = replace(report, searched=searched_nodes(cycle, scheduler.sampled))
        group = own_group_report(scheduler, framework, pod) or gang_report(scheduler, framework, pod)
        unknowns = (*unknown, *doubts.find_cycle_unknowns(cycle, framework), *chance(group))
        report = decided_elsewhere(_with_unknown(in_group(report, group), unknowns))
    words = headline(report, pod, scheduler.configuration.profiles)
    if report.verdict == "Unschedulable" and (missing := MissingStorageClasses(scheduler.cluster).find(pod)):
        words = f"StorageClass {missing.name} does not exist: {words}"
    report = replace(report, headline=words)
    return replace(report, advice=tuple(advice(report, pod, scheduler, framework))) if nodes else report


def decided_elsewhere(report: Explanation) -> Explanation:
    """The explanation of a pod about whose gang somebody else decides: what that comes to is not ours to know."""
    by = report.pod_group.decided_by if report.pod_group else ""
    said = (f"{by}'s own rules about gangs; what is said of this one is by kube-scheduler's filters",) if by else ()
    return replace(report, not_replayed=(*report.not_replayed, *said), undecided=report.undecided or bool(by))


def as_events(report: Explanation) -> Explanation:
    """The explanation with the message that kube-scheduler writes: none for a pod that it holds back.

    For such a pod ``message`` is what it would say once the pod is released, as everything else in the document is.
    """
    return replace(report, message=None) if report.verdict == "Gated" else report


def _with_unknown(report: Explanation, unknowns: tuple[Unknown, ...]) -> Explanation:
    """The report with what it leans on that was not read."""
    affected = {"Schedulable": WHEN_SCHEDULABLE, "Gated": WHEN_GATED}.get(report.verdict, WHEN_UNSCHEDULABLE)
    if not (report.preemption and report.preemption.candidates):
        affected = {effect: affects for effect, affects in affected.items() if affects != VICTIMS}
    return replace(report, **unknown_fields(summarize_unknowns(unknowns, affected)))


def _settled(pod: Pod, framework: Framework | None) -> str:
    """The verdict on a pod about which the scheduler has nothing to decide, empty for all others."""
    if pod.terminated:
        return "Finished"
    if pod.spec.node_name:
        return "Bound"
    if framework is None or pod.metadata.deletion_timestamp is not None:
        return "NotResponsible"
    return ""


def _document(cycle: Cycle, scheduler: Scheduler, framework: Framework, nodes: bool) -> Explanation:
    stuck = not cycle.schedulable and cycle.error is None
    post_filter = run_post_filter(cycle) if stuck else PostFilterOutcome()
    refusals = obstacles(cycle)
    permit = permit_reports(cycle)
    verdict, message = _verdict(cycle), fit_error(cycle, post_filter.message) if stuck else cycle.error
    if verdict == "Schedulable" and permit:
        verdict, message = permitted(cycle, permit)
    return Explanation(
        pod=cycle.info.pod.key,
        verdict=verdict,
        headline="",
        message=message,
        permit=permit,
        not_replayed=doubts.find_unreplayed_parts(framework),
        upstream_faults=upstream_faults(cycle, framework),
        ignored=scheduler.ignored((cycle.info.spec,)),
        node_order=cycle.view.nodes.names,
        feasible=cycle.passed.names,
        best=_best(cycle),
        causes=causes(refusals, cycle) if stuck else (),
        preemption=preemption_report(post_filter, cycle) if stuck and cycle.view.nodes.names else None,
        queue={name: StatusReport(s.code, s.reasons) for name, s in cycle.queue.items()},
        pre_filter=_pre_filter(cycle),
        unschedulable_plugins=tuple(sorted(cycle.unschedulable_plugins)),
        **(_of_nodes(cycle, framework, refusals) if nodes else NodeFields()),
        **extended(cycle, scheduler),
        post_filter=_post_filter(post_filter),
        scheduler_name=cycle.info.spec.scheduler_name,
        kube_version=scheduler.cluster.kube_version,
    )


class NodeFields(TypedDict, total=False):
    """The fields of an Explanation that are about single nodes."""

    eliminations: tuple[Elimination, ...]
    nodes: tuple[NodeReport, ...]
    groups: tuple[NodeGroup, ...]
    volumes: dict[str, VolumesReport]
    allocations: dict[str, dict[str, tuple[DeviceReport, ...]]]
    filter: dict[str, dict[str, StatusReport]]
    first_fail: dict[str, FirstFailReport]
    score: dict[str, dict[str, int]]
    normalized: dict[str, dict[str, int]]
    weighted: dict[str, dict[str, int]]
    weights: dict[str, int]
    total: dict[str, int]


def _of_nodes(cycle: Cycle, framework: Framework, refusals: Sequence[Obstacle]) -> NodeFields:
    """The scores are those of the feasible nodes; all in the form of the conformance contract."""
    nodes, reserved = node_reports(refusals, cycle), reservations(cycle)
    scores, names = cycle.scores, cycle.passed.names
    return {
        "eliminations": eliminations(refusals, cycle),
        "nodes": nodes,
        "groups": node_groups(nodes),
        "volumes": volumes_by_node(reserved),
        "allocations": devices_by_node(reserved),
        "filter": _filter(cycle),
        "first_fail": _first_fail(cycle),
        "score": _scores(cycle, scores.raw),
        "normalized": _scores(cycle, scores.normalized),
        "weighted": _scores(cycle, scores.weighted),
        "weights": {name: framework.profile.weights[name] for name in scores.raw},
        "total": dict(zip(names, scores.total.tolist(), strict=True)) if len(scores.rows) else {},
    }


def _pre_filter(cycle: Cycle) -> dict[str, PreFilterReport]:
    return {
        name: PreFilterReport(
            r.status.code, r.status.reasons, None if r.node_names is None else tuple(sorted(r.node_names))
        )
        for name, r in cycle.pre_filter.results.items()
    }


def _best(cycle: Cycle) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cycle.passed.names[i] for i in cycle.scores.top.tolist()))


def _post_filter(outcome: PostFilterOutcome) -> PostFilterReport | None:
    if not outcome.results and not outcome.plugin:
        return None
    status = FirstFailReport(outcome.plugin, outcome.status.code, outcome.status.reasons)
    return PostFilterReport(status, outcome.nominated_node)


def _verdict(cycle: Cycle) -> str:
    if cycle.gated:
        return "Gated"
    if cycle.error is not None:
        return "Error"
    return "Schedulable" if cycle.schedulable else "Unschedulable"


def _filter(cycle: Cycle) -> dict[str, dict[str, StatusReport]]:
    by_node: dict[str, dict[str, StatusReport]] = {}
    for name, verdict in cycle.filter.verdicts.items():
        for row in np.flatnonzero(verdict.rejected).tolist():
            status = verdict.status(row)
            by_node.setdefault(cycle.view.nodes.names[row], {})[name] = StatusReport(status.code, status.reasons)
    return by_node


def _first_fail(cycle: Cycle) -> dict[str, FirstFailReport]:
    reports = {}
    looked_at = cycle.considered & selected_by_name(cycle.pre_filter, cycle.view)
    for row in np.flatnonzero(looked_at & ~cycle.filter.passing).tolist():
        plugin, status = cycle.filter.first_fail(row)
        reports[cycle.view.nodes.names[row]] = FirstFailReport(plugin, status.code, status.reasons)
    return reports


def _scores(cycle: Cycle, scores: Mapping[str, Scores]) -> dict[str, dict[str, int]]:
    return {plugin: dict(zip(cycle.passed.names, values.tolist(), strict=True)) for plugin, values in scores.items()}
