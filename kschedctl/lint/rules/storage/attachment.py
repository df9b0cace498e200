"""Rules about volumes and host ports that tie pods to zones or nodes, and about deprecated node labels."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PersistentVolume, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.node_requirements import DEPRECATED_LABELS
from kschedctl.lint.analysis.placement import (
    HARD,
    get_volume_node_terms,
    iter_host_ports,
    iter_node_label_keys,
    iter_volume_label_keys,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.objects.workload import SERVING_KINDS
from kschedctl.lint.rule import ERROR, WARNING, Rule, replace_label
from kschedctl.snapshot.nodes import ZONE
from kschedctl.text.counts import agreeing, counted

ZONAL_PROVISIONERS = frozenset(
    {
        "ebs.csi.aws.com",
        "pd.csi.storage.gke.io",
        "disk.csi.azure.com",
        "cinder.csi.openstack.org",
        "disk.csi.aliyun.com",
        "kubernetes.io/aws-ebs",
        "kubernetes.io/gce-pd",
        "kubernetes.io/azure-disk",
        "kubernetes.io/cinder",
    }
)
"""Provisioners whose volumes exist in one zone only."""

MASTER, CONTROL_PLANE = "node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"
SINGLE_NODE_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def find_immediate_zonal_classes(context: LintContext) -> Iterator[Problem]:
    """Find StorageClasses that bind zonal volumes immediately in a cluster of several zones."""
    zones = context.facts.count_domains(ZONE, context.facts.get_nodes_with_label(ZONE))
    for subject, storage_class in context.list_linted(StorageClass):
        immediate = storage_class.volume_binding_mode in (None, "Immediate")
        if immediate and zones > 1 and storage_class.provisioner in ZONAL_PROVISIONERS:
            message = f"volumes are made in any of {zones} zones before it is known where the pod can run"
            yield subject.build_problem(("volumeBindingMode",), message)


VL_IMMEDIATE_MULTIZONE = Rule(
    "vl-immediate-multizone",
    WARNING,
    find_immediate_zonal_classes,
    summary="Immediate binding of zonal volumes in a cluster of several zones",
    why="The volume may be made in a zone where the pod cannot run: volume node affinity conflict, forever.",
    fix="Set volumeBindingMode: WaitForFirstConsumer",
    source=doc.STORAGE,
    needs_cluster=True,
)


def find_shared_single_node_volumes(context: LintContext) -> Iterator[Problem]:
    """Find replicas that share a volume that only one node or one zone can use."""
    volumes = {pv.metadata.name: pv for pv in context.list_all(PersistentVolume)}
    for workload in context.workloads:
        for i, claim in context.iter_claims(workload):
            path: Path = ("volumes", i)
            if not workload.is_serving_replicas:
                continue
            modes = claim.spec.access_modes
            if modes and all(mode in SINGLE_NODE_MODES for mode in modes):
                one = "pod" if modes == (SINGLE_NODE_MODES[1],) else "node"
                replicas, name = workload.highest_replicas, claim.metadata.name
                message = f"{replicas} replicas share claim {name}, which one {one} only can use"
                yield workload.build_problem(path, message)
            volume = volumes.get(claim.spec.volume_name)
            constraints = workload.spec.topology_spread_constraints
            hard_zone_spread = any(c.topology_key == ZONE and c.when_unsatisfiable == HARD for c in constraints)
            if volume is not None and hard_zone_spread and _is_in_one_zone(volume):
                message = f"volume {volume.metadata.name} is in one zone, but the replicas must spread across zones"
                yield workload.build_problem(path, message)


VL_RWO_WITH_HARD_SPREAD = Rule(
    "vl-rwo-with-hard-spread",
    WARNING,
    find_shared_single_node_volumes,
    summary="Replicas that share a volume usable by one node or zone only",
    why="The replicas must be where the volume is: others stay Pending or in ContainerCreating, at the latest "
    "after a drain or rollout.",
    fix="Use a StatefulSet with volumeClaimTemplates, or a ReadWriteMany volume",
    source=f"{doc.VOLUMES}; https://github.com/kubernetes/kubernetes/issues/116629",
)


def _is_in_one_zone(volume: PersistentVolume) -> bool:
    """Return whether the volume's node affinity allows exactly one zone per term."""
    terms = get_volume_node_terms(volume)
    return bool(terms) and all(
        any("zone" in e.key and e.operator == "In" and len(e.values or ()) == 1 for e in term.match_expressions)
        for term in terms
    )


def find_more_replicas_than_hosts(context: LintContext) -> Iterator[Problem]:
    """Find workloads with a host port and more replicas, or rollout pods, than usable nodes."""
    facts = context.facts
    for workload in context.workloads:
        host_port = next(iter_host_ports(workload), None)
        if host_port is None or workload.kind not in SERVING_KINDS:
            continue
        rows = facts.get_eligible_nodes(workload).nonzero()[0]
        surge, unavailable = workload.compute_surge()
        must_start_new_pod_first = surge > 0 and not unavailable and bool(workload.subject.document)
        is_rollout_stuck = must_start_new_pod_first and workload.replicas == len(rows)
        excess = workload.highest_replicas - len(rows)
        if not len(rows) or (excess <= 0 and not is_rollout_stuck) or not facts.is_full_after(workload, rows):
            continue
        hosts = counted(len(rows), "usable host")
        if is_rollout_stuck:
            message = (
                f"all {hosts} {agreeing(len(rows), 'has', 'have')} the port in use: no room for a rollout's new pod"
            )
        else:
            stay = agreeing(excess, "stays", "stay")
            message = (
                f"{workload.highest_replicas} replicas, but only {hosts}, one replica each: {excess} {stay} Pending"
            )
        yield workload.build_problem(host_port[0], message)


HP_HOSTPORT_OVER_NODES = Rule(
    "hp-hostport-over-nodes",
    ERROR,
    find_more_replicas_than_hosts,
    summary="hostPort with more replicas than usable nodes",
    why="A host port can be used once per node; the rest stay Pending. Proved by replay with one replica on each node.",
    fix="Use a Service or a DaemonSet instead of hostPort, or lower replicas",
    source="https://github.com/kubernetes/kubernetes/issues/91340",
    needs_cluster=True,
)


def find_deprecated_labels(context: LintContext) -> Iterator[Problem]:
    """Find deprecated node labels in workloads and PersistentVolumes."""
    for workload in context.workloads:
        for path, key in iter_node_label_keys(workload):
            if key in DEPRECATED_LABELS:
                successor = DEPRECATED_LABELS[key]
                yield workload.build_problem(path, f"{key} is deprecated", f"Write {successor}", successor)
            elif path == ("nodeSelector", MASTER) and not workload.namespace.startswith("openshift-"):
                message = f"{MASTER} was replaced in 1.24: newer clusters have no node with it"
                yield workload.build_problem(path, message, f"Write {CONTROL_PLANE}", CONTROL_PLANE)
    for subject, volume in context.list_linted(PersistentVolume):
        for path, key in iter_volume_label_keys(volume):
            if key in DEPRECATED_LABELS:
                successor = DEPRECATED_LABELS[key]
                yield subject.build_problem(path, f"{key} is deprecated", f"Write {successor}", successor)


LB_DEPRECATED = Rule(
    "lb-deprecated",
    WARNING,
    find_deprecated_labels,
    summary="Deprecated node labels",
    why="New nodes will not have them: then nothing matches, and pods stay Pending.",
    fix="Use the label that replaced it",
    source=doc.LABELS,
    safe_fix=replace_label,
)
