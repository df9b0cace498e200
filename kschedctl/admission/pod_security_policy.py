"""The Pod Security levels that a namespace sets by labels, and what they forbid of pods.

The server's own defaults are privileged and latest. Upstream: PolicyToEvaluate in
staging/src/k8s.io/pod-security-admission/api/helpers.go, DefaultPodSpecExtractor in admission/admission.go (v1.36).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.admission.pod_security import find_violations
from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.workloads import POD_TEMPLATE_PATHS

LABEL = "pod-security.kubernetes.io/"
ENFORCE = f"{LABEL}enforce"
LEVELS = ("privileged", "baseline", "restricted")
"""From the level that forbids nothing to the strictest one."""
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class Standard(NamedTuple):
    """A Pod Security level of one version."""

    level: str = LEVELS[0]
    version: str = LATEST

    def describe_violations(self, pod: JsonObject) -> str:
        """Return what the standard forbids of a pod, after its name ``"restricted:latest": …``; empty for nothing."""
        broken = find_violations(pod, self.level, self.version)
        return f'"{self.level}:{self.version}": {broken}' if broken else ""


def get_enforced_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard by which pods of a namespace are denied.

    An invalid level stands for the strictest level, an invalid version for the latest.
    """
    level = labels.get(ENFORCE, LEVELS[0])
    return Standard(level if level in LEVELS else LEVELS[-1], _get_version(labels, "enforce"))


def get_warn_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard by which the API server warns; by default the enforced one.

    An invalid level warns of nothing.
    """
    level, enforce = labels.get(f"{LABEL}warn"), labels.get(ENFORCE)
    if level is not None:
        return Standard(level if level in LEVELS else LEVELS[0], _get_version(labels, "warn"))
    if enforce not in LEVELS[1:]:
        return Standard()
    return Standard(enforce, _get_version(labels, "warn" if f"{LABEL}warn-version" in labels else "enforce"))


def _get_version(labels: Mapping[str, str], mode: str) -> str:
    """Return the version that the labels set for a mode, or ``latest`` if it is invalid."""
    version = labels.get(f"{LABEL}{mode}-version", LATEST)
    return version if _VERSION.fullmatch(version) else LATEST


def extract_pod(kind: str, obj: JsonObject) -> JsonObject:
    """Return the pod or pod template of an object, or an empty document if it has none."""
    return object_at(obj, *POD_TEMPLATE_PATHS[kind]) if kind in POD_TEMPLATE_PATHS else {}
