"""Checks of fixes: apply them to the documents, and compare with brute force."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from itertools import combinations

from applied import Json, apply_changes
from remedy_worlds import ASKED, World

import kschedctl
from kschedctl.api.arrays import Row
from kschedctl.commands.explain.report import Explanation
from kschedctl.fixes.document import iter_object_changes
from kschedctl.fixes.proposals import get_plugin_remedies, iter_fixes_at_node, iter_node_independent_fixes
from kschedctl.fixes.search import RemedyCriteria, RemedySearch
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.trial_node import TrialNode
from kschedctl.fixes.trial.trials import RemedyTrial, Trials
from kschedctl.scheduler.scheduler import Scheduler


def build_trials(world: World) -> Trials:
    """Build the trials of the target pod."""
    cluster = world.cluster()
    pod = cluster.pod(*ASKED.split("/"))
    assert pod is not None
    return Trials(Scheduler(cluster), pod)


def search_all_fixes(asked: Trials, most: int) -> list[RemedyTrial]:
    """Search for all fixes with up to this many changes, until all are tried."""
    search = RemedySearch(asked, iter_fixes_at_node, iter_node_independent_fixes, RemedyCriteria(max_changes=most))
    result = search.run()
    assert search.is_exhaustive
    return result


def explain_after(world: World, trial: RemedyTrial) -> Explanation:
    """Explain the pod in the documents with the changes of the trial, which reach the replicas of its workload."""
    documents = apply_changes(world.documents, iter_object_changes(trial.edits))
    return kschedctl.explain(world.cluster(_restore_anti_affinity(world.documents, documents)), ASKED)


def _find_asked(documents: Iterable[Json]) -> Json:
    namespace, name = ASKED.split("/")
    pods = (each for each in documents if each["kind"] == "Pod" and each["metadata"]["name"] == name)
    return next(pod for pod in pods if pod["metadata"].get("namespace") == namespace)


def _get_anti_affinity(pod: Json) -> Json:
    found: Json = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    return found


def _name_workload(pod: Json) -> tuple[str, str, str] | None:
    """Return kind, namespace and name of what controls the pod: a Deployment behind a ReplicaSet with its hash."""
    meta = pod["metadata"]
    owner = next((each for each in meta.get("ownerReferences", []) if each.get("controller")), None)
    if owner is None:
        return None
    suffix = f"-{meta['labels'].get('pod-template-hash')}"
    if owner["kind"] == "ReplicaSet" and owner["name"].endswith(suffix):
        return "Deployment", meta["namespace"], owner["name"].removesuffix(suffix)
    return owner["kind"], meta["namespace"], owner["name"]


def _restore_anti_affinity(before: list[Json], after: list[Json]) -> list[Json]:
    """Give the pod's anti-affinity to replicas with its former terms, if the pod has lost some required terms."""
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    asked_before, asked = _find_asked(before), _find_asked(after)
    old, new = (_get_anti_affinity(pod).get(required, []) for pod in (asked_before, asked))
    workload = _name_workload(asked_before)
    if not workload or len(new) >= len(old) or any(term not in old for term in new):
        return after
    documents = deepcopy(after)
    for each in documents:
        is_replica = each["kind"] == "Pod" and _name_workload(each) == workload
        if is_replica and _get_anti_affinity(each).get(required) == old:
            each["spec"]["affinity"]["podAntiAffinity"] = deepcopy(_get_anti_affinity(asked))
    return documents


def assert_all_hold(world: World, most: int = 2) -> int:
    """Check that each remedy helps and needs each of its changes, and return how many there are."""
    asked = build_trials(world)
    remedies = search_all_fixes(asked, most)
    sets = [frozenset(each.changes) for each in remedies]
    assert not [(a, b) for a, b in combinations(sets, 2) if a <= b or b <= a]
    for trial in remedies:
        assert_helps(world, trial)
        assert keeps_budgets(world, trial.changes)
        assert is_each_moved_pod_placed(world, trial), [change.text for change in trial.changes]
        for fewer in combinations(trial.changes, len(trial.changes) - 1):
            assert_does_not_help(world, asked.replay_changes(fewer), trial.raises_priority)
    return len(remedies)


