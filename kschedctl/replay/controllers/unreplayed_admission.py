"""TODO."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from kschedctl.admission.hooks import WEBHOOKS, CreatedObject, policies_asked, webhooks_asked
from kschedctl.admission.pod_security_policy import ENFORCE, LEVELS
from kschedctl.admission.resource_quota import is_counted
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import FIELDS, HOOKS, LIMITS, NOT_GIVEN, Cluster
from kschedctl.replay.unknown import CREATION, VERDICT
from kschedctl.reports.unknown import UnknownKind, reasons
from kschedctl.text.counts import counted

WEBHOOK, POLICY = "AdmissionWebhook", "AdmissionPolicy"
"""What users call the kinds that come in two forms."""
HOOK_KINDS = {kind: WEBHOOK if kind in WEBHOOKS.values() else POLICY for kind in HOOKS}
MADE_BY = {"Deployment": ("ReplicaSet",), "CronJob": ("Job",)}
"""Kind of a workload -> what stands between it and its pods."""
NAMED_HOOKS = 3


def hooks_not_asked(cluster: Cluster, pods: Iterable[Pod], *, refused: bool = False) -> tuple[UnknownKind, ...]:
    """What would be asked about the pods that are new, and about what makes them.

    A pod that the API server has created passed, so its successor is not doubted. ``refused``: the pods are refused
    anyhow; then only what changes them could make a difference.
    """
    hidden = {name: gap.why for kind, name in HOOK_KINDS.items() if (gap := cluster.gap(kind)) and not refused}
    hidden = {name: why for name, why in hidden.items() if not why.startswith(NOT_GIVEN)}  # files need not hold them
    if not hidden and not any(getattr(cluster, FIELDS[kind]) for kind in HOOK_KINDS):
        return ()
    new = (pod for pod in pods if not pod.metadata.creation_timestamp)
    alike = {(p.metadata.namespace, find_owner(p).kind, tuple(p.metadata.labels.items())): p for p in new}
    if not alike:
        return ()
    objects = [obj for pod in alike.values() for obj in _objects(pod)]
    asked_of = {WEBHOOK: dict[str, None](), POLICY: dict[str, None]()}
    for mutating in (True,) if refused else (True, False):
        asked_of[WEBHOOK] |= dict.fromkeys(webhooks_asked(cluster, objects, mutating=mutating))
        asked_of[POLICY] |= dict.fromkeys(policies_asked(cluster, objects, mutating=mutating))
    asked = (_not_asked(kind, list(names)) for kind, names in asked_of.items() if names)
    return (*asked, *(UnknownKind(kind, why, VERDICT) for kind, why in hidden.items() if not asked_of[kind]))


def may_be_changed(cluster: Cluster) -> bool:
    """Whether something changes objects before they are looked at, so that what is refused may be another then."""
    return any(getattr(cluster, FIELDS[kind]) for kind in HOOKS if kind.startswith("Mutating"))


def _not_asked(kind: str, names: list[str]) -> UnknownKind:
    more = f" and {len(names) - NAMED_HOOKS:,} more" if len(names) > NAMED_HOOKS else ""
    return UnknownKind(kind, f"are not asked: {', '.join(names[:NAMED_HOOKS])}{more}", VERDICT)


def _objects(pod: Pod) -> Iterator[CreatedObject]:
    """The pod, and the objects that come before it; these are taken to have the labels of their pods."""
    kind = find_owner(pod).kind
    for known in (KINDS[name] for name in dict.fromkeys(("Pod", kind, *MADE_BY.get(kind, ()))) if name in KINDS):
        group, _, version = known.versions[0].rpartition("/")
        yield CreatedObject(group, version, known.plural, pod.metadata.namespace, pod.metadata.labels)


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
