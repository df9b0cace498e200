"""Reserve: what is set aside for a pod with its node, and given back when it is gone.

Upstream: RunReservePluginsReserve in pkg/scheduler/framework/runtime/framework.go (v1.36). What is reserved is bound at
once, as time does not pass here, unless it is to be ``assumed`` only.
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
"""The kinds of which objects are replaced when something is reserved."""
NOTHING_ASKED: Mapping[str, PreFilterResult] = {}
"""No plugin's PreFilter result is known."""


def uses_claims(info: PodInfo, view: Fork) -> bool:
    """Whether the pod has volumes or devices that are claimed, so that answers about it change with the claims."""
    spec = info.spec
    if spec.resource_claims or any(v.persistent_volume_claim or v.ephemeral for v in spec.volumes):
        return True
    return has_backed_resources(info, view)


def has_backed_resources(info: PodInfo, view: Fork) -> bool:
    """Whether the pod requests a resource that devices stand for."""
    classes = find_backing_classes(view.objects)
    return bool(classes) and is_any_backed(info.incoming_requests, classes)


def reserving(framework: FrameworkLike, *specs: PodSpec) -> list[ReservePlugin]:
    """The plugins of a profile that may have something to reserve for one of these pods."""
    plugins = [plugin for plugin in framework.at("reserve") if offers(plugin, ReservePlugin)]
    return [plugin for plugin in plugins if any(_may_matter(plugin, spec) for spec in specs)]


def _may_matter(plugin: Plugin, spec: PodSpec) -> bool:
    """Whether the kinds that a plugin reads can matter to a pod; it changes no others."""
    trait = getattr(plugin, "kinds_matter_to", None)
    return trait is None or bool(trait.has_trait(spec))


def reserve(
    plugins: Iterable[ReservePlugin],
    info: PodInfo,
    pod: Pod,
    view: Fork,
    row: int,
    *,
    before: Mapping[str, PreFilterResult] = NOTHING_ASKED,
    assumed: bool = False,
) -> None:
    """Put into the view's objects what the plugins reserve for a pod on a node, all of it or nothing.

    ``info`` is what the pod asks for; ``before``: by plugin, what its PreFilter says of it, the others are asked.
    ``assumed``: as long as it is not bound. Raises PluginError.
    """
    made: list[Changes] = []
    for plugin in plugins:
        try:
            result = before.get(plugin.name)
            if result is None and offers(plugin, PreFilterPlugin):
                result = plugin.pre_filter(info, view)
            change = plugin.assume if assumed and offers(plugin, AssumingPlugin) else plugin.reserve
            made.append(change(info, pod, view, row, result and result.state))
        except PluginError as failure:
            raise PluginError(f'running Reserve plugin "{plugin.name}": {failure}') from None
    _replace(made, view)


def release(plugins: Iterable[ReservePlugin], view: Fork, positions: Sequence[int]) -> None:
    """Give back what was reserved for pods, by their positions, that are gone."""
    _replace([plugin.release(view, positions) for plugin in plugins], view)


def _replace(changes: Iterable[Changes], view: Fork) -> None:
    for objects in changes:
        view.objects.replace(objects)
