"""The costs and savings of percentageOfNodesToScore in a cluster, and the smallest percentage that is enough."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.cluster.recreation import recreate_pod
from kschedctl.commands.audit.sampling.report import (
    SampledKind,
    SampledProfile,
    SamplingAdvice,
    SamplingCosts,
    SamplingPoint,
    SamplingSetting,
)
from kschedctl.errors import UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.pending_pods import is_pending
from kschedctl.replay.unknown import (
    IN_SIMULATIONS,
    build_unknown_fields,
    find_unread_dependencies,
    find_unreplayed_parts,
    summarize_unknowns,
)
from kschedctl.reports.not_created import describe_not_created
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle, run_cycle
from kschedctl.scheduler.engine.sampling import LEAST_NODES, SampledFrom, SearchTerms, compute_adaptive_percentage
from kschedctl.scheduler.engine.start_indexes import EveryStart, Searches
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.text.counts import format_percentage

Done = Callable[[int], None]
DIGITS = 4
"""The number of decimals in reports."""


def measure_sampling_costs(
    kind: RecreatedPodKind, framework: Framework, percentages: Sequence[int], on_done: Done
) -> SampledKind:
    """Measure what each of the `percentages` of nodes to score costs when one more pod of this kind is placed.

    A search may start at any node, so all starts are tried. If an error or PreFilter prevents the comparison, the
    result has the reason as `unmeasured`. `on_done` is called with the number of percentages that are finished.
    """
    sampled = SampledKind(workload=kind.workload, pod=kind.pod.key, pods=kind.pods)
    view = kind.scheduler.view
    cycle = run_cycle(framework, PodInfo(kind.pod, view.settings.requests), view)
    if reason := _explain_why_not_comparable(cycle):
        on_done(len(percentages))
        return replace(sampled, unmeasured=reason)

    starts = EveryStart(cycle)
    sampled = replace(sampled, offered=starts.offered, fitting=len(starts.places))
    if len(starts.places):
        scores = cycle.scores.total
        sampled = replace(sampled, best=int(scores.max()), worst=int(scores.min()))
    curve = []
    try:
        for percentage in percentages:
            curve.append(_measure_costs_at_percentage(percentage, starts, kind.scheduler, framework))
            on_done(1)
    except PluginError as error:
        return replace(sampled, unmeasured=str(error))
    return replace(sampled, curve=tuple(curve))


def _explain_why_not_comparable(cycle: Cycle) -> str:
    """Return why the pod's searches for a node cannot be compared, or an empty string if they can."""
    if cycle.error is not None:
        return cycle.error
    if not len(cycle.view.nodes):
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        return ", ".join(cycle.pre_filter.status.reasons)
    return ""


def _measure_costs_at_percentage(
    percentage: int, starts: EveryStart, scheduler: Scheduler, framework: Framework
) -> SamplingPoint:
    """Measure the costs of searching with one percentage, over all nodes at which the search may start."""
    terms = SearchTerms.from_profile(framework.profile, framework.release)._replace(percentage=percentage)
    sampling = SampledFrom(start=0).start_sampling(scheduler.configuration, starts.offered)
    enough = sampling.count_nodes_needed(starts.offered, terms)
    return build_sampling_point(percentage, enough, starts.search_samples(enough))


def build_sampling_point(percentage: int, enough: int, searches: Searches) -> SamplingPoint:
    """Build the point of a curve: the costs of a percentage over all starts of the search.

    `enough` is the number of feasible nodes that end a search. Percentiles are losses that really occur, without
    interpolation.
    """
    loss = searches.expected_loss
    median, p90 = np.percentile(loss, (50, 90), method="inverted_cdf").tolist()
    return SamplingPoint(
        percentage=percentage,
        enough=enough,
        scored=searches.scored,
        examined=round(float(searches.examined.mean()), DIGITS),
        examined_most=int(searches.examined.max()),
        loss=round(float(loss.mean()), DIGITS),
        loss_p50=round(median, DIGITS),
        loss_p90=round(p90, DIGITS),
        loss_max=round(float(loss.max()), DIGITS),
        missed=round(float(searches.missed.mean()), DIGITS),
    )


