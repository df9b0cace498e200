"""Find the waiting pods that a fix may concern, so that only these are tried after it.

If no waiting pod gets a node as the cluster is, a pod can get one after the fix only for what the fix changes: on a
node that it adds or changes, by an object that it creates or changes, or by where other pods go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kschedctl.api.arrays import Ints, Position
from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import Node, Pod
from kschedctl.fixes.trial.trials import RemedyTrial
from kschedctl.replay.controllers.target_pod import find_groups
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.settling import find_pending
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity
from kschedctl.scheduler.plugins.node_resources.fit import NodeResourcesFit
from kschedctl.scheduler.plugins.taint_toleration import TaintToleration
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.nodes import find_tolerated, match_required_affinity
from kschedctl.snapshot.pod_info import PodInfo

PER_NODE = frozenset({"Node", "CSINode", "Pod"})
"""The kinds of objects of which an edit matters for single nodes, if pods are not counted elsewhere."""
ON_A_NODE = frozenset({NodeAffinity.name, NodeResourcesFit.name, TaintToleration.name})
"""The plugins whose filters decide by the node alone whether a pod can be placed there."""


def find_nodes_with_new_room(trial: RemedyTrial, target_key: ObjectKey) -> frozenset[str] | None:
    """Return the names of the nodes on which the fix makes room; None if it may do so elsewhere."""
    names: set[str] = set()
    for key, edit in trial.edits.items():
        if key == target_key:
            continue
        before, after = edit.before, edit.after
        if key.kind not in PER_NODE:
            return None
        if isinstance(before, Node) and isinstance(after, Node) and before.metadata.labels != after.metadata.labels:
            return None  # the node comes to other topology domains
        if isinstance(before, Pod):
            if _may_block_other_nodes(before):
                return None
            names.add(before.spec.node_name)
        elif key.kind != "Pod":
            names.add(key.name)
    return frozenset(names)


def _may_block_other_nodes(pod: Pod) -> bool:
    """Return whether a running pod may keep pods from other nodes than its own."""
    claims = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return claims or bool(pod.spec.affinity and pod.spec.affinity.pod_anti_affinity)


def find_concerned_pods(
    simulation: Simulation, waiting: Sequence[Position], nodes: frozenset[str], target_position: Position
) -> list[Position]:
    """Return the `waiting` pods that may get a node with the fix, and the target pod, in their order."""
    view = simulation.view
    if len(view.nominations[0]):
        return list(waiting)  # a pod that goes elsewhere leaves the node for which it was nominated to others
    rows = np.array([view.nodes.index[name] for name in sorted(nodes) if name in view.nodes.index], np.int32)
    claim_users = Counter(claim for position in waiting for claim in _iter_shared_claims(view.pods.objects[position]))
    may_get_node_by_info: dict[int, bool] = {}

    def may_get_node(position: Position) -> bool:
        """Return whether the pod shares a claim, depends on other pods, or may fit on a changed node."""
        if any(claim_users[claim] > 1 for claim in _iter_shared_claims(view.pods.objects[position])):
            return True
        number = int(view.pods.info[position])
        if number not in may_get_node_by_info:
            info = view.pods.infos[number]
            may_get_node_by_info[number] = _depends_on_other_pods(info) or _may_fit_on_empty_node(
                simulation, position, info, rows
            )
        return may_get_node_by_info[number]

    return [position for position in waiting if position == target_position or may_get_node(position)]


def estimate_nodes_needed(trial: RemedyTrial) -> int:
    """Estimate how many copies of the added node the target pod and the pods ahead of it in the queue need.

    The pods are put on the first node that has room for their requests.
    """
    assert trial.cycle is not None
    view, row = trial.cycle.view, len(trial.scheduler.view.nodes)
    simulation = Simulation(trial.scheduler, view.fork())
    at = view.pods.index.get(trial.own.key)
    turn = (-trial.cycle.info.priority, len(view.pods) if at is None else at)
    turns = {
        position: (-int(view.pods.priority[view.pods.info[position]]), position)
        for position in find_pending(simulation)
    }
    free = view.allocatable[row] - view.requested[row]
    nodes = [free.copy()]
    for position in sorted((position for position in turns if turns[position] < turn), key=turns.__getitem__):
        number = int(view.pods.info[position])
        if not _may_fit_on_empty_node(simulation, position, view.pods.infos[number], np.array([row], np.int32)):
            continue
        if not _take_from_first_fit(nodes, view.requests[number]):
            nodes.append(free - view.requests[number])
    wanted = view.matrix([trial.cycle.info.incoming_requests])[0]
    return len(nodes) if _take_from_first_fit(nodes, wanted) else len(nodes) + 1


def _take_from_first_fit(nodes: Iterable[Ints], requests: Ints) -> bool:
    """Subtract the requests (R,) from the first array of free resources that covers them; return whether one does."""
    free = next((free for free in nodes if (requests <= free).all()), None)
    if free is None:
        return False
    free -= requests
    return True


def _depends_on_other_pods(info: PodInfo) -> bool:
    """Return whether placing other pods may make any node feasible for the pod: affinity, spread or pod groups."""
    affinity = info.spec.affinity and (info.spec.affinity.pod_affinity or info.spec.affinity.pod_anti_affinity)
    constraints = info.spec.topology_spread_constraints
    spread = any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)
    return bool(spread or affinity or find_groups(info.pod))


def _iter_shared_claims(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of the claims that the pod may share with other pods."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield "PersistentVolumeClaim", namespace, volume.persistent_volume_claim.claim_name
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield "ResourceClaim", namespace, claim.resource_claim_name


def _may_fit_on_empty_node(simulation: Simulation, position: Position, info: PodInfo, rows: Ints) -> bool:
    """Return whether one of the nodes (K,) would accept the pod if it ran no other pods."""
    framework = simulation.framework(position)
    if framework is None or not {plugin.name for plugin in framework.plugins_at("filter")} >= ON_A_NODE:
        return True
    view = simulation.view
    accepting = match_required_affinity(view.nodes, compile_required_node_affinity(info.spec))[rows]
    accepting &= find_tolerated(view.nodes, info.spec.tolerations, comparison_operators=True)[rows]
    for resource, amount in info.incoming_requests.items():
        column = view.resources.get(resource)
        if column is not None and amount:
            accepting &= view.allocatable[rows, column] >= amount
    return bool(accepting.any())
