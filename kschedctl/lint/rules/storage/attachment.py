"""Rules about volumes that tie pods to zones or nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.objects import PersistentVolume, PersistentVolumeClaim, SelectorRequirement, StorageClass
from kschedctl.lint import documentation as doc
from kschedctl.lint.analysis.placement import (
    HARD,
    get_volume_node_terms,
)
from kschedctl.lint.context import LintContext
from kschedctl.lint.objects.subject import Path, Problem
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.snapshot.nodes import ZONE

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
"""Provisioners of volumes that exist in one zone only."""

SINGLE_NODE_MODES = ("ReadWriteOnce", "ReadWriteOncePod")


def find_immediate_zonal_classes(context: LintContext) -> Iterator[Problem]:
    """Find StorageClasses of zonal provisioners that bind volumes immediately.

    Only known provisioners are considered. Finds nothing if the nodes are in fewer than two zones.
    """
    zone_count = context.facts.count_domains(ZONE, context.facts.get_nodes_with_label(ZONE))
    if zone_count < 2:
        return
    for subject, storage_class in context.list_linted_objects(StorageClass):
        is_immediate = storage_class.volume_binding_mode in (None, "Immediate")
        if is_immediate and storage_class.provisioner in ZONAL_PROVISIONERS:
            message = f"volumes are created in any of {zone_count} zones before it is known where the pod can run"
            yield subject.build_problem(("volumeBindingMode",), message)


VL_IMMEDIATE_MULTIZONE = Rule(
    "vl-immediate-multizone",
    WARNING,
    find_immediate_zonal_classes,
    summary="volumeBindingMode: Immediate for zonal volumes in a cluster of several zones",
    why="The volume may be created in a zone where the pod cannot run. The pod then stays Pending (volume node "
    "affinity conflict).",
    fix="Set volumeBindingMode: WaitForFirstConsumer",
    source=doc.STORAGE,
    needs_cluster=True,
)


def find_shared_single_node_volumes(context: LintContext) -> Iterator[Problem]:
    """Find serving workloads with several replicas that share a volume which only one pod, node or zone can use.

    A volume in one zone is reported only if the replicas have to spread across zones.
    """
    volumes = {volume.metadata.name: volume for volume in context.list_all_objects(PersistentVolume)}
    for workload in context.workloads:
        if not workload.is_serving_replicas:
            continue
        constraints = workload.spec.topology_spread_constraints
        has_hard_zone_spread = any(
            constraint.topology_key == ZONE and constraint.when_unsatisfiable == HARD for constraint in constraints
        )
        for i, claim in context.iter_claims(workload):
            path: Path = ("volumes", i)
            user = describe_exclusive_user(claim)
            if user:
                message = (
                    f"{workload.highest_replicas_text} share claim {claim.metadata.name}, which only one {user} can use"
                )
                yield workload.build_problem(path, message)
            volume = volumes.get(claim.spec.volume_name)
            if volume is not None and has_hard_zone_spread and _is_in_one_zone(volume):
                message = f"volume {volume.metadata.name} is in one zone, but the replicas have to spread across zones"
                yield workload.build_problem(path, message)


VL_RWO_WITH_HARD_SPREAD = Rule(
    "vl-rwo-with-hard-spread",
    WARNING,
    find_shared_single_node_volumes,
    summary="Replicas that share a volume that only one node or zone can use",
    why="All replicas have to run where the volume is. Replicas elsewhere stay Pending or in ContainerCreating, at "
    "the latest after a drain or rollout.",
    fix="Use a StatefulSet with volumeClaimTemplates, or a ReadWriteMany volume",
    source=f"{doc.VOLUMES}; https://github.com/kubernetes/kubernetes/issues/116629",
)


def describe_exclusive_user(claim: PersistentVolumeClaim) -> str:
    """Return ``pod`` or ``node`` if only one pod or node can use a claim at the same time, otherwise ""."""
    modes = claim.spec.access_modes
    if not modes or any(mode not in SINGLE_NODE_MODES for mode in modes):
        return ""
    return "pod" if modes == ("ReadWriteOncePod",) else "node"


def _is_in_one_zone(volume: PersistentVolume) -> bool:
    """Return whether each term of the volume's node affinity allows exactly one zone.

    Returns False for a volume without terms.
    """

    def names_one_zone(expression: SelectorRequirement) -> bool:
        """Return whether the expression allows a single value of a zone label."""
        return "zone" in expression.key and expression.operator == "In" and len(expression.values or ()) == 1

    terms = get_volume_node_terms(volume)
    return bool(terms) and all(any(map(names_one_zone, term.match_expressions)) for term in terms)
