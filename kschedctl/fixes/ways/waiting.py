"""Fixes that wait for terminating pods to leave, and the devices and volumes that a leaving pod frees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from kschedctl.api.arrays import Position, Row
from kschedctl.api.objects import Pod, ResourceClaim
from kschedctl.api.ownership import find_controller
from kschedctl.fixes.trial.changes import Fix, ObjectEdit
from kschedctl.fixes.trial.fix_kinds import FixKind, Price
from kschedctl.fixes.trial.trial_node import NodeRejection, TrialNode
from kschedctl.replay import kubectl
from kschedctl.replay.edits import ObjectKey
from kschedctl.replay.pending_pods import describe_overdue_time
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.in_tree_plugins import AnyFact
from kschedctl.scheduler.plugins.dynamic_resources.reservation import get_pod_user, release_claims
from kschedctl.scheduler.plugins.helper.volume_listers import get_listers
from kschedctl.scheduler.plugins.inter_pod_affinity.filtering import PodInTheWay
from kschedctl.scheduler.plugins.node_ports import HostPortHeld
from kschedctl.scheduler.plugins.node_volume_limits.attachments import AttachedVolume, find_csi_volumes
from kschedctl.scheduler.plugins.node_volume_limits.non_csi_limits import find_disks_of_running_pod
from kschedctl.scheduler.plugins.volume_restrictions import ClaimInUse, DiskMounted
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import first_few

LEAVES = 5
"""The cost of waiting."""
MOST_NAMED = 3
"""The most pods that the text names."""


def iter_termination_wait_fixes(trial_node: TrialNode, rejection: NodeRejection) -> Iterator[Fix]:
    """Yield the fix that waits until the terminating pods on the node, and those that cause the rejection, are gone.

    If such a pod should have been gone before the cluster was read, the fix finds out what keeps it instead. Nothing is
    yielded if there are no such pods or no particular node is tried.
    """
    if trial_node.row is None:
        return
    pods = _find_terminating_pods(trial_node, rejection.fact)
    if not pods:
        return
    keys = tuple(sorted(pod.key for pod in pods))
    node = trial_node.cycle.view.nodes.names[trial_node.known_row]
    edits = tuple(edit for pod in pods for edit in build_deletion_edits(trial_node.cycle.view, pod))
    groups = list(_group_by_namespace(sorted(pods, key=lambda pod: pod.key)))
    overdue = describe_overdue_time(trial_node.trial.scheduler.cluster, pods)
    if overdue:
        pods_text = "1 terminating pod is" if len(keys) == 1 else f"{len(keys)} terminating pods are"
        text = f"find out why {pods_text} still on {node}, overdue by {overdue} (finalizers, the kubelet of {node})"
        checks = (kubectl.render_stuck_deletion_checks(node, *group) for group in groups)
        commands = tuple(dict.fromkeys(chain.from_iterable(checks)))
    else:
        pods_text = "1 terminating pod leaves" if len(keys) == 1 else f"{len(keys)} terminating pods leave"
        text = f"wait until {pods_text} {node}{_describe_long_wait(pods)}"
        commands = tuple(kubectl.render_wait_until_gone(*group) for group in groups)
    yield Fix(
        kind=FixKind.WAIT,
        target=keys,
        text=f"{text}: {first_few(keys, MOST_NAMED)}",
        by="operator",
        edits=edits,
        cost=LEAVES,
        commands=commands,
        variant_of="pods",
        where=node,
        price=Price.ROOM if overdue else None,
    )


def _find_terminating_pods(trial_node: TrialNode, fact: AnyFact | None) -> list[Pod]:
    """Return the terminating pods whose departure may resolve the rejection: on the node, or named by the fact.

    The target pod itself is left out.
    """
    view, target_key = trial_node.cycle.view, trial_node.trial.pod.key
    positions = dict.fromkeys(view.pods_on(trial_node.known_row))
    match fact:
        case PodInTheWay(pod=key) | HostPortHeld(holder=key) | DiskMounted(pod=key) | ClaimInUse(pod=key):
            position = view.pods.find_position(key) if key else None
            if position is not None and view.has_node(position):
                positions[position] = None
    pods = (view.pods.objects[position] for position in positions)
    return [pod for pod in pods if pod.metadata.deletion_timestamp is not None and pod.key != target_key]


def _group_by_namespace(pods: Sequence[Pod]) -> Iterator[list[Pod]]:
    """Yield a list of pods for each namespace, in the order in which the namespaces appear."""
    for namespace in dict.fromkeys(pod.metadata.namespace for pod in pods):
        yield [pod for pod in pods if pod.metadata.namespace == namespace]


def _describe_long_wait(pods: Sequence[Pod]) -> str:
    """Return a clause with the longest grace period of the pods and its end.

    The clause is an empty string if the period is at most five minutes.
    """
    seconds = kubectl.get_longest_grace_seconds(pods)
    if seconds <= kubectl.MIN_WAIT_SECONDS:
        return ""
    minutes = round(seconds / 60)
    period = f"{minutes // 60} h" if minutes % 60 == 0 else f"{minutes} min"
    end = max(pod.metadata.deletion_timestamp or "" for pod in pods)
    return f" (grace period {period}, until {end})"


def build_deletion_edits(view: Fork, pod: Pod) -> tuple[ObjectEdit, ...]:
    """Return the edits that delete the pod, release its ResourceClaims, and detach volumes that only it uses."""
    return (
        ObjectEdit.delete(ObjectKey.of(pod)),
        *_iter_claim_release_edits(view, pod),
        *iter_detach_edits(view, pod),
    )


def _iter_claim_release_edits(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """Yield the edits that remove the pod's reservations of ResourceClaims. Claims that the pod owns are deleted."""
    user = {get_pod_user(pod)}
    for claim in release_claims(view.objects.of("ResourceClaim"), user):
        controller = find_controller(claim.metadata)
        if controller is not None and controller.uid == pod.metadata.uid:
            yield ObjectEdit.delete(ObjectKey.of(claim))
        else:
            yield ObjectEdit(ObjectKey.of(claim), lambda current: _remove_reservation(current, user))


