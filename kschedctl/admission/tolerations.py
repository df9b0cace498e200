"""Tolerations that pods get: for nodes that go away, from namespaces, for extended resources.

Upstream: plugin/pkg/admission/{defaulttolerationseconds,podtolerationrestriction,extendedresourcetoleration} and
pkg/util/tolerations (v1.36).
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from kschedctl.admission.request import INTERNAL, AdmissionRequest, NotAdmittedError, Writable
from kschedctl.admission.resource_quota import is_best_effort
from kschedctl.api.observed.api_server import DEFAULT_TOLERATION_SECONDS
from kschedctl.api.resource_names import is_extended

GOING = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
MEMORY_PRESSURE = {"key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"}
DEFAULTS = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"


def for_nodes_that_go(request: AdmissionRequest) -> None:
    """DefaultTolerationSeconds: a pod stays for a while on a node that is not ready or cannot be reached."""
    if not request.is_pod:
        return
    own = [
        toleration
        for toleration in request.spec.get("tolerations") or ()
        if toleration.get("effect") in (None, "", "NoExecute")
    ]
    server = request.cluster.api_server
    for taint, seconds in zip(GOING, (server.not_ready_seconds, server.unreachable_seconds), strict=True):
        if not any(toleration.get("key") in (None, "", taint) for toleration in own):
            added = {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
            request.spec["tolerations"] = [*(request.spec.get("tolerations") or ()), added]
            if seconds != DEFAULT_TOLERATION_SECONDS:
                request.changed.append(f"toleration of {taint} for {seconds} s by {server.where}")


def of_namespace(request: AdmissionRequest) -> None:
    """PodTolerationRestriction: what the namespace adds, and what it allows. Raises NotAdmittedError."""
    if not request.is_pod:
        return
    added = _annotated(request, DEFAULTS) or []
    own = [plain(toleration) for toleration in request.spec.get("tolerations") or ()]
    if more := [toleration for toleration in added if plain(toleration) not in own]:
        keys = ", ".join(str(toleration.get("key") or "any taint") for toleration in more)
        on = request.on("PodTolerationRestriction")
        request.changed.append(f"tolerations of {keys} by Namespace {request.namespace}{on}")
    if not is_best_effort(request):
        added = [*added, MEMORY_PRESSURE]
    if added:
        request.spec["tolerations"] = merged(request.spec.get("tolerations") or [], added)
    check_whitelist(request)


def check_whitelist(request: AdmissionRequest) -> None:
    """Raises NotAdmittedError where the namespace does not allow some toleration."""
    if not request.is_pod:
        return
    allowed, own = _annotated(request, WHITELIST), request.spec.get("tolerations") or []
    if allowed and not all(any(covers(permitted, toleration) for permitted in allowed) for toleration in own):
        said = "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
        raise NotAdmittedError(INTERNAL, f"{said} namespace whitelist")


def _annotated(request: AdmissionRequest, key: str) -> list[Writable] | None:
    """Tolerations of an annotation of the namespace. Raises NotAdmittedError."""
    text = request.namespace_annotations.get(key)
    if not text:
        return None
    try:
        written = json.loads(text)
    except ValueError as error:
        raise NotAdmittedError(INTERNAL, _in_go(text, error)) from None
    return written if isinstance(written, list) else []


def _in_go(text: str, error: ValueError) -> str:
    """What Go's encoding/json says of a text that begins as a literal and is none, else what is wrong anyhow."""
    for literal in ("null", "true", "false"):
        if text.startswith(literal[0]):
            for at, (got, wanted) in enumerate(zip(text, literal, strict=False)):
                if at and got != wanted:
                    return f"invalid character '{got}' in literal {literal} (expecting '{wanted}')"
    return f"invalid character '{text[0]}' looking for beginning of value" if text[:1].isalpha() else str(error)


def for_extended_resources(request: AdmissionRequest) -> None:
    """ExtendedResourceToleration: for nodes that are tainted with the resources that the pod asks for."""
    if not request.is_pod:
        return
    containers = (*request.containers, *request.init_containers)
    names = {name for container in containers for name in (container.get("resources") or {}).get("requests") or {}}
    for name in sorted(filter(is_extended, names)):
        added = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
        own = request.spec.get("tolerations") or []
        if all(plain(toleration) != added for toleration in own):
            request.spec["tolerations"] = [*own, added]
            request.changed.append(f"toleration of {name}{request.on('ExtendedResourceToleration')}")


def merged(first: Sequence[Writable], second: Sequence[Writable]) -> list[Writable]:
    """Both, without those that another one covers; of equal ones the first stays."""
    kept_tolerations: list[Writable] = []
    every = [*first, *second]
    for at, toleration in enumerate(every):
        if any(covers(kept, toleration) for kept in kept_tolerations):
            continue
        if any(plain(later) != plain(toleration) and covers(later, toleration) for later in every[at + 1 :]):
            continue
        kept_tolerations.append(toleration)
    return kept_tolerations


def plain(toleration: Writable) -> Writable:
    """Without what says nothing."""
    return {name: value for name, value in toleration.items() if value not in (None, "")}


def covers(wide: Writable, narrow: Writable) -> bool:
    """Whether one toleration tolerates all that the other does."""
    if plain(wide) == plain(narrow):
        return True
    exists = wide.get("operator") == "Exists"
    if (wide.get("key") or "") != (narrow.get("key") or "") and not (not wide.get("key") and exists):
        return False
    if wide.get("effect") and wide["effect"] != (narrow.get("effect") or ""):
        return False
    seconds, of_narrow = wide.get("tolerationSeconds"), narrow.get("tolerationSeconds")
    if wide.get("effect") == "NoExecute" and seconds is not None and (of_narrow is None or of_narrow > seconds):
        return False
    if exists:
        return True
    equal = (narrow.get("operator") or "Equal") == "Equal"
    return equal and (wide.get("value") or "") == (narrow.get("value") or "")