def combine_curves_of_kinds(kinds: Sequence[SampledKind]) -> tuple[SamplingPoint, ...]:
    """Combine the curves of the kinds that fit on a node into one curve. The curve is empty if no kind fits.

    All curves have points for the same percentages. Means are weighted by the number of pods. Maximums and percentiles
    are those of the worst kind.
    """
    measured_kinds = [kind for kind in kinds if kind.curve and kind.fitting]
    pods = [kind.pods for kind in measured_kinds]

    def compute_mean(values: Sequence[float]) -> float:
        """Return the mean of one value per kind, weighted by the number of pods."""
        return round(float(np.average(values, weights=pods)), DIGITS)

    combined = []
    for points in zip(*(kind.curve for kind in measured_kinds), strict=True):
        combined.append(
            SamplingPoint(
                percentage=points[0].percentage,
                enough=max(point.enough for point in points),
                scored=round(compute_mean([point.scored for point in points])),
                examined=compute_mean([point.examined for point in points]),
                examined_most=max(point.examined_most for point in points),
                loss=compute_mean([point.loss for point in points]),
                loss_p50=max(point.loss_p50 for point in points),
                loss_p90=max(point.loss_p90 for point in points),
                loss_max=max(point.loss_max for point in points),
                missed=compute_mean([point.missed for point in points]),
            )
        )
    return tuple(combined)


PINNED_KINDS = frozenset({"DaemonSet", "Node"})
"""Owner kinds whose pods are bound to nodes one by one."""


class RecreatedPodKind(NamedTuple):
    """A pod as its controller would create it again."""

    scheduler: Scheduler
    pod: Pod
    workload: str
    pods: int = 1
    """The number of pods of the workload."""


def build_named_kinds(targets: Iterable[TargetPod]) -> list[RecreatedPodKind]:
    """Return a kind for each pod that was named."""
    return [
        RecreatedPodKind(
            target.scheduler, recreate_pod(target.pod, target.scheduler.cluster), str(find_owner(target.pod))
        )
        for target in targets
    ]


def iter_kinds_of_largest_workloads(
    scheduler: Scheduler, max_kinds: int, namespace: str | None = None
) -> Iterator[tuple[str, list[RecreatedPodKind]]]:
    """Yield "pending" with kinds of pending pods, then "running" with kinds of running pods.

    There is one kind for each of the `max_kinds` largest workloads. If `namespace` is given, only its pods count. Pods
    that no profile serves and pods that run once per node are left out.
    """
    for source, iter_pods in (("pending", _iter_distinct_pending_pods), ("running", _iter_distinct_running_pods)):
        counted_pods = [
            (pod, count) for pod, count in iter_pods(scheduler) if namespace in (None, pod.metadata.namespace)
        ]
        yield source, _choose_largest_workloads(scheduler, counted_pods, max_kinds)


