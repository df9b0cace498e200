"""The cluster that manifests with nodes describe. Manifests that cannot be read become findings."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from kschedctl.api.api_versions import is_custom_api
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import KINDS
from kschedctl.api.ownership import Owner
from kschedctl.api.versions_read import check_api_version
from kschedctl.api.workloads import POD_TEMPLATE_PATHS
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.lint.objects.manifests import TYPED
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.builds.build import BuiltObject
from kschedctl.sources.decoding import RESOURCE_FIELDS, decode_document, validate_quantities
from kschedctl.sources.documents.place import Place
from kschedctl.sources.documents.positions import LocatedObject

_NOWHERE = Place("")
Read = LocatedObject | BuiltObject
log = logging.getLogger(__name__)


class DescribedCluster(NamedTuple):
    """The cluster of the manifests, with further data about it from files."""

    cluster: Cluster | None
    """The cluster, None if it is unknown."""
    problems: tuple[Problem, ...] = ()
    """Problems of kinds for which lint itself has no rules."""
    is_self_described: bool = False
    """Whether the linted manifests describe the cluster."""
    stored_manifests: Mapping[Owner, JsonObject] = MappingProxyType({})
    """The manifests of the cluster's workloads in its files."""


def find_described_cluster(
    manifests: Sequence[Read], gates: FeatureGates, named_files: Collection[str] = ()
) -> DescribedCluster:
    """Find the cluster that the manifests describe.

    The result contains no cluster if there are no nodes, if a node cannot be read, or if the nodes do not belong to all
    manifests. In the last case, a warning is logged.
    """
    known_manifests = [
        m for m in manifests if m.value["kind"] in KINDS and not is_custom_api(str(m.value.get("apiVersion") or ""))
    ]
    nodes = [manifest for manifest in known_manifests if manifest.value["kind"] == "Node"]
    if not nodes:
        return DescribedCluster(None, is_self_described=True)
    if not _is_cluster_of_all_manifests(nodes, manifests, named_files):
        log.warning(
            "note: the nodes in %s are not used as the cluster of all manifests; name their files with --with-cluster "
            "if they are",
            nodes[0].file,
        )
        return DescribedCluster(None, is_self_described=True)
    return _build_cluster(known_manifests, gates)


def _is_cluster_of_all_manifests(
    nodes: Sequence[Read], manifests: Sequence[Read], named_files: Collection[str]
) -> bool:
    """Return whether the files with nodes describe the cluster of all manifests.

    They do if all of these files were given by name, or if node names are unique and all manifests are in folders below
    the files. Nodes in the examples and tests of a repository are not its cluster.
    """
    files = {manifest.file for manifest in nodes}
    if files <= set(named_files):
        return True
    if len({_get_subject(manifest).name for manifest in nodes}) < len(nodes):
        return False
    top = os.path.commonpath([_get_folder(file) for file in files])
    return all(os.path.commonpath([top, _get_folder(manifest.file)]) == top for manifest in manifests)


def _get_folder(file: str) -> str:
    """Return the absolute folder of a file."""
    return os.path.dirname(os.path.abspath(file))


def _build_cluster(manifests: Iterable[Read], gates: FeatureGates) -> DescribedCluster:
    """Build the cluster of the readable manifests. If a node cannot be read, the cluster is None.

    Manifests that cannot be read become problems, unless lint's rules report them anyway.
    """
    objects = []
    problems = []
    all_nodes_read = True
    for manifest in manifests:
        kind = str(manifest.value["kind"])
        fault = _describe_fault(manifest, kind)
        if not fault:
            objects.append(manifest.value)
            continue
        if kind == "Node":
            all_nodes_read = False
        if kind not in TYPED and kind not in POD_TEMPLATE_PATHS:
            problems.append(_get_subject(manifest).build_problem((), fault))
    if not all_nodes_read:
        return DescribedCluster(None, tuple(problems), is_self_described=True)
    cluster = Cluster.from_objects(objects, feature_gates=gates.overrides, kube_version=gates.version)
    return DescribedCluster(cluster, tuple(problems), is_self_described=True)


def _describe_fault(manifest: Read, kind: str) -> str:
    """Return why a manifest cannot be read, such as `field: what is wrong`, or "" if it can be read."""
    try:
        check_api_version(kind, str(manifest.value.get("apiVersion") or ""), _NOWHERE.error)
        obj = decode_document(manifest.value, KINDS[kind].struct, _NOWHERE)
        if kind in RESOURCE_FIELDS:
            validate_quantities(RESOURCE_FIELDS[kind](obj), lambda: _NOWHERE)
    except InputError as error:
        field = error.where.removeprefix(str(_NOWHERE)).removeprefix(", ")
        return f"{field}: {error.what}" if field else error.what
    return ""


def _get_subject(manifest: Read) -> Subject:
    """Build the subject of a manifest, without a namespace."""
    metadata = manifest.value.get("metadata")
    name = str(metadata.get("name") or "") if isinstance(metadata, dict) else ""
    return Subject(str(manifest.value["kind"]), name, document=manifest.value, location=manifest)
