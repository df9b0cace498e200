"""Validation of manifests as the API server does it, with the places of problems in the files."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.validation import around_pods
from kschedctl.api.validation.manifests import KINDS
from kschedctl.cluster import Cluster
from kschedctl.replay.denials import find_creation_denials, find_validation_errors, raise_errors
from kschedctl.sources.collector import Manifest
from kschedctl.sources.decoding import decode_document
from kschedctl.sources.documents.positions import locate_field


def validate_manifests(manifests: Iterable[Manifest], cluster: Cluster, namespace: str | None = None) -> None:
    """Raise InputError if the API server would reject any of these pods and workloads.

    The error lists all problems of all manifests. `namespace` applies to manifests that name none. Do not pass objects
    that have a UID, because they exist already.
    """
    errors = []
    for document, place in manifests:
        decoded = decode_document(document, KINDS[str(document["kind"])], place)
        for refusal in find_creation_denials(document, decoded, cluster, namespace or "", admission=False):
            errors.append(locate_field(place, refusal.path).error(refusal.message, hint=refusal.hint))
    raise_errors(errors)


def validate_other_objects(manifests: Iterable[Manifest]) -> None:
    """Raise InputError if the API server would reject one of these PDBs, classes, claims or autoscalers.

    The error lists all problems of all objects.
    """
    errors = []
    for document, place in manifests:
        decoded = decode_document(document, around_pods.KINDS[str(document["kind"])], place)
        errors += [
            locate_field(place, denial.path).error(denial.message)
            for denial in find_validation_errors(document, decoded)
        ]
    raise_errors(errors)
