"""Rules about a KubeSchedulerConfiguration: what kube-scheduler rejects, and what it accepts but is hardly meant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.kinds import describe_lifecycle
from kschedctl.errors import ConfigurationError
from kschedctl.lint.effective_configuration import (
    find_errors,
    format_error,
    list_unknown_to_version,
    load_with_registered_plugins,
    parse_error_path,
)
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule, Severity, find_nothing
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration
from kschedctl.scheduler.configuration.document import API_VERSION, GROUP, KIND
from kschedctl.scheduler.configuration.profile import Profile, list_default_plugins
from kschedctl.scheduler.configuration.validation import VersionMismatch
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.registry.in_tree import IN_TREE, get_in_tree_plugins
from kschedctl.scheduler.registry.third_party import SCHEDULER_PLUGINS, find_registered_plugins
from kschedctl.text.counts import agreeing, counted

PAGE = "https://kubernetes.io/docs/reference/scheduling/config/"
TUNING = "https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/"
MIN_FEASIBLE_NODES = 100
"""The minimum number of feasible nodes that kube-scheduler looks for."""


@dataclass(frozen=True)
class _CheckedProfile:
    """A profile of a valid configuration."""

    subject: Subject
    path: Path
    profile: Profile
    written: JsonObject
    """The profile in the document, without defaults."""
    gates: FeatureGates
    unknown_here: tuple[VersionMismatch, ...]
    """What the document has that only other versions of kube-scheduler know."""


def check_configuration(
    subject: Subject, gates: FeatureGates, nodes: int | None = None
) -> Iterator[tuple[Rule, Problem]]:
    """Yield each problem of a document with its rule. ``nodes`` is the size of the cluster, if known."""
    document = subject.document
    version = str(document.get("apiVersion", ""))
    if version.startswith(f"{GROUP}/") and version != API_VERSION:
        lifecycle = describe_lifecycle(version, KIND) or "is no longer read"
        yield OLD_VERSION, subject.build_problem(("apiVersion",), f"{version} {lifecycle}: only {API_VERSION} is read")
        return

    unknown_here = tuple(list_unknown_to_version(document, gates))
    try:
        configuration = load_with_registered_plugins(document, gates)
    except ConfigurationError as error:
        for path, message in find_errors(document, gates) or [(parse_error_path(str(error)), format_error(error))]:
            yield INVALID, subject.build_problem(*_add_mismatch(path, message, unknown_here))
        return

    profiles = array_at(document, "profiles") or ({},)
    for i, (profile, written) in enumerate(zip(configuration.profiles.values(), profiles, strict=False)):
        checked = _CheckedProfile(subject, ("profiles", i), profile, object_at(written), gates, unknown_here)
        yield from ((WITHOUT_STATE, problem) for problem in _find_plugins_without_state(checked))
        yield from ((DISABLED, problem) for problem in _find_disabled_defaults(checked))
        yield from ((WEIGHT_ZERO, problem) for problem in _find_zero_weights(checked))
        yield from ((UNKNOWN, problem) for problem in _find_unknown_disabled_plugins(checked))
        yield from ((FOREIGN, problem) for problem in _find_foreign_plugins(checked))
        yield from ((UNUSED_ARGS, problem) for problem in _find_unused_args(checked))
    if nodes is not None:
        yield from ((PERCENTAGE, problem) for problem in _find_unsuitable_percentages(subject, configuration, nodes))


def _add_mismatch(path: Path, message: str, unknown_here: Iterable[VersionMismatch]) -> tuple[Path, str]:
    """Return the path and message of an error.

    If only another version knows the field, the path leads to the field and the message names the version.
    """
    for unknown in unknown_here:
        if unknown.path[: len(path)] == path and unknown.name in message:
            return unknown.path, f"{message} ({unknown})"
    return path, message


def _build_rule(name: str, severity: Severity, summary: str, why: str, *, fix: str, source: str = PAGE) -> Rule:
    """Build a rule about configurations, whose problems ``check_configuration`` finds."""
    return Rule(name, severity, find_nothing, summary=summary, why=why, fix=fix, source=source)


INVALID = _build_rule(
    "cfg-invalid",
    ERROR,
    "A configuration that kube-scheduler refuses",
    "kube-scheduler does not start with it.",
    fix="Correct the field",
)
OLD_VERSION = _build_rule(
    "cfg-old-version",
    ERROR,
    "A version of the configuration that is no longer read",
    "kube-scheduler does not start: v1beta2 went with 1.28, v1beta3 with 1.29.",
    fix=f"Write apiVersion: {API_VERSION}",
)


def _find_plugins_without_state(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each plugin that is enabled at a point but not at the point that prepares its state."""
    plugins_at = checked.profile.plugins
    for name, declared in IN_TREE.items():
        state_points = declared.plugin.needs_state if declared.plugin else {}
        for point, preparing_point in state_points.items():
            if name in plugins_at[point] and name not in plugins_at[preparing_point]:
                message = (
                    f"{name} runs at {point} but not at {preparing_point}: it fails, and no pod that it concerns is "
                    "scheduled"
                )
                yield checked.subject.build_problem((*checked.path, "plugins", preparing_point), message)


