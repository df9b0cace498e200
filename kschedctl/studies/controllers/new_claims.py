"""Claims that manifests bring, for volumes and devices: those that the API server refuses are not there for pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.objects import PersistentVolumeClaim, ResourceClaim
from kschedctl.api.ownership import Owner
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.reports.not_created import NotCreated
from kschedctl.studies.controllers.admissions import Admissions
from kschedctl.studies.controllers.not_created import refusal
from kschedctl.studies.controllers.sent_pods import SentPod

VERSIONS = {"PersistentVolumeClaim": "v1", "ResourceClaim": "resource.k8s.io/v1"}


class WithClaims(NamedTuple):
    """The cluster less the claims that are refused, and with the others counted; and the refused ones."""

    cluster: Cluster
    refused: list[NotCreated]


def with_new_claims(cluster: Cluster) -> WithClaims:
    """The claims that no API server has seen yet, created in the order of their names."""
    admissions, refused, fields = Admissions(cluster, {}), list[NotCreated](), dict[str, Any]()
    for kind in VERSIONS:
        claims = getattr(cluster, FIELDS[kind])
        lacking = dict(_refused(kind, filter(_is_new, claims), admissions))
        if lacking:
            fields[FIELDS[kind]] = tuple(c for c in claims if (c.metadata.namespace, c.metadata.name) not in lacking)
            refused += lacking.values()
    counted = admissions.counted(cluster)
    return WithClaims(replace(counted, **fields) if fields else counted, refused)


def _refused(kind: str, claims: Iterable[Any], admissions: Admissions) -> Iterator[tuple[tuple[str, str], NotCreated]]:
    for claim in claims:
        meta = claim.metadata
        owner = Owner(kind, meta.namespace, meta.name)
        metadata = {"name": meta.name, "namespace": meta.namespace, "annotations": meta.annotations}
        manifest = {"apiVersion": VERSIONS[kind], "kind": kind, "metadata": metadata}
        asked = SentPod(owner, manifest | {"spec": msgspec.to_builtins(claim.spec)}, meta.namespace, in_full=False)
        if words := admissions.of_claim(asked):
            yield (meta.namespace, meta.name), refusal(owner, words, 1, 1)


def _is_new(claim: PersistentVolumeClaim | ResourceClaim) -> bool:
    """Without what only a server sets."""
    if claim.metadata.uid:
        return False
    return claim.status.allocation is None if isinstance(claim, ResourceClaim) else not claim.status.phase
