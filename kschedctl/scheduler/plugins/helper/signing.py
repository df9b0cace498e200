"""Fragments of pod signatures that several plugins share.

Upstream: staging/src/k8s.io/kube-scheduler/framework/signers.go (v1.36).
"""

from __future__ import annotations

import msgspec

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Volume
from kschedctl.api.quantity import QuantityError, parse_quantity
from kschedctl.scheduler.framework import Fragment
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

EXTENDED_RESOURCES_SIGNED = ByVersion(
    "results are reused for identical pods (pod signatures) even if the gate DRAExtendedResource is on",
    (("", False), ("1.36", True)),
    "plugins/noderesources",
)
encode = msgspec.json.Encoder(order="sorted").encode


def sign_tolerations(info: PodInfo) -> Fragment:
    """Return the pod's tolerations, sorted by key and value, as a fragment of its signature."""
    return {"tolerations": sorted(info.spec.tolerations, key=lambda toleration: (toleration.key, toleration.value))}


def sign_resources(info: PodInfo, view: Fork, features: Features) -> Fragment | None:
    """Return the pod's requests as a fragment of its signature, or None if the pod has no signature.

    A pod has no signature if devices may back its extended resources. Native resources with a request of 0 are left
    out.
    """
    if features.extended_resource and not _can_sign_extended_resources(info, view, features):
        return None
    native_resources = (names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE)
    requests = info.incoming_requests
    return {"resources": {name: amount for name, amount in requests.items() if amount or name not in native_resources}}


def _can_sign_extended_resources(info: PodInfo, view: Fork, features: Features) -> bool:
    """Return whether a pod has a signature while DRAExtendedResource is on.

    It has a signature if no DeviceClass backs any of its requests. Before 1.36, no pod has a signature while the gate
    is on.
    """
    if not EXTENDED_RESOURCES_SIGNED.at(features.release):
        return False
    return not is_any_backed(info.incoming_requests, find_backing_classes(view.objects))


def sign_volumes(info: PodInfo) -> Fragment:
    """Return the sources of the pod's volumes as a fragment of its signature, without ConfigMaps and Secrets.

    Snapshots do not store everything that upstream signs. They lack projected volumes (which nearly all pods have), NFS
    and similar sources, and how volumes are mounted. Pods that differ only in these have equal signatures.
    """
    sources = map(_normalize_volume, info.spec.volumes)
    return {"volumes": sorted(encode(volume).decode() for volume in sources if volume != Volume())}


def _normalize_volume(volume: Volume) -> Volume:
    """Return a copy of the volume without its name, and with the size limit of an emptyDir in canonical form."""
    empty_dir = volume.empty_dir
    if empty_dir is not None and empty_dir.size_limit is not None:
        empty_dir = msgspec.structs.replace(empty_dir, size_limit=_canonicalize_quantity(empty_dir.size_limit))
    return msgspec.structs.replace(volume, name="", empty_dir=empty_dir)


def _canonicalize_quantity(quantity: str | int | float) -> str:
    """Return the quantity in canonical form, or unchanged if it is invalid.

    Invalid quantities do not matter, since the API server stores no pod with one.
    """
    try:
        return str(parse_quantity(quantity))
    except QuantityError:
        return str(quantity)
