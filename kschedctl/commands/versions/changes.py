"""What differs between the versions of kube-scheduler: from the oldest to the newest, or between two.

Rules and texts stand where they are used; plugins and feature gates say themselves since when they are what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from string import Formatter
from typing import NamedTuple

from kschedctl.api import pod_requests
from kschedctl.api.kube_version import NEWEST_MINOR, OLDEST_MINOR, VERIFIED_MINOR, ByVersion, KubeVersion
from kschedctl.commands.versions.report import Basis, VersionChange, VersionChanges
from kschedctl.scheduler.configuration import validation
from kschedctl.scheduler.engine import cycle, messages, sampling, unsure_nominations
from kschedctl.scheduler.engine.extenders import consultation, whole_nodes
from kschedctl.scheduler.engine.preemption import evaluator
from kschedctl.scheduler.event_handling import event_handlers, event_labels
from kschedctl.scheduler.framework import Code, events, feature_gates
from kschedctl.scheduler.framework.declaration import Declaration
from kschedctl.scheduler.framework.extension_points import EXTENSION_POINTS
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, FeatureGates, Stage, stage_at
from kschedctl.scheduler.framework.strict_decoding import list_fields
from kschedctl.scheduler.plugins.helper import placed_pods as placed
from kschedctl.scheduler.plugins.helper import signing
from kschedctl.scheduler.queueing import backoff_queue, pre_checks, requeueing, scheduling_queue
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
OF_SEVERAL: tuple[ByVersion[object], ...] = (
    cycle.LEFT_OUT,
    cycle.NARROWING_REFUSES,
    consultation.AGGREGATED,
    evaluator.DROPPED_MAY_HELP,
    whole_nodes.SCORED_AS_RETURNED,
    messages.ABSENT_COUNT,
    sampling.LEFT_OUT_COUNT,
    validation.INVALID_PLUGINS,
    feature_gates.CHECKS_DEPENDENCIES,
    feature_gates.HOST_NETWORK_NEEDS,
    signing.EXTENDED_RESOURCES_SIGNED,
    events.EVERY_UPDATE,
    events.UPDATED_NODES_AS_NEW,
    events.PRE_CHECKED,
    events.UPDATES_OF_PODS,
    events.KINDS_OF_PODS,
    event_handlers.HEARS_OF_LOST_NODES,
    event_handlers.TOLD_AS_ANY_UPDATE,
    WITHOUT_HINTS,
    requeueing.GATE_DECIDES,
    scheduling_queue.ACTIVATION_LASTS,
    backoff_queue.COUNTS_ATTEMPTS,
    event_labels.NAMED_EACH,
    pre_checks.REACHES_SPREAD,
    pre_checks.WHILE_RESIZED,
    event_handlers.GIVES_UP_PROMISES,
    placed.NOMINATED_PODS_FREE_ROOM,
    pod_requests.COMPARED,
    unsure_nominations.COUNTED,
)
"""The rules and texts that changed and are of no single plugin."""

MINORS = range(OLDEST_MINOR, NEWEST_MINOR + 1)
NO_PLUGIN = "no such plugin"
SORTS = ("rule", "plugin", "gate")


def version_changes() -> VersionChanges:
    """Every change since the oldest version that is replayed."""
    return VersionChanges(tuple(f"1.{minor}" for minor in MINORS), False, _newest_first(_all()))


def between(first: str, second: str) -> VersionChanges:
    """What is not the same in two versions, from the first to the second. Raises ConfigurationError."""
    versions = KubeVersion.parse_supported(first), KubeVersion.parse_supported(second)
    return VersionChanges(tuple(map(str, versions)), True, _newest_first(_between(*versions)))


def _all() -> Iterator[VersionChange]:
    for change in changes():
        for (_, before), (since, after) in pairwise(change.values.steps):
            if before:
                yield _row(change, since, before, after)


def _between(first: KubeVersion, second: KubeVersion) -> Iterator[VersionChange]:
    for change in changes():
        before, after = change.values.at(first), change.values.at(second)
        if before and after and before != after:
            since, _ = change.values.find_step(max(first, second))
            yield _row(change, since, before, after)


def _row(change: Varying, since: str, before: str, after: str) -> VersionChange:
    upstream = change.values.upstream
    releases = tuple(since.split())
    basis = _basis(change.values, releases)
    return VersionChange(change.sort, change.where, change.values.what, releases, before, after, upstream, basis)


def _basis(values: ByVersion[str], releases: tuple[str, ...]) -> Basis:
    """How a step is known."""
    if values.from_notes in releases:
        return "release notes"
    return "source" if KubeVersion.parse(releases[-1]).minor > VERIFIED_MINOR else "answers"


def _newest_first(rows: Iterable[VersionChange]) -> tuple[VersionChange, ...]:
    return tuple(sorted(rows, key=lambda row: (SORTS.index(row.sort), -KubeVersion.parse(row.since[-1]).minor)))


class Varying(NamedTuple):
    """``sort``: rule, plugin or gate; ``where``: which plugin or gate; ``values``: what holds since when, in words."""

    sort: str
    where: str
    values: ByVersion[str]


def rules() -> Mapping[str, tuple[ByVersion[object], ...]]:
    """The plugin, or all of it, -> its rules and texts that changed."""
    declared = {**IN_TREE, **SCHEDULER_PLUGINS}
    of_plugins = {
        name: declaration.plugin.version_changes() for name, declaration in declared.items() if declaration.plugin
    }
    return {"kube-scheduler": OF_SEVERAL, **of_plugins}


def changes() -> Iterator[Varying]:
    """All that versions changed, plugins and gates in their own order."""
    for where, changed in rules().items():
        for rule in changed:
            steps = tuple((since, in_words(value)) for since, value in rule.steps)
            yield Varying("rule", where, ByVersion(rule.what, steps, rule.upstream, rule.from_notes))
    for plugin in IN_TREE.values():
        defaults = (_membership(plugin, minor) for minor in MINORS)
        points = (_points(plugin.for_minor(minor)) for minor in MINORS)
        args = (_arguments(plugin.for_minor(minor), minor) for minor in MINORS)
        aspects = {"whether it is a default plugin": defaults, "its extension points": points, "its arguments": args}
        for what, values in aspects.items():
            yield Varying("plugin", plugin.name, ByVersion(what, _steps(values)))
    for gate in GATE_STAGES:
        yield Varying("gate", gate, ByVersion("stage", _steps(_stage(stage_at(gate, minor)) for minor in MINORS)))


def in_words(value: object) -> str:
    """What a rule says in a version.

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


