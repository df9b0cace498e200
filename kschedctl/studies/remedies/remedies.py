"""What would let this pod schedule? The smallest changes, each replayed before it is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from kschedctl.api.objects import Pod, Struct
from kschedctl.api.workloads import identity
from kschedctl.cluster import Cluster
from kschedctl.reports.explanation import Explanation
from kschedctl.reports.remedies import Remedies, Remedy, SearchReport
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.studies.controllers.stand_in import StandIn
from kschedctl.studies.controllers.templates import template_spec, with_template_spec
from kschedctl.studies.explain import PodReference, explain_pod, stand_in_of
from kschedctl.studies.remedies.catalogue import against, everywhere
from kschedctl.studies.remedies.changes import Edited, ObjectKey
from kschedctl.studies.remedies.impossible import impossible, too_large
from kschedctl.studies.remedies.json_patch import json_patch, plain
from kschedctl.studies.remedies.owners import OwnerPatch, owner_patch
from kschedctl.studies.remedies.ranking import Ranked, ranked
from kschedctl.studies.remedies.search import RemedySearch, RemedyWishes
from kschedctl.studies.remedies.trials import RemedyTrial, Trials, held

HELPED = ("Unschedulable", "NotResponsible")
"""The verdicts on pods that changes may help; another one says for itself why there is nothing to do."""
SHOWN = 5
"""So many of the best go with an explanation."""
API_VERSIONS = {
    "Node": "v1",
    "Pod": "v1",
    "Namespace": "v1",
    "PersistentVolume": "v1",
    "PersistentVolumeClaim": "v1",
    "StorageClass": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
}


def remedies(cluster: Cluster, pod: PodReference, wishes: RemedyWishes = RemedyWishes()) -> Remedies:
    """All minimal sets of changes that let a pod schedule; the pod as ``explain`` takes it, and its errors."""
    return remedies_of(stand_in_of(Scheduler(cluster), pod), wishes)


def remedies_of(asked: StandIn, wishes: RemedyWishes = RemedyWishes()) -> Remedies:
    """The same of a pod, or of the one that stands for a workload."""
    report = explain_pod(asked.scheduler, asked.pod)
    found = Remedies(
        pod=report.pod,
        verdict=report.verdict,
        headline=report.headline,
        stands_for=asked.note,
        not_replayed=report.not_replayed,
        unknown=report.unknown,
        undecided=report.undecided,
    )
    if report.verdict not in HELPED or asked.pod.metadata.deletion_timestamp is not None:
        return found
    search, best = searched(asked, wishes)
    return replace(
        found,
        remedies=tuple(_remedy(search.trials, each, asked) for each in best),
        impossible=impossible(search),
        searched=SearchReport(wishes.max_changes, search.trials.replayed, search.exhausted),
    )


def with_remedies(report: Explanation, asked: StandIn) -> Explanation:
    """An explanation with the best of the smallest remedies, and why kinds of them cannot exist."""
    if report.verdict not in HELPED or asked.pod.metadata.deletion_timestamp is not None:
        return report
    search, best = searched(asked, RemedyWishes(smallest=True))
    shown = tuple(_remedy(search.trials, each, asked) for each in best[:SHOWN])
    lines = impossible(search)
    return replace(report, remedies=shown, impossible=too_large(search.trials.base) if shown else lines)


def searched(asked: StandIn, wishes: RemedyWishes) -> tuple[RemedySearch, list[Ranked]]:
    """The search when it is over, and what it found in order."""
    search = RemedySearch(Trials(asked.scheduler, as_read(asked)), against, everywhere, wishes)
    return search, ranked(search.run())


def as_read(asked: StandIn) -> Pod:
    """The pod as it stands in the cluster or its manifest; one asked about as if it were otherwise is that."""
    meta, view = asked.pod.metadata, asked.scheduler.view
    for found in (asked.workload, asked.scheduler.cluster.pod(meta.namespace, meta.name)):
        if isinstance(found, Pod) and held(found, view) == asked.pod:
            return found
    return asked.pod


def _remedy(trials: Trials, found: Ranked, asked: StandIn) -> Remedy:
    trial = found.trial
    fixes = trial.changes
    weakens = [*dict.fromkeys(fix.weakens for fix in fixes if fix.weakens)]
    if trial.victims:
        weakens.append(f"evicts {', '.join(trial.victims)}")
    own = trial.edits.get(trials.key)
    patch = _owner_patch(own) if own else None
    return Remedy(
        summary=_sentence(fix.text for fix in fixes),
        by="operator" if any(fix.by == "operator" for fix in fixes) else "author",
        weakens="; ".join(weakens) or None,
        opens=trial.opens,
        commands=(*(patch.commands if patch else ()), *(c for fix in fixes for c in fix.commands)),
        changes=tuple(object_changes(_as_written(trial, trials.key, asked.workload))),
        kinds=tuple(fix.kind for fix in fixes),
        victims=trial.victims,
        alternatives=found.alternatives,
        owner=str(patch.owner) if patch else "",
        owner_patch=patch.patch if patch else {},
    )


def _as_written(trial: RemedyTrial, own: ObjectKey, workload: Struct | None) -> dict[ObjectKey, Edited]:
    """The edits of objects, that of the pod as one of the template in the manifest that it comes of."""
    edits = dict(trial.edits)
    if workload is None or isinstance(workload, Pod) or own not in edits:
        return edits
    pod = Pod(spec=template_spec(workload))
    for edit in (edit for fix in trial.changes for edit in fix.edits if edit.key == own):
        changed = edit.change(pod)
        assert isinstance(changed, Pod)
        pod = changed
    del edits[own]
    return {ObjectKey(*identity(workload)): Edited(workload, with_template_spec(workload, pod.spec)), **edits}


def _owner_patch(own: Edited) -> OwnerPatch:
    assert isinstance(own.before, Pod)
    assert isinstance(own.after, Pod)
    return owner_patch(own.before, own.after)


def _sentence(texts: Iterable[str]) -> str:
    """
    >>> _sentence(["uncordon node n1", "ask for less"])
    'Uncordon node n1, and ask for less'
    """
    text = ", and ".join(texts)
    return text[:1].upper() + text[1:]


def object_changes(edits: Mapping[ObjectKey, Edited]) -> Iterator[dict[str, Any]]:
    """What the edits do to the objects as they were read, in the form of ``Remedy.changes``."""
    for key, edit in edits.items():
        named = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if edit.after is None:
            yield {"delete": named}
        elif edit.before is None:
            head = {"apiVersion": API_VERSIONS[key.kind], "kind": key.kind}
            yield {"create": head | plain(edit.after)}
        else:
            yield {**named, "patch": list(json_patch(plain(edit.before), plain(edit.after)))}
