"""The differences between versions of kube-scheduler: from the oldest to the newest, or between two.

A rule or message that differs is a ByVersion in the module that uses it and is found there; plugins and feature gates
declare their versions themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from string import Formatter
from typing import NamedTuple

from kschedctl.api.kube_version import NEWEST_MINOR, OLDEST_MINOR, VERIFIED_MINOR, ByVersion, KubeVersion
from kschedctl.commands.versions.report import Basis, VersionChange, VersionChanges
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.declaration import Declaration
from kschedctl.scheduler.framework.extension_points import EXTENSION_POINTS
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates, Stage, stage_at
from kschedctl.scheduler.framework.strict_decoding import list_fields
from kschedctl.scheduler.framework.version_changes import find_version_changes
from kschedctl.scheduler.registry.in_tree import IN_TREE
from kschedctl.scheduler.registry.scheduler_plugins import SCHEDULER_PLUGINS

WITHOUT_HINTS = ByVersion(
    "plugins that have no queueing hints yet",
    (
        (
            "",
            tuple(
                sorted(
                    name
                    for name, declaration in IN_TREE.items()
                    if declaration.plugin and declaration.plugin.hints_since == 31
                )
            ),
        ),
        ("1.31", ()),
    ),
)
MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
NO_PLUGIN = "no such plugin"
SORTS = ("rule", "plugin", "gate")
PLACES = ("kschedctl.api.pod_requests", "kschedctl.scheduler")
"""The modules in which rules and messages that differ are declared."""


class VersionedAspect(NamedTuple):
    """An aspect of kube-scheduler that differs between versions."""

    sort: str
    """The kind of aspect, from SORTS."""
    where: str
    """The plugin or feature gate, or "kube-scheduler"."""
    values: ByVersion[str]
    """The aspect in words, by version."""


def version_changes() -> VersionChanges:
    """Return every change since the oldest version that is replayed."""
    rows = [
        _build_row(aspect, since, before, after)
        for aspect in iter_versioned_aspects()
        for (_, before), (since, after) in pairwise(aspect.values.steps)
        if before
    ]
    return VersionChanges(tuple(f"1.{minor}" for minor in MINORS), False, _sort_newest_first(rows))


def compare_versions(first: str, second: str) -> VersionChanges:
    """Return the differences from the first version to the second. Raises ConfigurationError."""
    versions = KubeVersion.parse_supported(first), KubeVersion.parse_supported(second)
    rows: list[VersionChange] = []
    for aspect in iter_versioned_aspects():
        before, after = (aspect.values.at(version) for version in versions)
        if before and after and before != after:
            since, _ = aspect.values.find_step(max(versions))
            rows.append(_build_row(aspect, since, before, after))
    return VersionChanges(tuple(map(str, versions)), True, _sort_newest_first(rows))


def _build_row(aspect: VersionedAspect, since: str, before: str, after: str) -> VersionChange:
    releases = tuple(since.split())
    basis: Basis = "answers"
    if aspect.values.from_notes in releases:
        basis = "release notes"
    elif KubeVersion.parse(releases[-1]).minor > VERIFIED_MINOR:
        basis = "source"
    upstream = aspect.values.upstream
    return VersionChange(aspect.sort, aspect.where, aspect.values.what, releases, before, after, upstream, basis)


def _sort_newest_first(rows: Iterable[VersionChange]) -> tuple[VersionChange, ...]:
    return tuple(sorted(rows, key=lambda row: (SORTS.index(row.sort), -KubeVersion.parse(row.since[-1]).minor)))


def group_rules_by_plugin() -> Mapping[str, tuple[ByVersion[object], ...]]:
    """Return, per plugin, its rules and messages that differ; those of no plugin are under "kube-scheduler"."""
    by_plugin = {
        name: declaration.plugin.version_changes()
        for name, declaration in {**IN_TREE, **SCHEDULER_PLUGINS}.items()
        if declaration.plugin
    }
    in_plugins = {id(rule) for rules in by_plugin.values() for rule in rules}
    others = (rule for rule in (*find_version_changes(*PLACES), WITHOUT_HINTS) if id(rule) not in in_plugins)
    return {"kube-scheduler": tuple(others), **by_plugin}


def iter_versioned_aspects() -> Iterator[VersionedAspect]:
    """Yield all that differs between versions: rules, then plugins, then feature gates."""
    for where, rules in group_rules_by_plugin().items():
        for rule in rules:
            steps = tuple((since, in_words(value)) for since, value in rule.steps)
            yield VersionedAspect("rule", where, ByVersion(rule.what, steps, rule.upstream, rule.from_notes))
    for plugin in IN_TREE.values():
        defaults = (_describe_default(plugin, minor) for minor in MINORS)
        points = (_describe_points(plugin.for_minor(minor)) for minor in MINORS)
        args = (_describe_arguments(plugin.for_minor(minor), minor) for minor in MINORS)
        aspects = {"whether it is a default plugin": defaults, "its extension points": points, "its arguments": args}
        for what, values in aspects.items():
            yield VersionedAspect("plugin", plugin.name, ByVersion(what, _build_steps(values)))
    for gate in GATE_STAGES:
        stages = (_describe_stage(stage_at(gate, minor)) for minor in MINORS)
        yield VersionedAspect("gate", gate, ByVersion("stage", _build_steps(stages)))


def in_words(value: object) -> str:
    """Return the value of a rule in a version as words.

    >>> in_words("taint {{{key}: {value}}} of {}"), in_words(False), in_words(())
    ('taint {key: value} of …', 'no', 'none')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case Code():
            return value.value
        case frozenset():
            return in_words(tuple(sorted(value)))
        case tuple():
            return ", ".join(map(in_words, value)) or "none"
        case str():
            return "".join(
                f"{words}{'' if name is None else name or '…'}" for words, name, *_ in Formatter().parse(value)
            )
    return str(value)


def _build_steps(values: Iterator[str]) -> tuple[tuple[str, str], ...]:
    """Return (minor version, value) for the first value, with version "", and for each change of the value."""
    steps: list[tuple[str, str]] = []
    for minor, value in zip(MINORS, values, strict=True):
        if not steps or (value and value != steps[-1][1]):
            steps.append((f"1.{minor}" if steps else "", value))
    return tuple(steps)


def _describe_default(plugin: Declaration, minor: int) -> str:
    if plugin.for_minor(minor) is None:
        return NO_PLUGIN
    return "yes" if plugin.is_default(FeatureGates(f"1.{minor}")) else "no"


def _describe_points(plugin: Declaration | None) -> str:
    """Return the plugin's extension points in upstream's order, or "" if there is no such plugin."""
    return "" if plugin is None else ", ".join(point for point in EXTENSION_POINTS if point in plugin.points)


def _describe_arguments(plugin: Declaration | None, minor: int) -> str:
    """Return the names of the plugin's arguments, or "" if there is no such plugin."""
    if plugin is None:
        return ""
    return "none" if plugin.args_type is None else ", ".join(list_fields(plugin.args_type, minor))


def _describe_stage(stage: Stage) -> str:
    """Return the maturity and the default of a gate, such as "beta, on"."""
    if stage.maturity == "pre-alpha":
        return "unknown"
    return ", ".join([stage.maturity, "on" if stage.on else "off", *(["locked"] if stage.locked else [])])
