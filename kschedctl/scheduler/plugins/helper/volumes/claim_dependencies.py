"""What the answers of the volume plugins lean on: the claims of a pod followed as far as they lead."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PersistentVolumeClaim
from kschedctl.scheduler.framework.declaration import NextStep
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.plugins.helper.volumes.csi_migration import plugin_of
from kschedctl.scheduler.plugins.helper.volumes.listers import (
    WAIT_FOR_FIRST_CONSUMER,
    Listers,
    claim_class,
    claim_volumes,
)
from kschedctl.snapshot.pod_info import PodInfo

CLAIM_KINDS = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
"""The kinds through which a pod's claim leads to a volume."""

LOOK_AT_CLAIM = NextStep("LookAtClaim", "Look at the claim and its events")


def claim_dependencies(info: PodInfo, listers: Listers) -> Iterator[Dependency]:
    """The kinds of what the pod's volumes refer to and that is not there, or of which there may be more."""
    for volume in claim_volumes(info.pod):
        claim = listers.claims.get((info.namespace, volume.claim_name))
        for kind in ["PersistentVolumeClaim"] if claim is None else _of_claim(claim, listers):
            yield Dependency(kind, Effect.REFUSES)


def _of_claim(claim: PersistentVolumeClaim, listers: Listers) -> Iterator[str]:
    if claim.spec.volume_name:
        volume = listers.volumes.get(claim.spec.volume_name)
        if volume is None:
            yield "PersistentVolume"
        elif plugin_of(volume.spec) is not None:
            yield "CSINode"  # says whether the node uses it through CSI
        return
    name = claim_class(claim)
    storage_class = listers.classes.get(name)
    if storage_class is None:
        unset = claim.spec.storage_class_name is None  # then the default class counts, when the claim is created
        yield from ["StorageClass"] * (bool(name) or unset)
    elif storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
        yield "PersistentVolume"
        driver = listers.drivers.get(storage_class.provisioner)
        if driver is None:
            yield "CSIDriver"
        elif driver.spec.storage_capacity:
            yield "CSIStorageCapacity"
