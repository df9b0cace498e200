"""The nodes on which kube-scheduler would put the pods of Workloads, once Kueue has admitted these."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import NO_ROW
from kschedctl.api.defaults import default_pod
from kschedctl.api.gangs import KUEUE_GATES
from kschedctl.api.objects import Pod, PodMeta, PodSpec, PodTemplateSpec
from kschedctl.api.ownership import Owner
from kschedctl.api.pod_table import PodTable
from kschedctl.api.queueing import KueueWorkload, ResourceFlavor
from kschedctl.cluster import Cluster
from kschedctl.queueing.kueue.outlook import Outlook, WorkloadOutlook
from kschedctl.queueing.kueue.pod_groups import compute_role_hash
from kschedctl.queueing.kueue.topology.tree import HOSTNAME
from kschedctl.queueing.kueue.workloads import PodSetAdmission
from kschedctl.replay.controllers.workload_pods import find_pods
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
    """Place the pods of all Workloads that get quota, in that order, after their victims are gone.

    ``jobs`` are the objects that the Workloads stand for. Workloads after the first 20,000 pods are left out.
    """
    stored = {f"{w.metadata.namespace}/{w.metadata.name}": w for w in cluster.kueue_workloads}
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    pods: dict[str, list[Pod]] = {}
    total = 0
    for key in outlook.order:
        total += sum(pod_set.count for pod_set in _list_admissions(outlook.workloads[key]))
        if total > _MOST_PODS:
            break
        pods[key] = list(_iter_pods(stored[key], outlook.workloads[key], flavors))
    if not pods:
        return {}
    leaving = find_victim_pods(cluster, [outlook.workloads[key] for key in pods], jobs)
    return _schedule_pods(cluster, pods, leaving)


def _list_admissions(outlook: WorkloadOutlook) -> tuple[PodSetAdmission, ...]:
    """Return the flavors that each pod set gets."""
    return () if outlook.admission is None else outlook.admission.pod_sets


def _iter_pods(
    workload: KueueWorkload, outlook: WorkloadOutlook, flavors: Mapping[str, ResourceFlavor]
) -> Iterable[Pod]:
    """Yield the pods of a Workload with the node labels and tolerations of their flavors."""
    templates = {pod_set.name: pod_set.template for pod_set in workload.spec.pod_sets}
    namespace = workload.metadata.namespace
    for assigned in _list_admissions(outlook):
        template = templates.get(assigned.name, PodTemplateSpec())
        spec = add_flavors(template.spec, assigned, flavors)
        spec = replace(spec, scheduling_gates=())
        selector = spec.node_selector
        hosts = _list_hosts(assigned)
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

    Pods that wait behind a gate of Kueue are started. A job without such pods gets new ones.
    """
    flavors = {flavor.metadata.name: flavor for flavor in cluster.resource_flavors}
    owner = str(job or Owner("Workload", workload.metadata.namespace, workload.metadata.name))
    gated_pods = [pod for pod in find_workload_pods(cluster, workload, job) if _is_gated(pod)]
    if gated_pods:
        return StartedPods(owner, tuple(_start_pod(pod, outlook, flavors) for pod in gated_pods))
    references = workload.metadata.owner_references
    pods = (
        replace(pod, metadata=replace(pod.metadata, owner_references=references))
        for pod in _iter_pods(workload, outlook, flavors)
    )
    return StartedPods(owner, tuple(map(default_pod, pods)))


def find_workload_pods(cluster: Cluster, workload: KueueWorkload, job: Owner | None) -> list[Pod]:
    """Return the pods of a Workload: those that own it, or those of its job."""
    names = [reference.name for reference in workload.metadata.owner_references if reference.kind == "Pod"]
    owners = [pod for name in names if (pod := cluster.pod(workload.metadata.namespace, name)) is not None]
    return owners if owners or job is None else find_pods(cluster, job)


def _is_gated(pod: Pod) -> bool:
    """Return whether a pod waits behind a gate of Kueue."""
    gates = {gate.name for gate in pod.spec.scheduling_gates}
    return bool(gates & KUEUE_GATES) and not pod.spec.node_name


def _start_pod(pod: Pod, outlook: WorkloadOutlook, flavors: Mapping[str, ResourceFlavor]) -> Pod:
    """Return a pod without the gates of Kueue, in the flavors of its pod set."""
    admissions = _list_admissions(outlook)
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


def _list_hosts(assigned: PodSetAdmission) -> list[str]:
    """Return the host of each pod if topology-aware scheduling assigned hosts, or an empty list."""
    topology = assigned.topology
    if topology is None or topology.levels[-1:] != (HOSTNAME,):
        return []
    return [domain.values[-1] for domain in topology.domains for _ in range(domain.count)]


def find_victim_pods(
    cluster: Cluster, outlooks: Iterable[WorkloadOutlook], jobs: Mapping[str, Owner | None]
) -> set[tuple[str, str]]:
    """Return the namespace and name of each pod of the preempted Workloads."""
    victims = {victim for outlook in outlooks for victim in outlook.victims}
    if not victims:
        return set()
    return {
        (pod.metadata.namespace, pod.metadata.name)
        for workload in cluster.kueue_workloads
        if (key := f"{workload.metadata.namespace}/{workload.metadata.name}") in victims
        for pod in find_workload_pods(cluster, workload, jobs.get(key))
    }


def _schedule_pods(
    cluster: Cluster, pods: Mapping[str, list[Pod]], leaving: set[tuple[str, str]]
) -> dict[str, PodPlacement]:
    """Schedule the pods in order, and count for each Workload how many get a node."""
    if leaving:
        staying = [pod for pod in cluster.pods if (pod.metadata.namespace, pod.metadata.name) not in leaving]
        cluster = dataclasses.replace(cluster, pods=PodTable.from_pods(staying))
    new = [default_pod(pod) for of_workload in pods.values() for pod in of_workload]
    simulation = Simulation(Scheduler(cluster.with_objects({"Pod": new})))
    position = simulation.view.pods.index
    outcomes = simulation.schedule([position[pod.key] for pod in new])
    by_position = {outcome.position: outcome for outcome in outcomes}
    placements = {}
    for key, of_workload in pods.items():
        results = [by_position[position[pod.key]] for pod in of_workload]
        unplaced = [outcome for outcome in results if outcome.row == NO_ROW]
        message = simulation.explain(unplaced[:1])[0].message if unplaced else ""
        placements[key] = PodPlacement(len(results) - len(unplaced), len(results), message)
    return placements
