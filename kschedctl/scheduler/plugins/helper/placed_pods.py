"""Which pods hold, or held, a place on a node that others may wait for."""

from __future__ import annotations

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod

FREES_PROMISES = ByVersion(
    "whether a pod that was only promised a node frees room when it goes", (("", False), ("1.33", True))
)


def placed(pod: Pod, promised: bool) -> bool:
    """Whether it is on a node or, where that counts, is promised one."""
    return bool(pod.spec.node_name or (promised and pod.status.nominated_node_name))
