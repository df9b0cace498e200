"""What each percentage comes to for one kind of pods, and for several together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec.structs import replace

from kschedctl.reports.audit.sampling import SampledKind, SamplingPoint
from kschedctl.scheduler.engine.cycle import NO_NODES, Cycle, run_cycle
from kschedctl.scheduler.engine.sampling import SampledFrom, Terms
from kschedctl.scheduler.engine.start_indexes.searches import EveryStart, Searches
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.scheduler import Framework, Scheduler
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.studies.sampling_costs.kinds import PodKind

Done = Callable[[int], None]
DIGITS = 4


def measured(kind: PodKind, framework: Framework, percentages: Sequence[int], done: Done) -> SampledKind:
    """The curve of one more pod of the kind, from every index at which the search for its node may begin."""
    told = SampledKind(workload=kind.workload, pod=kind.pod.key, pods=kind.pods)
    view = kind.scheduler.view
    cycle = run_cycle(framework, PodInfo(kind.pod, view.settings.requests), view)
    if why := _unmeasurable(cycle):
        done(len(percentages))
        return replace(told, unmeasured=why)
    starts, totals = EveryStart(cycle), cycle.scores.total
    told = replace(told, offered=starts.offered, fitting=len(starts.places))
    if len(starts.places):
        told = replace(told, best=int(totals.max()), worst=int(totals.min()))
    curve = []
    try:
        for percentage in percentages:
            curve.append(_point(percentage, starts, kind.scheduler, framework))
            done(1)
    except PluginError as error:
        return replace(told, unmeasured=str(error))
    return replace(told, curve=tuple(curve))


def _unmeasurable(cycle: Cycle) -> str:
    if cycle.error is not None:
        return cycle.error
    if not len(cycle.view.nodes):
        return NO_NODES
    if cycle.pre_filter.status.rejected:
        return ", ".join(cycle.pre_filter.status.reasons)
    return ""


def _point(percentage: int, starts: EveryStart, scheduler: Scheduler, framework: Framework) -> SamplingPoint:
    terms = Terms.of(framework.profile, framework.release)._replace(percentage=percentage)
    enough = SampledFrom(0).begin(scheduler.configuration, starts.offered).wanted(starts.offered, terms)
    return point_of(percentage, enough, starts.enough(enough))


def point_of(percentage: int, enough: int, searches: Searches) -> SamplingPoint:
    """The figures over all starts; percentiles are losses that occur."""
    loss = searches.expected_loss
    half, most = np.percentile(loss, (50, 90), method="inverted_cdf").tolist()
    return SamplingPoint(
        percentage=percentage,
        enough=enough,
        scored=searches.found,
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

    found = []
    for points in zip(*(kind.curve for kind in known), strict=True):
        found.append(
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
    return tuple(found)
