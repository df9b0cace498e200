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
    """Run the DefaultTolerationSeconds plugin, which lets the pod stay on failing nodes for a while.

    It adds NoExecute tolerations of the taints for nodes that are not ready or unreachable, unless the pod already
    tolerates them. The request records an added toleration if its time differs from the usual default.
    """
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
    """Run the PodTolerationRestriction plugin: add the namespace's tolerations and check its whitelist.

    The request records the added tolerations. A pod that is not BestEffort also gets a toleration of memory pressure.
    Raises NotAdmittedError if the whitelist does not allow a toleration, or if an annotation of the namespace is
    invalid.
    """
    if not request.is_pod:
        return
    added = _parse_tolerations_annotation(request, DEFAULTS_ANNOTATION) or []
    pod_tolerations = [drop_empty_fields(toleration) for toleration in request.spec.get("tolerations") or ()]
    new_tolerations = [toleration for toleration in added if drop_empty_fields(toleration) not in pod_tolerations]
    if new_tolerations:
        keys = ", ".join(str(toleration.get("key") or "any taint") for toleration in new_tolerations)
        enabled_clause = request.describe_optional_plugin("PodTolerationRestriction")
        request.changed.append(f"tolerations of {keys} by Namespace {request.namespace}{enabled_clause}")
    if not is_best_effort(request):
        added = [*added, MEMORY_PRESSURE]
    if added:
        request.spec["tolerations"] = merge_tolerations(request.spec.get("tolerations") or [], added)
    check_toleration_whitelist(request)


def check_toleration_whitelist(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if the namespace's whitelist does not allow one of the pod's tolerations.

    Without a whitelist, or with an empty one, all tolerations are allowed.
    """
    if not request.is_pod:
        return
    allowed = _parse_tolerations_annotation(request, WHITELIST_ANNOTATION)
    if not allowed:
        return
    for toleration in request.spec.get("tolerations") or ():
        if not any(covers_toleration(permitted, toleration) for permitted in allowed):
            message = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            raise NotAdmittedError(INTERNAL, f"{message} namespace whitelist")


def _parse_tolerations_annotation(request: AdmissionRequest, key: str) -> list[Writable] | None:
    """Parse the tolerations in the namespace's annotation with this key.

    Return None if the annotation is missing or empty, and [] if its JSON is not a list. Raises NotAdmittedError if it
    is not valid JSON.
    """
    text = request.namespace_annotations.get(key)
    if not text:
        return None
    try:
        tolerations = json.loads(text)
    except ValueError as error:
        raise NotAdmittedError(INTERNAL, _render_go_json_error(text, error)) from None
    return tolerations if isinstance(tolerations, list) else []


def _render_go_json_error(text: str, error: ValueError) -> str:
    """Return the error message that Go's encoding/json gives for invalid JSON.

    Only text that starts with a letter is covered. For other text, Python's message is returned.
    """
    first = text[:1]
    if not first.isalpha():
        return str(error)
    literal = {"n": "null", "t": "true", "f": "false"}.get(first)
    if literal is None:
        return f"invalid character {_quote_go_character(first)} looking for beginning of value"
    for character, expected in zip(text, literal, strict=False):
        if character != expected:
            quoted = _quote_go_character(character)
            return f"invalid character {quoted} in literal {literal} (expecting '{expected}')"
    if len(text) < len(literal):
        return "unexpected end of JSON input"
    # A whole literal is valid JSON, so that only what follows can be invalid
    following = text.removeprefix(literal).lstrip(" \t\r\n")
    return f"invalid character {_quote_go_character(following[0])} after top-level value"


def _quote_go_character(character: str) -> str:
    """Quote the first UTF-8 byte of a character as encoding/json does. Upstream: quoteChar.

    >>> _quote_go_character("x"), _quote_go_character("'"), _quote_go_character("é")
    ("'x'", "'\\\\''", "'Ã'")
    """
    first_byte = character.encode(errors="surrogatepass")[0]
    return r"'\''" if character == "'" else f"'{repr(chr(first_byte))[1:-1]}'"


def add_extended_resource_tolerations(request: AdmissionRequest) -> None:
    """Run the ExtendedResourceToleration plugin: tolerate taints that are named like a requested extended resource.

    The request records each added toleration.
    """
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
    """Merge two lists of tolerations, without tolerations that another one covers.

    Of equal tolerations, the first is kept.
    """
    merged: list[Writable] = []
    all_tolerations = [*first, *second]
    for index, toleration in enumerate(all_tolerations):
        is_covered_by_earlier = any(covers_toleration(earlier, toleration) for earlier in merged)
        # An equal toleration that comes later is dropped when its turn comes
        different_later = [
            later for later in all_tolerations[index + 1 :] if drop_empty_fields(later) != drop_empty_fields(toleration)
        ]
        is_covered_by_later = any(covers_toleration(later, toleration) for later in different_later)
        if not is_covered_by_earlier and not is_covered_by_later:
            merged.append(toleration)
    return merged


def drop_empty_fields(toleration: Writable) -> Writable:
    """Return the toleration without empty fields."""
    return {name: value for name, value in toleration.items() if value not in (None, "")}


def covers_toleration(wide: Writable, narrow: Writable) -> bool:
    """Return whether the toleration ``wide`` covers ``narrow``.

    It does if it tolerates every taint that ``narrow`` tolerates, for at least as long.
    """
    if drop_empty_fields(wide) == drop_empty_fields(narrow):
        return True
    accepts_any_value = wide.get("operator") == "Exists"
    accepts_any_key = accepts_any_value and not wide.get("key")
    has_same_key = (wide.get("key") or "") == (narrow.get("key") or "")
    if not accepts_any_key and not has_same_key:
        return False
    if wide.get("effect") and wide["effect"] != (narrow.get("effect") or ""):
        return False
    if wide.get("effect") == "NoExecute" and not _lasts_as_long(wide, narrow):
        return False
    if accepts_any_value:
        return True
    narrow_compares_value = (narrow.get("operator") or "Equal") == "Equal"
    has_same_value = (wide.get("value") or "") == (narrow.get("value") or "")
    return narrow_compares_value and has_same_value


def _lasts_as_long(toleration: Writable, other: Writable) -> bool:
    """Return whether one toleration lasts at least as long as another.

    A toleration without a time lasts forever.
    """
    seconds = toleration.get("tolerationSeconds")
    other_seconds = other.get("tolerationSeconds")
    return seconds is None or (other_seconds is not None and seconds >= other_seconds)
