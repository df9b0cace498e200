"""What claims for devices use of quotas: how many there are, and how many devices of which class they may get.

Upstream: pkg/quota/v1/evaluator/core/resource_claims.go (v1.36).
"""

from __future__ import annotations

from collections import Counter

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.decoding import convert_builtins
from kschedctl.api.objects import DeviceRequest, DeviceSubRequest, ExactDeviceRequest, ResourceClaimSpec
from kschedctl.api.pod_requests import Quantities
from kschedctl.api.quantity import Quantity
from kschedctl.api.resource_names import DEVICE_CLASS_PREFIX, QUOTA_PREFIX
from kschedctl.cluster import without_nulls
from kschedctl.scheduler.framework.feature_gates import FeatureGates

KIND, COUNT = "ResourceClaim", "count/resourceclaims.resource.k8s.io"
OF_CLASS = ".deviceclass.resource.k8s.io/devices"
IMPLICIT = f"{QUOTA_PREFIX}{DEVICE_CLASS_PREFIX}"
MOST_ALLOCATED = 32
"""So many devices a claim can get; one for all of a class is counted as if it got them."""


def claim_usage(request: AdmissionRequest) -> Quantities:
    """What a claim uses, by the names that quotas have for it."""
    spec = convert_builtins(without_nulls(request.spec), ResourceClaimSpec)
    devices: Counter[str] = Counter()
    for asked in spec.devices.requests:
        devices.update(_devices(asked))
    usage: Quantities = {COUNT: Quantity(1)}
    by_class = _resources(request)
    for name, number in devices.items():
        usage[f"{name}{OF_CLASS}"] = Quantity(number)
        if by_class is None:
            continue
        usage[f"{IMPLICIT}{name}"] = Quantity(number)
        if resource := by_class.get(name):
            usage[f"{QUOTA_PREFIX}{resource}"] = Quantity(number)
    return usage


def is_of_claims(name: str, request: AdmissionRequest) -> bool:
    """Whether a name in a quota is about claims for devices."""
    if name == COUNT or name.endswith(OF_CLASS):
        return True
    by_class = _resources(request) or {}
    if name.startswith(IMPLICIT):
        return bool(by_class.get(name.removeprefix(IMPLICIT)))
    return name.startswith(QUOTA_PREFIX) and name.removeprefix(QUOTA_PREFIX) in by_class.values()


def _devices(asked: DeviceRequest) -> Counter[str]:
    """Class -> how many devices of it at the most."""
    if not asked.first_available:
        return Counter({asked.exactly.device_class_name: _number(asked.exactly)}) if asked.exactly else Counter()
    most: Counter[str] = Counter()
    for way in asked.first_available:
        most[way.device_class_name] = max(most[way.device_class_name], _number(way))
    return most


def _number(asked: ExactDeviceRequest | DeviceSubRequest) -> int:
    """One unless it is said otherwise."""
    match asked.allocation_mode:
        case "" | "ExactCount":
            return asked.count or 1
        case "All":
            return MOST_ALLOCATED
        case _:
            return 0


def _resources(request: AdmissionRequest) -> dict[str, str] | None:
    """Class -> the extended resource that stands for it; None without DRAExtendedResource."""
    cluster = request.cluster
    if not FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("DRAExtendedResource"):
        return None
    classes = ((known.metadata.name, known.spec.extended_resource_name) for known in cluster.device_classes)
    return {name: resource for name, resource in classes if resource}
