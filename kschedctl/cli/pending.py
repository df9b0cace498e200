"""Every pending pod explained on its own, and those that wait for the same reasons put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kschedctl.api.objects import Pod
from kschedctl.cli.program import command_line
from kschedctl.render.pending import PendingGroup
from kschedctl.reports.explanation import Explanation
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import explain_pod


def explain_all(scheduler: Scheduler, pods: Iterable[Pod]) -> dict[str, Explanation]:
    """Explanation by ``namespace/name``; pods alike in all that scheduling reads share one, as a Deployment's are."""
    columns = scheduler.view.pods
    shared: dict[tuple[int, str], Explanation] = {}
    found = {}
    for pod in pods:
        kind = (int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name)
        if kind not in shared:
            shared[kind] = explain_pod(scheduler, scheduler.view.stored(pod))
        found[pod.key] = shared[kind]
    return found


def groups(found: Mapping[str, Explanation], arguments: list[str]) -> tuple[PendingGroup, ...]:
    """The pods by cause, the largest group first; ``arguments`` name the same cluster in the next command."""
    alike: dict[object, list[str]] = {}
    for key, report in found.items():
        alike.setdefault(_cause(report), []).append(key)
    by_size = sorted(alike.values(), key=len, reverse=True)
    return tuple(
        PendingGroup(
            verdict=found[pods[0]].verdict,
            cause=found[pods[0]].message or found[pods[0]].headline,
            pods=tuple(pods),
            next=command_line("explain", pods[0], arguments),
        )
        for pods in by_size
    )


def _cause(report: Explanation) -> object:
    """What two pods must share to be one group: the reasons, whatever the number of nodes; else the whole answer."""
    reasons = frozenset((e.plugin, e.reason) for e in report.eliminations)
    return report.verdict, reasons or report.message or report.headline
