"""In-tree volumes as the CSI volumes that replaced them: driver, handle, node affinity.

Upstream: staging/src/k8s.io/csi-translation-lib (v1.36), and the lists of migrated plugins in
pkg/scheduler/framework/plugins/{nodevolumelimits/utils.go,volumebinding/binder.go}.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from msgspec.structs import replace

from kschedctl.api.objects import (
    AWSElasticBlockStoreVolumeSource,
    AzureDiskVolumeSource,
    CinderVolumeSource,
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
    """An in-tree volume that has no CSI equivalent, in upstream's words."""


class InTreePlugin(NamedTuple):
    """``field`` holds the source in a pod's or a PersistentVolume's spec. ``enabled``: its volumes count as CSI ones.

    ``topology_key`` is the driver's label for zones, where translating a volume changes its node affinity.
    """

    name: str
    driver: str
    field: str
    enabled: bool = True
    topology_key: str = ""


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


def plugin_of(source: Volume | PersistentVolumeSpec) -> InTreePlugin | None:
    """The in-tree plugin whose source this is, if it has a CSI driver to replace it."""
    return next((plugin for plugin in PLUGINS if getattr(source, plugin.field) is not None), None)


def migrated_plugins(node: CSINode | None) -> frozenset[str]:
    """The in-tree plugins that a node's kubelet has handed over to CSI."""
    annotation = node.metadata.annotations.get(MIGRATED_PLUGINS, "") if node else ""
    return frozenset(annotation.split(",")) if annotation else frozenset()


def volume_handle(source: Any, zones: str = "") -> str:
    """The handle of an in-tree source's CSI volume; ``zones`` is the zone label of its PersistentVolume.

    Raises TranslationError.
    """
    match source:
        case GCEPersistentDiskVolumeSource():
            return _gce_handle(source.pd_name, zones)
        case AWSElasticBlockStoreVolumeSource():
            return _aws_handle(source.volume_id)
        case AzureDiskVolumeSource():
            return _azure_handle(source)
        case CinderVolumeSource():
            return source.volume_id
    return str(source.volume_id)


def translated_handle(volume: PersistentVolume, plugin: InTreePlugin) -> str:
    """The handle of an in-tree PersistentVolume's CSI volume. Raises TranslationError."""
    labels = volume.metadata.labels
    return volume_handle(getattr(volume.spec, plugin.field), labels.get(BETA_ZONE) or labels.get(ZONE, ""))


def translated_affinity(volume: PersistentVolume, plugin: InTreePlugin) -> VolumeNodeAffinity | None:
    """The node affinity of an in-tree PersistentVolume's CSI volume: the driver's own label instead of the zone's."""
    affinity = volume.spec.node_affinity
    if not plugin.topology_key:
        return affinity
    terms = affinity.required.node_selector_terms if affinity and affinity.required else ()
    zone, region = _topology_labels(terms, volume.metadata.labels)
    if _has_values(terms, zone):
        terms = _rename(terms, zone, plugin.topology_key)
    else:
        zones = {z.strip() for z in volume.metadata.labels.get(zone, "").split(ZONE_DELIMITER)} - {""}
        if zones:
            wanted = SelectorRequirement(plugin.topology_key, "In", tuple(sorted(zones)))
            terms = tuple(
                replace(term, match_expressions=(*term.match_expressions, wanted))
                for term in terms or (NodeSelectorTerm(),)
            )
    if region == BETA_REGION and _has_values(terms, region):
        terms = _rename(terms, region, REGION)
    return VolumeNodeAffinity(NodeSelector(terms)) if terms else affinity


def _topology_labels(terms: tuple[NodeSelectorTerm, ...], labels: dict[str, str]) -> tuple[str, str]:
    """The zone and region labels that a volume uses: in its affinity, else on itself; the new ones where both are."""
    keys = {requirement.key for term in terms for requirement in term.match_expressions}
    for labelled in (keys, labels):
        if ZONE in labelled:
            return ZONE, REGION
        if BETA_ZONE in labelled:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: tuple[NodeSelectorTerm, ...], key: str) -> bool:
    return any(r.key == key and r.values for term in terms for r in term.match_expressions)


def _rename(terms: tuple[NodeSelectorTerm, ...], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        replace(
            term,
            match_expressions=tuple(replace(r, key=new) if r.key == old else r for r in term.match_expressions),
        )
        for term in terms
    )


def _gce_handle(name: str, zones: str) -> str:
    """A disk of one zone, of a region (several zones), or of a place that is not known."""
    parts = zones.split(ZONE_DELIMITER)
    if len(parts) > 1:
        return f"projects/{_GCE_UNKNOWN}/regions/{_gce_region(parts)}/disks/{name}"
    return f"projects/{_GCE_UNKNOWN}/zones/{parts[0] or _GCE_UNKNOWN}/disks/{name}"


def _gce_region(zones: list[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            problem = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {problem}")
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        regions_text = " ".join(f"{region}:{{}}" for region in sorted(regions))
        problem = f"multiple or no regions gotten from zones, got: map[{regions_text}]"
        raise TranslationError(f"failed to get region from zones: {problem}")
    return regions.pop()


def _azure_handle(source: AzureDiskVolumeSource) -> str:
    """Managed disks alone; the API server takes a disk of no kind for a shared one."""
    kind = AZURE_DEFAULT_KIND if source.kind is None else source.kind
    if kind.lower() != "managed":
        raise TranslationError(f"kind({kind}) is not supported in csi migration")
    return source.disk_uri


def _aws_handle(volume_id: str) -> str:
    """``aws://zone/vol-1`` and ``aws:///vol-1`` are vol-1; anything else is taken for an id."""
    if not volume_id.startswith("aws://"):
        return volume_id
    handle = unquote(urlsplit(volume_id).path).strip("/")
    if not _AWS_VOLUME.fullmatch(handle):
        problem = f"Invalid format for AWS volume ({volume_id})"
        raise TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {problem}")
    return handle