def _steps(values: Iterator[str]) -> tuple[tuple[str, str], ...]:
    """The minor versions in which a value changes, with it; "" goes for the value before."""
    steps: list[tuple[str, str]] = []
    for minor, value in zip(MINORS, values, strict=True):
        if not steps or (value and value != steps[-1][1]):
            steps.append((f"1.{minor}" if steps else "", value))
    return tuple(steps)


def _membership(plugin: Declaration, minor: int) -> str:
    if plugin.for_minor(minor) is None:
        return NO_PLUGIN
    return "yes" if plugin.is_default(FeatureGates(f"1.{minor}")) else "no"


def _points(plugin: Declaration | None) -> str:
    """In upstream's order; "" where there is no such plugin."""
    return "" if plugin is None else ", ".join(point for point in EXTENSION_POINTS if point in plugin.points)


def _arguments(plugin: Declaration | None, minor: int) -> str:
    """The fields of its arguments; "" where there is no such plugin."""
    if plugin is None:
        return ""
    return "none" if plugin.args_type is None else ", ".join(list_fields(plugin.args_type, minor))


def _stage(stage: Stage) -> str:
    """``beta, on``."""
    if stage.maturity == "pre-alpha":
        return "unknown"
    return ", ".join([stage.maturity, "on" if stage.on else "off", *(["locked"] if stage.locked else [])])
