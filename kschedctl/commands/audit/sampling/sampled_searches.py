"""What percentageOfNodesToScore costs and saves here, and which one is enough."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.api.ownership import Owner, find_controller, find_owner
from kschedctl.api.workloads import made_again
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
from kschedctl.replay.controllers.workload_pods import is_pending
from kschedctl.replay.parallel import NO_PROGRESS, Progress
from kschedctl.replay.unknown import (
    IN_SIMULATIONS,
    find_unread_dependencies,
    find_unreplayed_parts,
    summarize_unknowns,
    unknown_fields,
)
from kschedctl.reports.not_created import describe_not_created
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle, run_cycle
from kschedctl.scheduler.engine.sampling import LEAST_NODES, SampledFrom, SearchTerms, adaptive_percentage
from kschedctl.scheduler.engine.start_indexes.searches import EveryStart, Searches
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.dependencies import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo

Done = Callable[[int], None]
DIGITS = 4


def measured(kind: PodKind, framework: Framework, percentages: Sequence[int], done: Done) -> SampledKind:
    """The curve of one more pod of the kind, from every index at which the search for its node may begin."""
    kind_report = SampledKind(workload=kind.workload, pod=kind.pod.key, pods=kind.pods)
    view = kind.scheduler.view
    cycle = run_cycle(framework, PodInfo(kind.pod, view.settings.requests), view)
    if why := _unmeasurable(cycle):
        done(len(percentages))
        return replace(kind_report, unmeasured=why)
    starts, totals = EveryStart(cycle), cycle.scores.total
    kind_report = replace(kind_report, offered=starts.offered, fitting=len(starts.places))
    if len(starts.places):
        kind_report = replace(kind_report, best=int(totals.max()), worst=int(totals.min()))
    curve = []
    try:
        for percentage in percentages:
            curve.append(_point(percentage, starts, kind.scheduler, framework))
            done(1)
    except PluginError as error:
        return replace(kind_report, unmeasured=str(error))
    return replace(kind_report, curve=tuple(curve))


def _unmeasurable(cycle: Cycle) -> str:
    if cycle.error is not None:
        return cycle.error
    if not len(cycle.view.nodes):
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        return ", ".join(cycle.pre_filter.status.reasons)
    return ""


def _point(percentage: int, starts: EveryStart, scheduler: Scheduler, framework: Framework) -> SamplingPoint:
    terms = SearchTerms.from_profile(framework.profile, framework.release)._replace(percentage=percentage)
    enough = (
        SampledFrom(0).start_sampling(scheduler.configuration, starts.offered).feasible_needed(starts.offered, terms)
    )
    return point_of(percentage, enough, starts.search_for(enough))


def point_of(percentage: int, enough: int, searches: Searches) -> SamplingPoint:
    """The figures over all starts; percentiles are losses that occur."""
    loss = searches.expected_loss
    half, most = np.percentile(loss, (50, 90), method="inverted_cdf").tolist()
    return SamplingPoint(
        percentage=percentage,
        enough=enough,
        scored=searches.scored,
        examined=round(float(searches.examined.mean()), DIGITS),
        examined_most=int(searches.examined.max()),
        loss=round(float(loss.mean()), DIGITS),
        loss_p50=round(half, DIGITS),
        loss_p90=round(most, DIGITS),
        loss_max=round(float(loss.max()), DIGITS),
        missed=round(float(searches.missed.mean()), DIGITS),
    )


def together(kinds: Sequence[SampledKind]) -> tuple[SamplingPoint, ...]:
    """Averages weighted by pods, the rest of the kind that is worst off; of the kinds that fit somewhere."""
    known = [kind for kind in kinds if kind.curve and kind.fitting]
    pods = [kind.pods for kind in known]

    def mean(values: Sequence[float]) -> float:
        return round(float(np.average(values, weights=pods)), DIGITS)

    groups = []
    for points in zip(*(kind.curve for kind in known), strict=True):
        groups.append(
            SamplingPoint(
                percentage=points[0].percentage,
                enough=max(point.enough for point in points),
                scored=round(mean([point.scored for point in points])),
                examined=mean([point.examined for point in points]),
                examined_most=max(point.examined_most for point in points),
                loss=mean([point.loss for point in points]),
                loss_p50=max(point.loss_p50 for point in points),
                loss_p90=max(point.loss_p90 for point in points),
                loss_max=max(point.loss_max for point in points),
                missed=mean([point.missed for point in points]),
            )
        )
    return tuple(groups)


PINNED = frozenset({"DaemonSet", "Node"})
"""Whose pods are each for one node."""


class PodKind(NamedTuple):
    """A pod as its controller would make it once more, and how many pods its workload has."""

    scheduler: Scheduler
    pod: Pod
    workload: str
    pods: int = 1


def named_kinds(asked: Iterable[TargetPod]) -> list[PodKind]:
    """The kinds of pods that are asked about, or that stand for workloads."""
    return [
        PodKind(asked_pod.scheduler, made_again(asked_pod.pod), str(find_owner(asked_pod.pod))) for asked_pod in asked
    ]


def usual_kinds(scheduler: Scheduler, most: int, namespace: str | None = None) -> Iterator[tuple[str, list[PodKind]]]:
    """``pending``, then ``running``, and the most frequent kinds of these pods, one of each workload.

    Of pods that a profile serves, and that are not each for a node of its own.
    """
    for asked, pods in (("pending", _waiting), ("running", _running)):
        mine = ((pod, count) for pod, count in pods(scheduler) if namespace in (None, pod.metadata.namespace))
        yield asked, _by_workload(scheduler, mine, most)


def _waiting(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """One pod of each info, and how many wait that are not gated; pods alike share an info."""
    columns = scheduler.view.pods
    alike: dict[int, list[Pod]] = {}
    for pod in filter(is_pending, scheduler.cluster.unbound_pods()):
        if pod.spec.scheduling_gates:
            continue
        alike.setdefault(int(columns.info[columns.index[pod.key]]), []).append(pod)
    return ((pods[0], len(pods)) for pods in alike.values())


def _running(scheduler: Scheduler) -> Iterator[tuple[Pod, int]]:
    """One pod of each info that has pods on nodes, and how many do."""
    columns, view = scheduler.view.pods, scheduler.view
    placed = columns.info[view.node >= 0]
    numbers, first, counts = np.unique(placed, return_index=True, return_counts=True)
    positions = np.flatnonzero(view.node >= 0)[first]
    for number, position, count in zip(numbers.tolist(), positions.tolist(), counts.tolist(), strict=True):
        if not columns.infos[number].terminating:
            yield columns.objects[position], count


def _by_workload(scheduler: Scheduler, pods: Iterable[tuple[Pod, int]], most: int) -> list[PodKind]:
    firsts: dict[Owner, Pod] = {}
    counts: dict[Owner, int] = {}
    for pod, count in pods:
        controller = find_controller(pod.metadata)
        pinned = controller is not None and controller.kind in PINNED
        stored = scheduler.view.stored(pod)
        if not pinned and stored.spec.scheduler_name in scheduler.configuration.profiles:
            owner = find_owner(pod)
            firsts.setdefault(owner, stored)
            counts[owner] = counts.get(owner, 0) + count
    chosen = sorted(firsts, key=lambda owner: (-counts[owner], owner))[:most]
    return [PodKind(scheduler, made_again(firsts[owner]), str(owner), counts[owner]) for owner in chosen]


PERCENTAGES = tuple(range(5, 101, 5))
MAX_LOSS = 5.0
WORTH = 0.1
"""A lower percentage is advised where it leaves out this share of the nodes that are looked at."""


class SamplingLimits(NamedTuple):
    """``max_loss``: the points that no kind of pods should lose on average; ``percentages``: those that are tried."""

    max_loss: float = MAX_LOSS
    percentages: Sequence[int] = PERCENTAGES


USUAL = SamplingLimits()
NAMED = "named"


def usual_costs(
    scheduler: Scheduler,
    most: int,
    namespace: str | None = None,
    *,
    limits: SamplingLimits = USUAL,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """What sampling costs waiting pods of so many workloads; pods that run where none of these fits on a node."""
    for asked, kinds in usual_kinds(scheduler, most, namespace):
        report = sampling_costs(scheduler, kinds, asked, limits=limits, progress=progress)
        if any(profile.curve for profile in report.profiles):
            break
    return report


def costs_of_named(
    scheduler: Scheduler,
    asked: Iterable[TargetPod],
    *,
    limits: SamplingLimits = USUAL,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """What sampling costs the pods that are asked about; those that are never created cost nothing."""
    asked = list(asked)
    lacking = tuple(found for asked_pod in asked if (found := asked_pod.never_created))
    kinds = named_kinds(asked_pod for asked_pod in asked if asked_pod.never_created is None)
    report = sampling_costs(scheduler, kinds, NAMED, limits=limits, progress=progress)
    if not lacking:
        return report
    headline = report.headline if kinds else f"Not created: {describe_not_created(lacking)}"
    return replace(report, headline=headline, not_created=lacking)


def sampling_costs(
    scheduler: Scheduler,
    kinds: Sequence[PodKind],
    asked: str,
    *,
    limits: SamplingLimits = USUAL,
    progress: Progress = NO_PROGRESS,
) -> SamplingCosts:
    """What sampling costs one more pod of each kind; ``asked`` says whose pods these are.

    Raises UsageError for a pod that no profile serves.
    """
    names = dict.fromkeys(kind.pod.spec.scheduler_name for kind in kinds)
    for name in names.keys() - scheduler.configuration.profiles.keys():
        raise UsageError(f'no profile serves scheduler name "{name}"', hint="--config FILE has its configuration")
    done = progress.begin("Searches", len(kinds) * (len(limits.percentages) + 1))
    unknown: dict[Unknown, None] = dict.fromkeys(find_unread_dependencies(scheduler.cluster))
    missing: dict[str, None] = {}
    profiles = []
    for name in names or dict.fromkeys(list(scheduler.configuration.profiles)[:1]):
        mine = [kind for kind in kinds if kind.pod.spec.scheduler_name == name]
        framework = scheduler.framework(name)
        assert framework is not None
        missing.update(dict.fromkeys(find_unreplayed_parts(framework)))
        setting = setting_of(scheduler, framework)
        measures = [_measured(kind, sorted({*limits.percentages, setting.effective}), done, unknown) for kind in mine]
        profiles.append(_profile(name, setting, measures, limits.max_loss))
    return SamplingCosts(
        headline=headline(profiles),
        nodes=len(scheduler.view.nodes),
        asked=asked,
        profiles=tuple(profiles),
        not_replayed=tuple(missing),
        **unknown_fields(summarize_unknowns(unknown, IN_SIMULATIONS)),
    )


def _measured(kind: PodKind, percentages: Sequence[int], done: Done, unknown: dict[Unknown, None]) -> SampledKind:
    info = PodInfo(kind.pod, kind.scheduler.view.settings.requests)
    framework, unknowns = kind.scheduler.framework_for(info, kind.scheduler.view)
    unknown.update(dict.fromkeys(unknowns))
    assert framework is not None
    return measured(kind, framework.without_extenders(), percentages, done)


def _profile(name: str, setting: SamplingSetting, kinds: Sequence[SampledKind], max_loss: float) -> SampledProfile:
    curve = together(kinds)
    advice = advice_on(setting, kinds, curve, max_loss)
    return SampledProfile(scheduler_name=name, setting=setting, advice=advice, kinds=tuple(kinds), curve=curve)


def setting_of(scheduler: Scheduler, framework: Framework) -> SamplingSetting:
    """What is set, and what it comes to for the nodes of the cluster."""
    own, common = framework.profile.percentage_of_nodes_to_score, scheduler.configuration.percentage_of_nodes_to_score
    configured = common if own is None else own
    origin = ("configuration" if common else "default") if own is None else "profile"
    nodes = len(scheduler.view.nodes)
    adapted = configured or adaptive_percentage(nodes)
    effective = adapted if nodes >= LEAST_NODES else 100
    searches, terms = (
        SampledFrom(0).start_sampling(scheduler.configuration, nodes),
        SearchTerms.from_profile(framework.profile, framework.release),
    )
    return SamplingSetting(
        configured=configured,
        origin=origin,
        nodes=nodes,
        effective=effective,
        enough=searches.feasible_needed(nodes, terms),
        scores=terms.scoring or searches.extended,
    )


def advice_on(
    setting: SamplingSetting, kinds: Sequence[SampledKind], curve: Sequence[SamplingPoint], max_loss: float
) -> SamplingAdvice:
    """The smallest percentage from which on no kind loses too much, where it differs enough from what is set."""
    if not curve:
        return SamplingAdvice(verdict="none", max_loss=max_loss)
    now = next(point for point in curve if point.percentage == setting.effective)
    known = [kind.curve for kind in kinds if kind.curve]
    bad = [i for i in range(len(curve)) if any(points[i].loss > max_loss for points in known)]
    then = curve[bad[-1] + 1 if bad else 0]
    if all(point.scored == curve[-1].scored for point in curve):
        verdict = "idle"
    elif then.percentage > now.percentage:
        verdict = "raise"
    else:
        verdict = "lower" if then.examined <= now.examined * (1 - WORTH) else "keep"
    return SamplingAdvice(verdict=verdict, max_loss=max_loss, percentage=then.percentage, now=now, then=then)


def headline(profiles: Sequence[SampledProfile]) -> str:
    """What to do, in a line; of several profiles the first of which something has to be said."""
    ranked = sorted(
        profiles, key=lambda profile: ("raise", "lower", "keep", "idle", "none").index(profile.advice.verdict)
    )
    words = _told(ranked[0])
    return words if len(profiles) == 1 else f"{ranked[0].scheduler_name}: {words[:1].lower() + words[1:]}"


def _told(profile: SampledProfile) -> str:
    setting, advice = profile.setting, profile.advice
    now, then = advice.now, advice.then
    if not setting.scores:
        return "The first node that fits is taken: no plugin scores nodes"
    if advice.verdict == "idle" or setting.nodes < LEAST_NODES:
        few = f"there are fewer than {LEAST_NODES}" if setting.nodes < LEAST_NODES else "too few fit"
        return f"All nodes are looked at, whatever is set: {few}"
    if now is None or then is None:
        return f"percentageOfNodesToScore is {_set(setting)}; no pod fits to tell its cost by"
    if advice.verdict == "keep":
        return f"Keep percentageOfNodesToScore, {_set(setting)}: it loses {now.loss:.1f} points a pod"
    if advice.verdict == "raise":
        return f"Raise percentageOfNodesToScore to {then.percentage}: {_set(setting)} loses {now.loss:.1f} points a pod"
    looks = f"{then.examined:,.0f} nodes a pod, not {now.examined:,.0f}"
    return f"Lower percentageOfNodesToScore to {then.percentage}: {looks}; {then.loss:.1f} points lost"


def _set(setting: SamplingSetting) -> str:
    return f"{setting.effective} %" if setting.configured else f"adaptive ({setting.effective} %)"
