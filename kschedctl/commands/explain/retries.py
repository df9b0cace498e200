"""When a pod that fits now is tried again: the answer of ``audit``, for ``explain``."""

from __future__ import annotations

from msgspec.structs import replace

from kschedctl.commands.explain.replayed_cluster import ReplayedCluster
from kschedctl.commands.explain.report import Advice, Explanation
from kschedctl.commands.explain.waiting import (
    CROWDED,
    LOOK_AT_SCHEDULER,
    WaitingPod,
    is_left_alone,
    untried_seconds,
    waiting_pods,
)
from kschedctl.scheduler.scheduler import Scheduler

ABOUT_RETRIES = frozenset({"AwaitRetry", "CheckScheduler"})
"""The kinds of advice that say when a pod that fits is tried again, without looking at the other pods or the time."""


def with_audited_retries(report: Explanation, scheduler: Scheduler, now: str) -> Explanation:
    """Replace the advice on a pod that fits by what the audit finds at the time ``now`` (RFC 3339, empty if unknown).

    The report stays as it is if the audit does not contradict it.
    """
    if scheduler.call_extender is not None:  # which the replay of all pending pods would call once more
        return report
    if report.verdict != "Schedulable" or not any(advice.kind in ABOUT_RETRIES for advice in report.advice):
        return report
    audited = ReplayedCluster(scheduler, now)
    waiting = next((pod for pod in audited.once(waiting_pods) if pod.pod.key == report.pod), None)
    found = waiting and _find_advice(waiting, audited)
    if not found:
        return report
    others = (advice for advice in report.advice if advice.kind not in ABOUT_RETRIES)
    return replace(report, advice=(found, *others))


def _find_advice(waiting: WaitingPod, audited: ReplayedCluster) -> Advice | None:
    """Return what to do about a pod that has no turn or gets no room; None for a pod that only waits for its turn."""
    if waiting.cause == "crowded":
        return Advice("AwaitRoom", f"It {CROWDED}: it waits until there is room for all of them")
    seconds = untried_seconds(waiting.pod, audited)
    if waiting.cause == "stuck" and seconds is not None and is_left_alone(waiting, audited):
        text = f"It fits now, but was not tried for {seconds / 60:.0f} min, though refused pods are tried after 5 min"
        return Advice("CheckScheduler", f"{text}. {LOOK_AT_SCHEDULER}")
    return None
