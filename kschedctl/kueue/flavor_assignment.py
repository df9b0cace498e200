"""The walk over flavors that finds one for each resource of a Workload.

Upstream: pkg/scheduler/flavorassigner/flavorassigner.go, flavor_assigner_attempts.go and tas_flavorassigner.go.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.node_selector import NodeSelectorError, compile_required_node_affinity
from kschedctl.api.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, PodSpec, Taint
from kschedctl.api.queueing import FlavorFungibility, KueuePodSet, ResourceFlavor
from kschedctl.api.tolerations import HARD_EFFECTS, find_untolerated_taint
from kschedctl.kueue.amounts import (
    FlavorResource,
    Requests,
    Usage,
    add_amounts,
    format_amount,
    format_quota,
    sort_by_hash,
    subtract_amounts,
    sum_requests,
)
from kschedctl.kueue.assignment import (
    Assignment,
    AssignmentMode,
    FlavorAttempt,
    FlavorChoice,
    NoFitReason,
    PodSetAssignment,
    PreemptionMode,
    find_most_severe_reason,
)
from kschedctl.kueue.cluster_queues import NEVER, CycleSnapshot, QueueSnapshot, ResourceGroup
from kschedctl.kueue.feature_gates import FeatureGates, Gate
from kschedctl.kueue.pod_requests import compute_requests
from kschedctl.kueue.quota_tree import find_covering_subtree
from kschedctl.kueue.topology.snapshot import (
    AssumedUsage,
    PodSetPlacementRequest,
    TopologyResult,
    list_slice_constraints,
)
from kschedctl.kueue.workloads import (
    ALL_FLAVORS_TRIED,
    PENDING,
    DomainRequests,
    PodSetRequests,
    ScanProgress,
    TopologyUsage,
    WorkloadInfo,
)

_TRY_NEXT_FLAVOR = "TryNextFlavor"
_PODS = "pods"
_WORST_BORROWING = 2**63 - 1

PlacementRequests = dict[str, list[PodSetPlacementRequest]]
"""The pod sets that need a place in a topology, by flavor."""
SimulatePreemption = Callable[[QueueSnapshot, WorkloadInfo, FlavorResource, int], tuple[PreemptionMode, int]]
"""Says whether preemption would make room for an amount of a resource, and how much is borrowed afterwards."""


class _GranularMode(NamedTuple):
    """The suitability of a flavor: the step that is needed to get it, and how far up quota has to be borrowed."""

    preemption: PreemptionMode
    borrowing: int
    """The height of the cohort tree that has to be borrowed from, 0 if none."""


_WORST = _GranularMode(PreemptionMode.NO_FIT, _WORST_BORROWING)
_BEST = _GranularMode(PreemptionMode.FIT, 0)


class _QuotaFit(NamedTuple):
    """The result of checking a resource against the quota of a flavor."""

    preemption: PreemptionMode
    borrowing: int
    reason: str = ""
    no_fit_reason: NoFitReason = NoFitReason.NONE


@dataclass(slots=True)
class _GroupPodSet:
    """A pod set of a group that gets its flavors together."""

    index: int
    requested: PodSetRequests
    assignment: PodSetAssignment


class _FlavorTrial(NamedTuple):
    """The result of trying one flavor for all resources of a group."""

    choices: dict[str, FlavorChoice]
    """The choice for each resource, without resources after the first that does not fit."""
    mode: _GranularMode
    """The worst mode of all resources."""
    attempt: FlavorAttempt


class _FlavorSearch(NamedTuple):
    """The flavors that were found for the resources of a group."""

    choices: dict[str, FlavorChoice]
    """The choice for each resource; empty if no flavor suits."""
    reasons: list[str]
    """The reasons why flavors do not fit now; empty if one does."""
    attempts: list[FlavorAttempt]
    error: str = ""


@dataclass(slots=True)
class FlavorAssigner:
    """An assigner of flavors to one Workload of a ClusterQueue."""

    info: WorkloadInfo
    queue: QueueSnapshot
    snapshot: CycleSnapshot
    simulate_preemption: SimulatePreemption
    gates: FeatureGates
    cycle: int
    ignores_undeclared: bool
    """True if requests of resources without quota are ignored."""
    uses_fair_sharing: bool

    def assign_flavors(self, counts: Sequence[int] | None = None) -> Assignment:
        """Find flavors and, if needed, a place in their topology for all pod sets.

        ``counts`` gives a reduced number of pods for each pod set, for partial admission. None means that all pods are
        needed. The search stops at the first group of pod sets without a flavor.
        """
        progress = ScanProgress(
            tried_flavors=[], generation=self.queue.generation, cycle=self.cycle, shape=self.info.shape
        )
        assignment = Assignment(progress)
        for group in self._group_pod_sets(counts):
            if not self._assign_pod_set_group(assignment, group):
                self._set_reason_if_no_fit(assignment)
                return assignment
        if assignment.mode != AssignmentMode.NO_FIT and Gate.TOPOLOGY_AWARE_SCHEDULING in self.gates:
            self._place_in_topology(assignment)
        self._set_reason_if_no_fit(assignment)
        return assignment

    def _group_pod_sets(self, counts: Sequence[int] | None) -> list[list[_GroupPodSet]]:
        """Return the pod sets, each with a new assignment, in groups that must get the same flavors.

        A pod set without a group name is its own group. ``counts`` gives the number of pods to assign for each pod set.
        None means the numbers that the Workload requests.
        """
        groups: dict[str, list[_GroupPodSet]] = {}
        for index, requested in enumerate(self.info.pod_sets):
            scaled = requested if counts is None else requested.scale_to_count(counts[index])
            member = _GroupPodSet(index, scaled, self._start_pod_set_assignment(scaled, index))

            request = self.info.workload.pod_sets[index].topology_request
            group_name = None if request is None else request.pod_set_group_name
            if group_name is None:
                group_name = str(index)
            groups.setdefault(group_name, []).append(member)
        return list(groups.values())

    def _start_pod_set_assignment(self, pod_set: PodSetRequests, index: int) -> PodSetAssignment:
        """Start the assignment of a pod set. ``index`` is the pod set's index in the Workload.

        With the gate TopologyAwareScheduling, the assignment starts with the former flavors of the pod set, if it has
        any. The pods count as a resource if the ClusterQueue has a quota for pods.
        """
        requests = dict(pod_set.requests)
        if self.queue.settings.find_resource_group(_PODS) is not None:
            requests = sort_by_hash({**requests, _PODS: pod_set.count})

        assignment = PodSetAssignment(pod_set.name, requests, pod_set.count)
        if Gate.TOPOLOGY_AWARE_SCHEDULING in self.gates:
            self._copy_former_flavors_and_placement(assignment, pod_set, index)
        return assignment

    def _copy_former_flavors_and_placement(
        self, assignment: PodSetAssignment, requested: PodSetRequests, index: int
    ) -> None:
        """Copy a pod set's former flavors, and its former placement if any, into its assignment.

        ``index`` is the pod set's index in the Workload.
        """
        for resource, flavor in requested.flavors.items():
            assignment.flavors[resource] = FlavorChoice(flavor, AssignmentMode.FIT)
        assignment.delayed_topology = requested.delayed_topology
        admission = self.info.workload.admission
        if requested.domains is not None and admission is not None:
            assignment.topology = admission.pod_sets[index].topology

    def _assign_pod_set_group(self, assignment: Assignment, group: Sequence[_GroupPodSet]) -> bool:
        """Find flavors for a group of pod sets, and add the assignments of its pod sets.

        Return whether every pod set that requests resources got flavors and there was no error.
        """
        search = self._find_flavors_of_group(group, assignment.quota)

        # Each pod set gets the flavors of its resources, but the reasons and attempts of the whole group
        is_complete = True
        for member in group:
            pod_set = member.assignment
            pod_set.flavors = self._select_flavor_choices(member, search.choices)
            pod_set.reasons, pod_set.error = list(search.reasons), search.error
            pod_set.attempts = list(search.attempts)
            assignment.add_pod_set(pod_set, pod_set.requests)
            if search.error or (pod_set.requests and not pod_set.flavors):
                is_complete = False
        return is_complete

    def _find_flavors_of_group(self, group: Sequence[_GroupPodSet], assumed: Usage) -> _FlavorSearch:
        """Find flavors for all resources that a group of pod sets requests, and return them with all attempts.

        If a resource has no suitable flavor, the whole group gets no flavors, and the search ends. ``assumed`` is the
        quota that the assignment already takes.
        """
        indexes = [member.index for member in group]
        requests = sum_requests(member.assignment.requests for member in group)
        choices: dict[str, FlavorChoice] = {}
        for member in group:
            choices |= member.assignment.flavors  # kept from the former admission

        reasons: list[str] = []
        attempts: dict[str, FlavorAttempt] = {}
        error = ""
        for resource, amount in requests.items():
            has_flavor = resource in choices  # kept, or found together with another resource of its resource group
            is_covered = self.queue.settings.find_resource_group(resource) is not None
            needs_no_flavor = not is_covered and (amount == 0 or self.ignores_undeclared)
            if has_flavor or needs_no_flavor:
                continue
            search = self._find_best_flavor(indexes, requests, resource, assumed)
            self._merge_flavor_attempts(attempts, search.attempts, resource)
            if search.error or not search.choices:
                choices, reasons, error = {}, search.reasons, search.error
                break
            choices |= search.choices
            reasons += search.reasons
        return _FlavorSearch(choices, reasons, [attempts[flavor] for flavor in sorted(attempts)], error)

    def _select_flavor_choices(
        self, member: _GroupPodSet, choices: Mapping[str, FlavorChoice]
    ) -> dict[str, FlavorChoice]:
        """Return the choices for the resources that one pod set of a group requests.

        A pod set without requests gets no flavors, unless it names a group of pod sets that are placed together in a
        topology. In this case, it gets the flavors that have a topology.
        """
        requests = member.assignment.requests
        if requests:
            return {resource: choice for resource, choice in choices.items() if resource in requests}
        request = self.info.workload.pod_sets[member.index].topology_request
        if request is None or request.pod_set_group_name is None:
            return {}
        return {resource: choice for resource, choice in choices.items() if choice.flavor in self.queue.topologies}

    def _find_best_flavor(  # noqa: PLR0912 - as upstream, one walk
        self, indexes: Sequence[int], requests: Requests, resource: str, assumed: Usage
    ) -> _FlavorSearch:
        """Try the flavors of the resource group that covers ``resource`` in order, and return the best one.

        ``requests`` is the sum of the requests of the pod sets with these ``indexes``. ``assumed`` is the quota that
        the assignment already takes. Upstream: findFlavorForPodSets.
        """
        group = self.queue.settings.find_resource_group(resource)
        if group is None:
            return _FlavorSearch(choices={}, reasons=[f"resource {resource} unavailable in ClusterQueue"], attempts=[])
        covered = {name: amount for name, amount in requests.items() if name in group.resources}
        pod_sets = [self.info.workload.adjusted_pod_sets[index] for index in indexes]
        is_fungible = Gate.FLAVOR_FUNGIBILITY in self.gates
        fungibility = self.queue.settings.fungibility

        best: dict[str, FlavorChoice] = {}
        best_mode = _WORST
        reasons: list[str] = []
        attempts: list[FlavorAttempt] = []
        index = ALL_FLAVORS_TRIED
        for index in range(self._get_first_flavor_index(indexes[0], resource), len(group.flavors)):
            flavor = group.flavors[index]

            # Skip flavors that the pods may not use
            if self._is_limited_to_other_flavors(flavor, pod_sets, resource):
                reasons.append(
                    f"skipping flavor {flavor} as it is not found in the nomination mapping for resource {resource}"
                )
                continue
            try:
                mismatch = self._find_flavor_mismatch(flavor, pod_sets, group)
            except NodeSelectorError as error:
                return _FlavorSearch(choices={}, reasons=reasons, attempts=attempts, error=str(error))
            if mismatch:
                reasons.append(mismatch)
                no_fit = self._get_observed_reason(NoFitReason.NO_MATCHING_FLAVOR)
                attempts.append(FlavorAttempt(flavor, AssignmentMode.NO_FIT, [mismatch], no_fit_reason=no_fit))
                continue

            # Compare the flavors that the pods may use by their quota
            trial = self._try_flavor(flavor, covered, assumed)
            attempts.append(trial.attempt)
            reasons += trial.attempt.reasons
            if not is_fungible:
                # Take the first flavor that fits or, if none does, the first one with the best mode
                if trial.mode.preemption > best_mode.preemption:
                    best, best_mode = trial.choices, trial.mode
                    if best_mode.preemption == PreemptionMode.FIT:
                        return _FlavorSearch(best, reasons=[], attempts=attempts)
                continue
            if not _should_try_next_flavor(trial.mode, fungibility):
                best, best_mode = trial.choices, trial.mode
                break
            if _is_preferred_mode(trial.mode, best_mode, fungibility):
                best, best_mode = trial.choices, trial.mode

        if is_fungible:
            # The next attempt goes on after this flavor, or begins anew after the last
            is_last = index == len(group.flavors) - 1
            for choice in best.values():
                choice.tried_index = ALL_FLAVORS_TRIED if is_last else index
            if best_mode.preemption == PreemptionMode.FIT:
                return _FlavorSearch(best, reasons=[], attempts=attempts)
        return _FlavorSearch(best, reasons, attempts)

    def _get_first_flavor_index(self, pod_set: int, resource: str) -> int:
        """Return the index of the first flavor to try for a resource of a pod set.

        With the gate FlavorFungibility, it is the index after the last flavor that an earlier cycle tried, or 0 if none
        or all flavors were tried. Without the gate, it is always 0.
        """
        progress = self.info.last_assignment
        if Gate.FLAVOR_FUNGIBILITY not in self.gates or progress is None or pod_set >= len(progress.tried_flavors):
            return 0
        tried = progress.tried_flavors[pod_set].get(resource)
        return 0 if tried is None or tried == ALL_FLAVORS_TRIED else tried + 1

    def _is_limited_to_other_flavors(self, flavor: str, pod_sets: Sequence[KueuePodSet], resource: str) -> bool:
        """Return whether the Workload was nominated for other flavors of the resource and is limited to them.

        The limit applies only if the feature gates allow recomputing an assignment within a cycle.
        """
        nominated = self.info.nominated_flavors
        if not nominated:
            return False
        recomputes_topology = {Gate.TOPOLOGY_AWARE_SCHEDULING, Gate.TAS_RECOMPUTE_ASSIGNMENT} <= self.gates
        if not recomputes_topology and Gate.RECOMPUTE_UPON_TARGETS_OVERLAP not in self.gates:
            return False
        return all(nominated.get(pod_set.name, {}).get(resource) != flavor for pod_set in pod_sets)

    def _find_flavor_mismatch(self, name: str, pod_sets: Sequence[KueuePodSet], group: ResourceGroup) -> str:
        """Return why one of the pod sets may not use a flavor, or "" if all may.

        The topology, the taints and the node labels of the flavor are checked. Upstream: checkFlavorForPodSets. Raises
        NodeSelectorError if a node selector is invalid.
        """
        flavor = self.snapshot.flavors.get(name)
        if flavor is None:
            return f"flavor {name} not found"
        for pod_set in pod_sets:
            if Gate.TOPOLOGY_AWARE_SCHEDULING in self.gates:
                mismatch = self._find_topology_mismatch(pod_set, flavor, group)
                if mismatch:
                    return mismatch
            spec = pod_set.template.spec
            tolerations = (*spec.tolerations, *flavor.spec.tolerations)
            taint = find_untolerated_taint(
                flavor.spec.node_taints, tolerations, HARD_EFFECTS, comparison_operators=True
            )
            if taint is not None:
                return f"untolerated taint {_format_taint(taint)} in flavor {name}"
            if not _matches_flavor(spec, flavor.spec.node_labels):
                return f"flavor {name} doesn't match node affinity"
        return ""

    def _find_topology_mismatch(  # noqa: PLR0911 - one for each message
        self, pod_set: KueuePodSet, flavor: ResourceFlavor, group: ResourceGroup
    ) -> str:
        """Return why a flavor's topology does not suit a pod set, or "" if it does.

        A pod set without a topology must use a flavor without a topology. A pod set with an implied topology may use
        any flavor. A pod set that explicitly requests a topology must use a flavor whose topology has the requested
        levels. It may use a flavor without a topology only if it requests none of the resource group's resources.
        Upstream: checkPodSetAndFlavorMatchForTAS.
        """
        name, topology_name = flavor.metadata.name, flavor.spec.topology_name
        if not self._wants_topology(pod_set):
            return "" if topology_name is None else f'Flavor "{name}" supports only TopologyAwareScheduling'
        if not requests_topology(pod_set):
            return ""
        if topology_name is None:
            if not group.resources & compute_requests(pod_set.template.spec).keys():
                return ""
            return f'Flavor "{name}" does not support TopologyAwareScheduling'
        topology = self.queue.topologies.get(name)
        if topology is None:
            return f'Flavor "{name}" information missing in TAS cache'
        if pod_set.topology_request is None or not topology.has_requested_levels(pod_set.topology_request):
            return f'Flavor "{name}" does not contain the requested level'
        return ""

    def _wants_topology(self, pod_set: KueuePodSet) -> bool:
        """Return whether a pod set has to be placed in a topology, on request or because all flavors have one."""
        return requests_topology(pod_set) or self.queue.cached.is_topology_only

    def _try_flavor(self, flavor: str, requests: Requests, assumed: Usage) -> _FlavorTrial:
        """Try to fit all requested resources of a resource group into the quota of one flavor.

        Return the choices by resource, the worst mode of all resources, and a report on the attempt. There are choices
        only for the resources before the first that does not fit even after preemption. ``assumed`` is the quota that
        earlier parts of the assignment take.
        """
        fits: dict[str, _QuotaFit] = {}
        for resource, amount in requests.items():
            key = FlavorResource(flavor, resource)
            fits[resource] = self._check_quota_fit(key, assumed.get(key, 0), amount)

        choices: dict[str, FlavorChoice] = {}
        mode = _BEST
        for resource, fit in fits.items():
            # The trial is as good as its worst resource
            resource_mode = _GranularMode(fit.preemption, fit.borrowing)
            if _is_preferred_mode(mode, resource_mode, self.queue.settings.fungibility):
                mode = resource_mode
            if mode.preemption != PreemptionMode.NO_FIT:
                assignment_mode = fit.preemption.assignment_mode
                choices[resource] = FlavorChoice(flavor, assignment_mode, borrowing=fit.borrowing)
        attempt = FlavorAttempt(
            flavor=flavor,
            mode=mode.preemption.assignment_mode,
            reasons=sorted(fit.reason for fit in fits.values() if fit.reason),
            borrowing=max((fit.borrowing for fit in fits.values()), default=0),
            preemption=mode.preemption if mode.preemption.label else None,
            no_fit_reason=self._get_observed_reason(
                find_most_severe_reason(fit.no_fit_reason for fit in fits.values())
            ),
        )
        return _FlavorTrial(choices, mode, attempt)

    def _check_quota_fit(self, key: FlavorResource, assumed: int, amount: int) -> _QuotaFit:
        """Check whether an amount of a resource fits into the quota in addition to ``assumed``, and how.

        ``assumed`` is the quota that earlier parts of the assignment take. If the amount does not fit now, the result
        gives the reason, and preemption is simulated unless it cannot help. Upstream: fitsResourceQuota.
        """
        # More than could ever be used
        total = add_amounts(assumed, amount)
        capacity = self.queue.node.compute_capacity(key)
        resource = key.resource
        if total > capacity:
            reason = (
                f"insufficient quota for {resource} in flavor {key.flavor}, previously considered podsets requests "
                f"({format_quota(resource, assumed)}) + current podset request ({format_amount(resource, amount)}) > "
                f"maximum capacity ({format_quota(resource, capacity)})"
            )
            return _QuotaFit(
                PreemptionMode.NO_FIT, borrowing=0, reason=reason, no_fit_reason=NoFitReason.EXCEEDS_MAX_QUOTA
            )

        # No more than is free now
        covering = find_covering_subtree(self.queue.node, key, total)
        available = self.queue.compute_available_quota(key)
        if total <= available:
            return _QuotaFit(PreemptionMode.FIT, borrowing=covering.height)

        # More than is free now, which preemption may change
        missing = format_quota(resource, subtract_amounts(total, available))
        reason = f"insufficient unused quota for {resource} in flavor {key.flavor}, {missing} more needed"
        # Preemption can only help if the queue may reclaim quota, its own or a cohort's, or may preempt while borrowing
        may_reclaim = self.queue.node.get_quota(key).nominal >= total or covering.has_parent
        if may_reclaim or self._may_preempt_while_borrowing():
            mode, borrowing = self.simulate_preemption(self.queue, self.info, key, total)
            return _QuotaFit(mode, borrowing=borrowing, reason=reason)
        return _QuotaFit(
            PreemptionMode.NO_FIT,
            borrowing=covering.height,
            reason=reason,
            no_fit_reason=NoFitReason.WAITING_FOR_QUOTA,
        )

    def _may_preempt_while_borrowing(self) -> bool:
        """Return whether the queue may preempt Workloads in other queues even if it then borrows quota."""
        preemption = self.queue.settings.preemption
        within_cohort = preemption.borrow_within_cohort
        if within_cohort is not None and within_cohort.policy != NEVER:
            return True
        return self.uses_fair_sharing and preemption.reclaim_within_cohort != NEVER

    def _get_observed_reason(self, reason: NoFitReason) -> NoFitReason:
        """Return the reason, or NONE if the gate UnadmittedWorkloadsObservability is off."""
        return reason if Gate.UNADMITTED_OBSERVABILITY in self.gates else NoFitReason.NONE

    def _merge_flavor_attempts(
        self, attempts: dict[str, FlavorAttempt], resource_attempts: Sequence[FlavorAttempt], resource: str
    ) -> None:
        """Merge the attempts for another resource into ``attempts``, which maps each flavor to an attempt.

        A flavor's attempt gets the worst mode of all resources. Upstream: mergeFlavorAttemptsForResource.
        """
        for attempt in resource_attempts:
            previous = attempts.get(attempt.flavor)
            if previous is None:
                attempt.reasons = sorted(set(attempt.reasons))
                attempts[attempt.flavor] = attempt
                continue
            preemptions = [tried.preemption for tried in (previous, attempt) if tried.preemption is not None]
            attempts[attempt.flavor] = FlavorAttempt(
                flavor=attempt.flavor,
                mode=min(previous.mode, attempt.mode),
                reasons=sorted({*previous.reasons, *attempt.reasons}),
                borrowing=max(previous.borrowing, attempt.borrowing),
                preemption=min(preemptions, default=None),
                no_fit_reason=find_most_severe_reason((previous.no_fit_reason, attempt.no_fit_reason)),
            )

        if resource_attempts:
            tried_flavors = {attempt.flavor for attempt in resource_attempts}
            self._reject_flavors_not_tried(attempts, tried_flavors, resource)

    def _reject_flavors_not_tried(
        self, attempts: dict[str, FlavorAttempt], tried_flavors: Container[str], resource: str
    ) -> None:
        """Set the mode NO_FIT of flavors that were tried for other resources, but not for ``resource``.

        Only flavors in the resource group of ``resource`` are changed. They do not provide the resource.
        """
        group = self.queue.settings.find_resource_group(resource)
        if group is None:
            return
        for flavor, attempt in attempts.items():
            if flavor in group.flavors and flavor not in tried_flavors:
                attempt.mode = AssignmentMode.NO_FIT
                message = f"flavor {flavor} does not provide resource {resource}"
                attempt.reasons = sorted({*attempt.reasons, message})
                attempt.no_fit_reason = self._get_observed_reason(NoFitReason.NO_MATCHING_FLAVOR)

    def _set_reason_if_no_fit(self, assignment: Assignment) -> None:
        """Set the reason of an assignment that does not fit. Upstream: resolveNoFitReason.

        A resource group needs only one fitting flavor, so its reason is the mildest reason of its flavors. A pod set
        for which no flavor was tried has the reason NO_MATCHING_FLAVOR. The assignment gets the most severe of all
        these reasons. Without the gate UnadmittedWorkloadsObservability, no reason is set.
        """
        if Gate.UNADMITTED_OBSERVABILITY not in self.gates or assignment.mode != AssignmentMode.NO_FIT:
            return
        reasons = []
        for pod_set in assignment.pod_sets:
            if pod_set.mode == AssignmentMode.NO_FIT:
                if not pod_set.attempts:
                    reasons.append(NoFitReason.NO_MATCHING_FLAVOR)
                reasons += self._find_mildest_no_fit_reasons(pod_set.attempts)
        assignment.no_fit_reason = find_most_severe_reason(reasons)

    def _find_mildest_no_fit_reasons(self, attempts: Sequence[FlavorAttempt]) -> list[NoFitReason]:
        """Return the mildest reason why a flavor did not fit, for each resource group with such a flavor.

        A flavor outside all groups counts as a group.
        """
        groups = self.queue.settings.groups
        mildest: dict[tuple[str, int], NoFitReason] = {}
        for attempt_index, attempt in enumerate(attempts):
            if attempt.mode != AssignmentMode.NO_FIT:
                continue
            keys = [("group", index) for index, group in enumerate(groups) if attempt.flavor in group.flavors]
            for key in keys or [("attempt", attempt_index)]:
                current = mildest.get(key)
                if current is None or attempt.no_fit_reason.severity < current.severity:
                    mildest[key] = attempt.no_fit_reason
        return list(mildest.values())

    def _place_in_topology(self, assignment: Assignment) -> None:
        """Place the pod sets with a topology request if they fit now, and update the assignment's mode.

        If all pod sets can be placed, the mode stays FIT. Otherwise, or if the mode was PREEMPT before, the mode
        becomes PREEMPT if they would fit into an empty topology, and NO_FIT if not. An assignment with the mode NO_FIT
        stays unchanged.
        """
        requests = self.collect_placement_requests(assignment)

        if assignment.mode == AssignmentMode.FIT:
            results = find_placements(self.queue, requests, self.gates, assume_empty=False)
            failed = find_failed_pod_set(results)
            if failed is None:
                assignment.set_placements(results)
                return
            pod_set = assignment.get_pod_set(failed)
            pod_set.reasons.append(results[failed].failure)
            assignment.set_mode(AssignmentMode.PREEMPT, [pod_set])
        if assignment.mode == AssignmentMode.PREEMPT:
            self._set_mode_for_empty_topology(assignment, requests)

    def _set_mode_for_empty_topology(self, assignment: Assignment, requests: PlacementRequests) -> None:
        """Set the mode PREEMPT if the pods would fit into an empty topology, and otherwise NO_FIT.

        The mode PREEMPT means that preemption may help.
        """
        results = find_placements(self.queue, requests, self.gates, assume_empty=True)
        failed = find_failed_pod_set(results)
        if failed is None:
            flavor_requests = chain.from_iterable(requests.values())
            placed = [assignment.get_pod_set(request.pod_set.name) for request in flavor_requests]
            assignment.set_mode(AssignmentMode.PREEMPT, placed)
            return

        pod_set = assignment.get_pod_set(failed)
        if Gate.UNADMITTED_OBSERVABILITY in self.gates:  # with this gate, Kueue reports why each flavor failed
            for attempt in pod_set.attempts:
                if attempt.flavor == results[failed].flavor:
                    attempt.mode = AssignmentMode.NO_FIT
                    attempt.no_fit_reason = NoFitReason.TOPOLOGY_PLACEMENT_FAILED
        assignment.set_mode(AssignmentMode.NO_FIT, [pod_set])

    def collect_placement_requests(self, assignment: Assignment) -> PlacementRequests:
        """Return, by flavor, the requests of the pod sets to place in a topology in this cycle.

        Pod sets with an error, without pods or with a placement are skipped. A pod set without exactly one flavor with
        a topology gets an error in the assignment. A pod set is marked as pending in the assignment if a
        ProvisioningRequest comes first or MultiKueue places it. Upstream: WorkloadsTopologyRequests.
        """
        requests: PlacementRequests = {}
        workload = self.info.workload
        for pod_set in workload.adjusted_pod_sets:
            if not self._wants_topology(pod_set):
                continue
            assigned = assignment.get_pod_set(pod_set.name)
            if assigned.error or assigned.count == 0 or assigned.topology is not None:
                continue
            if not self.queue.topologies:
                assignment.set_error(assigned, "workload requires Topology, but there is no TAS cache information")
                continue
            flavors = sorted(self._find_topology_flavors(assigned))
            if not flavors:
                assignment.set_error(assigned, "no TAS flavor assigned")
                continue
            if len(flavors) > 1:
                assignment.set_error(assigned, f"more than one TAS flavor assigned: {', '.join(flavors)}")
                continue

            flavor = flavors[0]
            cached = self.queue.cached
            if cached.uses_multikueue or (not workload.has_quota and flavor in cached.provisioning_flavors):
                assigned.delayed_topology = PENDING
                continue
            requests.setdefault(flavor, []).append(
                PodSetPlacementRequest(
                    pod_set,
                    compute_requests(pod_set.template.spec),
                    assigned.count,
                    flavor,
                    is_implied=not requests_topology(pod_set),
                )
            )
        return requests

    def _find_topology_flavors(self, assigned: PodSetAssignment) -> set[str]:
        """Return the flavors of a pod set's assignment that have a topology."""
        flavors = {choice.flavor for choice in assigned.flavors.values()}
        return flavors & self.queue.topologies.keys()

    def compute_topology_usage(self, assignment: Assignment) -> TopologyUsage:
        """Return the pods that the assignment adds to topology domains, by flavor. Upstream: ComputeTASNetUsage.

        Pods that the Workload's current admission already has in the same domain are subtracted. Pod sets without
        exactly one flavor with a topology are left out.
        """
        former_counts = self._count_admitted_pods_by_domain()
        usage: TopologyUsage = {}
        specs = {pod_set.name: pod_set.template.spec for pod_set in self.info.workload.adjusted_pod_sets}
        for assigned in assignment.pod_sets:
            if assigned.topology is None:
                continue
            flavors = self._find_topology_flavors(assigned)
            if len(flavors) != 1:
                continue
            pod_requests = compute_requests(specs[assigned.name])
            domains = usage.setdefault(flavors.pop(), [])
            for domain in assigned.topology.domains:
                count = domain.count - former_counts.get((assigned.name, domain.values), 0)
                if count > 0:
                    domains.append(DomainRequests(domain.values, pod_requests, count))
        return usage

    def _count_admitted_pods_by_domain(self) -> dict[tuple[str, tuple[str, ...]], int]:
        """Return the number of pods in the Workload's current admission, by pod set and domain values.

        Return {} if the Workload is not admitted.
        """
        admission = self.info.workload.admission
        if admission is None:
            return {}
        return {
            (pod_set.name, domain.values): domain.count
            for pod_set in admission.pod_sets
            if pod_set.topology is not None
            for domain in pod_set.topology.domains
        }


