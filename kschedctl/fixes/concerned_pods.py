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
from kschedctl.snapshot.node_masks import find_tolerated, match_required_affinity
from kschedctl.snapshot.pod_info import PodInfo

PER_NODE = frozenset({"Node", "CSINode", "Pod"})
"""The kinds of objects of which an edit matters for single nodes, if pods are not counted elsewhere."""
ON_A_NODE = frozenset({NodeAffinity.name, NodeResourcesFit.name, TaintToleration.name})
"""The plugins by which pods are ruled out for a node."""


def changed_nodes(trial: RemedyTrial, own: ObjectKey) -> frozenset[str] | None:
    """Return the names of the nodes on which the fix makes room; None if it may do so elsewhere."""
    names: set[str] = set()
    for key, edit in trial.edits.items():
        if key == own:
            continue
        before, after = edit.before, edit.after
        if key.kind not in PER_NODE:
            return None
        if isinstance(before, Node) and isinstance(after, Node) and before.metadata.labels != after.metadata.labels:
            return None  # the node comes to other topology domains
        if isinstance(before, Pod):
            if _keeps_others_away(before):
                return None
            names.add(before.spec.node_name)
        elif key.kind != "Pod":
            names.add(key.name)
    return frozenset(names)


def _keeps_others_away(pod: Pod) -> bool:
    """Return whether a running pod may keep pods from other nodes than its own."""
    claims = any(volume.persistent_volume_claim or volume.ephemeral for volume in pod.spec.volumes)
    return claims or bool(pod.spec.affinity and pod.spec.affinity.pod_anti_affinity)


def concerned_pods(
    simulation: Simulation, waiting: Sequence[Position], nodes: frozenset[str], own: Position
) -> list[Position]:
    """Return the ``waiting`` pods, in their order, that may get a node with the fix, and the pod that it is for."""
    view = simulation.view
    if len(view.nominations[0]):
        return list(waiting)  # a pod that goes elsewhere leaves the node for which it was nominated to others
    rows = np.array([view.nodes.index[name] for name in sorted(nodes) if name in view.nodes.index], np.int32)
    used = Counter(claim for position in waiting for claim in _claims_of(view.pods.objects[position]))
    known: dict[int, bool] = {}

    def may_get_node(position: Position) -> bool:
        if any(used[claim] > 1 for claim in _claims_of(view.pods.objects[position])):
            return True
        number = int(view.pods.info[position])
        if number not in known:
            info = view.pods.infos[number]
            known[number] = _depends_on_others(info) or _may_fit(simulation, position, info, rows)
        return known[number]

    return [position for position in waiting if position == own or may_get_node(position)]


def nodes_for_pods_ahead(trial: RemedyTrial) -> int:
    """Estimate how many nodes like the one that the fix adds the pod needs with those ahead of it in the queue.

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
        if not _may_fit(simulation, position, view.pods.infos[number], np.array([row], np.int32)):
            continue
        if not _put_on_first(nodes, view.requests[number]):
            nodes.append(free - view.requests[number])
    wanted = view.matrix([trial.cycle.info.incoming_requests])[0]
    return len(nodes) if _put_on_first(nodes, wanted) else len(nodes) + 1


def _put_on_first(nodes: Iterable[Ints], requests: Ints) -> bool:
    """Subtract the ``requests`` (R,) from the first of the free resources of nodes that cover them.

    Return whether there is one.
    """
    free = next((free for free in nodes if (requests <= free).all()), None)
    if free is None:
        return False
    free -= requests
    return True


def _depends_on_others(info: PodInfo) -> bool:
    """Return whether any node may take the pod once other pods have gone somewhere."""
    affinity = info.spec.affinity and (info.spec.affinity.pod_affinity or info.spec.affinity.pod_anti_affinity)
    constraints = info.spec.topology_spread_constraints
    spread = any(constraint.when_unsatisfiable == "DoNotSchedule" for constraint in constraints)
    return bool(spread or affinity or find_groups(info.pod))


def _claims_of(pod: Pod) -> Iterator[tuple[str, str, str]]:
    """Yield kind, namespace and name of the claims that the pod may share with others."""
    namespace = pod.metadata.namespace
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim:
            yield "PersistentVolumeClaim", namespace, volume.persistent_volume_claim.claim_name
    for claim in pod.spec.resource_claims:
        if claim.resource_claim_name:
            yield "ResourceClaim", namespace, claim.resource_claim_name


def _may_fit(simulation: Simulation, position: Position, info: PodInfo, rows: Ints) -> bool:
    """Return whether one of these nodes (K,) would take the pod if no other pod were there."""
    framework = simulation.framework(position)
    if framework is None or not {plugin.name for plugin in framework.plugins_at("filter")} >= ON_A_NODE:
        return True
    view = simulation.view
    taken = match_required_affinity(view.nodes, compile_required_node_affinity(info.spec))[rows]
    taken &= find_tolerated(view.nodes, info.spec.tolerations, comparison_operators=True)[rows]
    for resource, amount in info.incoming_requests.items():
        column = view.resources.get(resource)
        if column is not None and amount:
            taken &= view.allocatable[rows, column] >= amount
    return bool(taken.any())