def _remove_reservation(claim: ResourceClaim, user: set[tuple[str, str]]) -> ResourceClaim:
    """Return the claim without this user's reservation. A claim without such a reservation is returned unchanged."""
    return next(release_claims((claim,), user), claim)


def iter_detach_edits(view: Fork, pod: Pod) -> Iterator[ObjectEdit]:
    """Yield the edits that delete the VolumeAttachments of the pod's volumes.

    An attachment is kept if another pod on the node uses the volume. Nothing is yielded for a pod without a node.
    """
    row = view.nodes.index.get(pod.spec.node_name)
    storage = get_listers(view)
    if row is None or not storage.attachments:
        return
    own_volumes, other_volumes = set[AttachedVolume](), set[AttachedVolume]()
    for position in view.pods_on(row):
        volumes = find_attached_volumes(view, position)
        if view.pods.objects[position].key == pod.key:
            own_volumes.update(volumes)
        else:
            other_volumes.update(volumes)

    unshared_volumes = own_volumes - other_volumes
    for attachment in storage.attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name != pod.spec.node_name or volume is None or volume.spec.csi is None:
            continue
        if AttachedVolume(attachment.spec.attacher, volume.spec.csi.volume_handle) in unshared_volumes:
            yield ObjectEdit.delete(ObjectKey.of(attachment))


def find_attached_volumes(view: Fork, position: Position) -> list[AttachedVolume]:
    """Return the CSI volumes and in-tree disks of the pod at this position, or [] if they cannot be determined."""
    info = view.pods.get_info(position)
    if not info.spec.volumes:
        return []
    storage = get_listers(view)
    try:
        return find_csi_volumes(info, storage) + find_disks_of_running_pod(info, storage)
    except PluginError:
        return []


def find_driver_users(view: Fork, row: Row, driver: str) -> list[Position]:
    """Return the positions of the node's pods that use volumes of the driver, pods with the fewest volumes first."""
    volume_counts = {
        position: len({volume for volume in find_attached_volumes(view, position) if volume.driver == driver})
        for position in view.pods_on(row)
    }
    users = [position for position, count in volume_counts.items() if count]
    return sorted(users, key=volume_counts.__getitem__)
