"""Every pending pod explained on its own, and those that wait for the same reasons put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kschedctl.api.objects import Pod
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.explanations import FINE
from kschedctl.reports.pending import PendingGroup, PendingPods
from kschedctl.reports.unknown import UnknownKind, undecided
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.explain import as_events, explain_pod
from kschedctl.studies.unknown import VERDICT, together

"""The verdicts of pods that have a node or would get one."""


def pending_pods(scheduler: Scheduler, pods: Iterable[Pod], scope: str, command: Callable[[str], str]) -> PendingPods:
    """The pods by cause, those that do not schedule first.

    ``scope`` says where was looked; ``command`` gives the command that explains a ``namespace/name``.
    """
    found = explain_all(scheduler, pods)
    not_replayed = dict.fromkeys(what for report in found.values() for what in report.not_replayed)
    unknown = together((*(report.unknown for report in found.values()), _of_nothing(scheduler)))
    certain = any(report.verdict not in FINE and not report.undecided for report in found.values())
    return PendingPods(
        scope=scope,
        groups=_groups(found, command),
        not_replayed=tuple(not_replayed),
        unknown=unknown,
        undecided=undecided(unknown) and not certain,
    )


def _of_nothing(scheduler: Scheduler) -> tuple[UnknownKind, ...]:
    """That there are no other pending pods leans on having read all pods."""
    gap = scheduler.cluster.gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def explain_all(scheduler: Scheduler, pods: Iterable[Pod]) -> dict[str, Explanation]:
    """Explanation by ``namespace/name``; pods alike in all that scheduling reads share one, as a Deployment's are."""
    columns = scheduler.view.pods
    shared: dict[tuple[int, str], Explanation] = {}
    found = {}
    for pod in pods:
        kind = (int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name)
        if kind not in shared:
            shared[kind] = as_events(explain_pod(scheduler, scheduler.view.stored(pod)))
        found[pod.key] = shared[kind]
    return found


def _groups(found: Mapping[str, Explanation], command: Callable[[str], str]) -> tuple[PendingGroup, ...]:
    alike: dict[object, list[str]] = {}
    for key, report in found.items():
        alike.setdefault(_cause(report), []).append(key)
    made = [_group(tuple(pods), found[pods[0]], command) for pods in alike.values()]
    return tuple(sorted(made, key=lambda group: (group.verdict == "Schedulable", -len(group.pods))))


def _group(pods: tuple[str, ...], first: Explanation, command: Callable[[str], str]) -> PendingGroup:
    return PendingGroup(first.verdict, _words(first), first.message, pods, command(pods[0]))


def _cause(report: Explanation) -> object:
    """What two pods must share to be one group: the reasons, whatever the number of nodes; else the whole answer."""
    if report.verdict == "Schedulable":
        return report.verdict
    return report.verdict, frozenset((e.plugin, e.reason) for e in report.eliminations) or report.headline


def _words(report: Explanation) -> str:
    """The cause in a line: the reasons, those first that alone keep the most nodes from fitting."""
    if report.verdict == "Schedulable":
        return "a node fits now, for each by itself"
    telling = sorted(report.eliminations, key=lambda e: (-e.only, -e.nodes))
    if report.verdict != "Unschedulable" or not telling:
        return report.headline
    return ", ".join(f"{e.nodes:,} {e.reason}" for e in telling)
