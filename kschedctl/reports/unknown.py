"""What an answer leans on that was not read, and the words for it."""

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
"""What people call the objects of a kind, where the kind says it less well."""

INSTANCE_TYPES = "InstanceType"
SPELT: Mapping[str, str] = {"ReleaseNote": "release notes", INSTANCE_TYPES: "instance types"}
"""The plural of what is no kind of objects."""


class UnknownKind(msgspec.Struct, frozen=True, rename="camel"):
    """A kind of which objects may exist that were not read: ``why`` goes on from its plural.

    ``affects``: the most of the answer that it could change: ``verdict``, ``message``, ``scores``, ``victims``, which
    ``remedies`` work or, of pods that run, their ``replacement``; which pods could not be created: ``creation``; what
    lint finds: ``findings``.
    """

    kind: str
    why: str
    affects: str


class Unread(TypedDict):
    """The fields of a report that tell what was not read, and whether its verdict hangs on that."""

    unknown: tuple[UnknownKind, ...]
    undecided: bool


class Basis(Unread):
    """The fields that tell all that an answer rests on: ``not_replayed``, what plugins and the like it leaves out."""

    not_replayed: tuple[str, ...]


class ClusterBasis(Basis):
    """What an answer about many pods rests on: what of them is ``ignored``, what was ``extended`` by extenders."""

    ignored: tuple[str, ...]
    extended: tuple[str, ...]


def undecided(unknown: Iterable[UnknownKind]) -> bool:
    """Whether the verdict itself could be another."""
    return any(u.affects == VERDICT for u in unknown)


def unless(unknown: Iterable[UnknownKind]) -> str:
    """``unless claims or devices say otherwise``: what the verdict leans on."""
    subjects = [SUBJECTS.get(u.kind, pluralize_kind(u.kind)) for u in unknown if u.affects == VERDICT]
    listed = " or ".join((", ".join(subjects[:-1]), subjects[-1])) if len(subjects) > 1 else "".join(subjects)
    return f"unless {listed} say otherwise"


def reasons(unknown: Iterable[UnknownKind]) -> str:
    """``PersistentVolumeClaims, CSINodes were not among the files; Namespaces could not be read: forbidden``."""
    by_why: dict[str, list[str]] = {}
    for entry in unknown:
        by_why.setdefault(entry.why, []).append(SPELT.get(entry.kind) or pluralize_kind(entry.kind))
    return "; ".join(f"{', '.join(kinds)} {why}" for why, kinds in by_why.items())


def doubt(unknown: Iterable[UnknownKind]) -> str:
    """``, unless claims say otherwise (PersistentVolumeClaims were not among the files)``; empty without any."""
    of_verdict = [u for u in unknown if u.affects == VERDICT]
    return f", {unless(of_verdict)} ({reasons(of_verdict)})" if of_verdict else ""
