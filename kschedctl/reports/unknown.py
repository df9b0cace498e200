"""What an answer depends on and that was not read, with the words for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypedDict

import msgspec

from kschedctl.api.kinds import pluralize_kind

VERDICT = "verdict"
SUBJECTS: Mapping[str, str] = {
    "Node": "other nodes",
    "Pod": "other pods",
    "Namespace": "the labels of namespaces",
    "Service": "services",
    "PersistentVolumeClaim": "claims",
    "PersistentVolume": "volumes",
    "StorageClass": "storage classes",
    "CSINode": "limits of volumes",
    "ResourceClaim": "device claims",
    "DeviceClass": "device classes",
    "ResourceSlice": "devices",
    "PriorityClass": "priority classes",
    "PodDisruptionBudget": "disruption budgets",
    "ResourceQuota": "quotas",
    "LimitRange": "LimitRanges",
    "ServiceAccount": "service accounts",
    "AdmissionWebhook": "admission webhooks",
    "AdmissionPolicy": "admission policies",
    "Extender": "extenders",
    "Nomination": "gated pods' nominations",
    "ReleaseNote": "release notes",
}
"""Kind -> what people call its objects, where the kind itself says it less well."""

INSTANCE_TYPES = "InstanceType"
PLURALS: Mapping[str, str] = {"ReleaseNote": "release notes", INSTANCE_TYPES: "instance types"}
"""Plurals of names that are no kinds of objects."""


class UnknownKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of objects that were not read and that may exist."""

    kind: str
    why: str
    """A clause that continues the plural of the kind."""
    affects: str
    """The most important part of the answer that it could change.

    One of verdict, message, scores, victims, remedies, replacement (of running pods), creation (which pods could not be
    created), and findings.
    """


class Unread(TypedDict):
    """The fields of a report that list what was not read, and whether the verdict depends on it."""

    unknown: tuple[UnknownKind, ...]
    undecided: bool


class Basis(Unread):
    """The fields of a report that list everything that limits the answer."""

    not_replayed: tuple[str, ...]


class ClusterBasis(Basis):
    """The fields of a report about many pods that list everything that limits the answer."""

    ignored: tuple[str, ...]
    extended: tuple[str, ...]


def is_undecided(unknown: Iterable[UnknownKind]) -> bool:
    """Return whether unread kinds could change the verdict itself."""
    return any(entry.affects == VERDICT for entry in unknown)


def describe_verdict_doubts(unknown: Iterable[UnknownKind]) -> str:
    """Return a clause about unread kinds that could change the verdict: ``unless claims or devices say otherwise``."""
    subjects = [SUBJECTS.get(entry.kind, pluralize_kind(entry.kind)) for entry in unknown if entry.affects == VERDICT]
    if len(subjects) > 1:
        *first_subjects, last_subject = subjects
        subjects = [f"{', '.join(first_subjects)} or {last_subject}"]
    return f"unless {''.join(subjects)} say otherwise"


def describe_unread(unknown: Iterable[UnknownKind]) -> str:
    """Describe which kinds were not read and why: ``PersistentVolumeClaims were not among the files``."""
    by_why: dict[str, list[str]] = {}
    for entry in unknown:
        by_why.setdefault(entry.why, []).append(PLURALS.get(entry.kind) or pluralize_kind(entry.kind))
    return "; ".join(f"{', '.join(kinds)} {why}" for why, kinds in by_why.items())


def describe_doubt(unknown: Iterable[UnknownKind]) -> str:
    """Return a clause on which unread kinds could change the verdict and why they were not read, or ""."""
    verdict_doubts = [entry for entry in unknown if entry.affects == VERDICT]
    if not verdict_doubts:
        return ""
    return f", {describe_verdict_doubts(verdict_doubts)} ({describe_unread(verdict_doubts)})"
