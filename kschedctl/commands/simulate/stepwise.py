"""The library functions that schedule named pods one after the other: `follow`, `sampling` and `follow_rollout`.

`follow_rollout` reads the real placements from Scheduled events or Bindings.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from kschedctl.api.arrays import NO_ROW, Position, Row
from kschedctl.api.decoding import type_name
from kschedctl.api.events import get_first_time, get_reporter, parse_scheduled_event
from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Event, Struct
from kschedctl.api.times import parse_nanoseconds
from kschedctl.cluster import Cluster
from kschedctl.commands.explain.one_pod import resolve_pod
from kschedctl.commands.simulate.following_report import (
    FollowedRollout,
    FollowedStep,
    FollowingReport,
    SampledPod,
    SamplingReport,
)
from kschedctl.commands.simulate.rollout_replay import RealPlacement, replay_rollout
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.shared_cluster import build_cluster_basis
from kschedctl.replay.unknown import IN_SIMULATIONS, find_unread_dependencies, summarize_unknowns
from kschedctl.scheduler.engine.cycle import Cycle, mask_allowed_nodes, run_cycle
from kschedctl.scheduler.engine.diagnosis import build_fit_error
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling, SearchTerms
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.following import StepwiseScheduler, TriedPod
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.sources.decoding import decode_document
from kschedctl.sources.documents.place import Place
from kschedctl.sources.read import read_documents

MAX_TRIES = 3
"""The maximum number of times that a pod is tried."""
Retry = Literal["now", "end"]


def follow(
    cluster: Cluster, pods: Sequence[str], choices: Sequence[str | None] = (), retry: Retry = "end"
) -> FollowingReport:
    """Schedule pods (``namespace/name``) one after the other on all nodes.

    Each pod sees the effects of the previous ones.

    ``choices`` has one entry per step. A pod gets the chosen node if it is one of the pod's best nodes, otherwise the
    first best node by name. Pods that get a node are assumed but not bound. If no node fits, preemption runs and its
    victims leave at once. The pod is then tried again, at most three times. ``retry`` says when: right away (``now``)
    or after all other pods (``end``).

    Raises UsageError for unknown pods and an unknown ``retry``, and ConfigurationError if the scheduler's configuration
    is invalid.

    >>> follow(Cluster.from_objects([]), []).steps
    ()
    """
    following = StepwiseScheduler(Scheduler(cluster))
    view = following.view
    if retry not in ("now", "end"):
        raise UsageError(f'retry "{retry}": must be now or end')
    for pod in pods:
        if pod not in view.pods.index:
            raise UsageError(f'pod "{pod}" not found')
    steps = tuple(_iter_followed_steps(following, deque(view.pods.index[pod] for pod in pods), choices, retry))
    unknown = (*find_unread_dependencies(cluster), *following.unknown)
    basis = build_cluster_basis(summarize_unknowns(unknown, IN_SIMULATIONS), following.scheduler)
    return FollowingReport(
        steps, not_replayed=basis["not_replayed"], unknown=basis["unknown"], undecided=basis["undecided"]
    )


def _iter_followed_steps(
    scheduler: StepwiseScheduler, queue: deque[Position], choices: Sequence[str | None], retry: Retry
) -> Iterator[FollowedStep]:
    """Yield one step per attempt, until `queue` is empty.

    A pod that preempts other pods is tried again, at once or at the end of the queue, up to MAX_TRIES times in all.
    """
    tries: Counter[Position] = Counter()
    step_number = 0
    while queue:
        position = queue.popleft()
        tries[position] += 1
        choice = choices[step_number] if step_number < len(choices) else None
        step = _try_pod(scheduler, position, choice)
        step_number += 1
        yield step
        if step.nominated and tries[position] < MAX_TRIES:
            if retry == "now":
                queue.appendleft(position)
            else:
                queue.append(position)


def _try_pod(scheduler: StepwiseScheduler, position: Position, choice: str | None) -> FollowedStep:
    """Try a pod, and return the step: the pod is placed, rejected, gated or already preempted, or an error occurs.

    Of several best nodes, the pod gets the node named `choice` if it is among them, otherwise the one that comes first
    by name.
    """
    pod = scheduler.view.pods.objects[position].key
    if position in scheduler.gone:
        return FollowedStep(pod, gone=True)
    attempt = scheduler.attempt_pod(position)
    cycle = attempt.cycle
    if cycle is None:
        return FollowedStep(pod, error="no profile serves its schedulerName")
    gates = [name for name, status in cycle.queue.items() if status.rejected]
    if gates:
        return FollowedStep(pod, gated=gates[0])
    if cycle.error is not None:
        return FollowedStep(pod, error=cycle.error)
    if len(cycle.feasible):
        return _place_pod(scheduler, attempt, cycle, choice)
    return _run_preemption(scheduler, attempt, cycle)


def _place_pod(scheduler: StepwiseScheduler, attempt: TriedPod, cycle: Cycle, choice: str | None) -> FollowedStep:
    """Assume the pod on the chosen node if it is one of the best, otherwise on the best node that is first by name.

    The step has an error if a plugin fails to reserve. Scores are reported only if several nodes are feasible.
    """
    names = cycle.view.nodes.names
    best = {names[row]: Row(row) for row in cycle.scores.best.tolist()}
    node = choice if choice is not None and choice in best else min(best)
    pod = cycle.info.pod.key
    try:
        scheduler.assume(attempt, best[node])
    except PluginError as failure:
        return FollowedStep(pod, feasible=len(cycle.feasible), error=str(failure))
    if len(cycle.feasible) == 1:
        return FollowedStep(pod, feasible=1, node=node)
    rows = cycle.scores.rows.tolist()
    return FollowedStep(
        pod,
        feasible=len(rows),
        total={names[row]: score for row, score in zip(rows, cycle.scores.total.tolist(), strict=True)},
        best=tuple(sorted(best)),
        node=node,
    )


def _run_preemption(scheduler: StepwiseScheduler, attempt: TriedPod, cycle: Cycle) -> FollowedStep:
    """Run preemption for a pod without a feasible node, and return the step with its victims and nominated node.

    The victims leave the cluster at once.
    """
    names, pods = cycle.view.nodes.names, cycle.view.pods.objects
    plugins = tuple(sorted(cycle.rejecting_plugins))
    preemption = scheduler.preempt(attempt)
    return FollowedStep(
        cycle.info.pod.key,
        feasible=0,
        fit_error_message=build_fit_error(cycle, preemption.outcome.message),
        unschedulable_plugins=plugins,
        tied_candidates=tuple(sorted(names[row] for row in preemption.tied.row.tolist())),
        nominated="" if preemption.row == NO_ROW else names[preemption.row],
        victims=tuple(pods[victim].key for victim in preemption.victims),
        nominations_cleared=tuple(pods[position].key for position in preemption.cleared),
    )


def sampling(cluster: Cluster, pods: Sequence[str], *, start: int = 0) -> SamplingReport:
    """Search nodes for pods (``namespace/name``) one after the other, without placing them.

    Each search covers a part of the nodes, whose size is percentageOfNodesToScore of the cluster's configuration.
    ``start`` is the index, in the scheduler's order of nodes, at which the first search begins. Raises UsageError for
    unknown pods and a negative ``start``, and ConfigurationError if the scheduler's configuration is invalid.

    >>> sampling(Cluster.from_objects([]), []).node_order
    ()
    """
    scheduler = Scheduler(cluster)
    view = scheduler.view
    _validate_start_index(start)
    searches = SampledFrom(start).start_sampling(scheduler.configuration, len(view.nodes))
    unknown: dict[Unknown, None] = dict.fromkeys(find_unread_dependencies(cluster))
    steps = [_search_nodes_for_pod(scheduler, pod, searches, unknown) for pod in pods]
    basis = build_cluster_basis(summarize_unknowns(unknown, IN_SIMULATIONS), scheduler)
    return SamplingReport(
        node_order=tuple(view.nodes.names),
        steps=tuple(steps),
        not_replayed=basis["not_replayed"],
        unknown=basis["unknown"],
        undecided=basis["undecided"],
    )


def _validate_start_index(start: int) -> None:
    """Raise UsageError if the start index is negative."""
    if start < 0:
        raise UsageError(f"start index {start}: must be 0 or more")


def _search_nodes_for_pod(
    scheduler: Scheduler, name: str, searches: Sampling, unknown: dict[Unknown, None]
) -> SampledPod:
    """Run the scheduling cycle of one pod, or report why the pod is not tried.

    A cycle moves `searches.start`, the index of the first node to try, to the node at which the next pod's search
    starts. The index is unchanged if the pod is not tried. Kinds that matter for the pod but were not read are added to
    `unknown`. Raises UsageError if the pod does not exist.
    """
    pod = resolve_pod(scheduler, name)
    info = PodInfo(pod, scheduler.view.settings.requests)
    framework, unread_kinds = scheduler.find_framework_for(info, scheduler.view)
    unknown.update(dict.fromkeys(unread_kinds))
    start = searches.start
    if framework is None:
        return _build_untried_pod(name, start, f'no scheduler profile is named "{pod.spec.scheduler_name}"')
    if not is_pending(pod):
        why = "it is being deleted" if pod.metadata.deletion_timestamp else "it does not wait for a node"
        return _build_untried_pod(name, start, why)

    cycle = run_cycle(framework, info, scheduler.view, searches)  # advances `searches.start`
    if cycle.gated:
        searches.start = start  # kube-scheduler does not search nodes for a gated pod
        gates = (reason for status in cycle.queue.values() for reason in status.reasons)
        return _build_untried_pod(name, start, ", ".join(gates))
    return _build_sampled_pod(name, cycle, searches, start)


def _build_untried_pod(name: str, start: int, why: str) -> SampledPod:
    """Build the report about a pod that is not tried. The next search starts at the same node."""
    return SampledPod(name, start, searched=0, num_to_find=0, processed=0, next=start, unscheduled=why)


def _build_sampled_pod(name: str, cycle: Cycle, searches: Sampling, start: int) -> SampledPod:
    """Build the report about a pod's search for nodes, which began at `start`.

    No node could be searched if PreFilter rejected the pod, or if a plugin failed before any node was considered.
    `searches` has the index at which the next search begins.
    """
    names = cycle.view.nodes.names
    search = cycle.search
    feasible = cycle.feasible.tolist() if search is None else search.feasible.tolist()
    rejected = [] if search is None else np.flatnonzero(search.examined & ~cycle.filter.passing).tolist()
    failed_before_search = bool(cycle.error) and not cycle.considered.any()
    searchable_count = 0
    if not cycle.pre_filter.status.rejected and not failed_before_search:
        searchable_count = int(mask_allowed_nodes(cycle.pre_filter, cycle.view).sum())
    terms = SearchTerms.from_profile(cycle.framework.profile, cycle.framework.release)
    return SampledPod(
        pod=name,
        start=start,
        searched=searchable_count,
        num_to_find=searches.count_nodes_needed_for_scoring(searchable_count, terms),
        processed=len(feasible) + len(rejected),
        next=searches.start,  # the cycle has advanced it
        feasible=tuple(names[row] for row in feasible),
        rejected=tuple(names[row] for row in rejected),
        total={
            names[row]: total
            for row, total in zip(cycle.scores.rows.tolist(), cycle.scores.total.tolist(), strict=True)
        },
        best=tuple(names[row] for row in cycle.scores.best.tolist()),
        unscheduled=cycle.error or "",
    )


def follow_rollout(
    cluster: Cluster,
    events: Iterable[JsonObject],
    manifests: Iterable[JsonObject | Struct] = (),
    *,
    sampling: SampledFrom | None = None,
    call_extender: CallExtender | None = None,
    where: str = "",
    progress: Progress = NO_PROGRESS,
) -> FollowedRollout:
    """Find where kube-scheduler chose differently in a real rollout, and why.

    Every pod is tried at the time when it was really scheduled. ``events`` are the rollout's Scheduled events, or
    Bindings, as kubectl prints them (dicts). The cluster is the one before or after the rollout, and ``manifests`` are
    applied to it first. With ``sampling`` the scheduler looks at as many nodes as it really would. ``where`` names the
    source of the events in errors.

    Raises InputError if an event or manifest is invalid or if there is no Scheduled event, and ConfigurationError if
    the scheduler's configuration is invalid.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "9"}}}
    >>> pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "web"}]}}
    >>> cluster = kschedctl.Cluster.from_objects([node, pod])
    >>> metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    >>> bound = {"kind": "Binding", "metadata": metadata, "target": {"kind": "Node", "name": "n1"}}
    >>> str(follow_rollout(cluster, [bound]))
    'As replayed: 1 of 1 pod went to a node that the replay ranks among the best'
    """
    placements = _parse_placements(events, where)
    on_done = progress.begin("Following", len(placements))
    return replay_rollout(
        cluster, placements, manifests, sampling=sampling, call_extender=call_extender, on_done=on_done
    )


_MAX_EVENTS = 200_000


_MAX_NAME_LENGTH = 253


_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


_HINT = "save them with kubectl get events -A -o json; events are kept for an hour"


def read_placements(path: str) -> list[RealPlacement]:
    """Read the real placements from the events or Bindings of a file. Raises InputError if a document is malformed."""
    return _parse_placements(read_documents(path), path)


def _parse_placements(documents: Iterable[JsonObject], path: str = "") -> list[RealPlacement]:
    """Return the placements among the documents in order of time. Other documents are ignored.

    A placement is a Scheduled event of core/v1 or events.k8s.io/v1, or a Binding, either single or in a list. `path`
    names the source in errors. Raises InputError if a document is malformed, or if there is no placement or too many.
    """
    placements = []
    for document in documents:
        for item in _iter_list_items(document, path):
            placement = _parse_placement(item, path)
            if placement is not None:
                placements.append(placement)
        if len(placements) > _MAX_EVENTS:
            raise InputError(f"more than {_MAX_EVENTS:,} placements", where=path)
    if not placements:
        raise InputError("no Scheduled event", where=path, hint=_HINT)
    return sorted(placements, key=lambda real_placement: real_placement.nanoseconds)


def _iter_list_items(document: JsonObject, path: str) -> Iterator[JsonObject]:
    """Yield the objects of a list, or the document itself if it is not a list.

    Items without a kind get the kind that the list's kind names, such as Event for an EventList. Raises InputError if
    the items are malformed.
    """
    if not str(document.get("kind", "")).endswith("List"):
        yield document
        return
    items = document.get("items")
    if not isinstance(items, list):
        raise InputError(f"items of a {document['kind']}: expected a list", where=path)
    for item in items:
        if not isinstance(item, Mapping):
            raise InputError(f"items: expected objects, got {type_name(item)}", where=path)
        item_kind = str(document["kind"]).removesuffix("List")
        yield {"kind": item_kind, **item} if item_kind else item


def _parse_placement(document: JsonObject, path: str) -> RealPlacement | None:
    """Parse a Scheduled event or a Binding, or return None for other documents.

    Raises InputError if the document is malformed.
    """
    if document.get("kind") == "Event" and document.get("reason") == "Scheduled":
        return _parse_scheduled_event(document, path)
    return _parse_binding(document, path) if document.get("kind") == "Binding" else None


def _parse_scheduled_event(document: JsonObject, path: str) -> RealPlacement | None:
    """Parse a Scheduled event. Return None if another component wrote it for a reason of the same name.

    Raises InputError if the event is malformed.
    """
    event = decode_document(document, Event, Place(path))
    names = parse_scheduled_event(event)
    if names is None:
        return None
    placement = _build_placement(names, get_first_time(event) or None, path)
    return placement._replace(scheduler=get_reporter(event)[:_MAX_NAME_LENGTH])


def _parse_binding(binding: JsonObject, path: str) -> RealPlacement:
    """Parse a Binding. Raises InputError if its names or its time are missing or invalid."""
    metadata = _get_mapping(binding, "metadata")
    target = _get_mapping(binding, "target")
    names = (metadata.get("namespace") or "default", metadata.get("name"), target.get("name"))
    return _build_placement(names, metadata.get("creationTimestamp"), path)


def _build_placement(names: Sequence[object], time: object, path: str) -> RealPlacement:
    """Build a placement from `names` (namespace, pod, node) and an RFC 3339 time.

    Raises InputError for invalid names, or for a time that is missing or invalid.
    """
    for noun, name in zip(("namespace", "pod", "node"), names, strict=True):
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InputError(f"{noun} {str(name)[:60]!r} is not a name", where=path)
    namespace, pod, node = map(str, names)
    if not isinstance(time, str):
        raise InputError(f"the time at which {namespace}/{pod} was scheduled is missing", where=path)
    try:
        nanoseconds = parse_nanoseconds(time)
    except InputError as error:
        raise InputError(error.what, where=path, hint=error.hint) from None
    return RealPlacement(nanoseconds, time, f"{namespace}/{pod}", node)


def _get_mapping(document: JsonObject, key: str) -> JsonObject:
    """Return the mapping under a key, or an empty one if there is none."""
    value = document.get(key)
    return value if isinstance(value, Mapping) else {}
