"""The admission plugin PodNodeSelector, which adds the namespace's node selector to pods.

Upstream: plugin/pkg/admission/podnodeselector/admission.go (v1.36).
"""

from __future__ import annotations

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError

SELECTOR = "scheduler.alpha.kubernetes.io/node-selector"


def add_node_selector(request: AdmissionRequest) -> None:
    """Run the PodNodeSelector plugin: add the namespace's node selector to the pod's own.

    The request records the added labels. Raises NotAdmittedError if the selectors conflict or the namespace's is
    invalid.
    """
    if not request.is_pod:
        return
    check_node_selector(request)
    pod_selector = request.spec.get("nodeSelector") or {}
    namespace_selector = parse_node_selector_of_namespace(request)
    missing = {key: value for key, value in namespace_selector.items() if key not in pod_selector}
    if missing:
        added = ",".join(f"{key}={value}" for key, value in missing.items())
        enabled_clause = request.describe_optional_plugin("PodNodeSelector")
        request.changed.append(f"nodeSelector {added} by Namespace {request.namespace}{enabled_clause}")
        request.spec["nodeSelector"] = {**missing, **pod_selector}


def check_node_selector(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the pod and its namespace require different values of a node label."""
    if not request.is_pod:
        return
    pod_selector = request.spec.get("nodeSelector") or {}
    required = parse_node_selector_of_namespace(request)
    if any(pod_selector.get(key, value) != value for key, value in required.items()):
        raise request.build_denial_error("pod node label selector conflicts with its namespace node label selector")


def parse_node_selector_of_namespace(request: AdmissionRequest) -> dict[str, str]:
    """Parse the node selector in the namespace's annotation, or return {} if there is none.

    Raises NotAdmittedError if the selector is invalid.
    """
    selector: dict[str, str] = {}
    text = request.namespace_annotations.get(SELECTOR, "")
    if not text:
        return selector
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or "=" in value:
            raise NotAdmittedError(INTERNAL, f"invalid selector: [{part}]")
        selector[key.strip()] = value.strip()
    return selector
