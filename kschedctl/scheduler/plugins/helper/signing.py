"""What the signatures of several plugins hold.

Upstream: staging/src/k8s.io/kube-scheduler/framework/signers.go (v1.36).
"""

from __future__ import annotations

import msgspec

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Volume
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.scheduler.framework import Fragment
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

EXTENDED_RESOURCES_SIGNED = ByVersion(
    "whether pods are signed with gate DRAExtendedResource", (("", False), ("1.36", True)), "plugins/noderesources"
)
encode = msgspec.json.Encoder(order="sorted").encode


def signed_tolerations(info: PodInfo) -> Fragment:
    """The tolerations."""
    return {"tolerations": sorted(info.spec.tolerations, key=lambda toleration: (toleration.key, toleration.value))}


def signed_resources(info: PodInfo, view: Fork, features: Features) -> Fragment | None:
    """The requests; None for a pod whose extended resources devices may back."""
    if features.extended_resource and not _signs_devices(info, view, features):
        return None
    usual = (names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE)
    return {
        "resources": {name: amount for name, amount in info.incoming_requests.items() if amount or name not in usual}
    }


def _signs_devices(info: PodInfo, view: Fork, features: Features) -> bool:
    signs = EXTENDED_RESOURCES_SIGNED.at(features.release)
    return signs and not is_any_backed(info.incoming_requests, find_backing_classes(view.objects))


def signed_volumes(info: PodInfo) -> Fragment:
    """The sources, without ConfigMaps and Secrets.

    Of projected volumes, which the API server gives nearly all pods alike, of NFS and such, and of how volumes are
    mounted no snapshot keeps what upstream signs: pods that differ in these alone count as alike.
    """
    unnamed = map(_source, info.spec.volumes)
    return {"volumes": sorted(encode(volume).decode() for volume in unnamed if volume != Volume())}


def _source(volume: Volume) -> Volume:
    """Without its name, and with the limit of an emptyDir as the API server prints it."""
    scratch = volume.empty_dir
    if scratch is not None and scratch.size_limit is not None:
        scratch = msgspec.structs.replace(scratch, size_limit=_canonical(scratch.size_limit))
    return msgspec.structs.replace(volume, name="", empty_dir=scratch)


def _canonical(quantity: str | int | float) -> str:
    """What is no quantity stays as it is: no such pod is ever stored."""
    try:
        return str(parse(quantity))
    except QuantityError:
        return str(quantity)
