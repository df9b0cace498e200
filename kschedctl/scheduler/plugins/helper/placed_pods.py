"""Decides whether a deleted pod frees room on a node."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod

NOMINATED_PODS_FREE_ROOM = ByVersion(
    "whether a pod that was only promised a node frees room when it goes", (("", False), ("1.33", True))
)


def frees_room(pod: Pod, counts_nominated: bool) -> bool:
    """Return whether the deletion of the pod frees room, because it is bound or, if that counts, nominated to a
    node.
    """
    return bool(pod.spec.node_name or (counts_nominated and pod.status.nominated_node_name))
