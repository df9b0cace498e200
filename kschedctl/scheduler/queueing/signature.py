"""Pod signatures: pods that have the same one get the same answers on the same nodes.

Upstream: SignPod of the plugins, staging/src/k8s.io/kube-scheduler/framework/signers.go, and computeBatchablePlugins in
pkg/scheduler/framework/runtime/framework.go (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from kschedctl.api import resource_names as names
from kschedctl.api.kube_version import ByVersion
from kschedctl.api.objects import NodeSelectorTerm, SelectorRequirement, Volume
from kschedctl.api.quantity import QuantityError, parse
from kschedctl.scheduler.framework import Plugin
from kschedctl.scheduler.framework.extended_resources import backed, backing_classes
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.plugins.image_locality import normalized_image_name
from kschedctl.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kschedctl.scheduler.plugins.node_declared_features import NodeDeclaredFeatures, required_features
from kschedctl.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
from kschedctl.scheduler.scheduler import Framework
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

SIGNED_POINTS = ("preFilter", "filter", "preScore", "score")
LOOK_AT_DEVICES = ("NodeResourcesFit", "NodeResourcesBalancedAllocation")
"""Who signs no pod whose extended resources devices may back."""
EXTENDED_RESOURCES_SIGNED = ByVersion(
    "whether pods are signed with gate DRAExtendedResource", (("", False), ("1.36", True)), "plugins/noderesources"
)
_encode = msgspec.json.Encoder(order="sorted").encode


class Signer:
    """Signs the pods of a profile; none of a profile with extenders, or with a plugin that does not sign."""

    def __init__(self, framework: Framework, gates: FeatureGates, *, extenders: bool, view: Fork) -> None:
        plugins = {p.name: p for point in SIGNED_POINTS for p in framework.at(point)}
        known = plugins.keys() <= FRAGMENTS.keys() and not framework.missing
        batching = gates.enabled("OpportunisticBatching")
        self._plugins = plugins.values() if batching and known and not extenders else None
        looks = not plugins.keys().isdisjoint(LOOK_AT_DEVICES)
        self._by_devices = looks and gates.enabled("DRAExtendedResource")
        self._signs_devices = EXTENDED_RESOURCES_SIGNED.at(gates.release)
        self._view = view

    def sign(self, info: PodInfo) -> bytes | None:
        """The signature; None for a pod that cannot be compared with others."""
        if self._plugins is None or (self._by_devices and not self._signs(info)):
            return None
        found: dict[str, Any] = {"scheduler": info.spec.scheduler_name}
        for plugin in self._plugins:
            fragment = FRAGMENTS[plugin.name](plugin, info)
            if fragment is None:
                return None
            found |= fragment
        return _encode(found)

    def _signs(self, info: PodInfo) -> bool:
        return self._signs_devices and not backed(info.incoming_requests, backing_classes(self._view.objects))


def _nothing(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    return {}


def _claims(plugin: Plugin, info: PodInfo) -> Mapping[str, Any] | None:
    return None if info.spec.resource_claims else {}


def _images(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    containers = (*info.spec.containers, *info.spec.init_containers)
    return {"images": sorted({normalized_image_name(container.image) for container in containers})}


def _labels(plugin: Plugin, info: PodInfo) -> Mapping[str, Any] | None:
    affinity = info.spec.affinity
    if affinity and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
        return None
    alone = isinstance(plugin, InterPodAffinity) and plugin.args.ignore_preferred_terms_of_existing_pods
    return {} if alone else {"labels": info.labels}


def _node_affinity(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    affinity = info.spec.affinity.node_affinity if info.spec.affinity else None
    signed = None
    if affinity is not None:
        required = affinity.required_during_scheduling_ignored_during_execution
        terms = required.node_selector_terms if required else ()
        weighted = affinity.preferred_during_scheduling_ignored_during_execution
        preferred = sorted(_encode((each.weight, _term(each.preference))).decode() for each in weighted)
        signed = sorted(_encode(_term(term)).decode() for term in terms), preferred
    return {"nodeAffinity": signed, "nodeSelector": info.spec.node_selector}


def _term(term: NodeSelectorTerm) -> tuple[list[str], list[str]]:
    return _requirements(term.match_expressions), _requirements(term.match_fields)


def _requirements(requirements: Iterable[SelectorRequirement]) -> list[str]:
    return sorted(_encode((each.key, each.operator, sorted(each.values or ()))).decode() for each in requirements)


def _features(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    inferred = plugin.inferred if isinstance(plugin, NodeDeclaredFeatures) else frozenset()
    return {"features": sorted(required_features(info.spec) & inferred)}


def _ports(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    """The numbers alone: protocols and addresses make no difference upstream."""
    containers = (*info.spec.containers, *info.spec.init_containers)
    return {"ports": sorted({port.host_port for container in containers for port in container.ports if port.host_port})}


def _resources(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    usual = (names.CPU, names.MEMORY, names.EPHEMERAL_STORAGE)
    return {
        "resources": {name: amount for name, amount in info.incoming_requests.items() if amount or name not in usual}
    }


def _spread(plugin: Plugin, info: PodInfo) -> Mapping[str, Any] | None:
    defaults = plugin.settings.defaults if isinstance(plugin, PodTopologySpread) else ()
    return None if info.spec.topology_spread_constraints or defaults else {}


def _tolerations(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    return {"tolerations": sorted(info.spec.tolerations, key=lambda each: (each.key, each.value))}


def _volumes(plugin: Plugin, info: PodInfo) -> Mapping[str, Any]:
    """The sources, without ConfigMaps and Secrets.

    Of projected volumes, which the API server gives nearly all pods alike, of NFS and such, and of how volumes are
    mounted no snapshot keeps what upstream signs: pods that differ in these alone count as alike.
    """
    unnamed = map(_source, info.spec.volumes)
    return {"volumes": sorted(_encode(volume).decode() for volume in unnamed if volume != Volume())}


def _source(volume: Volume) -> Volume:
    """Without its name, and with the limit of an emptyDir as the API server prints it."""
    scratch = volume.empty_dir
    if scratch is not None and scratch.size_limit is not None:
        scratch = msgspec.structs.replace(scratch, size_limit=_canonical(scratch.size_limit))
    return msgspec.structs.replace(volume, name="", empty_dir=scratch)


def _canonical(quantity: str | int | float) -> str:
    """What is no quantity stays as it is: no such pod is ever stored."""
    try:
        return str(parse(quantity))
    except QuantityError:
        return str(quantity)


FRAGMENTS: Mapping[str, Callable[[Plugin, PodInfo], Mapping[str, Any] | None]] = {
    "DynamicResources": _claims,
    "ImageLocality": _images,
    "InterPodAffinity": _labels,
    "NodeAffinity": _node_affinity,
    "NodeDeclaredFeatures": _features,
    "NodeName": _nothing,
    "NodePorts": _ports,
    "NodeResourcesBalancedAllocation": _resources,
    "NodeResourcesFit": _resources,
    "NodeUnschedulable": _tolerations,
    "NodeVolumeLimits": _volumes,
    "PodTopologySpread": _spread,
    "TaintToleration": _tolerations,
    "VolumeBinding": _volumes,
    "VolumeRestrictions": _volumes,
    "VolumeZone": _volumes,
}
"""What each plugin that signs adds to a signature; None where the pod cannot be signed."""