def _iter_distinct_pending_pods(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """Yield one pod for each PodInfo of pending ungated pods, with the number of pods that share the PodInfo."""
    columns = scheduler.view.pods
    pods_by_info: dict[int, list[Pod]] = {}
    for pod in filter(is_pending, scheduler.cluster.unbound_pods()):
        if pod.spec.scheduling_gates:
            continue
        pods_by_info.setdefault(columns.get_info_number(columns.index[pod.key]), []).append(pod)
    for pods in pods_by_info.values():
        yield pods[0], len(pods)


def _iter_distinct_running_pods(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """Yield one placed pod per distinct PodInfo, with the number of placed pods that share the PodInfo.

    Terminating pods are left out.
    """
    view, pods = scheduler.view, scheduler.view.pods
    bound_positions = np.flatnonzero(view.mask_placed())
    infos, first_places, counts = np.unique(pods.info[bound_positions], return_index=True, return_counts=True)
    first_positions = bound_positions[first_places]
    for info, position, count in zip(infos.tolist(), first_positions.tolist(), counts.tolist(), strict=True):
        if not pods.infos[info].terminating:
            yield pods.objects[position], count


def _choose_largest_workloads(
    scheduler: Scheduler, pods: Iterable[tuple[Pod, int]], max_kinds: int
) -> list[RecreatedPodKind]:
    """Return a kind for each of the `max_kinds` workloads with the most pods. The workload's first pod represents it.

    `pods` are pairs of a pod and the number of equal pods. A pod is left out if no profile serves it, or if its
    controller ties it to one node.
    """
    first_pods: dict[Owner, Pod] = {}
    counts: Counter[Owner] = Counter()
    for pod, count in pods:
        controller = find_controller(pod.metadata)
        is_pinned = controller is not None and controller.kind in PINNED_KINDS
        stored_pod = scheduler.view.build_stored_pod(pod)
        if not is_pinned and stored_pod.spec.scheduler_name in scheduler.configuration.profiles:
            owner = find_owner(pod)
            first_pods.setdefault(owner, stored_pod)
            counts[owner] += count
    largest = sorted(first_pods, key=lambda owner: (-counts[owner], owner))[:max_kinds]
    return [
        RecreatedPodKind(scheduler, recreate_pod(first_pods[owner], scheduler.cluster), str(owner), counts[owner])
        for owner in largest
    ]


VERDICTS_BY_URGENCY = ("raise", "lower", "keep", "idle", "none")
PERCENTAGES = tuple(range(5, 101, 5))
MAX_LOSS = 5.0
WORTHWHILE_GAIN = 0.2
"""A higher percentage is advised if a kind of pods gains at least this share of the points that it may lose."""
WORTHWHILE_SHARE = 0.1
"""A lower percentage is advised if it saves at least this share of the examined nodes."""


class SamplingLimits(NamedTuple):
    """The percentages to try, and the acceptable loss."""

    max_loss: float = MAX_LOSS
    """The score points that no kind of pods may lose on average."""
    percentages: Sequence[int] = PERCENTAGES
    """The percentages that are tried."""


DEFAULT_LIMITS = SamplingLimits()
NAMED = "named"


def compute_sampling_costs_of_largest_workloads(
    scheduler: Scheduler,
    max_kinds: int,
    namespace: str | None = None,
    *,
    limits: SamplingLimits = DEFAULT_LIMITS,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """Return the costs of sampling for pending pods of at most `max_kinds` workloads, the largest ones.

    If no pending pod fits, running pods are used instead. `namespace` limits the pods to one namespace.
    """
    reports = (
        compute_sampling_costs(scheduler, kinds, source, limits=limits, progress=progress)
        for source, kinds in iter_kinds_of_largest_workloads(scheduler, max_kinds, namespace)
    )
    report_on_pending_pods = next(reports)
    does_any_pod_fit = any(profile.curve for profile in report_on_pending_pods.profiles)
    if does_any_pod_fit or report_on_pending_pods.interrupted:
        return report_on_pending_pods
    return next(reports)  # on running pods


def compute_sampling_costs_of_targets(
    scheduler: Scheduler,
    targets: Iterable[TargetPod],
    *,
    limits: SamplingLimits = DEFAULT_LIMITS,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """Return the costs of sampling for the pods that the user named. Pods that are never created are only listed."""
    targets = list(targets)
    not_created = tuple(target.never_created for target in targets if target.never_created is not None)
    kinds = build_named_kinds(target for target in targets if target.never_created is None)
    report = compute_sampling_costs(scheduler, kinds, NAMED, limits=limits, progress=progress)
    if not not_created:
        return report
    headline = report.headline if kinds else f"Not created: {describe_not_created(not_created)}"
    return replace(report, headline=headline, not_created=not_created)


def compute_sampling_costs(
    scheduler: Scheduler,
    kinds: Sequence[RecreatedPodKind],
    source: str,
    *,
    limits: SamplingLimits = DEFAULT_LIMITS,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """Return the costs for one more pod of each kind, by profile. Without kinds only the first profile is reported.

    `source` says where the kinds come from: named, pending or running. If the user interrupts, the report has the kinds
    so far. Raises UsageError if no profile serves a kind, and KeyboardInterrupt if the user interrupts before a kind is
    measured.
    """
    names = dict.fromkeys(kind.pod.spec.scheduler_name for kind in kinds)
    unserved_name = next((name for name in names if name not in scheduler.configuration.profiles), None)
    if unserved_name is not None:
        raise UsageError(
            f'no scheduler profile is named "{unserved_name}"', hint="specify its configuration with --config FILE"
        )

    on_done = progress.begin("Searches", len(kinds) * (len(limits.percentages) + 1))
    # Ordered sets of what was not read and of what is not replayed
    unknown: dict[Unknown, None] = dict.fromkeys(find_unread_dependencies(scheduler.cluster))
    not_replayed: dict[str, None] = {}
    profiles: list[SampledProfile] = []
    interrupted = False
    first_profile = list(scheduler.configuration.profiles)[:1]
    for name in names or first_profile:
        framework = scheduler.find_framework(name)
        assert framework is not None
        not_replayed.update(dict.fromkeys(find_unreplayed_parts(framework)))
        setting = build_sampling_setting(scheduler, framework)

        percentages = sorted({*limits.percentages, setting.effective})
        kinds_of_profile = [kind for kind in kinds if kind.pod.spec.scheduler_name == name]
        measured = _measure_until_interrupted(kinds_of_profile, percentages, on_done)
        unknown.update(measured.unknown)
        interrupted = measured.interrupted
        if interrupted and not measured.kinds:
            break
        curve = combine_curves_of_kinds(measured.kinds)
        profiles.append(
            SampledProfile(
                scheduler_name=name,
                setting=setting,
                advice=build_sampling_advice(setting, measured.kinds, curve, limits.max_loss),
                kinds=tuple(measured.kinds),
                curve=curve,
            )
        )
        if interrupted:
            break
    if interrupted and not profiles:
        raise KeyboardInterrupt

    return SamplingCosts(
        headline=build_sampling_headline(profiles),
        nodes=len(scheduler.view.nodes),
        asked=source,
        profiles=tuple(profiles),
        not_replayed=tuple(not_replayed),
        interrupted=interrupted,
        **build_unknown_fields(summarize_unknowns(unknown, IN_SIMULATIONS)),
    )


class _MeasuredKinds(NamedTuple):
    """The measured kinds of one profile."""

    kinds: list[SampledKind]
    unknown: dict[Unknown, None]
    """The ordered set of what was not read about the kinds."""
    interrupted: bool
    """True if the user interrupted, so that some kinds are missing."""


def _measure_until_interrupted(
    kinds: Iterable[RecreatedPodKind], percentages: Sequence[int], on_done: Done
) -> _MeasuredKinds:
    """Measure what the percentages cost for each of these kinds of one profile, until the user interrupts."""
    sampled_kinds: list[SampledKind] = []
    unknown: dict[Unknown, None] = {}
    try:
        for kind in kinds:
            info = PodInfo(kind.pod, kind.scheduler.view.settings.requests)
            framework, kind_unknowns = kind.scheduler.find_framework_for(info, kind.scheduler.view)
            unknown.update(dict.fromkeys(kind_unknowns))
            assert framework is not None
            sampled_kinds.append(measure_sampling_costs(kind, framework.without_extenders(), percentages, on_done))
    except KeyboardInterrupt:
        return _MeasuredKinds(sampled_kinds, unknown, interrupted=True)
    return _MeasuredKinds(sampled_kinds, unknown, interrupted=False)


def build_sampling_setting(scheduler: Scheduler, framework: Framework) -> SamplingSetting:
    """Build the report on percentageOfNodesToScore: its value in a profile, where it is set, and its effect.

    If it is not set, it adapts to the number of nodes. In a small cluster all nodes are evaluated.
    """
    profile_percentage = framework.profile.percentage_of_nodes_to_score
    if profile_percentage is not None:
        configured, origin = profile_percentage, "profile"
    else:
        configured = scheduler.configuration.percentage_of_nodes_to_score
        origin = "configuration" if configured else "default"

    nodes = len(scheduler.view.nodes)
    percentage = configured or compute_adaptive_percentage(nodes)  # 0 stands for the adaptive percentage
    effective = percentage if nodes >= LEAST_NODES else 100
    searches = SampledFrom(start=0).start_sampling(scheduler.configuration, nodes)
    terms = SearchTerms.from_profile(framework.profile, framework.release)
    return SamplingSetting(
        configured=configured,
        origin=origin,
        nodes=nodes,
        effective=effective,
        enough=searches.count_nodes_needed(nodes, terms),
        scores=terms.scoring or searches.extended,
    )


def build_sampling_advice(
    setting: SamplingSetting, kinds: Sequence[SampledKind], curve: Sequence[SamplingPoint], max_loss: float
) -> SamplingAdvice:
    """Advise on the percentage of nodes to score, with a verdict on the current one.

    The advised percentage is the smallest one from which on no kind loses more than `max_loss`. The verdict is "raise"
    or "lower". It is "keep" if a change would gain or save too little, "idle" if the percentage has no effect, and
    "none" without a curve. `curve` has the mean costs of all `kinds`.
    """
    if not curve:
        return SamplingAdvice(verdict="none", max_loss=max_loss)
    current = next(point for point in curve if point.percentage == setting.effective)
    measured_kinds = [kind for kind in kinds if kind.curve]
    advised = curve[_find_first_acceptable_index([kind.curve for kind in measured_kinds], max_loss)]

    has_effect = any(point.scored != curve[-1].scored for point in curve)
    if not has_effect:
        verdict = "idle"
    elif advised.percentage > current.percentage:
        largest_gain = max(
            _get_loss(kind, current.percentage) - _get_loss(kind, advised.percentage) for kind in measured_kinds
        )
        verdict = "raise" if largest_gain >= max_loss * WORTHWHILE_GAIN else "keep"
    else:
        saves_enough = advised.examined <= current.examined * (1 - WORTHWHILE_SHARE)
        verdict = "lower" if saves_enough else "keep"
    return SamplingAdvice(verdict=verdict, max_loss=max_loss, percentage=advised.percentage, now=current, then=advised)


def _find_first_acceptable_index(kind_curves: Sequence[Sequence[SamplingPoint]], max_loss: float) -> int:
    """Return the index in the curves of the smallest percentage from which on no kind loses more than `max_loss`.

    The curves have the same percentages, in ascending order. There is always such an index, since 100% loses nothing.
    """
    points_by_percentage = list(zip(*kind_curves, strict=True))
    unacceptable = [
        index for index, points in enumerate(points_by_percentage) if any(point.loss > max_loss for point in points)
    ]
    return unacceptable[-1] + 1 if unacceptable else 0


def _get_loss(kind: SampledKind, percentage: int) -> float:
    """Return the mean loss of a measured kind of pods at a percentage of its curve."""
    return next(point.loss for point in kind.curve if point.percentage == percentage)


def build_sampling_headline(profiles: Sequence[SampledProfile]) -> str:
    """Return the advice for the profile that needs it most urgently, as one line.

    If there are several profiles, the line begins with the name of this one.
    """
    most_urgent = min(profiles, key=lambda profile: VERDICTS_BY_URGENCY.index(profile.advice.verdict))
    advice_text = _describe_advice(most_urgent)
    if len(profiles) == 1:
        return advice_text
    return f"{most_urgent.scheduler_name}: {advice_text[:1].lower() + advice_text[1:]}"


def _describe_advice(profile: SampledProfile) -> str:
    """Return the advice for a profile in one line, or why no advice is possible or needed."""
    setting, advice = profile.setting, profile.advice
    current, advised = advice.now, advice.then
    if not setting.scores:
        return "kube-scheduler takes the first node that fits: no plugin scores nodes"
    is_small_cluster = setting.nodes < LEAST_NODES
    if is_small_cluster or advice.verdict == "idle":
        if is_small_cluster:
            why = f"percentageOfNodesToScore has no effect below {LEAST_NODES} nodes"
        else:
            why = "so few nodes fit that percentageOfNodesToScore has no effect"
        return f"All nodes are evaluated: {why}"
    if current is None or advised is None:
        percentage = _format_current_percentage(setting)
        return f"percentageOfNodesToScore is {percentage}; its cost cannot be measured because no pod fits"
    current_loss = f"costs {current.loss:.1f} points per pod"
    if advice.verdict == "keep":
        gain = _describe_small_gain(profile.kinds, current, advised)
        return f"Keep percentageOfNodesToScore, {_format_current_percentage(setting)}: it {current_loss}{gain}"
    if advice.verdict == "raise":
        worst_loss = _describe_worst_loss(profile.kinds, current)
        excess = f"on average, more than the {advice.max_loss:g} allowed"
        reason = f"at {_format_current_percentage(setting)}, {worst_loss} {excess}"
        return f"Raise percentageOfNodesToScore to {advised.percentage}: {reason}"
    evaluated_text = f"{advised.examined:,.0f} nodes per pod instead of {current.examined:,.0f}"
    return f"Lower percentageOfNodesToScore to {advised.percentage}: {evaluated_text}; {advised.loss:.1f} points lost"


def _find_worst_kind(kinds: Iterable[SampledKind], current: SamplingPoint) -> SampledKind:
    """Return the kind of pods that loses most at the current percentage."""
    return max((kind for kind in kinds if kind.curve), key=lambda kind: _get_loss(kind, current.percentage))


def _describe_worst_loss(kinds: Iterable[SampledKind], current: SamplingPoint) -> str:
    """Describe how much of their score the pods of the worst kind lose at the current percentage."""
    kind = _find_worst_kind(kinds, current)
    loss = _get_loss(kind, current.percentage)
    share = format_percentage(loss / max(kind.best, 1))
    return f"pods of {kind.workload} lose {loss:.1f} of {kind.best} score points ({share})"


def _describe_small_gain(kinds: Iterable[SampledKind], current: SamplingPoint, advised: SamplingPoint) -> str:
    """Describe how little a higher percentage gains for the kind that loses most.

    Return "" if the advised percentage is not higher than the current one.
    """
    if advised.percentage <= current.percentage:
        return ""
    kind = _find_worst_kind(kinds, current)
    gain = _get_loss(kind, current.percentage) - _get_loss(kind, advised.percentage)
    return (
        f"; {advised.percentage}% would gain {kind.workload}, which loses most, only {gain:.1f} of {kind.best} points"
    )


def _format_current_percentage(setting: SamplingSetting) -> str:
    """Return the current percentage as text."""
    return f"{setting.effective}%" if setting.configured else f"adaptive ({setting.effective}%)"
