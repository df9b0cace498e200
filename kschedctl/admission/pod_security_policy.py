"""The levels of the Pod Security Standards that a namespace asks for, and what they forbid of its objects.

Upstream: staging/src/k8s.io/pod-security-admission/api/helpers.go, PolicyToEvaluate, and
admission/admission.go, DefaultPodSpecExtractor (v1.36), with the server's own defaults: privileged, latest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.admission.pod_security import violations
from kschedctl.api.json_values import JsonObject, object_at

LABEL = "pod-security.kubernetes.io/"
ENFORCE = f"{LABEL}enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""From the one that forbids nothing to the strictest."""
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)
IN_SPEC = ("spec", "template")
TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    **dict.fromkeys(("ReplicationController", "ReplicaSet", "Deployment", "DaemonSet", "StatefulSet", "Job"), IN_SPEC),
    "CronJob": ("spec", "jobTemplate", *IN_SPEC),
}
"""Kind -> where its pod stands."""


class Standard(NamedTuple):
    """A level, of the version that is held against pods."""

    level: str = LEVELS[0]
    version: str = LATEST

    def forbidden(self, pod: JsonObject) -> str:
        """``"restricted:latest": …``: what it forbids of a pod; empty for nothing."""
        broken = violations(pod, self.level, self.version)
        return f'"{self.level}:{self.version}": {broken}' if broken else ""


def enforced(labels: Mapping[str, str]) -> Standard:
    """What pods are refused by. An invalid level is taken for the strictest, an invalid version for the latest."""
    level = labels.get(ENFORCE, LEVELS[0])
    return Standard(level if level in LEVELS else LEVELS[-1], _version(labels, "enforce"))


def warned(labels: Mapping[str, str]) -> Standard:
    """What is warned of: as it is enforced where nothing else is said. An invalid level warns of nothing."""
    level, enforce = labels.get(f"{LABEL}warn"), labels.get(ENFORCE)
    if level is not None:
        return Standard(level if level in LEVELS else LEVELS[0], _version(labels, "warn"))
    if enforce not in LEVELS[1:]:
        return Standard()
    return Standard(enforce, _version(labels, "warn" if f"{LABEL}warn-version" in labels else "enforce"))


def _version(labels: Mapping[str, str], mode: str) -> str:
    version = labels.get(f"{LABEL}{mode}-version", LATEST)
    return version if _VERSION.fullmatch(version) else LATEST


def pod_of(kind: str, obj: JsonObject) -> JsonObject:
    """The pod, or the template of one, of an object; empty where it has none."""
    return object_at(obj, *TEMPLATES[kind]) if kind in TEMPLATES else {}
