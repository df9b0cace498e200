"""Fixes that wait for terminating pods to leave."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import Pod
from kschedctl.fixes.trial.changes import Fix
from kschedctl.fixes.trial.fix_kinds import FixKind
from kschedctl.fixes.trial.tried_node import NodeRefusal, TriedNode
from kschedctl.fixes.ways.given_back import delete_pod
from kschedctl.replay import kubectl
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import PodInTheWay
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted
from kschedctl.scheduler.registry.in_tree import AnyFact

LEAVES = 5
MOST_NAMED = 3


def await_terminating(tried: TriedNode, refusal: NodeRefusal) -> Iterator[Fix]:
    """Yield the fix that waits for terminating pods on the node or in the rejection."""
    if tried.row is None:
        return
    pods = _find_terminating(tried, refusal.fact)
    if not pods:
        return
    keys = tuple(sorted(pod.key for pod in pods))
    named = ", ".join(keys[:MOST_NAMED]) + (f" and {len(keys) - MOST_NAMED} more" if len(keys) > MOST_NAMED else "")
    what = "pod that is terminating leaves" if len(keys) == 1 else "pods that are terminating leave"
    node = tried.cycle.view.nodes.names[tried.at]
    text = f"wait until {len(keys)} {what} {node}: {named}"
    edits = tuple(edit for pod in pods for edit in delete_pod(tried.cycle.view, pod))
    commands = tuple(map(_render_wait, _group_by_namespace(keys)))
    yield Fix(FixKind.WAIT, keys, text, "operator", edits, LEAVES, "", commands, "pods", node)


def _find_terminating(tried: TriedNode, fact: AnyFact | None) -> list[Pod]:
    """Return the terminating pods whose departure may resolve the rejection."""
    view, asked = tried.cycle.view, tried.trial.pod.key
    positions = dict.fromkeys(view.pods_on(tried.at))
    match fact:
        case PodInTheWay(pod=key) | HostPortHeld(holder=key) | DiskMounted(pod=key) | ClaimInUse(pod=key):
            position = view.pods.find_position(key) if key else None
            if position is not None and view.node[position] >= 0:
                positions[position] = None
    pods = (view.pods.objects[position] for position in positions)
    return [pod for pod in pods if pod.metadata.deletion_timestamp is not None and pod.key != asked]


def _group_by_namespace(keys: tuple[str, ...]) -> Iterator[list[str]]:
    """Yield the keys of each namespace."""
    spaces = dict.fromkeys(key.partition("/")[0] for key in keys)
    yield from ([key for key in keys if key.startswith(f"{space}/")] for space in spaces)


def _render_wait(keys: list[str]) -> str:
    """Return the command that waits until pods of one namespace are deleted."""
    names = (key.partition("/")[2] for key in keys)
    return kubectl.render_command(
        "wait", "-n", keys[0].partition("/")[0], "--for=delete", *(f"pod/{name}" for name in names)
    )
