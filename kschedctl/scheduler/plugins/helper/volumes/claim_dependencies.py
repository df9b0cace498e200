"""The API objects on which the answers of the volume plugins depend, found by following a pod's claims."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PersistentVolumeClaim
from kschedctl.scheduler.framework.declaration import NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import find_in_tree_plugin
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    claim_class,
    iter_claim_volumes,
)
from kschedctl.snapshot.pod_info import PodInfo

CLAIM_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
"""The kinds through which a pod's claim leads to a volume."""

LOOK_AT_CLAIM = NextStep("LookAtClaim", "Look at the claim and its events")


def claim_dependencies(info: PodInfo, listers: Listers) -> Iterator[Dependency]:
    """Yield the kinds of the missing objects to which the pod's volumes refer, and of those of which there may be
    more.
    """
    for volume in iter_claim_volumes(info.pod):
        claim = listers.claims.get((info.namespace, volume.claim_name))
        for kind in ["PersistentVolumeClaim"] if claim is None else _iter_kinds_behind_claim(claim, listers):
            yield Dependency(kind, Effect.REFUSES)


def _iter_kinds_behind_claim(claim: PersistentVolumeClaim, listers: Listers) -> Iterator[str]:
    """Yield the kinds on which the answers for an existing claim depend."""
    if claim.spec.volume_name:
        volume = listers.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield "PersistentVolume"
        elif find_in_tree_plugin(volume.spec) is not None:
            yield "CSINode"  # says whether the node uses it through CSI
        return
    class_name = claim_class(claim)
    storage_class = listers.classes.get(class_name)
    if storage_class is None:
        gets_default_class = (
            claim.spec.storage_class_name is None
        )  # then the default class counts, when the claim is created
        yield from ["StorageClass"] * (bool(class_name) or gets_default_class)
    elif storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        yield "PersistentVolume"
        driver = listers.drivers.get(storage_class.provisioner)
        if driver is None:
            yield "CSIDriver"
        elif driver.spec.storage_capacity:
            yield "CSIStorageCapacity"
