"""What a scheduler does by its configuration: plugins in order, weights, arguments, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.lint.objects.subject import path_text
from kschedctl.lint.scheduler_configuration.faults import load, of_other_versions
from kschedctl.reports.configuration import (
    EffectiveArgs,
    EffectiveConfiguration,
    EffectivePlugin,
    EffectivePoint,
    EffectiveProfile,
)
from kschedctl.scheduler.configuration.profile import Profile
from kschedctl.scheduler.configuration.secrets import without_secrets
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.text.urls import shown_url

RUN_ORDER = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "placementGenerate", "placementScore"),
)
"""The extension points in the order in which a pod comes to them."""


def effective_configuration(document: JsonObject | None, gates: FeatureGates) -> EffectiveConfiguration:
    """``document`` is what was written, None for nothing: it tells which arguments are somebody's own.

    Raises ConfigurationError, ThirdPartyError.
    """
    configuration = load(document, gates)
    written = array_at(document, "profiles") or ({},)
    profiles = (
        _profile(profile, own, configuration.percentage_of_nodes_to_score)
        for profile, own in zip(configuration.profiles.values(), written, strict=True)
    )
    return EffectiveConfiguration(
        tuple(profiles),
        configuration.parallelism,
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
        tuple(shown_url(extender.url_prefix) for extender in configuration.extenders),
        kube_version=gates.version,
        ignored=tuple(f"{path_text(other.path)}: {other}" for other in of_other_versions(document, gates)),
    )


def _profile(profile: Profile, written: object, percentage: int) -> EffectiveProfile:
    own = {str(object_at(config).get("name")) for config in array_at(written, "pluginConfig")}
    args = (
        EffectiveArgs(name, "pluginConfig" if name in own else "default", _plain(value))
        for name, value in sorted(profile.args.items())
    )
    points = (EffectivePoint(point, _plugins(profile, point)) for point in RUN_ORDER if profile.plugins[point])
    percentage_here = profile.percentage_of_nodes_to_score
    return EffectiveProfile(
        profile.scheduler_name, percentage if percentage_here is None else percentage_here, tuple(points), tuple(args)
    )


def _plain(value: object) -> object:
    """Arguments as the document has them, those that were defaulted too; without what is null."""
    if isinstance(value, msgspec.Struct):
        fields = ((f.encode_name, getattr(value, f.name)) for f in msgspec.structs.fields(value))
        return {name: _plain(item) for name, item in fields if item is not None}
    if isinstance(value, GoDuration):
        return f"{value:g}s"
    if isinstance(value, Mapping):  # of a plugin that is not in-tree
        return without_secrets(value)
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _plugins(profile: Profile, point: str) -> tuple[EffectivePlugin, ...]:
    weights = {"score": profile.weights, "placementScore": profile.placement_weights}.get(point, {})
    return tuple(
        EffectivePlugin(name, profile.origins[point][name], weights.get(name)) for name in profile.plugins[point]
    )