def requests_topology(pod_set: KueuePodSet) -> bool:
    """Return whether a pod set explicitly requests a topology: a level, slices, or an unconstrained placement.

    Upstream: IsExplicitlyRequestingTAS.
    """
    request = pod_set.topology_request
    if request is None:
        return False
    named = (request.unconstrained, request.required, request.preferred, request.pod_set_slice_size)
    return any(value is not None for value in named) or bool(list_slice_constraints(request))


def find_placements(
    queue: QueueSnapshot, requests: PlacementRequests, gates: FeatureGates, *, assume_empty: bool
) -> dict[str, TopologyResult]:
    """Find a placement for each pod set. Return, by pod set, the placement or the reason why there is none.

    Within a flavor, pod sets after the first failure are not tried and have no result. With ``assume_empty``, the usage
    of other Workloads is ignored. Upstream: FindTopologyAssignmentsForWorkload.
    """
    # Flavors may share nodes, so that pods placed in one flavor take room in the others. `place_pod_sets` adds the pods
    # that it places to the usage that it gets.
    usage_of_shared_nodes: AssumedUsage = {}
    results: dict[str, TopologyResult] = {}
    for flavor in sorted(requests):
        topology = queue.topologies[flavor]
        is_shared = Gate.TAS_HANDLE_OVERLAPPING_FLAVORS in gates and topology.tree.has_node_level
        assumed = usage_of_shared_nodes if is_shared else {}
        results |= topology.place_pod_sets(requests[flavor], assumed, assume_empty=assume_empty)
    return results


