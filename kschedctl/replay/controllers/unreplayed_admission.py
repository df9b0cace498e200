"""Admission that is not replayed or was not read: webhooks, policies, quotas and limits that may deny new pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from kschedctl.admission.not_replayed import (
    WEBHOOK_KINDS,
    CreatedObject,
    iter_matching_policies,
    iter_matching_webhooks,
)
from kschedctl.admission.pod_security import ENFORCE, LEVELS
from kschedctl.admission.resource_quota import is_replayable
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import ADMISSION_HOOK_KINDS, FIELDS, LIMITS, Cluster, Gap
from kschedctl.replay.unknown import CREATION, VERDICT
from kschedctl.reports.unknown import UnknownKind, describe_unread_kinds
from kschedctl.text.counts import counted

WEBHOOK_KIND, POLICY_KIND = "AdmissionWebhook", "AdmissionPolicy"
"""Names for kinds that exist in a mutating and a validating form."""
HOOK_KINDS = {kind: WEBHOOK_KIND if kind in WEBHOOK_KINDS.values() else POLICY_KIND for kind in ADMISSION_HOOK_KINDS}
INTERMEDIATE_KINDS = {"Deployment": ("ReplicaSet",), "CronJob": ("Job",)}
"""Workload kind -> kinds that are created between the workload and its pods."""
NAMED_HOOKS = 3


def find_uncalled_admission_hooks(
    cluster: Cluster, pods: Iterable[Pod], *, denied: bool = False
) -> tuple[UnknownKind, ...]:
    """Return the webhooks and policies that would be called for new pods and for the objects that create them.

    The result has at most one entry for each kind of hook. It names the hooks or says why the kind was not read. Pods
    that the API server has already created are skipped, because they have already been admitted. With ``denied``, the
    pods are denied anyway, so only hooks that change pods count. Return () if there are no new pods.
    """
    unread = {} if denied else _find_unread_hook_kinds(cluster)
    has_hooks = any(getattr(cluster, FIELDS[kind]) for kind in HOOK_KINDS)
    if not unread and not has_hooks:
        return ()

    # Of new pods that look the same to all hooks, one is enough
    distinct_pods = {}
    for pod in pods:
        if not pod.metadata.creation_timestamp:
            key = pod.metadata.namespace, find_owner(pod).kind, tuple(pod.metadata.labels.items())
            distinct_pods[key] = pod
    if not distinct_pods:
        return ()
    objects = [obj for pod in distinct_pods.values() for obj in _iter_created_objects(pod)]

    webhooks = list(iter_matching_webhooks(cluster, objects, mutating=True))
    policies = list(iter_matching_policies(cluster, objects, mutating=True))
    if not denied:  # a validating hook only denies pods
        webhooks += iter_matching_webhooks(cluster, objects, mutating=False)
        policies += iter_matching_policies(cluster, objects, mutating=False)
    hooks_by_kind = {WEBHOOK_KIND: list(dict.fromkeys(webhooks)), POLICY_KIND: list(dict.fromkeys(policies))}

    # A kind whose hooks were only partly read gets the entry with the hooks' names
    entries = [_build_uncalled_hooks_entry(kind, names) for kind, names in hooks_by_kind.items() if names]
    entries += [UnknownKind(kind, why, VERDICT) for kind, why in unread.items() if not hooks_by_kind[kind]]
    return tuple(entries)


def _find_unread_hook_kinds(cluster: Cluster) -> dict[str, str]:
    """Return why webhooks and policies could not be read, by the name of their kind.

    Kinds that are merely not among files are left out.
    """
    gaps = {name: cluster.find_gap(kind) for kind, name in HOOK_KINDS.items()}
    return {name: gap.why for name, gap in gaps.items() if gap is not None and not gap.is_not_given}


def has_mutating_hooks(cluster: Cluster) -> bool:
    """Return whether webhooks or policies change objects before they are validated."""
    return any(getattr(cluster, FIELDS[kind]) for kind in ADMISSION_HOOK_KINDS if kind.startswith("Mutating"))


def _build_uncalled_hooks_entry(kind: str, names: list[str]) -> UnknownKind:
    """Build the entry about the webhooks or policies that would decide but are not called. The first few are named."""
    more = f" and {len(names) - NAMED_HOOKS:,} more" if len(names) > NAMED_HOOKS else ""
    return UnknownKind(kind, f"are not called: {', '.join(names[:NAMED_HOOKS])}{more}", VERDICT)


def _iter_created_objects(pod: Pod) -> Iterator[CreatedObject]:
    """Yield the pod and the objects that are created before it. These are assumed to have the pod's labels."""
    owner_kind = find_owner(pod).kind
    for kind in dict.fromkeys(("Pod", owner_kind, *INTERMEDIATE_KINDS.get(owner_kind, ()))):
        if kind in KINDS:
            group, _, version = KINDS[kind].versions[0].rpartition("/")
            yield CreatedObject(group, version, KINDS[kind].plural, pod.metadata.namespace, pod.metadata.labels)


PRIVILEGED_LEVEL = LEVELS[0]
NOT_REPLAYED_TEXT = "quotas, limits and policies by which the API server may deny the pods"
NOT_REPLAYED_POLICIES_TEXT = "webhooks and policies by which the API server may deny the pods"
NAMED, NAMED_IN_FULL = 3, 3
"""The number of namespaces that are named, and of objects that are named of one namespace."""


