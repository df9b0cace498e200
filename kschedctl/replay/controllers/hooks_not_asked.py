"""Whether webhooks or policies have a say in the creation of pods: what they say is not known, as nobody asks them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.admission.hooks import WEBHOOKS, CreatedObject, policies_asked, webhooks_asked
from kschedctl.api.kinds import KINDS
from kschedctl.api.objects import Pod
from kschedctl.api.ownership import find_owner
from kschedctl.cluster import FIELDS, HOOKS, NOT_GIVEN, Cluster
from kschedctl.replay.unknown import VERDICT
from kschedctl.reports.unknown import UnknownKind

WEBHOOK, POLICY = "AdmissionWebhook", "AdmissionPolicy"
"""What users call the kinds that come in two forms."""
HOOK_KINDS = {kind: WEBHOOK if kind in WEBHOOKS.values() else POLICY for kind in HOOKS}
MADE_BY = {"Deployment": ("ReplicaSet",), "CronJob": ("Job",)}
"""Kind of a workload -> what stands between it and its pods."""
NAMED = 3


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
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return UnknownKind(kind, f"are not asked: {', '.join(names[:NAMED])}{more}", VERDICT)


def _objects(pod: Pod) -> Iterator[CreatedObject]:
    """The pod, and the objects that come before it; these are taken to have the labels of their pods."""
    kind = find_owner(pod).kind
    for known in (KINDS[name] for name in dict.fromkeys(("Pod", kind, *MADE_BY.get(kind, ()))) if name in KINDS):
        group, _, version = known.versions[0].rpartition("/")
        yield CreatedObject(group, version, known.plural, pod.metadata.namespace, pod.metadata.labels)
