"""The quota usage of ResourceClaims: their number, and how many devices of which class they may get.

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
from kschedctl.cluster import drop_nulls
from kschedctl.scheduler.framework.feature_gates import FeatureGates

KIND, COUNT = "ResourceClaim", "count/resourceclaims.resource.k8s.io"
DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
IMPLICIT_RESOURCE_PREFIX = f"{QUOTA_PREFIX}{DEVICE_CLASS_PREFIX}"
MAX_DEVICES = 32
"""The maximum number of devices of a claim; a request for all devices of a class counts as this many."""


def compute_claim_usage(request: AdmissionRequest) -> Quantities:
    """Return what a claim uses, by the names that quotas have for it."""
    spec = convert_builtins(drop_nulls(request.spec), ResourceClaimSpec)
    devices: Counter[str] = Counter()
    for device_request in spec.devices.requests:
        devices.update(_count_devices(device_request))
    usage: Quantities = {COUNT: Quantity(1)}
    resource_by_class = _extended_resources(request)
    for name, count in devices.items():
        usage[f"{name}{DEVICES_OF_CLASS}"] = Quantity(count)
        if resource_by_class is None:
            continue
        usage[f"{IMPLICIT_RESOURCE_PREFIX}{name}"] = Quantity(count)
        if resource := resource_by_class.get(name):
            usage[f"{QUOTA_PREFIX}{resource}"] = Quantity(count)
    return usage


def is_claim_resource(name: str, request: AdmissionRequest) -> bool:
    """Return whether a resource name in a quota is about ResourceClaims."""
    if name == COUNT or name.endswith(DEVICES_OF_CLASS):
        return True
    resource_by_class = _extended_resources(request) or {}
    if name.startswith(IMPLICIT_RESOURCE_PREFIX):
        return bool(resource_by_class.get(name.removeprefix(IMPLICIT_RESOURCE_PREFIX)))
    return name.startswith(QUOTA_PREFIX) and name.removeprefix(QUOTA_PREFIX) in resource_by_class.values()


def _count_devices(device_request: DeviceRequest) -> Counter[str]:
    """Return the maximum number of devices that a request may get, by device class."""
    if not device_request.first_available:
        return (
            Counter({device_request.exactly.device_class_name: _device_count(device_request.exactly)})
            if device_request.exactly
            else Counter()
        )
    max_by_class: Counter[str] = Counter()
    for alternative in device_request.first_available:
        max_by_class[alternative.device_class_name] = max(
            max_by_class[alternative.device_class_name], _device_count(alternative)
        )
    return max_by_class


def _device_count(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    """Return how many devices a request asks for; one by default."""
    match request.allocation_mode:
        case "" | "ExactCount":
            return request.count or 1
        case "All":
            return MAX_DEVICES
        case _:
            return 0


def _extended_resources(request: AdmissionRequest) -> dict[str, str] | None:
    """Return the extended resource of each device class, or None without the feature gate DRAExtendedResource."""
    cluster = request.cluster
    if not FeatureGates(cluster.kube_version, cluster.feature_gates).enabled("DRAExtendedResource"):
        return None
    classes = (
        (device_class.metadata.name, device_class.spec.extended_resource_name)
        for device_class in cluster.device_classes
    )
    return {name: resource for name, resource in classes if resource}