def find_failed_pod_set(results: Mapping[str, TopologyResult]) -> str | None:
    """Return the name of the first pod set that has no placement, or None."""
    return next((name for name, result in results.items() if result.failure), None)


def _is_preferred_mode(a: _GranularMode, b: _GranularMode, fungibility: FlavorFungibility) -> bool:
    """Return whether mode ``a`` is better than ``b``. Upstream: isPreferred.

    Fitting beats not fitting, and preemption with candidates beats preemption without candidates. Otherwise, the
    queue's preference decides whether less borrowing or less preemption is better.
    """
    if a.preemption == PreemptionMode.NO_FIT:
        return False
    if b.preemption == PreemptionMode.NO_FIT:
        return True
    a_has_candidates = a.preemption != PreemptionMode.NO_CANDIDATES
    b_has_candidates = b.preemption != PreemptionMode.NO_CANDIDATES
    if a_has_candidates != b_has_candidates:
        return a_has_candidates
    if fungibility.preference == "PreemptionOverBorrowing":
        return (a.borrowing, -a.preemption) < (b.borrowing, -b.preemption)
    return (-a.preemption, a.borrowing) < (-b.preemption, b.borrowing)


def _should_try_next_flavor(mode: _GranularMode, fungibility: FlavorFungibility) -> bool:
    """Return whether to try another flavor after a flavor with this mode. Upstream: shouldTryNextFlavor.

    The result is True if the flavor does not fit and no preemption can change that. If the flavor would preempt or
    borrow, the queue's fungibility decides. Otherwise, the result is False.
    """
    if mode.preemption in (PreemptionMode.NO_FIT, PreemptionMode.NO_CANDIDATES):
        return True
    may_preempt = mode.preemption in (PreemptionMode.PREEMPT, PreemptionMode.RECLAIM)
    if may_preempt and fungibility.when_can_preempt == _TRY_NEXT_FLAVOR:
        return True
    return mode.borrowing > 0 and fungibility.when_can_borrow == _TRY_NEXT_FLAVOR


