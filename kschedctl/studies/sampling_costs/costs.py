"""What percentageOfNodesToScore costs and saves here, and which one is enough."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.errors import UsageError
from kschedctl.reports.audit.sampling import (
    SampledKind,
    SampledProfile,
    SamplingAdvice,
    SamplingCosts,
    SamplingPoint,
    SamplingSetting,
)
from kschedctl.scheduler.engine.sampling import LEAST_NODES, SampledFrom, Terms, adaptive_percentage
from kschedctl.scheduler.framework.leaning import Unknown
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.explain import not_replayed
from kschedctl.studies.parallel import UNSEEN, Progress
from kschedctl.studies.sampling_costs.curve import Done, measured, together
from kschedctl.studies.sampling_costs.kinds import PodKind, usual_kinds
from kschedctl.studies.unknown import IN_SIMULATIONS, of_cluster, unknown_kinds, unread

PERCENTAGES = tuple(range(5, 101, 5))
MAX_LOSS = 5.0
WORTH = 0.1
"""A lower percentage is advised where it leaves out this share of the nodes that are looked at."""


class SamplingLimits(NamedTuple):
    """``max_loss``: the points that no kind of pods should lose on average; ``percentages``: those that are tried."""

    max_loss: float = MAX_LOSS
    percentages: Sequence[int] = PERCENTAGES


USUAL = SamplingLimits()


def usual_costs(
    scheduler: Scheduler,
    most: int,
    namespace: str | None = None,
    *,
    limits: SamplingLimits = USUAL,
    progress: Progress = UNSEEN,
) -> SamplingCosts:
    """Of the pods that wait, of so many workloads; of those that run where none of these fits on a node."""
    for asked, kinds in usual_kinds(scheduler, most, namespace):
        report = sampling_costs(scheduler, kinds, asked, limits=limits, progress=progress)
        if any(profile.curve for profile in report.profiles):
            break
    return report


def sampling_costs(
    scheduler: Scheduler,
    kinds: Sequence[PodKind],
    asked: str,
    *,
    limits: SamplingLimits = USUAL,
    progress: Progress = UNSEEN,
) -> SamplingCosts:
    """Of one more pod of each kind; ``asked`` says whose pods these are.

    Raises UsageError for a pod that no profile serves.
    """
    names = dict.fromkeys(kind.pod.spec.scheduler_name for kind in kinds)
    for name in names.keys() - scheduler.configuration.profiles.keys():
        raise UsageError(f'no profile serves scheduler name "{name}"', hint="--config FILE has its configuration")
    done = progress.begin("Searches", len(kinds) * (len(limits.percentages) + 1))
    unknown: dict[Unknown, None] = dict.fromkeys(of_cluster(scheduler.cluster))
    missing: dict[str, None] = {}
    profiles = []
    for name in names or dict.fromkeys(list(scheduler.configuration.profiles)[:1]):
        mine = [kind for kind in kinds if kind.pod.spec.scheduler_name == name]
        framework = scheduler.framework(name)
        assert framework is not None
        missing.update(dict.fromkeys(not_replayed(scheduler, framework)))
        setting = setting_of(scheduler, framework)
        found = [_measured(kind, sorted({*limits.percentages, setting.effective}), done, unknown) for kind in mine]
        profiles.append(_profile(name, setting, found, limits.max_loss))
    return SamplingCosts(
        headline=headline(profiles),
        nodes=len(scheduler.view.nodes),
        asked=asked,
        profiles=tuple(profiles),
        not_replayed=tuple(missing),
        **unread(unknown_kinds(unknown, IN_SIMULATIONS)),
    )


def _measured(kind: PodKind, percentages: Sequence[int], done: Done, unknown: dict[Unknown, None]) -> SampledKind:
    info = PodInfo(kind.pod, kind.scheduler.view.settings.requests)
    framework, leans = kind.scheduler.framework_for(info, kind.scheduler.view)
    unknown.update(dict.fromkeys(leans))
    assert framework is not None
    return measured(kind, framework.unasked(), percentages, done)


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
        SampledFrom(0).begin(scheduler.configuration, nodes),
        Terms.of(framework.profile, framework.release),
    )
    return SamplingSetting(
        configured=configured,
        origin=origin,
        nodes=nodes,
        effective=effective,
        enough=searches.wanted(nodes, terms),
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
    told = _told(ranked[0])
    return told if len(profiles) == 1 else f"{ranked[0].scheduler_name}: {told[:1].lower() + told[1:]}"


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
