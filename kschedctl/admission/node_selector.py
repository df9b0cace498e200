"""The node selector of a namespace's pods. Upstream: plugin/pkg/admission/podnodeselector/admission.go (v1.36)."""

from __future__ import annotations

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError

SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"


def fill_in(request: AdmissionRequest) -> None:
    """The namespace's selector beside the pod's own. Raises NotAdmittedError."""
    if not request.is_pod:
        return
    check(request)
    own = request.spec.get("nodeSelector") or {}
    missing = {key: value for key, value in of_namespace(request).items() if key not in own}
    if missing:
        added = ",".join(f"{key}={value}" for key, value in missing.items())
        request.changed.append(f"nodeSelector {added} by Namespace {request.namespace}{request.on('PodNodeSelector')}")
        request.spec["nodeSelector"] = {**missing, **own}


def check(request: AdmissionRequest) -> None:
    """Raises NotAdmittedError where the two ask for different values of a label."""
    if not request.is_pod:
        return
    own = request.spec.get("nodeSelector") or {}
    if any(key in own and own[key] != value for key, value in of_namespace(request).items()):
        raise request.forbidden("pod node label selector conflicts with its namespace node label selector")


def of_namespace(request: AdmissionRequest) -> dict[str, str]:
    """The selector that the annotation of the namespace has. Raises NotAdmittedError."""
    text = request.namespace_annotations.get(SELECTOR, "")
    selector: dict[str, str] = {}
    for part in text.split(",") if text else ():
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise NotAdmittedError(INTERNAL, f"invalid selector: [{part}]")
        selector[key.strip()] = value.strip()
    return selector
