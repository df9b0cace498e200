"""Queueing hints of InterPodAffinity.

Upstream: plugins/interpodaffinity/plugin.go (v1.36: EventsToRegister). Terms are evaluated as written: a
namespaceSelector counts only if it selects namespaces without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import Pod
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.events import (
    ADD,
    DELETE,
    NODE,
    POD,
    ActionType,
    ChangedObject,
    WakeTrigger,
    describe_selected_labels,
    frees_room,
    join_words,
    resolve_node_actions,
)
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.snapshot.fork import Fork, is_same_pod
from kschedctl.snapshot.pod_info import REQUIRED_TERM_KINDS, AffinityTerm, PodInfo

COMPARES_WITH_OLD_NODE = ByVersion(
    "the queueing hint compares a changed node's topology labels with those before the change",
    (("", False), ("1.33", True)),
)
CHECKS_BOTH_WAYS = ByVersion(
    "the queueing hint considers updates to the pod, nominated pods, and the anti-affinity of deleted pods",
    (("", False), ("1.36", True)),
)
ONE_TERM_SUFFICES = ByVersion(
    "how many of a rejected pod's anti-affinity terms a deleted or relabeled pod must have matched to cause a retry",
    (("", False), ("1.37", True)),
    "#139161",
    bool_texts=("all", "at least one"),
)


def is_schedulable_after_pod_change(
    info: PodInfo, change: ChangedObject, view: Fork, checks_both_ways: bool, one_term_suffices: bool = False
) -> bool:
    """Return whether the pod change may meet the waiting pod's affinity, or may remove a pod that is in its way.

    A pod is in the way if it matches all anti-affinity terms of the waiting pod or, with `one_term_suffices`, any of
    them. With `checks_both_ways`, changes of the waiting pod itself and the anti-affinity of a deleted pod count, and
    nominated pods count like bound pods. A change of another pod without a node is ignored. Raises PluginError for
    terms that cannot be parsed.
    """
    matches_anti_affinity = does_any_term_match if one_term_suffices else do_all_terms_match
    old, new = change.old, change.new
    is_update = old is not None and new is not None
    if checks_both_ways and is_update and is_same_pod(new, info.pod):
        return True
    for pod in (old, new):
        if pod is not None and not frees_room(pod, counts_nominated=checks_both_ways):  # a pod without a node
            return False

    affinity, anti_affinity = get_required_terms(info)
    if new is None:  # the pod was deleted
        old_pod_terms: Sequence[AffinityTerm] = ()
        if checks_both_ways:
            _, old_pod_terms = get_required_terms(PodInfo(old, view.settings.requests))
        return matches_anti_affinity(anti_affinity, old) or matches_anti_affinity(old_pod_terms, info.pod)
    if old is None:  # the pod was added
        return do_all_terms_match(affinity, new)

    # The labels of the pod were changed.
    meets_affinity_now = not do_all_terms_match(affinity, old) and do_all_terms_match(affinity, new)
    is_no_longer_forbidden = matches_anti_affinity(anti_affinity, old) and not matches_anti_affinity(anti_affinity, new)
    return meets_affinity_now or is_no_longer_forbidden


def is_unaffected(info: PodInfo, actions: ActionType, view: Fork) -> bool:
    """Return whether the pod need not be checked, because pods are only added and it has no required affinity terms.

    Terms that cannot be parsed count as affinity terms.
    """
    return actions == ActionType.ADD and not (info.affinity_errors or info.required_affinity)


def is_schedulable_after_node_change(
    info: PodInfo, change: ChangedObject, view: Fork, compares_with_old_node: bool
) -> bool:
    """Return whether the node change affects a topology domain of the waiting pod's terms.

    A changed node must have entered a domain of an affinity term, or left a domain of an anti-affinity term. A new node
    must have the label of an affinity term, but any new node is enough if there are anti-affinity terms. If
    `compares_with_old_node` is false, it is enough that the node has the label of some term. Raises PluginError for
    terms that cannot be parsed.
    """
    affinity, anti_affinity = get_required_terms(info)
    new_labels = change.new.metadata.labels
    if not compares_with_old_node:
        return any(term.topology_key in new_labels for term in (*affinity, *anti_affinity))
    if change.old is None:  # the node was added
        return bool(anti_affinity) or any(term.topology_key in new_labels for term in affinity)

    old_labels = change.old.metadata.labels
    for term in affinity:
        key = term.topology_key
        if key in new_labels and old_labels.get(key) != new_labels[key]:
            return True
    for term in anti_affinity:
        key = term.topology_key
        if key in old_labels and old_labels[key] != new_labels.get(key):
            return True
    return False


def get_required_terms(info: PodInfo) -> tuple[Sequence[AffinityTerm], Sequence[AffinityTerm]]:
    """Return the pod's required affinity terms and its required anti-affinity terms.

    Raises PluginError if a required term cannot be parsed.
    """
    for kind_of_terms, error in info.affinity_errors_by_kind.items():
        if kind_of_terms in REQUIRED_TERM_KINDS:
            raise PluginError(error)
    return info.required_affinity, info.required_anti_affinity


def do_all_terms_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Return whether all of the terms match the pod. Return False if there are no terms."""
    return bool(terms) and all(_does_term_match(term, pod) for term in terms)


