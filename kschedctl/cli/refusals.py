"""Manifests that the API server would not create are refused, each fault with the line where it stands."""

from __future__ import annotations

from collections.abc import Iterable

from kschedctl.api.validation import around_pods
from kschedctl.api.validation.manifests import KINDS
from kschedctl.cluster import Cluster
from kschedctl.replay.denials import find_denials, find_errors_without_pods, raise_errors
from kschedctl.sources.collector import Manifest
from kschedctl.sources.documents.lines import at_field
from kschedctl.sources.typed import typed


def refuse_invalid(manifests: Iterable[Manifest], cluster: Cluster, namespace: str | None = None) -> None:
    """Raises InputError for the pods, and what makes pods, that the API server would refuse in the cluster.

    Of all manifests all faults are told. ``namespace``: where a manifest goes that names none. What has a UID was
    created already and is not for here.
    """
    errors = []
    for document, place in manifests:
        decoded = typed(document, KINDS[str(document["kind"])], place)
        for refusal in find_denials(document, decoded, cluster, namespace or "", admission=False):
            errors.append(at_field(place, refusal.path).error(refusal.message, hint=refusal.hint))
    raise_errors(errors)


def refuse_invalid_around(manifests: Iterable[Manifest]) -> None:
    """Refuse invalid budgets, classes, claims and autoscalers, of files that describe a cluster too."""
    errors = []
    for document, place in manifests:
        decoded = typed(document, around_pods.KINDS[str(document["kind"])], place)
        errors += [
            at_field(place, denial.path).error(denial.message) for denial in find_errors_without_pods(document, decoded)
        ]
    raise_errors(errors)
