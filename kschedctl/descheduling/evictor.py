"""Which pods may be evicted at all, and why others may not: the plugin DefaultEvictor.

Upstream: pkg/framework/plugins/defaultevictor.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from kschedctl.api.arrays import Bools, Rows
from kschedctl.api.columns import NO_TIME
from kschedctl.api.labels import EVERYTHING, Selector, parse_selector, selector_from_api
from kschedctl.api.objects import LabelSelector, PersistentVolumeClaim, Pod
from kschedctl.descheduling.arguments import DefaultEvictorArgs
from kschedctl.descheduling.node_fit import NodeFit
from kschedctl.descheduling.seen_pods import SeenPods
from kschedctl.errors import InputError
from kschedctl.scheduler.engine.preemption.budgets import budget_key, find_budgets

CRITICAL = 2 * 10**9
"""The priority from which on pods are critical to the system."""
TOO_YOUNG, TOO_FEW, NO_OTHER_NODE = "younger than minPodAge", "fewer replicas than minReplicas", "fits on no other node"
OTHER_NAMESPACE = "its namespace is not selected"


class DefaultEvictor:
    """The plugin's answers in one round. ``reasons`` (T,): why pods of an info are kept, "" where nothing keeps them.

    Raises InputError for a PriorityClass that is not there.
    """

    def __init__(self, arguments: DefaultEvictorArgs, seen: SeenPods, fit: NodeFit) -> None:
        self.arguments, self._seen, self._fit = arguments, seen, fit
        self._protections = arguments.protections
        self._threshold = self._priority_threshold()
        self._labels = _selector(arguments.label_selector)
        self.reasons = [", ".join(self._why(number, info.pod)) for number, info in enumerate(seen.infos)]

    def _priority_threshold(self) -> int:
        threshold = self.arguments.priority_threshold
        if threshold is None or (threshold.value is None and not threshold.name):
            return CRITICAL
        if threshold.value is not None:
            return threshold.value
        for known in self._seen.view.cluster.priority_classes:
            if known.metadata.name == threshold.name:
                return known.value
        raise InputError(f'PriorityClass "{threshold.name}" not found', where="priorityThreshold.name")

    def _why(self, number: int, pod: Pod) -> Iterator[str]:
        """Everything about pods of an info that keeps them."""
        notes = pod.metadata.annotations
        if notes.evict is not None:
            return
        if self.arguments.no_eviction_policy == "Mandatory" and notes.prefers_no_eviction is not None:
            yield "its annotation prefers no eviction"
            return
        if notes.mirror:
            yield "mirror pod"
        if notes.config_source != "api":
            yield "static pod"
        if pod.metadata.deletion_timestamp is not None:
            yield "being deleted"
        yield from self._protected(number, pod)
        if not self._labels.matches(pod.metadata.labels):
            yield "labelSelector does not select it"

    def _protected(self, number: int, pod: Pod) -> Iterator[str]:
        protections, priority = self._protections, pod.spec.priority or 0
        if "SystemCriticalPods" in protections:
            if priority >= CRITICAL:
                yield "system critical"
            elif pod.spec.priority is not None and priority >= self._threshold:
                yield f"priority {priority} is not below {self._threshold}"
        if not pod.metadata.owner_references and ("FailedBarePods" in protections or pod.status.phase != "Failed"):
            yield "no owner"
        if "PodsWithLocalStorage" in protections and any(v.host_path or v.empty_dir for v in pod.spec.volumes):
            yield "local storage"
        if "DaemonSetPods" in protections and any(o.kind == "DaemonSet" for o in pod.metadata.owner_references):
            yield "of a DaemonSet"
        if "PodsWithPVC" in protections and (why := self._claims(pod)):
            yield why
        if "PodsWithoutPDB" in protections and not self._covered[number]:
            yield "no PodDisruptionBudget"
        if "PodsWithResourceClaims" in protections and pod.spec.resource_claims:
            yield "resource claims"

    def _claims(self, pod: Pod) -> str:
        """Why the pod's volume claims protect it; empty if they do not."""
        names = [v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim]
        classes = self.arguments.storage_classes
        if not classes:
            return "PersistentVolumeClaim" if names else ""
        claims = {c.metadata.name: c for c in self._claims_of_namespace.get(pod.metadata.namespace, ())}
        for name in names:
            storage_class = claims[name].spec.storage_class_name if name in claims else None
            if not storage_class:
                return f"storage class of claim {name} not known"
            if storage_class in classes:
                return f"storage class {storage_class}"
        return ""

    @cached_property
    def _claims_of_namespace(self) -> dict[str, list[PersistentVolumeClaim]]:
        claims: dict[str, list[PersistentVolumeClaim]] = {}
        for claim in self._seen.view.objects.of("PersistentVolumeClaim"):
            claims.setdefault(claim.metadata.namespace, []).append(claim)
        return claims

    @cached_property
    def _covered(self) -> Bools:
        """(T,): the infos that some budget selects."""
        covered = np.zeros(len(self._seen.infos), np.bool_)
        known = find_budgets(self._seen.view)
        for budget in self._seen.view.objects.of("PodDisruptionBudget"):
            covered |= known.selected(budget_key(budget))
        return covered

    # -- of pods -------------------------------------------------------------------------------------------------

    @cached_property
    def _may_go(self) -> Bools:
        """(P,): the pods that nothing keeps, as the round begins."""
        kept = np.array([bool(why) for why in self.reasons], np.bool_)[self._seen.info]
        return ~(kept | self._young | self._few)

    @property
    def evictable(self) -> Bools:
        """(P,): of these the ones that the round has not evicted yet."""
        return self._may_go & ~self._seen.evicted

    @cached_property
    def _exempt(self) -> Bools:
        """(P,): the pods that ask to be evicted, which nothing keeps."""
        return self._seen.where(lambda pod: pod.metadata.annotations.evict is not None)[self._seen.info]

    @cached_property
    def _young(self) -> Bools:
        """(P,): pods that are too young; those that came in another round are by now as old as they have to be."""
        seconds, seen = self.arguments.seconds, self._seen
        if seconds is None:
            return np.zeros(len(seen.view.pods), np.bool_)
        start: Rows = seen.view.pods.start
        young: Bools = (start == NO_TIME) | (seen.now - start < seconds * 10**6)
        return young & ~seen.came & ~self._exempt

    @cached_property
    def _few(self) -> Bools:
        """(P,): pods of owners that have too few."""
        least = self.arguments.min_replicas
        if least <= 1:
            return np.zeros(len(self._seen.view.pods), np.bool_)
        return (self._seen.siblings < least)[self._seen.info] & ~self._exempt

    def passes(self, positions: Rows) -> Bools:
        """Which of the pods may still be evicted right before it: PreEvictionFilter."""
        passes = self._in_namespaces[self._seen.info[positions]]
        if self.arguments.node_fit:
            passes = passes & self._fit.any_other(positions, self._nodes)
        return passes

    @cached_property
    def _nodes(self) -> Bools:
        """(N,): the nodes on which pods have to fit."""
        selector = parse_selector(self.arguments.node_selector) if self.arguments.node_selector else EVERYTHING
        return self._seen.ready_nodes(selector)

    @cached_property
    def _in_namespaces(self) -> Bools:
        """(T,): the infos in namespaces with the labels that are asked for."""
        selector, labels = _selector(self.arguments.namespace_label_selector), self._seen.view.namespace_labels
        if selector.selects_everything:
            return np.ones(len(self._seen.infos), np.bool_)
        known = {name for name, labels_ in labels.items() if selector.matches(labels_)}
        return self._seen.where(lambda pod: pod.metadata.namespace in known)

    def kept(self, chosen: Bools) -> dict[str, int]:
        """Why of the pods chosen (P,) some are kept -> how many, each counted once."""
        counts: dict[str, int] = {}
        numbers = np.bincount(self._seen.info[chosen], minlength=len(self.reasons))
        for why, number in zip(self.reasons, numbers.tolist(), strict=True):
            if why and number:
                counts[why] = counts.get(why, 0) + number
        kept = np.array([bool(why) for why in self.reasons], np.bool_)[self._seen.info]
        for why, which in ((TOO_YOUNG, self._young), (TOO_FEW, self._few & ~self._young)):
            if number := int((which & chosen & ~kept).sum()):
                counts[why] = number
        return counts


def _selector(selector: LabelSelector | None) -> Selector:
    """None selects everything here."""
    return EVERYTHING if selector is None else selector_from_api(selector)
