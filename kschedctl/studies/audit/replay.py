"""Pending pods replayed, each on its own, those alike together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import as_events, explain_pod
from kschedctl.studies.parallel import Progress


class ReplayedPods(NamedTuple):
    """Pods that are alike in all that scheduling reads, and what kube-scheduler says of each of them."""

    pods: tuple[Pod, ...]
    explanation: Explanation


def replayed(scheduler: Scheduler, pods: Sequence[Pod], progress: Progress) -> tuple[ReplayedPods, ...]:
    """The pods of the cluster by what they share, in the order of the first of each."""
    columns = scheduler.view.pods
    alike: dict[tuple[int, str], list[Pod]] = {}
    for pod in pods:
        key = int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name
        alike.setdefault(key, []).append(pod)
    done, found = progress.begin("Replaying pending pods", len(pods)), []
    for same in alike.values():
        explanation = as_events(explain_pod(scheduler, scheduler.view.stored(same[0]), nodes=False))
        found.append(ReplayedPods(tuple(same), explanation))
        done(len(same))
    return tuple(found)
