"""What a RuntimeClass adds to a pod. Upstream: plugin/pkg/admission/runtimeclass/admission.go (v1.36)."""

from __future__ import annotations

import msgspec

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.tolerations import merged
from kschedctl.api.objects import RuntimeClass
from kschedctl.api.pod_requests import parse_quantities

REJECTED = "pod rejected: "


def fill_in(request: AdmissionRequest) -> None:
    """Overhead, node selector and tolerations of the class. Raises NotAdmittedError."""
    runtime_class = _class(request)
    if runtime_class is None:
        return
    spec = request.spec
    if runtime_class.overhead is not None and runtime_class.overhead.pod_fixed:
        given = spec.get("overhead")
        if given is not None and parse_quantities(given) != parse_quantities(runtime_class.overhead.pod_fixed):
            raise request.forbidden(f"{REJECTED}Pod's Overhead doesn't match RuntimeClass's defined Overhead")
        spec["overhead"] = dict(runtime_class.overhead.pod_fixed)
        if given is None:
            request.changed.append(f"overhead by RuntimeClass {runtime_class.metadata.name}")
    if runtime_class.scheduling is not None:
        _schedule(request, runtime_class)


def _schedule(request: AdmissionRequest, runtime_class: RuntimeClass) -> None:
    assert runtime_class.scheduling is not None
    own = request.spec.get("nodeSelector") or {}
    for key, value in runtime_class.scheduling.node_selector.items():
        if key in own and own[key] != value:
            said = f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}"
            raise request.forbidden(f"{said}; pod.spec.nodeSelector[{key}] = {own[key]}")
    if runtime_class.scheduling.node_selector:
        request.spec["nodeSelector"] = {**own, **runtime_class.scheduling.node_selector}
    if runtime_class.scheduling.tolerations:
        added: list[Writable] = [msgspec.to_builtins(toleration) for toleration in runtime_class.scheduling.tolerations]
        request.spec["tolerations"] = merged(request.spec.get("tolerations") or [], added)


def check(request: AdmissionRequest) -> None:
    """Raises NotAdmittedError where the pod brings an overhead that no class of it has."""
    if not request.is_pod or not request.spec.get("overhead"):
        return
    runtime_class = _class(request)
    if runtime_class is None or runtime_class.overhead is None or not runtime_class.overhead.pod_fixed:
        raise request.forbidden(f"{REJECTED}Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _class(request: AdmissionRequest) -> RuntimeClass | None:
    name = request.spec.get("runtimeClassName") if request.is_pod else None
    if name is None:
        return None
    if not name:
        raise NotAdmittedError(INTERNAL, "resource name may not be empty")
    runtime_class = next((known for known in request.cluster.runtime_classes if known.metadata.name == name), None)
    if runtime_class is None:
        raise request.forbidden(f'{REJECTED}RuntimeClass "{name}" not found')
    return runtime_class