def describe_unreplayed_limits(
    cluster: Cluster, namespaces: Iterable[str], replayed: Mapping[str, bool] = MappingProxyType({})
) -> tuple[str, ...]:
    """Return a line about unreplayed quotas, limits and policies of the namespaces, or () if there are none.

    ``replayed`` maps the namespaces whose quotas and LimitRanges are replayed to whether all of admission is replayed.
    """
    sorted_namespaces = sorted(set(namespaces))
    limits_by_namespace = {}
    for name in sorted_namespaces:
        limits = list(
            _iter_unreplayed_limits(
                cluster, name, limits_are_replayed=name in replayed, all_is_replayed=replayed.get(name, False)
            )
        )
        if limits:
            limits_by_namespace[name] = limits
    clauses = list(_iter_limit_clauses(limits_by_namespace))
    unread = [
        UnknownKind(kind, gap.why, CREATION) for kind, gap in _find_admission_gaps(cluster, sorted_namespaces).items()
    ]
    if unread:
        clauses.append(describe_unread_kinds(unread))
    title = NOT_REPLAYED_TEXT if _is_limit_unreplayed(limits_by_namespace, unread) else NOT_REPLAYED_POLICIES_TEXT
    return (f"{title} ({'; '.join(clauses)})",) if clauses else ()


def _is_limit_unreplayed(limits_by_namespace: Mapping[str, list[str]], unread: Iterable[UnknownKind]) -> bool:
    """Return whether a ResourceQuota or LimitRange is not replayed, rather than only webhooks and policies."""
    names = [entry.kind for entry in unread]
    names += [limit.partition(" ")[0] for limits in limits_by_namespace.values() for limit in limits]
    return any(name in LIMITS for name in names)


def find_unread_admission_kinds(cluster: Cluster, namespaces: Iterable[str]) -> tuple[UnknownKind, ...]:
    """Return the kinds other than hooks that could deny pods of these namespaces but could not be read.

    These are the kinds that admission plugins read, such as ResourceQuota and LimitRange. Webhooks and policies are
    covered by `find_uncalled_admission_hooks`. A kind that is merely absent from the input files is not returned.
    """
    gaps = _find_admission_gaps(cluster, sorted(set(namespaces)))
    unread = []
    for kind, gap in gaps.items():
        is_hook = kind in (WEBHOOK_KIND, POLICY_KIND)
        is_absent_from_files = gap.is_not_given
        if not is_hook and not is_absent_from_files:
            unread.append(UnknownKind(kind, gap.why, affects=VERDICT))
    return tuple(unread)


def _find_admission_gaps(cluster: Cluster, namespaces: Sequence[str]) -> dict[str, Gap]:
    """Return the gaps of the kinds that may deny pods of the namespaces, by the kind's name in reports.

    These kinds include webhooks and policies. If a kind has gaps in several namespaces, the first one is returned.
    """
    gap_by_name = {}
    for kind in (*LIMITS, "Namespace"):
        for namespace in namespaces:
            gap = cluster.find_gap(kind, namespace)
            if gap is not None:
                gap_by_name[HOOK_KINDS.get(kind, kind)] = gap
                break
    return gap_by_name


def _iter_unreplayed_limits(
    cluster: Cluster, namespace: str, *, limits_are_replayed: bool, all_is_replayed: bool
) -> Iterator[str]:
    """Yield the unreplayed limits of a namespace, such as ``ResourceQuota gold``.

    `limits_are_replayed` says whether the namespace's quotas and LimitRanges are replayed, and `all_is_replayed`
    whether the rest of its admission is replayed as well. Quotas with scopes about deadlines are replayed only if
    `all_is_replayed`.
    """
    for quota in cluster.list_in_namespace("resource_quotas", namespace):
        if not limits_are_replayed or not is_replayable(quota, in_full=all_is_replayed):
            yield f"ResourceQuota {quota.metadata.name}"
    if not limits_are_replayed:
        for limit_range in cluster.list_in_namespace("limit_ranges", namespace):
            yield f"LimitRange {limit_range.metadata.name}"
    if not all_is_replayed:
        for candidate in cluster.namespaces:
            level = candidate.metadata.labels.get(ENFORCE, PRIVILEGED_LEVEL)
            if candidate.metadata.name == namespace and level != PRIVILEGED_LEVEL:
                yield f"Pod Security {level}"


def _iter_limit_clauses(limits_by_namespace: Mapping[str, list[str]]) -> Iterator[str]:
    """Yield a clause for each of the first namespaces with limits, and one that counts the other namespaces."""
    for namespace in list(limits_by_namespace)[:NAMED]:
        limits = limits_by_namespace[namespace]
        more = f" and {len(limits) - NAMED_IN_FULL:,} more" if len(limits) > NAMED_IN_FULL else ""
        yield f"namespace {namespace} has {', '.join(limits[:NAMED_IN_FULL])}{more}"
    if len(limits_by_namespace) > NAMED:
        yield f"and {counted(len(limits_by_namespace) - NAMED, 'more namespace')}"