def _format_taint(taint: Taint) -> str:
    """Format a taint as Go prints the struct, without the time at which it was added."""
    return f"{{{taint.key} {taint.value} {taint.effect} <nil>}}"


def _matches_flavor(spec: PodSpec, node_labels: Mapping[str, str]) -> bool:
    """Return whether a pod's node selector and affinity allow a flavor with these node labels.

    Only requirements on labels of the flavor are checked. If a term of the affinity has no such requirement, the whole
    affinity matches. Raises NodeSelectorError if a node selector is invalid.
    """
    return compile_required_node_affinity(_restrict_spec_to_labels(spec, node_labels)).match(node_labels, "")


def _restrict_spec_to_labels(spec: PodSpec, keys: Mapping[str, str]) -> PodSpec:
    """Return the pod spec with only the node selector and the required node affinity on these labels.

    Preferred terms are dropped. If a required term has no requirement on the labels, the whole affinity is dropped,
    because that term then always matches.
    """
    selector = {key: value for key, value in spec.node_selector.items() if key in keys}
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = [
        NodeSelectorTerm(tuple(expression for expression in term.match_expressions if expression.key in keys))
        for term in (required.node_selector_terms if required else ())
    ]
    if not terms or not all(term.match_expressions for term in terms):
        return replace(spec, node_selector=selector, affinity=None)

    node_selector = NodeSelector(tuple(terms))
    node_affinity = NodeAffinity(required_during_scheduling_ignored_during_execution=node_selector)
    return replace(spec, node_selector=selector, affinity=Affinity(node_affinity=node_affinity))
