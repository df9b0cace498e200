"""Translation of in-tree volumes to the CSI volumes that replaced them, and the CSI drivers on each node.

Upstream: staging/src/k8s.io/csi-translation-lib (v1.36), and the lists of migrated plugins in
pkg/scheduler/framework/plugins/{nodevolumelimits/utils.go,volumebinding/binder.go}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from kschedctl.api.arrays import Bools
from kschedctl.api.objects import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CSINode,
    GCEPersistentDiskVolumeSource,
    NodeSelector,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    SelectorRequirement,
    Volume,
    VolumeNodeAffinity,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE_DELIMITER = "__"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
AZURE_DEFAULT_KIND = "Shared"
"""Upstream: SetDefaults_AzureDiskVolumeSource in pkg/apis/core/v1/defaults.go."""
_GCE_UNKNOWN = "UNSPECIFIED"
_AWS_VOLUME = re.compile(r"vol-[^/]*")


class TranslationError(Exception):
    """The error for an in-tree volume that has no CSI equivalent, with upstream's message."""


class InTreePlugin(NamedTuple):
    """An in-tree volume plugin and the CSI driver that replaces it."""

    name: str
    driver: str
    field: str
    """The field of a pod's volume or of a PersistentVolume's spec that has the source."""
    enabled: bool = True
    """True if its volumes count as CSI volumes."""
    topology_key: str = ""
    """The driver's zone label, if translating a volume changes its node affinity."""


PORTWORX = "kubernetes.io/portworx-volume"
PLUGINS = (
    InTreePlugin(
        "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "gce_persistent_disk", topology_key="topology.gke.io/zone"
    ),
    InTreePlugin(
        "kubernetes.io/aws-ebs",
        "ebs.csi.aws.com",
        "aws_elastic_block_store",
        topology_key="topology.ebs.csi.aws.com/zone",
    ),
    InTreePlugin(
        "kubernetes.io/cinder",
        "cinder.csi.openstack.org",
        "cinder",
        topology_key="topology.cinder.csi.openstack.org/zone",
    ),
    InTreePlugin("kubernetes.io/azure-disk", "disk.csi.azure.com", "azure_disk"),
    InTreePlugin(PORTWORX, "pxd.portworx.com", "portworx_volume"),
    InTreePlugin("kubernetes.io/azure-file", "file.csi.azure.com", "azure_file", enabled=False),
    InTreePlugin("kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", "vsphere_volume", enabled=False),
)
BY_NAME = {plugin.name: plugin for plugin in PLUGINS}


