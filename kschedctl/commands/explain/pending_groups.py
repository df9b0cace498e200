"""Every pending pod explained on its own, and those that wait for the same reasons put together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.ages import format_age
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.commands.explain.headline import shared_cause
from kschedctl.commands.explain.pending_report import ExplainedPods, PendingGroup, PendingPod, PendingPods
from kschedctl.commands.explain.report import FINE, Explanation
from kschedctl.replay.unknown import VERDICT, merge_unknown_kinds
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.unknown import UnknownKind
from kschedctl.scheduler.scheduler import Scheduler


def pending_pods(
    scheduler: Scheduler,
    pods: Iterable[Pod],
    scope: str,
    now: str = "",
    in_full: int = 0,
    *,
    not_created: Sequence[NotCreated] = (),
) -> PendingPods:
    """The pods by their dominant cause, those that do not schedule first; ``not_created``: what lacks pods besides.

    ``scope`` says where was looked; ``now``: the RFC 3339 time at which ages are taken, empty for none.
    ``in_full``: how many kinds of pods at most are explained to the single node, which takes most of the time.
    """
    pods = list(pods)
    explanations = explain_all(scheduler, pods, in_full)
    not_replayed = dict.fromkeys(what for report in explanations.values() for what in report.not_replayed)
    faults = dict.fromkeys(
        f"{report.pod}: {what}" for report in explanations.values() for what in report.upstream_faults
    )
    nothing = _of_nothing(scheduler)
    unknown = merge_unknown_kinds((*(report.unknown for report in explanations.values()), nothing))
    doubtful = bool(nothing) or any(report.undecided for report in explanations.values())
    certain = any(report.verdict not in FINE and not report.undecided for report in explanations.values())
    return PendingPods(
        scope=scope,
        groups=_groups(pods, explanations, now),
        not_created=tuple(not_created),
        not_replayed=tuple(not_replayed),
        ignored=tuple(dict.fromkeys(what for report in explanations.values() for what in report.ignored)),
        extended=tuple(dict.fromkeys(what for report in explanations.values() for what in report.extended)),
        upstream_faults=tuple(faults),
        unknown=unknown,
        undecided=doubtful and not (certain or not_created),
        explained=_explained(explanations)[:in_full],
    )


def explained_in_full(scheduler: Scheduler, keys: Iterable[str], kinds: int) -> tuple[ExplainedPods, ...]:
    """The pods (``namespace/name``) to the single node, as many ``kinds`` of them at most."""
    if not kinds:
        return ()
    named = (key.partition("/") for key in keys)
    pods = (pod for namespace, _, name in named if (pod := scheduler.cluster.pod(namespace, name)))
    return _explained(explain_all(scheduler, pods, kinds))[:kinds]


def _of_nothing(scheduler: Scheduler) -> tuple[UnknownKind, ...]:
    """What the answer that there are no other pending pods leans on: having read all pods."""
    gap = scheduler.cluster.gap("Pod")
    return (UnknownKind("Pod", gap.why, VERDICT),) if gap else ()


def _explained(explanations: Mapping[str, Explanation]) -> tuple[ExplainedPods, ...]:
    """The explanations with the pods that share them, in the order in which they were made."""
    alike: dict[int, list[str]] = {}
    for key, report in explanations.items():
        alike.setdefault(id(report), []).append(key)
    return tuple(ExplainedPods(tuple(keys), explanations[keys[0]]) for keys in alike.values())


def explain_all(scheduler: Scheduler, pods: Iterable[Pod], in_full: int = 0) -> dict[str, Explanation]:
    """Explanation by ``namespace/name``; pods alike in all that scheduling reads share one, as a Deployment's are.

    The first ``in_full`` of them have single nodes.
    """
    pods = list(pods)
    if not pods:
        return {}
    from kschedctl.commands.explain.attempt import as_events, explain_pod  # noqa: PLC0415 - only where pods are pending

    columns = scheduler.view.pods
    asked = scheduler.call_extender is not None and bool(scheduler.extenders)
    shared: dict[tuple[int, str, str], Explanation] = {}
    explanations = {}
    for pod in pods:
        own = pod.key if asked else ""  # to extenders no two pods are alike
        alike = (int(columns.info[columns.index[pod.key]]), pod.status.nominated_node_name, own)
        if alike not in shared:
            shared[alike] = as_events(explain_pod(scheduler, scheduler.view.stored(pod), nodes=len(shared) < in_full))
        explanations[pod.key] = shared[alike]
    return explanations


def _groups(pods: Iterable[Pod], explanations: Mapping[str, Explanation], now: str) -> tuple[PendingGroup, ...]:
    alike: dict[object, list[Pod]] = {}
    for pod in pods:
        alike.setdefault((explanations[pod.key].verdict, shared_cause(explanations[pod.key])), []).append(pod)
    made = [_group(sorted(same, key=_created), explanations, now) for same in alike.values()]
    return tuple(sorted(made, key=lambda group: (group.verdict in FINE, -len(group.pods))))


def _group(pods: list[Pod], explanations: Mapping[str, Explanation], now: str) -> PendingGroup:
    reports = [explanations[pod.key] for pod in pods]
    messages = {report.message for report in reports}
    members = tuple(_member(pod, explanations[pod.key], now) for pod in pods)
    return PendingGroup(
        verdict=reports[0].verdict,
        cause=shared_cause(reports[0]),
        message=messages.pop() if len(messages) == 1 else None,
        pods=tuple(pod.key for pod in pods),
        age=members[0].age,
        workloads=tuple(dict.fromkeys(member.workload for member in members)),
        members=members,
    )


def _created(pod: Pod) -> tuple[bool, str]:
    """The oldest first, those of unknown age last."""
    created = pod.metadata.creation_timestamp or ""
    return not created, created


def _member(pod: Pod, report: Explanation, now: str) -> PendingPod:
    created = pod.metadata.creation_timestamp or ""
    return PendingPod(pod.key, str(find_owner(pod)), report.headline, report.message, created, format_age(created, now))
