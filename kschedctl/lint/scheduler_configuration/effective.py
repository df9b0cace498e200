"""The configuration in effect: plugins in order, weights and arguments, each with its origin."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.lint.objects.subject import format_path
from kschedctl.lint.scheduler_configuration.configuration_errors import (
    list_unknown_to_version,
    load_with_registered_plugins,
)
from kschedctl.reports.configuration import (
    EffectiveArgs,
    EffectiveConfiguration,
    EffectivePlugin,
    EffectivePoint,
    EffectiveProfile,
)
from kschedctl.scheduler.configuration.profile import Profile
from kschedctl.scheduler.configuration.secrets import redact_secrets
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.strict_decoding import GoDuration
from kschedctl.text.urls import strip_url

RUN_ORDER = (
    *("preEnqueue", "queueSort", "preFilter", "filter", "postFilter", "preScore", "score", "reserve", "permit"),
    *("preBind", "bind", "postBind", "placementGenerate", "placementScore"),
)
"""The extension points in the order in which a pod passes them."""


def build_effective_configuration(document: JsonObject | None, gates: FeatureGates) -> EffectiveConfiguration:
    """Return the configuration in effect. ``document`` is what was written, or None for the defaults.

    Raises ConfigurationError, ThirdPartyError.
    """
    configuration = load_with_registered_plugins(document, gates)
    written = array_at(document, "profiles") or ({},)
    profiles = (
        _build_profile(profile, written_profile, configuration.percentage_of_nodes_to_score)
        for profile, written_profile in zip(configuration.profiles.values(), written, strict=True)
    )
    return EffectiveConfiguration(
        tuple(profiles),
        configuration.parallelism,
        configuration.pod_initial_backoff_seconds,
        configuration.pod_max_backoff_seconds,
        tuple(strip_url(extender.url_prefix) for extender in configuration.extenders),
        kube_version=gates.version,
        ignored=tuple(f"{format_path(other.path)}: {other}" for other in list_unknown_to_version(document, gates)),
    )


def _build_profile(profile: Profile, written: object, percentage: int) -> EffectiveProfile:
    """Return what a profile does. ``written`` is the profile in the document."""
    with_own_args = {str(object_at(config).get("name")) for config in array_at(written, "pluginConfig")}
    args = (
        EffectiveArgs(name, "pluginConfig" if name in with_own_args else "default", _to_plain(value))
        for name, value in sorted(profile.args.items())
    )
    points = (EffectivePoint(point, _list_plugins(profile, point)) for point in RUN_ORDER if profile.plugins[point])
    percentage_here = profile.percentage_of_nodes_to_score
    return EffectiveProfile(
        profile.scheduler_name, percentage if percentage_here is None else percentage_here, tuple(points), tuple(args)
    )


def _to_plain(value: object) -> object:
    """Return arguments, defaults included, as plain values without nulls."""
    if isinstance(value, msgspec.Struct):
        fields = ((f.encode_name, getattr(value, f.name)) for f in msgspec.structs.fields(value))
        return {name: _to_plain(item) for name, item in fields if item is not None}
    if isinstance(value, GoDuration):
        return f"{value:g}s"
    if isinstance(value, Mapping):  # of a plugin that is not in-tree
        return redact_secrets(value)
    return [_to_plain(item) for item in value] if isinstance(value, tuple) else value


def _list_plugins(profile: Profile, point: str) -> tuple[EffectivePlugin, ...]:
    """Return the plugins of a profile at an extension point, in order."""
    weights = {"score": profile.weights, "placementScore": profile.placement_weights}.get(point, {})
    return tuple(
        EffectivePlugin(name, profile.origins[point][name], weights.get(name)) for name in profile.plugins[point]
    )
