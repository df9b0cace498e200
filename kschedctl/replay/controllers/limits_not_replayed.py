"""Quotas, limits and policies of namespaces in which pods are created, as far as nobody replays them or read them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kschedctl.admission.pod_security_policy import ENFORCE, LEVELS
from kschedctl.admission.resource_quota import is_counted
from kschedctl.cluster import LIMITS, NOT_GIVEN, Cluster
from kschedctl.replay.controllers.hooks_not_asked import HOOK_KINDS
from kschedctl.replay.unknown import CREATION, VERDICT
from kschedctl.reports.unknown import UnknownKind, reasons
from kschedctl.text.counts import counted

PRIVILEGED = LEVELS[0]
NOT_LOOKED_AT = "quotas, limits and policies, by which the API server may refuse to create the pods"
NAMED, NAMED_IN_FULL = 3, 3
"""Namespaces, and objects of one."""


def limits_not_looked_at(
    cluster: Cluster, namespaces: Iterable[str], counted: Mapping[str, bool] = MappingProxyType({})
) -> tuple[str, ...]:
    """A line where one of the namespaces in which pods are created has such, or may have; else nothing.

    ``counted``: the namespaces whose quotas and LimitRanges are replayed, and whether all of admission is.
    """
    within = sorted(set(namespaces))
    found = {name: what for name in within if (what := list(_limits(cluster, name, counted.get(name))))}
    unread = list(_unread(cluster, within))
    told = [*_named(found), *([reasons(unread)] if unread else [])]
    return (f"{NOT_LOOKED_AT}: {'; '.join(told)}",) if told else ()


def unread_limits(cluster: Cluster, namespaces: Iterable[str]) -> tuple[UnknownKind, ...]:
    """What may keep pods of these namespaces from being created and could not be read; files need not tell of it.

    Of webhooks and policies ``hooks_not_asked`` tells.
    """
    found = _unread(cluster, sorted(set(namespaces)), VERDICT)
    own = (each for each in found if each.kind not in HOOK_KINDS.values())
    return tuple(each for each in own if not each.why.startswith(NOT_GIVEN))


def _unread(cluster: Cluster, namespaces: Iterable[str], affects: str = CREATION) -> Iterator[UnknownKind]:
    namespaces = list(namespaces)
    gaps = {
        HOOK_KINDS.get(kind, kind): gap
        for kind in (*LIMITS, "Namespace")
        if (gap := next(filter(None, (cluster.gap(kind, namespace) for namespace in namespaces)), None))
    }
    yield from (UnknownKind(kind, gap.why, affects) for kind, gap in gaps.items())


def _limits(cluster: Cluster, namespace: str, counted: bool | None) -> Iterator[str]:
    """``ResourceQuota gold``, ``Pod Security restricted``: what a namespace has, less what is ``counted``."""
    for quota in cluster.in_namespace("resource_quotas", namespace):
        if counted is None or not is_counted(quota, in_full=counted):
            yield f"ResourceQuota {quota.metadata.name}"
    for limit_range in cluster.in_namespace("limit_ranges", namespace) if counted is None else ():
        yield f"LimitRange {limit_range.metadata.name}"
    for each in () if counted else cluster.namespaces:
        level = each.metadata.labels.get(ENFORCE, PRIVILEGED)
        if each.metadata.name == namespace and level != PRIVILEGED:
            yield f"Pod Security {level}"


def _named(found: Mapping[str, list[str]]) -> Iterator[str]:
    for namespace in list(found)[:NAMED]:
        what = found[namespace]
        more = f" and {len(what) - NAMED_IN_FULL:,} more" if len(what) > NAMED_IN_FULL else ""
        yield f"namespace {namespace} has {', '.join(what[:NAMED_IN_FULL])}{more}"
    if len(found) > NAMED:
        yield f"and {counted(len(found) - NAMED, 'more namespace')}"
