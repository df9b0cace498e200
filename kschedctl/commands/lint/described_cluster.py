"""The cluster that manifests describe that hold nodes; what of them cannot be read is a finding, not a part of it."""

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
from kschedctl.api.versions_read import is_readable
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.lint.objects.manifests import TYPED
from kschedctl.lint.objects.subject import Problem, Subject
from kschedctl.lint.objects.workload import TEMPLATES
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.sources.builds.build import BuiltObject
from kschedctl.sources.documents.place import Place
from kschedctl.sources.documents.positions import LocatedObject
from kschedctl.sources.quantities import RESOURCES, check_quantities
from kschedctl.sources.typed import typed

_NOWHERE = Place("")
Read = LocatedObject | BuiltObject
log = logging.getLogger(__name__)


class DescribedCluster(NamedTuple):
    """``cluster``: None where none is known; ``faults``: of kinds of which lint reads nothing itself.

    ``own``: the manifests describe it; ``stored``: workloads that it has, as its files hold them.
    """

    cluster: Cluster | None
    faults: tuple[Problem, ...] = ()
    own: bool = False
    stored: Mapping[Owner, JsonObject] = MappingProxyType({})


def cluster_among(manifests: Sequence[Read], gates: FeatureGates, named: Collection[str] = ()) -> DescribedCluster:
    """The cluster of these manifests. One of whose nodes some cannot be read is not known.

    ``named``: files that were asked for by their names.
    """
    ours = [
        m for m in manifests if m.value["kind"] in KINDS and not is_custom_api(str(m.value.get("apiVersion") or ""))
    ]
    nodes = [manifest for manifest in ours if manifest.value["kind"] == "Node"]
    if not nodes:
        return DescribedCluster(None, own=True)
    if not _is_one_cluster(nodes, manifests, named):
        log.warning("note: %s has nodes, and is not taken for the cluster of all: --with-cluster is", nodes[0].file)
        return DescribedCluster(None, own=True)
    return _cluster_of(ours, gates)


def _is_one_cluster(nodes: Sequence[Read], manifests: Sequence[Read], named: Collection[str]) -> bool:
    """Whether nodes in some files are those of the others: files below them, or such as somebody named together.

    A repository has nodes in examples and tests, and is not one cluster for that.
    """
    files = {manifest.file for manifest in nodes}
    if files <= set(named):
        return True
    if len({_subject(manifest).name for manifest in nodes}) < len(nodes):
        return False
    top = os.path.commonpath([_folder(file) for file in files])
    return all(os.path.commonpath([top, _folder(manifest.file)]) == top for manifest in manifests)


def _folder(file: str) -> str:
    return os.path.dirname(os.path.abspath(file))


def _cluster_of(manifests: Iterable[Read], gates: FeatureGates) -> DescribedCluster:
    kept, faults, unread = [], [], 0
    for manifest in manifests:
        kind = str(manifest.value["kind"])
        if not (said := _fault(manifest, kind)):
            kept.append(manifest.value)
            continue
        unread += kind == "Node"
        if kind not in TYPED and kind not in TEMPLATES:
            faults.append(_subject(manifest).problem((), said))
    if unread:
        return DescribedCluster(None, tuple(faults), own=True)
    cluster = Cluster.from_objects(kept, feature_gates=gates.overrides, kube_version=gates.version)
    return DescribedCluster(cluster, tuple(faults), own=True)


def _fault(manifest: Read, kind: str) -> str:
    """``field: what is wrong with it``; empty for what can be read."""
    try:
        is_readable(kind, str(manifest.value.get("apiVersion") or ""), _NOWHERE.error)
        obj = typed(manifest.value, KINDS[kind].struct, _NOWHERE)
        if kind in RESOURCES:
            check_quantities(RESOURCES[kind](obj), lambda: _NOWHERE)
    except InputError as error:
        return f"{error.where.removeprefix(str(_NOWHERE)).removeprefix(', ')}: {error.what}".removeprefix(": ")
    return ""


def _subject(manifest: Read) -> Subject:
    metadata = manifest.value.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    return Subject(str(manifest.value["kind"]), str(named.get("name") or ""), document=manifest.value, place=manifest)
