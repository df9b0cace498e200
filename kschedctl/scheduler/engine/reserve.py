"""Reserve: set objects aside for a pod on its node, and release them when the pod is gone.

Upstream: RunReservePluginsReserve in pkg/scheduler/framework/runtime/framework.go (v1.36). What is reserved is bound at
once, since no time passes here, unless it is only `assumed`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.objects import Pod, PodSpec
from kschedctl.scheduler.engine.profile import FrameworkLike
from kschedctl.scheduler.framework import (
    AssumingPlugin,
    Changes,
    Plugin,
    PluginError,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    offers,
)
from kschedctl.scheduler.framework.extended_resources import find_backing_classes, is_any_backed
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

RESERVED_KINDS = frozenset(("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim"))
"""Kinds of objects that Reserve may replace."""
NO_PRE_FILTER_RESULTS: Mapping[str, PreFilterResult] = {}
"""No plugin's PreFilter result is known."""


def uses_claims(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod uses volume claims or device claims.

    An ephemeral volume counts as a volume claim. A request for an extended resource that devices back counts as a
    device claim.
    """
    spec = info.spec
    if spec.resource_claims or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes):
        return True
    return has_backed_resources(info, view)


def has_backed_resources(info: PodInfo, view: Fork) -> bool:
    """Return whether the pod requests an extended resource that a DeviceClass backs."""
    classes = find_backing_classes(view.objects)
    return bool(classes) and is_any_backed(info.incoming_requests, classes)


def find_reserve_plugins(framework: FrameworkLike, *specs: PodSpec) -> list[ReservePlugin]:
    """Return the profile's Reserve plugins that may reserve something for at least one of these pods."""
    plugins = [plugin for plugin in framework.plugins_at("reserve") if offers(plugin, ReservePlugin)]
    return [plugin for plugin in plugins if any(_may_reserve_for(plugin, spec) for spec in specs)]


def _may_reserve_for(plugin: Plugin, spec: PodSpec) -> bool:
    """Return whether a Reserve plugin may replace objects for a pod with this spec.

    A plugin that does not declare which pods matter may replace objects for any pod.
    """
    trait = getattr(plugin, "kinds_matter_to", None)
    return trait is None or bool(trait.has_trait(spec))


def reserve_objects(
    plugins: Iterable[ReservePlugin],
    info: PodInfo,
    pod: Pod,
    view: Fork,
    row: int,
    *,
    pre_filter_results: Mapping[str, PreFilterResult] = NO_PRE_FILTER_RESULTS,
    assumed: bool = False,
) -> None:
    """Let the plugins reserve volumes and devices for a pod on a node, replacing these objects in the view.

    If one plugin fails, nothing is reserved. `info` describes the pod's requests. A plugin without a result in
    `pre_filter_results` runs its PreFilter first. With `assumed`, the pod is not bound yet, so plugins only assume
    their objects if they can. Raises PluginError if a plugin fails.
    """
    changes: list[Changes] = []
    for plugin in plugins:
        try:
            result = pre_filter_results.get(plugin.name)
            if result is None and offers(plugin, PreFilterPlugin):
                result = plugin.pre_filter(info, view)
            state = None if result is None else result.state

            if assumed and offers(plugin, AssumingPlugin):
                changes.append(plugin.assume(info, pod, view, row, state))
            else:
                changes.append(plugin.reserve(info, pod, view, row, state))
        except PluginError as failure:
            raise PluginError(f'running Reserve plugin "{plugin.name}": {failure}') from None
    _replace_objects(changes, view)


def release_objects(plugins: Iterable[ReservePlugin], view: Fork, positions: Sequence[int]) -> None:
    """Release what the plugins reserved for the pods at these positions."""
    _replace_objects([plugin.release(view, positions) for plugin in plugins], view)


def _replace_objects(changes: Iterable[Changes], view: Fork) -> None:
    """Replace the objects of the view that the plugins changed."""
    for objects in changes:
        view.objects.replace_objects(objects)