def assert_helps(world: World, trial: RemedyTrial) -> None:
    """Check that the pod schedules or preempts with the changes of the trial."""
    answer = explain_after(world, trial)
    what = [change.text for change in trial.changes]
    if trial.fits:
        assert answer.verdict == "Schedulable", what
        assert sorted(answer.feasible) == list(trial.feasible_or_nominated_nodes), what
    else:
        assert answer.preemption is not None, what
        assert answer.preemption.chosen == trial.nominated, what
        assert answer.preemption.candidates[trial.nominated].victims == trial.victims, what


def assert_does_not_help(world: World, trial: RemedyTrial, preempting: bool) -> None:
    """Check that the pod stays unschedulable with the changes of the trial.

    With ``preempting``, it must not preempt pods either.
    """
    answer = explain_after(world, trial)
    what = [change.text for change in trial.changes]
    assert answer.verdict == "Unschedulable", what
    if preempting and answer.preemption is not None:
        assert not answer.preemption.chosen, what


def keeps_budgets(world: World, changes: Iterable[Fix]) -> bool:
    """Return whether no budget loses more pods than it allows."""
    gone = {each.edits[0].key.name for each in changes if each.kind in ("MovePod", "ScaleDown")}
    pods = [pod["metadata"] for pod in world.of_kind("Pod") if pod["metadata"]["name"] in gone]
    for budget in world.of_kind("PodDisruptionBudget"):
        selected = budget["spec"]["selector"]["matchLabels"]
        if sum(selected.items() <= pod["labels"].items() for pod in pods) > budget["status"]["disruptionsAllowed"]:
            return False
    return True


def is_each_moved_pod_placed(world: World, trial: RemedyTrial) -> bool:
    """Return whether each moved pod fits where it goes, once the target pod is on a node that takes it."""
    documents = apply_changes(world.documents, iter_object_changes(trial.edits))
    moves = [change.target for change in trial.changes if change.kind == "MovePod"]
    return all(
        any(node in find_accepting_nodes(world, documents, pod, on) for on in trial.feasible_or_nominated_nodes)
        for pod, node in moves
    )


def find_accepting_nodes(world: World, documents: list[Json], pod: str, asked_on: str) -> tuple[str, ...]:
    """Return the nodes that fit the pod once it has no node and the target pod is on ``asked_on``."""
    found = deepcopy(documents)
    for each in found:
        name = f"{each['metadata'].get('namespace')}/{each['metadata']['name']}"
        if each["kind"] == "Pod" and name in (ASKED, pod):
            each["spec"]["nodeName"] = asked_on if name == ASKED else ""
    return kschedctl.explain(world.cluster(found), pod).feasible


# -- brute force -------------------------------------------------------------------------------------------------------


def list_all_fixes(asked: Trials) -> list[Fix]:
    """Return all fixes that are proposed against any obstacle of the target pod."""
    base = asked.base
    offered: dict[Fix, None] = dict.fromkeys(iter_node_independent_fixes(TrialNode(base, None)))
    assert base.cycle is not None
    for row in range(len(base.cycle.view.nodes)):
        offered |= dict.fromkeys(_iter_fixes(TrialNode(base, Row(row))))
    return list(offered)


def _iter_fixes(trial_node: TrialNode) -> Iterator[Fix]:
    for refusal in trial_node.find_rejections():
        for propose_fixes in get_plugin_remedies(refusal.plugin).proposers:
            yield from propose_fixes(trial_node, refusal)


def assert_none_is_missed(world: World) -> bool:
    """Check that the search finds a set of one or two changes if brute force does, and return whether it does."""
    asked = build_trials(world)
    changes = list_all_fixes(asked)
    singles = [change for change in changes if asked.replay_changes((change,)).works]
    sizes = {len(each.changes) for each in search_all_fixes(asked, 2)}
    if singles:
        assert 1 in sizes, [change.text for change in singles]
    rest = [change for change in changes if change not in singles]
    pairs = (pair for pair in combinations(rest, 2) if keeps_budgets(world, pair) and asked.replay_changes(pair).works)
    pair = next((pair for pair in pairs if is_each_moved_pod_placed(world, asked.replay_changes(pair))), None)
    if pair:
        assert 2 in sizes, ([change.text for change in pair], sizes)
    return bool(singles or pair)
