"""Find out which other waiting pods take the room that preemption is making for a pod.

The waiting pods pass the queue of a cluster without the terminating victims. kube-scheduler reserves the nominated node
only against pods of lower priority.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from kschedctl.api.objects import Pod
from kschedctl.commands.explain.cycle_report import build_full_headline
from kschedctl.commands.explain.headline import describe_rivals_for_node
from kschedctl.commands.explain.report import Explanation
from kschedctl.fixes.queue_replay import replay_queue_without_fix, replay_queue_without_pods
from kschedctl.scheduler.scheduler import Scheduler

MAX_REPLAYS = 10
"""The number of sets of victims that are removed one at a time. If there are more, all victims are removed at once."""


def is_preemption_under_way(report: Explanation) -> bool:
    """Return whether the explained pod waits for victims of its preemption to terminate."""
    return report.preemption is not None and bool(report.preemption.terminating)


def mention_rivals(scheduler: Scheduler, pod: Pod, report: Explanation) -> Explanation:
    """Return the pod's explanation with its rivals: the waiting pods that get the victims' room first.

    The pod may differ from the pod of this name in the cluster. The explanation is returned unchanged in three cases:
    no preemption is under way, the pod gets a node once its victims are gone, or extenders would have to be called for
    all pods.
    """
    return mention_rivals_of_pods(scheduler, [pod], {pod.key: report})[pod.key]


def mention_rivals_of_pods(
    scheduler: Scheduler, pods: Iterable[Pod], explanations: Mapping[str, Explanation]
) -> dict[str, Explanation]:
    """Return the pods' explanations by key, with the rivals of pods for which preemption is under way.

    Pods that share an explanation and have the same rivals share the returned explanation. If extenders are called, no
    rivals are mentioned. Each distinct set of victims is replayed as gone. If there are more than MAX_REPLAYS sets, all
    victims are gone in a single replay.
    """
    updated = dict(explanations)
    waiting_pods = [pod for pod in pods if is_preemption_under_way(explanations[pod.key])]
    if not waiting_pods or (scheduler.call_extender is not None and scheduler.extenders):
        return updated
    victims_by_pod = {pod.key: _get_victims(explanations[pod.key]) for pod in waiting_pods}
    if len(set(victims_by_pod.values())) > MAX_REPLAYS:
        all_victims = frozenset[str]().union(*victims_by_pod.values())
        victims_by_pod = dict.fromkeys(victims_by_pod, all_victims)

    shared_reports: dict[tuple[int, tuple[str, ...]], Explanation] = {}
    for pod in waiting_pods:
        report = explanations[pod.key]
        rivals = _find_rivals(scheduler, pod, report, victims_by_pod[pod.key])
        if rivals:
            identity = id(report), rivals
            if identity not in shared_reports:
                shared_reports[identity] = _add_rivals(scheduler, pod, report, rivals)
            updated[pod.key] = shared_reports[identity]
    return updated


def _get_victims(report: Explanation) -> frozenset[str]:
    """Return the terminating victims of the explained pod."""
    assert report.preemption is not None
    return frozenset(report.preemption.terminating)


def _find_rivals(scheduler: Scheduler, pod: Pod, report: Explanation, victims: frozenset[str]) -> tuple[str, ...]:
    """Return the waiting pods that get the victims' room first, or () if the pod gets a node once the victims are gone.

    The rivals are the pods that get the nominated node. If no pod gets that node, they are the pods that get any node
    only because the victims are gone.
    """
    assert report.preemption is not None
    node_by_pod = replay_queue_without_pods(scheduler, victims, pod).node_by_pod
    if pod.key in node_by_pod:
        return ()
    if on_node := tuple(key for key, node in node_by_pod.items() if node == report.preemption.nominated):
        return on_node
    placed_anyway = replay_queue_without_fix(scheduler).node_by_pod
    return tuple(key for key in node_by_pod if key not in placed_anyway)


def _add_rivals(scheduler: Scheduler, pod: Pod, report: Explanation, rivals: tuple[str, ...]) -> Explanation:
    """Return the explanation with the rivals in its preemption, headline and advice."""
    assert report.preemption is not None
    preemption = replace(report.preemption, rivals=rivals)
    updated = replace(report, preemption=preemption)
    text = f"Free more room for the pod: once the victims are gone, {describe_rivals_for_node(preemption)}"
    return replace(
        updated,
        headline=build_full_headline(updated, pod, scheduler),
        advice=tuple(replace(item, text=text) if item.kind == "AwaitPreemption" else item for item in report.advice),
    )
