"""A remedy as people and programs see it: a sentence, commands, patches, and the changes of the objects as read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kschedctl.api.json_values import Json
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod, PodSpec, PodTemplateSpec, Struct
from kschedctl.api.ownership import Owner, find_owner
from kschedctl.api.workloads import CronJob, identity
from kschedctl.fixes.owners import OwnerPatch, owner_patch
from kschedctl.fixes.ranking import QueueResult, Ranked, step_of
from kschedctl.fixes.rollouts import RolledOut
from kschedctl.fixes.trial.changes import Edited, Fix
from kschedctl.fixes.trial.immutable import is_updated
from kschedctl.fixes.trial.prices import Price
from kschedctl.fixes.trial.trials import RemedyTrial, is_resized
from kschedctl.replay.controllers.plan_change import ExistingPods
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.patches import build_json_patch, to_document
from kschedctl.reports.fix_costs import CostKind, FixCost, build_restart_costs, list_clauses
from kschedctl.reports.remedy import Remedy
from kschedctl.text.counts import counted, first_few


def remedy_of(
    ranked: Ranked,
    own: ObjectKey,
    workload: Struct | None = None,
    *,
    edits: Mapping[ObjectKey, Edited] | None = None,
    rolled: RolledOut | None = None,
    result: QueueResult | None = None,
) -> Remedy:
    """Build the report of changes that work for the pod ``own``, which may come from a ``workload``'s manifest.

    ``edits`` are those of all objects if the trial does not have all of them, ``rolled`` is the rollout of a changed
    template, and ``result`` is what happens after the changes once all waiting pods are tried; None if that was not
    replayed.
    """
    trial = ranked.trial
    fixes = trial.changes
    victims = rolled.victims if rolled else trial.victims
    needs_values = tuple(dict.fromkeys(name for fix in fixes for name in fix.needs_values))
    costs = [*_given_up(fixes, needs_values), *_evictions(trial, victims, rolled)]
    written = own in trial.edits and _is_written(trial.edits[own])
    patch = _owner_patch(trial, edits or trial.edits, own) if written else None
    if patch is not None and patch.anew and patch.owner.kind == "Job":
        costs.append(_deleted_with_job(trial, patch.owner))
    owner, restarts = str(patch.owner) if patch else "", rolled.restarted if rolled else 0
    return Remedy(
        summary=_sentence(fix.text for fix in fixes) + _taken_first(fixes, result),
        by="operator" if any(fix.by == "operator" for fix in fixes) else "author",
        weakens="; ".join(list_clauses(costs)) or None,
        opens=trial.opens,
        commands=(*(c for fix in _room_first(fixes, own) for c in fix.commands), *(patch.commands if patch else ())),
        changes=tuple(object_changes(edits or _as_written(trial, own, workload))),
        kinds=tuple(fix.kind for fix in fixes),
        victims=victims,
        restarts=restarts,
        chain=rolled.chain if rolled else None,
        alternatives=ranked.alternatives,
        owner=owner,
        owner_patch=dict(patch.patch) if patch else {},
        step=step_of(trial).name.lower(),
        holds=None if result is None or (needs_values and result.holds) else result.holds,
        rivals=result.rivals if result else (),
        also_places=result.also_places if result else (),
        needs_values=needs_values,
        manifests=tuple(dict(manifest) for fix in fixes for manifest in fix.manifests),
        costs=(*costs, *build_restart_costs(restarts, owner)),
    )


def _given_up(fixes: Sequence[Fix], needs_values: Sequence[str]) -> Iterator[FixCost]:
    """Yield which values the fixes need, what to find out before them, and what each of them gives up or loses."""
    if needs_values:
        yield FixCost(CostKind.NEEDS_VALUES, f"it is not verified: fill in {', '.join(needs_values)} first")
    yield from (FixCost(CostKind.CHECK_FIRST, fix.check_first) for fix in fixes if fix.check_first)
    lost = {fix.weakens for fix in fixes if fix.paid is Price.LOSS}
    for weakens in dict.fromkeys(fix.weakens for fix in fixes if fix.weakens):
        yield FixCost(CostKind.LOSES if weakens in lost else CostKind.GIVES_UP, weakens)


def _evictions(trial: RemedyTrial, victims: Sequence[str], rolled: RolledOut | None) -> Iterator[FixCost]:
    """Yield the pods that the scheduler evicts after the fix, with what is lost with them and what becomes of them."""
    if not victims:
        return
    harm = f" ({trial.harm})" if trial.harm else ""
    chain = rolled.chain if rolled else None
    fates = chain.fates if chain and chain.lost < chain.evicted else ""  # what is lost stands in the harm
    named = chain.name_victims(victims) if chain else victims
    evicted = f"evicts {counted(len(victims), 'pod')}"
    short = f"{evicted}{harm}{fates}" if len(victims) > FEW_VICTIMS else ""
    if len(short) > LONGEST_SHORT_COST:
        short = f"{evicted}, some for good" if chain and chain.lost else evicted
    yield FixCost(CostKind.EVICTS, f"evicts {', '.join(named)}{harm}{fates}", len(victims), short)


FEW_VICTIMS, LONGEST_SHORT_COST = 3, 160
"""How many evicted pods a short text names at most; how many characters it has at most."""


def _taken_first(fixes: Sequence[Fix], result: QueueResult | None) -> str:
    """Return what pods ahead in the queue take of several new nodes, to follow the fix's sentence."""
    nodes = sum(edit.key.kind == "Node" and fix.times is not None for fix in fixes for edit in fix.edits)
    if nodes < 2 or result is None or not result.ahead:
        return ""
    of_nodes = "" if len(fixes) == 1 else " of the nodes"
    verb = "is" if nodes == 2 else "are"
    return f": {nodes - 1}{of_nodes} {verb} taken by pods ahead in the queue ({first_few(result.ahead, 1)})"


