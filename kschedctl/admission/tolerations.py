"""Admission plugins that add tolerations: for failing nodes, from namespaces, and for extended resources.

Upstream: plugin/pkg/admission/{defaulttolerationseconds,podtolerationrestriction,extendedresourcetoleration} and
pkg/util/tolerations (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.resource_quota import is_best_effort
from kschedctl.api.component_flags import DEFAULT_TOLERATION_SECONDS
from kschedctl.api.resource_names import is_extended

FAILING_NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
MEMORY_PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
DEFAULTS_ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST_ANNOTATION = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"


def add_default_tolerations(request: AdmissionRequest) -> None:
    """Run DefaultTolerationSeconds: let the pod stay for a while on nodes that are not ready or unreachable."""
    if not request.is_pod:
        return
    no_execute = [
        toleration
        for toleration in request.spec.get("tolerations") or ()
        if toleration.get("effect") in (None, "", "NoExecute")
    ]
    server = request.cluster.api_server
    for taint_key, seconds in zip(
        FAILING_NODE_TAINTS, (server.not_ready_seconds, server.unreachable_seconds), strict=True
    ):
        if not any(toleration.get("key") in (None, "", taint_key) for toleration in no_execute):
            added = {"key": taint_key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            request.spec["tolerations"] = [*(request.spec.get("tolerations") or ()), added]
            if seconds != DEFAULT_TOLERATION_SECONDS:
                request.changed.append(f"toleration of {taint_key} for {seconds} s by {server.where}")


def add_namespace_tolerations(request: AdmissionRequest) -> None:
    """Run PodTolerationRestriction: add the namespace's tolerations and check its whitelist.

    Raises NotAdmittedError.
    """
    if not request.is_pod:
        return
    added = _parse_annotation(request, DEFAULTS_ANNOTATION) or []
    pod_tolerations = [drop_empty_fields(toleration) for toleration in request.spec.get("tolerations") or ()]
    if new_tolerations := [toleration for toleration in added if drop_empty_fields(toleration) not in pod_tolerations]:
        keys = ", ".join(str(toleration.get("key") or "any taint") for toleration in new_tolerations)
        enabled_clause = request.describe_optional_plugin("PodTolerationRestriction")
        request.changed.append(f"tolerations of {keys} by Namespace {request.namespace}{enabled_clause}")
    if not is_best_effort(request):
        added = [*added, MEMORY_PRESSURE]
    if added:
        request.spec["tolerations"] = merge_tolerations(request.spec.get("tolerations") or [], added)
    check_whitelist(request)


def check_whitelist(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the namespace's whitelist does not allow one of the pod's tolerations."""
    if not request.is_pod:
        return
    allowed = _parse_annotation(request, WHITELIST_ANNOTATION)
    pod_tolerations = request.spec.get("tolerations") or []
    if allowed and not all(
        any(covers(permitted, toleration) for permitted in allowed) for toleration in pod_tolerations
    ):
        message = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
        raise NotAdmittedError(INTERNAL, f"{message} namespace whitelist")


def _parse_annotation(request: AdmissionRequest, key: str) -> list[Writable] | None:
    """Return the tolerations in an annotation of the namespace, or None without one. Raises NotAdmittedError."""
    text = request.namespace_annotations.get(key)
    if not text:
        return None
    try:
        tolerations = json.loads(text)
    except ValueError as error:
        raise NotAdmittedError(INTERNAL, _render_go_json_error(text, error)) from None
    return tolerations if isinstance(tolerations, list) else []


def _render_go_json_error(text: str, error: ValueError) -> str:
    """Return the message of Go's encoding/json for invalid JSON, as far as the message can be reproduced."""
    for literal in ("null", "true", "false"):
        if text.startswith(literal[0]):
            for index, (character, expected) in enumerate(zip(text, literal, strict=False)):
                if index and character != expected:
                    return f"invalid character '{character}' in literal {literal} (expecting '{expected}')"
    return f"invalid character '{text[0]}' looking for beginning of value" if text[:1].isalpha() else str(error)


def add_extended_resource_tolerations(request: AdmissionRequest) -> None:
    """Run ExtendedResourceToleration: tolerate taints with the names of extended resources that the pod requests."""
    if not request.is_pod:
        return
    containers = (*request.containers, *request.init_containers)
    names = {name for container in containers for name in (container.get("resources") or {}).get("requests") or {}}
    for name in sorted(filter(is_extended, names)):
        added = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        pod_tolerations = request.spec.get("tolerations") or []
        if all(drop_empty_fields(toleration) != added for toleration in pod_tolerations):
            request.spec["tolerations"] = [*pod_tolerations, added]
            request.changed.append(
                f"toleration of {name}{request.describe_optional_plugin('ExtendedResourceToleration')}"
            )


def merge_tolerations(first: Sequence[Writable], second: Sequence[Writable]) -> list[Writable]:
    """Return both lists without tolerations that another one covers. Of equal tolerations the first is kept."""
    result: list[Writable] = []
    all_tolerations = [*first, *second]
    for index, toleration in enumerate(all_tolerations):
        if any(covers(previous, toleration) for previous in result):
            continue
        if any(
            drop_empty_fields(later) != drop_empty_fields(toleration) and covers(later, toleration)
            for later in all_tolerations[index + 1 :]
        ):
            continue
        result.append(toleration)
    return result


def drop_empty_fields(toleration: Writable) -> Writable:
    """Return the toleration without empty fields."""
    return {name: value for name, value in toleration.items() if value not in (None, "")}


def covers(wide: Writable, narrow: Writable) -> bool:
    """Return whether one toleration tolerates every taint that the other tolerates."""
    if drop_empty_fields(wide) == drop_empty_fields(narrow):
        return True
    exists = wide.get("operator") == "Exists"
    if (wide.get("key") or "") != (narrow.get("key") or "") and not (not wide.get("key") and exists):
        return False
    if wide.get("effect") and wide["effect"] != (narrow.get("effect") or ""):
        return False
    seconds, narrow_seconds = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if (
        wide.get("effect") == "NoExecute"
        and seconds is not None
        and (narrow_seconds is None or narrow_seconds > seconds)
    ):
        return False
    if exists:
        return True
    equal = (narrow.get("operator") or "Equal") == "Equal"
    return equal and (wide.get("value") or "") == (narrow.get("value") or "")