WITHOUT_STATE = _build_rule(
    "cfg-without-state",
    ERROR,
    "A plugin that is enabled without the point that prepares it",
    "Its Filter or Score finds no state and fails every scheduling cycle.",
    fix="Enable or disable the plugin at both points, best by multiPoint",
)


def _find_disabled_defaults(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each disabled default plugin that is important."""
    for plugin in list_default_plugins(checked.gates):
        declared = IN_TREE[plugin.name].plugin
        consequence = declared.without if declared else ""
        if consequence and plugin.name not in checked.profile.enabled_names:
            yield checked.subject.build_problem((*checked.path, "plugins"), f"without {plugin.name}, {consequence}")


DISABLED = _build_rule(
    "cfg-disabled-default",
    WARNING,
    "A default plugin that nothing replaces is disabled",
    "What it looks after is no longer looked after, and other components rely on it.",
    fix="Enable it again, or make sure that a plugin of yours does its work",
)


def _find_zero_weights(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each score plugin with weight 0."""
    for point in ("multiPoint", "score"):
        for i, plugin in enumerate(array_at(checked.written, "plugins", point, "enabled")):
            if object_at(plugin).get("weight") == 0:
                message = f"weight 0 of {object_at(plugin).get('name')} counts as 1"
                yield checked.subject.build_problem((*checked.path, "plugins", point, "enabled", i, "weight"), message)


WEIGHT_ZERO = _build_rule(
    "cfg-weight-zero",
    WARNING,
    "A weight of 0",
    "0 does not switch a score off: it stands for the field being absent.",
    fix="Disable the plugin at score instead",
)


def _find_unknown_disabled_plugins(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each disabled plugin that does not exist."""
    existing = {*get_in_tree_plugins(checked.gates.minor), *find_registered_plugins(other_builds=True), "*"}
    for point in object_at(checked.written, "plugins"):
        for i, plugin in enumerate(array_at(checked.written, "plugins", point, "disabled")):
            name = object_at(plugin).get("name")
            if name not in existing:
                path = (*checked.path, "plugins", point, "disabled", i)
                _, message = _add_mismatch(path, f"there is no plugin {name} to disable", checked.unknown_here)
                yield checked.subject.build_problem(path, message)


UNKNOWN = _build_rule(
    "cfg-unknown-plugin",
    WARNING,
    "A plugin that does not exist is disabled",
    "kube-scheduler takes it without a word; the plugin that was meant still runs.",
    fix="Correct the name",
)


def _find_foreign_plugins(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each enabled plugin that the released kube-scheduler does not have."""
    out_of_tree = SCHEDULER_PLUGINS.keys() - find_registered_plugins(other_builds=False).keys()
    for point in object_at(checked.written, "plugins"):
        for i, plugin in enumerate(array_at(checked.written, "plugins", point, "enabled")):
            name = str(object_at(plugin).get("name"))
            if name in out_of_tree:
                message = f"{name} is of kubernetes-sigs/scheduler-plugins: kube-scheduler does not start with it"
            elif name in checked.profile.foreign:
                message = f"{name} is no plugin of kube-scheduler as it is released: it does not start with it"
                for similar in get_close_matches(name, get_in_tree_plugins(checked.gates.minor), n=1, cutoff=0.8):
                    message += f"; is {similar} meant?"
            else:
                continue
            yield checked.subject.build_problem((*checked.path, "plugins", point, "enabled", i, "name"), message)


FOREIGN = _build_rule(
    "cfg-foreign-plugin",
    WARNING,
    "A plugin that is not kube-scheduler's own",
    "kube-scheduler as it is released does not start with it. A build that has it may; what it does is not replayed"
    " unless kschedctl knows it, or a package registers it here.",
    fix="Correct the name, or see that the scheduler that reads this has the plugin",
)


def _find_unused_args(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for arguments of a plugin that is not enabled or that does not read them in this version."""
    running = checked.profile.enabled_names.union(checked.profile.foreign)
    for i, config in enumerate(array_at(checked.written, "pluginConfig")):
        name, path = str(object_at(config).get("name")), (*checked.path, "pluginConfig", i)
        unknown_args = [unknown for unknown in checked.unknown_here if unknown.path[: len(path)] == path]
        if name not in running:
            state = (
                "is not enabled"
                if name in get_in_tree_plugins(checked.gates.minor)
                else "is not known, and not enabled"
            )
            _, message = _add_mismatch(path, f"arguments of {name}, which {state} in this profile", unknown_args)
            yield checked.subject.build_problem(path, message)
        elif unknown_args:
            yield checked.subject.build_problem(path, f"{unknown_args[0]}: this version does not look at them")


UNUSED_ARGS = _build_rule(
    "cfg-unused-args",
    WARNING,
    "Arguments of a plugin that does not run, or has none in this version",
    "They have no effect.",
    fix="Enable the plugin, or remove the arguments",
)


def num_feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """Return how many feasible nodes kube-scheduler looks for in a cluster. A percentage of 0 is adaptive.

    Upstream: numFeasibleNodesToFind in pkg/scheduler/schedule_one.go (v1.36).

    >>> num_feasible_nodes_to_find(0, 5000), num_feasible_nodes_to_find(1, 5000), num_feasible_nodes_to_find(50, 80)
    (500, 100, 80)
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    return max(nodes * (percentage or max(50 - nodes // 125, 5)) // 100, MIN_FEASIBLE_NODES)


def _find_unsuitable_percentages(
    subject: Subject, configuration: SchedulerConfiguration, nodes: int
) -> Iterator[Problem]:
    """Yield a problem for each percentageOfNodesToScore that has no effect or slows a large cluster down."""
    percentages: list[tuple[Path, int]] = [((), configuration.percentage_of_nodes_to_score)]
    for i, profile in enumerate(configuration.profiles.values()):
        percentages.append((("profiles", i), profile.percentage_of_nodes_to_score or 0))
    usual = num_feasible_nodes_to_find(0, nodes)
    for path, percentage in percentages:
        if not percentage:
            continue
        wanted = num_feasible_nodes_to_find(percentage, nodes)
        if nodes < MIN_FEASIBLE_NODES:
            all_nodes = agreeing(nodes, "it is", "all of them are")
            message = f"no effect: with {counted(nodes, 'node')} {all_nodes} looked at"
        elif nodes * percentage // 100 < MIN_FEASIBLE_NODES:
            message = (
                f"{percentage}% of {counted(nodes, 'node')} are fewer than {MIN_FEASIBLE_NODES}, so {wanted} are "
                "looked for"
            )
        elif wanted > 2 * usual and nodes > 1000:
            message = (
                f"{wanted:,} of {counted(nodes, 'feasible node')} are looked for, by default {usual:,}: "
                "scheduling is slower"
            )
        else:
            continue
        yield subject.build_problem((*path, "percentageOfNodesToScore"), message)


PERCENTAGE = _build_rule(
    "cfg-percentage",
    NOTE,
    "percentageOfNodesToScore that does not suit the size of the cluster",
    "Fewer than 100 nodes are never looked for; a high percentage slows a large cluster down.",
    fix="Leave it out, then it follows the size of the cluster",
    source=TUNING,
)
