"""Kinds of objects that an answer depends on but that were not read, with the words for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TypedDict

import msgspec

from kschedctl.api.kinds import pluralize_kind
from kschedctl.text.counts import join_words

VERDICT = "verdict"
INSTANCE_TYPES = "InstanceType"
PLURALS: Mapping[str, str] = {
    "Age": "ages",
    "ReleaseNote": "release notes",
    INSTANCE_TYPES: "instance types",
    "AdmissionWebhook": "admission webhooks",
    "AdmissionPolicy": "admission policies",
}
"""Plurals of names that are no kinds of objects."""
READ_THEM: Mapping[str, str] = {
    "were not among the files": "add them, or pass --assume-complete if there are none",
    "were not among the objects": "add them, or pass assume_complete=True if there are none",
    "are not in snapshots of that version": "save a new snapshot",
    "were not called": "pass --call-extenders",
}
"""The step that makes the answer certain, if an option or a file does, by the reason why a kind was not read."""
MAY_LACK: Mapping[str, str] = {
    "were not among the files": "the files may lack",
    "were not among the objects": "the objects may lack",
}
"""Why a kind was not read -> a clause that the plural of the kind continues. A single object does not make its kind
complete.
"""
NOT_CERTAIN = "not certain"
"""The words next to a verdict that unread kinds could change."""


class UnknownKind(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A kind of objects that were not read and that may exist."""

    kind: str
    why: str
    """A clause that continues the plural of the kind."""
    affects: str
    """The most important part of the answer that it could change.

    One of verdict, message, scores, victims, remedies, replacement (of running pods), creation (which pods could not be
    created), and findings.
    """
    named_objects: tuple[str, ...] = ()
    """The objects of this kind that the pod names, such as `NAMESPACE/NAME` of its claims. None of them was read."""


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


def merge_notes(notes_of_reports: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the distinct notes of several reports, in the order in which they first occur."""
    return tuple(dict.fromkeys(chain.from_iterable(notes_of_reports)))


def is_undecided(unknown: Iterable[UnknownKind]) -> bool:
    """Return whether unread kinds could change the verdict itself."""
    return any(entry.affects == VERDICT for entry in unknown)


def describe_unread_kinds(unknown: Iterable[UnknownKind]) -> str:
    """Describe which kinds were not read, and why.

    >>> describe_unread_kinds([UnknownKind(kind, "were not read", VERDICT) for kind in ("Pod", "Job")])
    'Pods and Jobs were not read'
    >>> describe_unread_kinds([UnknownKind("PersistentVolumeClaim", "were not among the files", VERDICT)])
    'the files may lack PersistentVolumeClaims'
    >>> named = UnknownKind("PersistentVolumeClaim", "were not read", VERDICT, named_objects=("shop/data",))
    >>> describe_unread_kinds([named])
    'PersistentVolumeClaim shop/data was not read; PersistentVolumeClaims were not read'
    """
    entries = list(unknown)
    named_objects = [f"{entry.kind} {join_words(entry.named_objects)}" for entry in entries if entry.named_objects]
    clauses = []
    if named_objects:
        is_single = len(named_objects) == 1 and sum(len(entry.named_objects) for entry in entries) == 1
        clauses.append(f"{join_words(named_objects)} {'was' if is_single else 'were'} not read")
    by_why: dict[str, list[str]] = {}
    for entry in entries:
        by_why.setdefault(entry.why, []).append(PLURALS.get(entry.kind) or pluralize_kind(entry.kind))
    clauses += (
        f"{MAY_LACK[why]} {join_words(kinds, 'or')}" if why in MAY_LACK else f"{join_words(kinds)} {why}"
        for why, kinds in by_why.items()
    )
    return "; ".join(clauses)


def advise_reading(unknown: Iterable[UnknownKind]) -> str:
    """Return a clause on how to have the kinds read, such as ``; save a new snapshot``, or ""."""
    advice = dict.fromkeys(READ_THEM[entry.why] for entry in unknown if entry.why in READ_THEM)
    return "".join(f"; {step}" for step in advice)


def describe_verdict_doubts(unknown: Iterable[UnknownKind]) -> str:
    """Describe the unread kinds that could change the verdict, why they were not read, and how to have them read."""
    of_verdict = [entry for entry in unknown if entry.affects == VERDICT]
    return describe_unread_kinds(of_verdict) + advise_reading(of_verdict)


def describe_doubt(unknown: Iterable[UnknownKind]) -> str:
    """Return a parenthesis about the unread kinds that could change the verdict, or ""."""
    doubts = describe_verdict_doubts(unknown)
    return f" ({NOT_CERTAIN}: {doubts})" if doubts else ""
