"""The admission plugin RuntimeClass, which adds a class's overhead, node selector and tolerations to pods.

Upstream: plugin/pkg/admission/runtimeclass/admission.go (v1.36).
"""

from __future__ import annotations

import msgspec

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.tolerations import merge_tolerations
from kschedctl.api.objects import RuntimeClass
from kschedctl.api.pod_requests import parse_quantities

REJECTED = "pod rejected: "


def apply_runtime_class(request: AdmissionRequest) -> None:
    """Add overhead, node selector and tolerations of the class to the pod. Raises NotAdmittedError."""
    runtime_class = _find_class(request)
    if runtime_class is None:
        return
    spec = request.spec
    if runtime_class.overhead is not None and runtime_class.overhead.pod_fixed:
        pod_overhead = spec.get("overhead")
        if pod_overhead is not None and parse_quantities(pod_overhead) != parse_quantities(
            runtime_class.overhead.pod_fixed
        ):
            raise request.forbidden(f"{REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(runtime_class.overhead.pod_fixed)
        if pod_overhead is None:
            request.changed.append(f"overhead by RuntimeClass {runtime_class.metadata.name}")
    if runtime_class.scheduling is not None:
        _apply_scheduling(request, runtime_class)


def _apply_scheduling(request: AdmissionRequest, runtime_class: RuntimeClass) -> None:
    """Add node selector and tolerations of the class. Raises NotAdmittedError for a conflicting selector."""
    assert runtime_class.scheduling is not None
    pod_selector = request.spec.get("nodeSelector") or {}
    for key, value in runtime_class.scheduling.node_selector.items():
        if key in pod_selector and pod_selector[key] != value:
            message = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise request.forbidden(f"{message}; pod.spec.nodeSelector[{key}] = {pod_selector[key]}")
    if runtime_class.scheduling.node_selector:
        request.spec["nodeSelector"] = {**pod_selector, **runtime_class.scheduling.node_selector}
    if runtime_class.scheduling.tolerations:
        added: list[Writable] = [msgspec.to_builtins(toleration) for toleration in runtime_class.scheduling.tolerations]
        request.spec["tolerations"] = merge_tolerations(request.spec.get("tolerations") or [], added)


def check_overhead(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the pod has an overhead but its class has none."""
    if not request.is_pod or not request.spec.get("overhead"):
        return
    runtime_class = _find_class(request)
    if runtime_class is None or runtime_class.overhead is None or not runtime_class.overhead.pod_fixed:
        raise request.forbidden(f"{REJECTED}Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _find_class(request: AdmissionRequest) -> RuntimeClass | None:
    """Return the RuntimeClass of the pod, or None if it names none. Raises NotAdmittedError."""
    name = request.spec.get("runtimeClassName") if request.is_pod else None
    if name is None:
        return None
    if not name:
        raise NotAdmittedError(INTERNAL, "resource name may not be empty")
    runtime_class = next(
        (candidate for candidate in request.cluster.runtime_classes if candidate.metadata.name == name), None
    )
    if runtime_class is None:
        raise request.forbidden(f'{REJECTED}RuntimeClass "{name}" not found')
    return runtime_class
