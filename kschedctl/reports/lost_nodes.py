"""Report parts on lost nodes: the pods that wait or run late until the nodes are deleted, and why."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kschedctl.reports.document import Document
from kschedctl.text.counts import join_first_few


class WaitingRule(StrEnum):
    """A rule by which pods fit nowhere as long as lost nodes are not deleted."""

    SPREAD = "Spread"
    """Unreachable nodes count as empty domains for spread constraints."""
    LATE_PODS = "LatePods"
    """Pods that are replaced only after the deletion do not count for spread constraints before."""
    AFFINITY = "Affinity"
    """Terminating pods count for required pod affinity and anti-affinity."""
    CLAIM_IN_USE = "ClaimInUse"
    """A Terminating pod uses the same ReadWriteOncePod claim."""
    DEVICE_IN_USE = "DeviceInUse"
    """A device claim stays allocated on an unreachable node."""
    OTHER_PODS = "OtherPods"
    """Other pods take the room that they do not take after the deletion."""

    def describe(self, pods: str, *, single: bool) -> str:
        """Return a clause that says why the pods wait, and until when. `single` says whether it is one pod."""
        wait = "waits" if single else "wait"
        return f"{pods} {wait} until the lost nodes' Node objects are deleted, since {self.reason}"

    @property
    def reason(self) -> str:
        """The clause that says why pods wait."""
        match self:
            case WaitingRule.SPREAD:
                return (
                    "spread constraints count domains of unreachable nodes as empty (unless nodeTaintsPolicy is Honor)"
                )
            case WaitingRule.LATE_PODS:
                return (
                    "other pods are not replaced before, and their domains have too few pods for the spread constraints"
                )
            case WaitingRule.AFFINITY:
                return "pods that stay Terminating on these nodes count for required pod affinity and anti-affinity"
            case WaitingRule.CLAIM_IN_USE:
                return "a pod that stays Terminating there uses the same ReadWriteOncePod claim"
            case WaitingRule.DEVICE_IN_USE:
                return "the device claims of pods that stay Terminating on these nodes stay allocated"
            case _:
                return "until then other pods take the capacity that is left"


class PodsWaitingForDeletion(Document, frozen=True):
    """Pods that wait for the same reason until the lost nodes are deleted."""

    rule: WaitingRule
    pods: tuple[str, ...]


class LateReason(StrEnum):
    """A reason why pods that have a node run again only once the lost nodes are deleted."""

    CONTROLLER_WAITS = "ControllerWaits"
    """The controller (of a StatefulSet, or of a Job with podReplacementPolicy Failed) waits for the pod's end."""
    NOT_DELETED = "NotDeleted"
    """The pod tolerates the taint of unreachable nodes for ever, so that it is not deleted."""
    EVICTIONS_STOPPED = "EvictionsStopped"
    """So many nodes of the zone are down that kube-controller-manager deletes no pods there."""
    VOLUME_ATTACHED = "VolumeAttached"
    """The pod gets a node, but a volume that only one node may attach stays attached to the lost node."""

    def describe(self, pods: str, *, single: bool) -> str:
        """Return a clause that says why pods run late. `pods` names them, and `single` says if it is one."""
        gets = "gets" if single else "get"
        match self:
            case LateReason.CONTROLLER_WAITS:
                controllers = (
                    "its controller waits until the pod is gone"
                    if single
                    else "their controllers wait until the pods are gone"
                )
                return (
                    f"{pods} {gets} no replacement until the lost nodes' Node objects are deleted, since {controllers}"
                )
            case LateReason.NOT_DELETED:
                tolerate = "it tolerates" if single else "they tolerate"
                return (
                    f"{pods} {gets} no replacement until the lost nodes' Node objects are deleted, since {tolerate} "
                    "the taint node.kubernetes.io/unreachable for ever"
                )
            case LateReason.EVICTIONS_STOPPED:
                return (
                    f"{pods} {gets} no replacement until the lost nodes' Node objects are deleted, since by default "
                    "kube-controller-manager deletes no pods in a zone of up to 50 nodes of which 55% or more, but not "
                    "all, are down"
                )
            case LateReason.VOLUME_ATTACHED:
                starts = "starts" if single else "start"
                volumes = "its volume stays" if single else "their volumes stay"
                return (
                    f"{pods} {gets} another node, but {starts} only after the lost nodes' Node objects are deleted, "
                    f"since {volumes} attached there, and only one node at a time may attach such a volume"
                )


class LatePods(Document, frozen=True):
    """Pods that run again only once the lost nodes are deleted, for the same reason."""

    reason: LateReason
    pods: tuple[str, ...]


def describe_waiting_pods(groups: Iterable[PodsWaitingForDeletion]) -> tuple[str, ...]:
    """Return a text for each rule that names the pods that wait until lost nodes are deleted because of it."""
    pods_by_rule: dict[WaitingRule, dict[str, None]] = {}
    for group in groups:
        pods_by_rule.setdefault(group.rule, {}).update(dict.fromkeys(group.pods))
    return tuple(
        rule.describe(join_first_few(list(pods)), single=len(pods) == 1) for rule, pods in pods_by_rule.items()
    )


def describe_late_pods(groups: Iterable[LatePods]) -> tuple[str, ...]:
    """Return a text for each group that names the pods that run again only after the deletion, and says why."""
    return tuple(group.reason.describe(join_first_few(group.pods), single=len(group.pods) == 1) for group in groups)
