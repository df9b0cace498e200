"""The Pod Security levels that a namespace's labels set, and the violations of these levels by pods."""

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
"""The levels, from the one that forbids nothing to the strictest one."""
LATEST = "latest"
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]*)", re.ASCII)


class Standard(NamedTuple):
    """A Pod Security level of one version."""

    level: str = LEVELS[0]
    version: str = LATEST

    def describe_violations(self, pod: JsonObject) -> str:
        """Return the pod's violations after the standard's name, as in ``"restricted:latest": …``, or ""."""
        violations = find_violations(pod, self.level, self.version)
        return f'"{self.level}:{self.version}": {violations}' if violations else ""


def get_enforced_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard by which a namespace's pods are denied.

    An invalid level counts as the strictest level, an invalid version as the latest one.
    """
    level = labels.get(ENFORCE, LEVELS[0])
    return Standard(level if level in LEVELS else LEVELS[-1], _get_version(labels, "enforce"))


def get_warn_standard(labels: Mapping[str, str]) -> Standard:
    """Return the standard about which the API server warns, by default the enforced one.

    An invalid level causes no warnings.
    """
    level = labels.get(f"{LABEL}warn")
    enforce = labels.get(ENFORCE)
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