def _deleted_with_job(trial: RemedyTrial, owner: Owner) -> FixCost:
    """Return the cost of the pods that are deleted with a Job, which is created anew as its template is immutable."""
    pods = ExistingPods(trial.scheduler.cluster).pods_of(*owner)
    running = sum(bool(pod.spec.node_name) for pod in pods)
    verb = "has" if running == 1 else "have"
    pods_of = f"its {counted(len(pods), 'pod')}, {running} of which {verb} a node"
    return FixCost(CostKind.DELETES, f"{owner} is deleted and created anew, with {pods_of}", len(pods))


def _room_first(fixes: Iterable[Fix], own: ObjectKey) -> list[Fix]:
    """Fixes that take other pods away before the rest, lest the pod preempts somebody meanwhile."""
    return sorted(fixes, key=lambda fix: all(edit.key.kind != "Pod" or edit.key == own for edit in fix.edits))


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


def _is_written(own: Edited) -> bool:
    """Whether it is changed in what people write: the status is the controllers'."""
    assert isinstance(own.before, Pod)
    assert isinstance(own.after, Pod)
    return replace(own.before, status=own.after.status) != own.after


def _owner_patch(trial: RemedyTrial, edits: Mapping[ObjectKey, Edited], own: ObjectKey) -> OwnerPatch:
    """For the asked pod, and all that are changed as it is."""
    before, after = trial.edits[own].before, trial.edits[own].after
    assert isinstance(before, Pod)
    assert isinstance(after, Pod)
    owner, pods = find_owner(before), (edit.before for edit in edits.values() if isinstance(edit.before, Pod))
    waiting = [pod for pod in pods if not pod.spec.node_name and find_owner(pod) == owner]
    return owner_patch(before, after, waiting if trial.created else ())


def _sentence(texts: Iterable[str]) -> str:
    """
    >>> _sentence(["uncordon node n1", "ask for less"])
    'Uncordon node n1, and ask for less'
    """
    text = ", and ".join(texts)
    return text[:1].upper() + text[1:]


def object_changes(edits: Mapping[ObjectKey, Edited]) -> Iterator[dict[str, Json]]:
    """What the edits do to the objects as they were read, in the form of ``Remedy.changes``."""
    for key, edit in edits.items():
        named = {"kind": key.kind, "namespace": key.namespace, "name": key.name}
        if edit.after is None:
            yield {"delete": named}
        elif edit.before is None:
            head = {"apiVersion": KINDS[key.kind].versions[0], "kind": key.kind}
            yield {"create": head | to_document(edit.after)}
        else:
            resize = {"subresource": "resize"} if is_resized(edit) else {}
            anew = {} if is_updated(edit.before, edit.after) else {"anew": True}
            yield {
                **named,
                "patch": list(build_json_patch(to_document(edit.before), to_document(edit.after))),
                **anew,
                **resize,
            }


def template_spec(workload: Any) -> PodSpec:
    """What a workload's pods are made of."""
    spec = workload.spec.job_template.spec if isinstance(workload, CronJob) else workload.spec
    pod_spec: PodSpec = (spec.template or PodTemplateSpec()).spec
    return pod_spec


def with_template_spec(workload: Any, pod: PodSpec) -> Struct:
    """The workload with pods that are made of this."""
    if isinstance(workload, CronJob):
        job = workload.spec.job_template
        made = replace(job.spec, template=replace(job.spec.template, spec=pod))
        return replace(workload, spec=replace(workload.spec, job_template=replace(job, spec=made)))
    template = replace(workload.spec.template or PodTemplateSpec(), spec=pod)
    changed: Struct = replace(workload, spec=replace(workload.spec, template=template))
    return changed
