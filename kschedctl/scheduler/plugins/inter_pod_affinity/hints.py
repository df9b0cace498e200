"""InterPodAffinity: the pods and nodes that may meet a pod's terms, or stop being in its way.

Upstream: plugins/interpodaffinity/plugin.go (v1.36: EventsToRegister). Terms are taken as they are written: a
namespaceSelector counts only where it selects namespaces without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, ChangedObject, node_actions
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.waking import ADD, DELETE, WakeTrigger, labelled, listed
from kschedctl.scheduler.plugins.helper.placed_pods import frees_room
from kschedctl.snapshot.fork import Fork, same_pod
from kschedctl.snapshot.pod_info import AffinityTerm, PodInfo

COMPARES_NODES = ByVersion(
    "whether InterPodAffinity's hint compares a node with what it was", (("", False), ("1.33", True))
)
CHECKS_BOTH_WAYS = ByVersion(
    "whether InterPodAffinity's hint heeds the pod's own labels, promised nodes and the anti-affinity of pods that go",
    (("", False), ("1.36", True)),
)
ANY_IS_MET = ByVersion(
    "whether a pod that one of several anti-affinity terms is about is enough for InterPodAffinity's hint",
    (("", False), ("1.37", True)),
    "#139161",
)


def after_pod_change(info: PodInfo, change: ChangedObject, view: Fork, newer: bool, one: bool = False) -> bool:
    """Raises PluginError for terms that cannot be read. ``newer``: as of CHECKS_BOTH_WAYS, ``one``: of ANY_IS_MET."""
    hated = any_matches if one else all_match
    old, new = change.old, change.new
    if newer and old is not None and new is not None and same_pod(new, info.pod):
        return True
    if any(pod is not None and not frees_room(pod, counts_nominated=newer) for pod in (old, new)):
        return False
    affinity, anti_affinity = own_terms(info)
    if new is None:
        theirs = own_terms(PodInfo(old, view.settings.requests))[1] if newer else ()
        return hated(anti_affinity, old) or hated(theirs, info.pod)
    if old is None:
        return all_match(affinity, new)
    met = not all_match(affinity, old) and all_match(affinity, new)
    return met or (hated(anti_affinity, old) and not hated(anti_affinity, new))


def spared(info: PodInfo, actions: ActionType, view: Fork) -> bool:
    """Whether a pod has no terms that pods could meet that come."""
    return actions == ActionType.ADD and not (info.affinity_errors or info.required_affinity)


def after_node_change(info: PodInfo, change: ChangedObject, view: Fork, compares: bool) -> bool:
    """A node that comes into, or changes, a topology of the terms. Raises PluginError for terms that cannot be read.

    ``compares``: as of COMPARES_NODES; else any node in such a topology.
    """
    affinity, anti_affinity = own_terms(info)
    new = change.new.metadata.labels
    if not compares:
        return any(term.topology_key in new for term in (*affinity, *anti_affinity))
    if change.old is None:
        return bool(anti_affinity) or any(term.topology_key in new for term in affinity)
    old = change.old.metadata.labels
    for term in affinity:
        if term.topology_key in new and old.get(term.topology_key) != new[term.topology_key]:
            return True
    return any(
        term.topology_key in old and old[term.topology_key] != new.get(term.topology_key) for term in anti_affinity
    )


def own_terms(info: PodInfo) -> tuple[Sequence[AffinityTerm], Sequence[AffinityTerm]]:
    """The required terms of affinity and of anti-affinity. Raises PluginError for those that cannot be read."""
    for error in info.affinity_errors:
        if error.startswith("required"):
            raise PluginError(error)
    return info.required_affinity, info.required_anti_affinity


def all_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether the pod is one that all of them are about; none are about no pod."""
    return bool(terms) and all(_is_about(term, pod) for term in terms)


def any_matches(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Whether the pod is one that some of them is about."""
    return any(_is_about(term, pod) for term in terms)


def _is_about(term: AffinityTerm, pod: Pod) -> bool:
    return term.matches(pod.metadata.namespace, pod.metadata.labels, {})


def waking_changes(info: PodInfo, gates: FeatureGates) -> Iterator[WakeTrigger]:
    try:
        affinity, anti_affinity = own_terms(info)
    except PluginError as error:
        affinity, anti_affinity = (), ()
        yield WakeTrigger(POD, ADD, f"any pod is added, changed or deleted: the pod's terms cannot be read: {error}")
    both_ways, labels = CHECKS_BOTH_WAYS.at(gates.release), ActionType.UPDATE_POD_LABEL
    itself = ["the pod's own labels change"] if both_ways else []
    comes = [f"a pod on a node becomes one {_all_of(affinity)}"] if affinity else []
    if affinity:
        yield WakeTrigger(POD, ADD, f"a pod {_all_of(affinity)} gets a node")
    if comes or itself:
        yield WakeTrigger(POD, labels, ", or ".join((*comes, *itself)))
    leaves = [f"a pod {_all_of(anti_affinity)} leaves a node"] if anti_affinity else []
    if both_ways:
        whose = "whose own anti-affinity is against this pod"
        leaves.append(f"one leaves {whose}" if leaves else f"a pod leaves a node {whose}")
    if leaves:
        yield WakeTrigger(POD, DELETE, ", or ".join(leaves))
    if anti_affinity:
        yield WakeTrigger(POD, labels, f"a pod on a node is no longer one {_all_of(anti_affinity)}")
    yield from _of_nodes(affinity, anti_affinity, gates)


def _of_nodes(
    affinity: Sequence[AffinityTerm], anti_affinity: Sequence[AffinityTerm], gates: FeatureGates
) -> Iterator[WakeTrigger]:
    keys = [term.topology_key for term in (*affinity, *anti_affinity)]
    if not keys:
        return
    of = listed(list(dict.fromkeys(keys)), "or")
    if not COMPARES_NODES.at(gates.release):
        changes, how = node_actions(ActionType.UPDATE_NODE_LABEL, gates), "its labels change"
        how = "its labels or taints change" if ActionType.UPDATE_NODE_TAINT in changes else how
        yield WakeTrigger(NODE, ADD | changes, f"a node with label {of} is added, or {how}")
        return
    yield WakeTrigger(NODE, ADD, "a node is added" if anti_affinity else f"a node is added with label {of}")
    yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"label {of} of a node changes")


def _all_of(terms: Sequence[AffinityTerm]) -> str:
    """The pods that all terms are about: upstream's hints look for one that meets them all."""
    return " and ".join(dict.fromkeys(f"{labelled(term.selector)}{_where(term)}" for term in terms))


def _where(term: AffinityTerm) -> str:
    if term.namespace_selector.selects_everything:
        return " in any namespace"
    by_labels = ["one selected by its labels"] if term.by_namespace_labels else []
    return f" in namespace {listed([*sorted(term.namespaces), *by_labels], 'or')}"
