"""Which kinds are read from files, in which versions of the API, and how an item of a list is decoded into its struct.

Upstream: the versions that kube-scheduler's informers list (v1.36); resource.k8s.io/v1beta2 has the fields of v1.
"""

from __future__ import annotations

from functools import cache, reduce
from operator import or_
from types import GenericAlias
from typing import Any, Literal

import msgspec

from kschedctl.api.api_versions import fate, is_foreign, is_newer, kind_in_api
from kschedctl.api.decoding import json_decoder
from kschedctl.api.objects import KINDS, Struct
from kschedctl.cluster import OBSERVED, OF_CREATION
from kschedctl.sources.documents.place import Place
from kschedctl.sources.pod_items import FIELDS as POD_FIELDS

_DEVICES = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
_BY_VERSION: dict[tuple[str, ...], str] = {
    ("v1",): "Pod Node Namespace Service ReplicationController PersistentVolumeClaim PersistentVolume "
    "ResourceQuota LimitRange",
    ("apps/v1",): "ReplicaSet StatefulSet Deployment DaemonSet",
    ("batch/v1",): "Job",
    ("policy/v1",): "PodDisruptionBudget",
    ("node.k8s.io/v1",): "RuntimeClass",
    ("storage.k8s.io/v1",): "StorageClass CSINode CSIDriver CSIStorageCapacity VolumeAttachment",
    ("scheduling.k8s.io/v1",): "PriorityClass",
    ("scheduling.k8s.io/v1alpha2",): "PodGroup",
    ("scheduling.x-k8s.io/v1alpha1",): "CoschedulingPodGroup ElasticQuota",
    ("scheduling.volcano.sh/v1beta1",): "VolcanoPodGroup",
    ("topology.node.k8s.io/v1alpha2",): "NodeResourceTopology",
    _DEVICES: "ResourceClaim ResourceClaimTemplate DeviceClass ResourceSlice",
    ("resource.k8s.io/v1beta2", "resource.k8s.io/v1alpha3"): "DeviceTaintRule",
    ("v1", "events.k8s.io/v1"): "Event",
    ("coordination.k8s.io/v1",): "Lease",
}
VERSIONS = {kind: versions for versions, kinds in _BY_VERSION.items() for kind in kinds.split()}
"""Kind, as it is called here -> the values of apiVersion with which it is read."""


class TypeMeta(Struct, frozen=True):
    """What a document says that it is."""

    kind: str = ""
    api_version: str = ""


def is_read(kind: str, version: str, place: Place) -> bool:
    """Whether scheduling reads such objects; kinds of that name that other vendors define do not count.

    Raises InputError for an older version of what is read. An item of a typed list may leave its version out.
    """
    if is_newer_kind(kind, version):
        return kind not in OBSERVED
    if kind not in VERSIONS or (is_foreign(version) and version not in VERSIONS[kind]):
        return False
    if version and version not in VERSIONS[kind] and kind in (*OBSERVED, *OF_CREATION):
        return False
    if version and version not in VERSIONS[kind]:
        wanted = " or ".join(VERSIONS[kind])
        said = f"{kind} in apiVersion {version} {fate(version, kind) or 'is not known'}"
        raise place.error(said, hint=f"{wanted} is what kschedctl reads")
    return True


def is_newer_kind(kind: str, version: str) -> bool:
    """Whether this is a version of what is read that came later than all that are known here."""
    return kind in VERSIONS and version not in VERSIONS[kind] and is_newer(version, VERSIONS[kind])


@cache
def items_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Decodes a JSON array of objects of this kind, "" for all kinds mixed, to subclasses of their structs.

    Some fields of pods are not decoded: see PodItems. Kinds that share the name of another are not among the mixed.

    Raises ValidationError when an item says that it is of another kind or of a version that is not read.
    """
    item = item_type(kind) if kind else reduce(or_, (item_type(each) for each in KINDS if kind_in_api(each) == each))
    items: Any = GenericAlias(list, item)
    return json_decoder(items)


def item_decoder(kind: str) -> msgspec.json.Decoder[Any]:
    """Decodes one object of this kind."""
    return json_decoder(item_type(kind))


@cache
def item_type(kind: str) -> Any:
    fields: list[tuple[str, Any, Any]] = [("api_version", Literal[VERSIONS[kind]], VERSIONS[kind][0])]
    fields += POD_FIELDS if kind == "Pod" else []
    settings: dict[str, Any] = {
        "tag_field": "kind",
        "tag": kind_in_api(kind),
        "rename": "camel",
        "frozen": True,
        "gc": False,
    }
    return msgspec.defstruct(f"{kind}Item", fields, bases=(KINDS[kind],), **settings)


def kind_of_item(item: Any) -> str:
    """The kind of a decoded item."""
    return type(item).__name__.removesuffix("Item")


def without_type(kind: str, item: Any) -> Struct:
    """A decoded item as the plain struct of its kind."""
    into = KINDS[kind]
    return into(*[getattr(item, name) for name in into.__struct_fields__])
