"""The nodes on which kube-scheduler would put the pods of Workloads, once Kueue has admitted these."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.defaults import apply_pod_defaults
from kschedctl.api.gangs import KUEUE_GATES
from kschedctl.api.objects import Pod, PodMeta, PodSpec, PodTemplateSpec
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import PodTable
from kschedctl.api.queueing import KueueWorkload, ResourceFlavor
from kschedctl.cluster import Cluster
from kschedctl.kueue.outlook import Outlook, WorkloadOutlook
from kschedctl.kueue.pod_groups import compute_role_hash
from kschedctl.kueue.topology.tree import HOSTNAME
from kschedctl.kueue.workloads import PodSetAdmission
from kschedctl.replay.controllers.workload_pods import find_pods_of_owner
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

_MOST_PODS = 20_000


class PodPlacement(NamedTuple):
    """The number of a Workload's pods that get a node."""

    placed: int
    pods: int
    message: str
    """kube-scheduler's message for the first pod without a node, or ""."""


def place_admitted_pods(
    cluster: Cluster, outlook: Outlook, jobs: Mapping[str, Owner | None]
) -> dict[str, PodPlacement]:
    """Place the pods of all Workloads in the order in which they get quota, after their victims are gone.

    Return the placements, keyed by Workload, or {} if no Workload gets quota. ``jobs`` maps these keys to the objects
    that the Workloads stand for. Workloads after the first 20,000 pods are left out.
    """
    stored = {
        f"{workload.metadata.namespace}/{workload.metadata.name}": workload for workload in cluster.kueue_workloads
    }
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    pods: dict[str, list[Pod]] = {}
    total = 0
    for key in outlook.order:
        total += sum(pod_set.count for pod_set in _list_pod_set_admissions(outlook.workloads[key]))
        if total > _MOST_PODS:
            break
        pods[key] = list(_iter_new_workload_pods(stored[key], outlook.workloads[key], flavors))
    if not pods:
        return {}
    leaving = find_victim_pod_keys(cluster, [outlook.workloads[key] for key in pods], jobs)
    return _schedule_workload_pods(cluster, pods, leaving)


def _list_pod_set_admissions(outlook: WorkloadOutlook) -> tuple[PodSetAdmission, ...]:
    """Return the admission of each pod set, with its flavors, or () if the Workload is not admitted."""
    return () if outlook.admission is None else outlook.admission.pod_sets


def _iter_new_workload_pods(
    workload: KueueWorkload, outlook: WorkloadOutlook, flavors: Mapping[str, ResourceFlavor]
) -> Iterable[Pod]:
    """Yield new pods for a Workload, with the node labels and tolerations of their flavors.

    The pods have no scheduling gates. A pod that topology-aware scheduling assigned to a host gets a node selector for
    that host.
    """
    templates = {pod_set.name: pod_set.template for pod_set in workload.spec.pod_sets}
    namespace = workload.metadata.namespace
    for assigned in _list_pod_set_admissions(outlook):
        template = templates.get(assigned.name, PodTemplateSpec())
        spec = add_flavors(template.spec, assigned, flavors)
        spec = replace(spec, scheduling_gates=())
        selector = spec.node_selector
        hosts = _list_assigned_hosts(assigned)
        for index in range(assigned.count):
            name = f"{workload.metadata.name}-{assigned.name}-{index}"
            metadata = PodMeta(name=name, namespace=namespace, labels=template.metadata.labels)
            own_spec = spec
            if index < len(hosts):
                own_spec = replace(spec, node_selector={**selector, HOSTNAME: hosts[index]})
            yield Pod(metadata=metadata, spec=own_spec)


class StartedPods(NamedTuple):
    """The pods that get a chance of a node because Kueue admits their Workload."""

    owner: str
    """The job, or the Workload if the job is not known."""
    pods: tuple[Pod, ...]
    """New pods, and existing ones without Kueue's scheduling gates."""


def build_started_pods(
    cluster: Cluster, workload: KueueWorkload, outlook: WorkloadOutlook, job: Owner | None
) -> StartedPods:
    """Return the pods of an admitted Workload with the node labels and tolerations of their flavors.

    Existing pods that wait behind a gate of Kueue are returned without the gate. If there are none, new pods are built.
    ``job`` is the owner of the pods, or None if it is unknown.
    """
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    owner = str(job or Owner("Workload", workload.metadata.namespace, workload.metadata.name))
    gated_pods = [pod for pod in find_workload_pods(cluster, workload, job) if _is_gated(pod)]
    if gated_pods:
        return StartedPods(owner, tuple(_build_ungated_pod(pod, outlook, flavors) for pod in gated_pods))
    references = workload.metadata.owner_references
    pods = (
        replace(pod, metadata=replace(pod.metadata, owner_references=references))
        for pod in _iter_new_workload_pods(workload, outlook, flavors)
    )
    return StartedPods(owner, tuple(map(apply_pod_defaults, pods)))