def does_any_term_match(terms: Sequence[AffinityTerm], pod: Pod) -> bool:
    """Return whether at least one of the terms matches the pod."""
    return any(_does_term_match(term, pod) for term in terms)


def _does_term_match(term: AffinityTerm, pod: Pod) -> bool:
    """Return whether the term matches the pod. As in upstream's hints, the pod's namespace counts as unlabelled."""
    return term.matches(pod.metadata.namespace, pod.metadata.labels, {})


def iter_waking_changes(info: PodInfo, gates: FeatureGates) -> Iterator[WakeTrigger]:
    """Yield a description of each change that moves a rejected pod back to the queue.

    If the pod's terms cannot be parsed, any change of a pod moves it.
    """
    try:
        affinity, anti_affinity = get_required_terms(info)
    except PluginError as error:
        affinity, anti_affinity = (), ()
        # One trigger stands for all changes of pods. Node changes and the terms of other pods still count.
        yield WakeTrigger(POD, ADD, f"any pod is added, changed or deleted: the pod's terms cannot be read: {error}")
    checks_both_ways = CHECKS_BOTH_WAYS.at(gates.release)

    # Changes that make a pod match the affinity, and changes of the pod's own labels
    label_changes = []
    if affinity:
        yield WakeTrigger(POD, ADD, f"a pod {_describe_terms(affinity)} gets a node")
        label_changes.append(f"a pod on a node becomes one {_describe_terms(affinity)}")
    if checks_both_ways:
        label_changes.append("the pod's own labels change")
    if label_changes:
        yield WakeTrigger(POD, ActionType.UPDATE_POD_LABEL, ", or ".join(label_changes))

    # Pods that leave and that anti-affinity forbids, in either direction
    deletions = []
    if anti_affinity:
        deletions.append(f"a pod {_describe_terms(anti_affinity)} leaves a node")
    if checks_both_ways:
        deletions.append("a pod whose own anti-affinity excludes this pod leaves a node")
    if deletions:
        yield WakeTrigger(POD, DELETE, ", or ".join(deletions))

    if anti_affinity:
        no_longer_matching = f"a pod {_describe_terms(anti_affinity)} is relabeled and no longer matches"
        yield WakeTrigger(POD, ActionType.UPDATE_POD_LABEL, no_longer_matching)
    yield from _iter_waking_node_changes(affinity, anti_affinity, gates)


def _iter_waking_node_changes(
    affinity: Sequence[AffinityTerm], anti_affinity: Sequence[AffinityTerm], gates: FeatureGates
) -> Iterator[WakeTrigger]:
    """Yield a description of each node change that moves a rejected pod back to the queue.

    If there are no terms, nothing is yielded.
    """
    keys = [term.topology_key for term in (*affinity, *anti_affinity)]
    if not keys:
        return
    key_list = join_words(list(dict.fromkeys(keys)), "or")
    if not COMPARES_WITH_OLD_NODE.at(gates.release):
        actions = resolve_node_actions(ActionType.UPDATE_NODE_LABEL, gates)
        changed = "labels or taints" if ActionType.UPDATE_NODE_TAINT in actions else "labels"
        yield WakeTrigger(NODE, ADD | actions, f"a node with label {key_list} is added, or its {changed} change")
        return
    yield WakeTrigger(NODE, ADD, "a node is added" if anti_affinity else f"a node with label {key_list} is added")
    yield WakeTrigger(NODE, ActionType.UPDATE_NODE_LABEL, f"label {key_list} of a node changes")


def _describe_terms(terms: Sequence[AffinityTerm]) -> str:
    """Describe the pods that match all of the terms, by their labels and namespaces."""
    descriptions = (f"{describe_selected_labels(term.selector)}{_describe_namespaces(term)}" for term in terms)
    return " and ".join(dict.fromkeys(descriptions))


def _describe_namespaces(term: AffinityTerm) -> str:
    """Describe the term's namespaces in a phrase with a leading space, such as " in namespace a or b"."""
    if term.namespace_selector.selects_everything:
        return " in any namespace"
    namespaces = sorted(term.namespaces)
    if term.by_namespace_labels:
        namespaces.append("one selected by its labels")
    return f" in namespace {join_words(namespaces, 'or')}"