def find_in_tree_plugin(source: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """Return the in-tree plugin of the volume's source, or None if no CSI driver replaces it."""
    for plugin in PLUGINS:
        if getattr(source, plugin.field) is not None:
            return plugin
    return None


def list_migrated_plugins(node: CSINode | None) -> frozenset[str]:
    """Return the names of the in-tree plugins that the node's kubelet has migrated to CSI.

    The result is empty for a node without a CSINode (None).
    """
    annotation = node.metadata.annotations.get(MIGRATED_PLUGINS, "") if node else ""
    if not annotation:
        return frozenset()
    return frozenset(annotation.split(","))


def translate_handle(source: Any, zones: str = "") -> str:
    """Return the CSI volume handle of an in-tree volume source.

    `zones` is the zone label of the PersistentVolume, which only GCE disks need. Raises TranslationError if the source
    has no CSI equivalent.
    """
    match source:
        case GCEPersistentDiskVolumeSource():
            return _translate_gce_handle(source.pd_name, zones)
        case AWSElasticBlockStoreVolumeSource():
            return _translate_aws_handle(source.volume_id)
        case AzureDiskVolumeSource():
            return _translate_azure_handle(source)
    return str(source.volume_id)  # CinderVolumeSource or NamedVolumeSource


def translate_volume_handle(volume: PersistentVolume, plugin: InTreePlugin) -> str:
    """Return the CSI volume handle of a PersistentVolume of an in-tree plugin.

    Raises TranslationError if the volume has no CSI equivalent.
    """
    labels = volume.metadata.labels
    zones = labels.get(BETA_ZONE) or labels.get(ZONE, "")
    return translate_handle(getattr(volume.spec, plugin.field), zones)


def translate_affinity(volume: PersistentVolume, plugin: InTreePlugin) -> VolumeNodeAffinity | None:
    """Return the node affinity of an in-tree volume after translation to CSI, or None if the volume has none.

    The zone label becomes the driver's own label, and the beta label of regions becomes the stable label. If no term
    names a zone, the zones of the volume's labels are added to all terms. The affinity is unchanged if the driver has
    no zone label.
    """
    affinity = volume.spec.node_affinity
    if not plugin.topology_key:
        return affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    zone_key, region_key = _choose_topology_keys(terms, volume.metadata.labels)

    if _has_requirement_with_values(terms, zone_key):
        terms = _rename_requirement_key(terms, zone_key, plugin.topology_key)
    else:
        zones = {name.strip() for name in volume.metadata.labels.get(zone_key, "").split(ZONE_DELIMITER)} - {""}
        if zones:
            in_zones = SelectorRequirement(plugin.topology_key, "In", tuple(sorted(zones)))
            terms = tuple(
                replace(term, match_expressions=(*term.match_expressions, in_zones))
                for term in terms or (NodeSelectorTerm(),)  # a volume without terms gets one
            )

    if region_key == BETA_REGION and _has_requirement_with_values(terms, region_key):
        terms = _rename_requirement_key(terms, region_key, REGION)
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else affinity


def _choose_topology_keys(terms: tuple[NodeSelectorTerm, ...], labels: dict[str, str]) -> tuple[str, str]:
    """Return the keys of the zone and region labels that a volume uses, by default the stable keys.

    Keys in the volume's affinity terms take precedence over keys of its labels, and stable keys over beta keys.
    """
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for candidates in (keys, labels):
        if ZONE in candidates:
            return ZONE, REGION
        if BETA_ZONE in candidates:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_requirement_with_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    """Return whether some term has a requirement on the label `key` that lists values."""
    requirements = (requirement for term in terms for requirement in term.match_expressions)
    return any(requirement.key == key and requirement.values for requirement in requirements)


def _rename_requirement_key(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    """Return copies of the terms in which requirements on the label `old` apply to the label `new` instead."""
    renamed_terms = []
    for term in terms:
        expressions = [
            replace(requirement, key=new) if requirement.key == old else requirement
            for requirement in term.match_expressions
        ]
        renamed_terms.append(replace(term, match_expressions=tuple(expressions)))
    return tuple(renamed_terms)


def _translate_gce_handle(name: str, zones: str) -> str:
    """Return the CSI handle of a zonal GCE disk, or of a regional one if there are several zones.

    `zones` is the value of the zone label. If it is empty, the handle has an unspecified zone. Raises TranslationError
    if several zones are not in one region.
    """
    zone_list = zones.split(ZONE_DELIMITER)
    if len(zone_list) > 1:
        return f"projects/{_GCE_UNKNOWN}/regions/{_get_gce_region(zone_list)}/disks/{name}"
    return f"projects/{_GCE_UNKNOWN}/zones/{zones or _GCE_UNKNOWN}/disks/{name}"


def _get_gce_region(zones: list[str]) -> str:
    """Return the GCE region of the zones.

    Raises TranslationError if a zone has an unexpected format, if the zones are not all in one region, or if there are
    no zones.
    """
    regions = set()
    for zone in zones:
        if zone.count("-") != 2:
            problem = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {problem}")
        region, _dash, _zone_letter = zone.rpartition("-")
        regions.add(region)
    if len(regions) != 1:
        # Upstream prints its set, a Go map with empty structs as values
        regions_text = " ".join(f"{region}:{{}}" for region in sorted(regions))
        problem = f"multiple or no regions gotten from zones, got: map[{regions_text}]"
        raise TranslationError(f"failed to get region from zones: {problem}")
    return regions.pop()


def _translate_azure_handle(source: AzureDiskVolumeSource) -> str:
    """Return the CSI handle of an Azure disk, which is the URI of a managed disk.

    Raises TranslationError for other kinds of disks. A disk without a kind has the API's default, Shared.
    """
    kind = AZURE_DEFAULT_KIND if source.kind is None else source.kind
    if kind.lower() != "managed":
        raise TranslationError(f"kind({kind}) is not supported in csi migration")
    return source.disk_uri


def _translate_aws_handle(volume_id: str) -> str:
    """Return the ID of an EBS volume, such as `vol-1` for `aws://zone/vol-1` or `aws:///vol-1`.

    A string without `aws://` is taken to be an ID. Raises TranslationError for an invalid ID after `aws://`.
    """
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = unquote(urlsplit(volume_id).path).strip("/")
    if not _AWS_VOLUME.fullmatch(handle):
        problem = f"Invalid format for AWS volume ({volume_id})"
        raise TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {problem}")
    return handle


Limits = npt.NDArray[np.int64]
NO_LIMIT = -1


class CSINodes:
    """The CSINodes of N nodes, as columns (N,)."""

    def __init__(self, names: Iterable[str], csi_nodes: Iterable[CSINode]) -> None:
        by_name = {node.metadata.name: node for node in csi_nodes}
        self.nodes = tuple(map(by_name.get, names))

    @cached_property
    def present(self) -> Bools:
        """A mask (N,) of the nodes that have a CSINode."""
        return np.array([node is not None for node in self.nodes], np.bool_)

    @cached_property
    def nodes_with_limits(self) -> Bools:
        """A mask (N,) of the nodes on which at least one driver has a limit."""
        mask = np.zeros(len(self.nodes), np.bool_)
        for limits in self._limits_by_driver.values():
            mask |= limits != NO_LIMIT
        return mask

    def find_driver_limits(self, driver: str) -> Limits:
        """Return the number of volumes that the driver can attach to each node (N,), or NO_LIMIT."""
        return self._limits_by_driver.get(driver, np.full(len(self.nodes), NO_LIMIT))

    def find_nodes_with_driver(self, driver: str) -> Bools:
        """Return a mask (N,) of the nodes on which the driver is installed according to their CSINode."""
        has_driver = np.zeros(len(self.nodes), np.bool_)
        for row, node in enumerate(self.nodes):
            if node is not None:
                has_driver[row] = any(entry.name == driver for entry in node.spec.drivers)
        return has_driver

    def find_migrated_nodes(self, plugin: str) -> Bools:
        """Return a mask (N,) of the nodes that use the volumes of the in-tree plugin through CSI."""
        return np.array([plugin in list_migrated_plugins(node) for node in self.nodes], np.bool_)

    @cached_property
    def _limits_by_driver(self) -> dict[str, Limits]:
        """The number of volumes that each driver can attach to each node (N,), or NO_LIMIT, by driver.

        Drivers without a limit on any node are left out.
        """
        limits: dict[str, Limits] = {}
        for row, node in enumerate(self.nodes):
            if node is None:
                continue
            for driver in node.spec.drivers:
                if driver.allocatable is None or driver.allocatable.count is None:
                    continue
                if driver.name not in limits:
                    limits[driver.name] = np.full(len(self.nodes), NO_LIMIT)
                limits[driver.name][row] = driver.allocatable.count
        return limits