def find_workload_pods(cluster: Cluster, workload: KueueWorkload, job: Owner | None) -> list[Pod]:
    """Return the existing pods of a Workload.

    These are the pods that own the Workload, as the pods of a plain pod group do. If no pod owns the Workload, the pods
    of its job are returned, or [] if the job is unknown.
    """
    owner_names = [reference.name for reference in workload.metadata.owner_references if reference.kind == "Pod"]
    candidates = (cluster.pod(workload.metadata.namespace, name) for name in owner_names)
    owners = [pod for pod in candidates if pod is not None]
    if owners:
        return owners
    return find_pods_of_owner(cluster, job) if job is not None else []


def _is_gated(pod: Pod) -> bool:
    """Return whether a pod waits behind a gate of Kueue."""
    gates = {gate.name for gate in pod.spec.scheduling_gates}
    return bool(gates & KUEUE_GATES) and not pod.spec.node_name


def _build_ungated_pod(pod: Pod, outlook: WorkloadOutlook, flavors: Mapping[str, ResourceFlavor]) -> Pod:
    """Return a pod without the gates of Kueue, with the node labels and tolerations of its pod set's flavors."""
    admissions = _list_pod_set_admissions(outlook)
    role = compute_role_hash(pod.spec) if len(admissions) > 1 else ""
    assigned = next((admission for admission in admissions if admission.name == role), admissions[0])
    spec = add_flavors(pod.spec, assigned, flavors)
    gates = tuple(gate for gate in spec.scheduling_gates if gate.name not in KUEUE_GATES)
    return replace(pod, spec=replace(spec, scheduling_gates=gates))


def add_flavors(spec: PodSpec, assigned: PodSetAdmission, flavors: Mapping[str, ResourceFlavor]) -> PodSpec:
    """Return the spec of a pod with the node labels and tolerations of the flavors that its pod set gets."""
    selector, tolerations = dict(spec.node_selector), list(spec.tolerations)
    for name in dict.fromkeys(assigned.flavors.values()):
        if name in flavors:
            selector |= flavors[name].spec.node_labels
            tolerations += flavors[name].spec.tolerations
    return replace(spec, node_selector=selector, tolerations=tuple(tolerations))


def _list_assigned_hosts(assigned: PodSetAdmission) -> list[str]:
    """Return the host of each pod if topology-aware scheduling assigned hosts, or an empty list."""
    topology = assigned.topology
    if topology is None or not topology.levels or topology.levels[-1] != HOSTNAME:
        return []
    return [domain.values[-1] for domain in topology.domains for _ in range(domain.count)]


def find_victim_pod_keys(
    cluster: Cluster, outlooks: Iterable[WorkloadOutlook], jobs: Mapping[str, Owner | None]
) -> set[tuple[str, str]]:
    """Return the namespace and name of each pod of the preempted Workloads.

    ``jobs`` maps the keys of Workloads to the objects that they stand for. The set is empty if no Workload is
    preempted.
    """
    preempted_workloads = {victim for outlook in outlooks for victim in outlook.victims}
    if not preempted_workloads:
        return set()
    victim_pods = set()
    for workload in cluster.kueue_workloads:
        key = f"{workload.metadata.namespace}/{workload.metadata.name}"
        if key in preempted_workloads:
            for pod in find_workload_pods(cluster, workload, jobs.get(key)):
                victim_pods.add((pod.metadata.namespace, pod.metadata.name))
    return victim_pods


def _schedule_workload_pods(
    cluster: Cluster, pods: Mapping[str, list[Pod]], leaving: set[tuple[str, str]]
) -> dict[str, PodPlacement]:
    """Schedule the pods in order, and count for each Workload how many get a node.

    ``pods`` maps the keys of Workloads to their new pods. The ``leaving`` pods, given by namespace and name, are
    removed from the cluster first. A placement also has the message of the Workload's first pod without a node, if
    there is one. Raises KeyboardInterrupt if the user interrupts.
    """
    if leaving:
        staying = [pod for pod in cluster.pods if (pod.metadata.namespace, pod.metadata.name) not in leaving]
        cluster = dataclasses.replace(cluster, pods=PodTable.from_pods(staying))
    new_pods = [apply_pod_defaults(pod) for workload_pods in pods.values() for pod in workload_pods]
    simulation = Simulation(Scheduler(cluster.with_objects({"Pod": new_pods})))
    index = simulation.view.pods.index
    outcomes = simulation.schedule_or_raise_interrupt([index[pod.key] for pod in new_pods])
    outcome_by_position = {outcome.position: outcome for outcome in outcomes}

    placements = {}
    for key, workload_pods in pods.items():
        results = [outcome_by_position[index[pod.key]] for pod in workload_pods]
        unplaced = [outcome for outcome in results if not outcome.is_placed]
        message = simulation.explain(unplaced[:1])[0].message if unplaced else ""
        placements[key] = PodPlacement(placed=len(results) - len(unplaced), pods=len(results), message=message)
    return placements
