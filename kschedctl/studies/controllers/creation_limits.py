"""What the API server may refuse to create pods for, and no answer looks at: quotas, LimitRanges, Pod Security.

Upstream: plugin/pkg/admission/resourcequota, plugin/pkg/admission/limitranger,
staging/src/k8s.io/pod-security-admission (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kschedctl.cluster import FIELDS, LIMITS, Cluster
from kschedctl.reports.unknown import UnknownKind, reasons
from kschedctl.studies.unknown import CREATION

ENFORCE, PRIVILEGED = "pod-security.kubernetes.io/enforce", "privileged"
NOT_LOOKED_AT = "quotas, limits and policies, by which the API server may refuse to create the pods"
NAMED, NAMED_IN_FULL = 3, 3
"""Namespaces, and objects of one."""


def limits_not_looked_at(cluster: Cluster, namespaces: Iterable[str]) -> tuple[str, ...]:
    """A line where one of the namespaces in which pods are created has such, or may have; else nothing."""
    within = sorted(set(namespaces))
    found = {namespace: what for namespace in within if (what := list(_limits(cluster, namespace)))}
    unread = list(_unread(cluster, within))
    told = [*_named(found), *([reasons(unread)] if unread else [])]
    return (f"{NOT_LOOKED_AT}: {'; '.join(told)}",) if told else ()


def _unread(cluster: Cluster, namespaces: Iterable[str]) -> Iterator[UnknownKind]:
    for kind in (*LIMITS, "Namespace"):
        gap = next(filter(None, (cluster.gap(kind, namespace) for namespace in namespaces)), None)
        if gap is not None:
            yield UnknownKind(kind, gap.why, CREATION)


def _limits(cluster: Cluster, namespace: str) -> Iterator[str]:
    """``ResourceQuota gold``, ``Pod Security restricted``: what a namespace has."""
    for kind in LIMITS:
        yield from (f"{kind} {each.metadata.name}" for each in cluster.in_namespace(FIELDS[kind], namespace))
    for each in cluster.namespaces:
        level = each.metadata.labels.get(ENFORCE, PRIVILEGED)
        if each.metadata.name == namespace and level != PRIVILEGED:
            yield f"Pod Security {level}"


def _named(found: Mapping[str, list[str]]) -> Iterator[str]:
    for namespace in list(found)[:NAMED]:
        what = found[namespace]
        more = f" and {len(what) - NAMED_IN_FULL:,} more" if len(what) > NAMED_IN_FULL else ""
        yield f"namespace {namespace} has {', '.join(what[:NAMED_IN_FULL])}{more}"
    if len(found) > NAMED:
        yield f"and {len(found) - NAMED:,} more namespaces"
