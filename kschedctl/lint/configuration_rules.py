"""Rules about a KubeSchedulerConfiguration: what kube-scheduler rejects, and what it accepts but looks mistaken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.kinds import describe_lifecycle
from kschedctl.errors import ConfigurationError
from kschedctl.lint.effective_configuration import (
    find_configuration_errors,
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
from kschedctl.scheduler.in_tree_plugins import IN_TREE, get_in_tree_plugins
from kschedctl.scheduler.third_party_plugins import SCHEDULER_PLUGINS, find_registered_plugins
from kschedctl.text.counts import counted

PAGE = "https://kubernetes.io/docs/reference/scheduling/config/"
TUNING = "https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/"
DECISIVE_POINTS = ("filter", "postFilter", "preEnqueue")
"""The extension points at which a plugin keeps pods from nodes, makes room, or gates pods: the first that it has."""
MIN_FEASIBLE_NODES = 100
"""The minimum number of feasible nodes that kube-scheduler looks for."""
_LARGE_CLUSTER_NODES = 1000
"""Only in clusters of more nodes than this, looking for too many feasible nodes is slow."""
_MAX_RATIO_TO_DEFAULT = 2
"""More than this many times the default number of feasible nodes are too many."""


@dataclass(frozen=True)
class _CheckedProfile:
    """A profile of a valid configuration."""

    subject: Subject
    path: Path
    profile: Profile
    document: JsonObject
    """The profile in the document, without defaults."""
    gates: FeatureGates
    mismatches: tuple[VersionMismatch, ...]
    """The fields and plugins of the document that only other versions of kube-scheduler have."""
    has_siblings: bool = False
    """True if the document has other profiles, so that messages have to name this one."""


def check_configuration(
    subject: Subject, gates: FeatureGates, nodes: int | None = None
) -> Iterator[tuple[Rule, Problem]]:
    """Yield each problem of a scheduler configuration with the rule that finds it.

    ``nodes`` is the size of the cluster, if known. If the version is not supported or the configuration is invalid,
    only these errors are yielded.
    """
    document = subject.document
    version = str(document.get("apiVersion", ""))
    if version.startswith(f"{GROUP}/") and version != API_VERSION:
        lifecycle = describe_lifecycle(version, KIND) or "is no longer supported"
        message = f"{version} {lifecycle}; kube-scheduler reads only {API_VERSION}"
        yield OLD_VERSION, subject.build_problem(("apiVersion",), message)
        return

    # Report all errors of a configuration that does not load
    mismatches = tuple(list_unknown_to_version(document, gates))
    try:
        configuration = load_with_registered_plugins(document, gates)
    except ConfigurationError as error:
        first_error = (parse_error_path(str(error)), format_error(error))
        for path, message in find_configuration_errors(document, gates) or [first_error]:
            yield INVALID, subject.build_problem(*_refine_error_by_version(path, message, mismatches))
        return

    # Without profiles in the document, there is one default profile
    profiles = array_at(document, "profiles") or ({},)
    profile_checks: tuple[tuple[Rule, Callable[[_CheckedProfile], Iterable[Problem]]], ...] = (
        (WITHOUT_STATE, _find_plugins_without_state),
        (DISABLED, _find_disabled_defaults),
        (WEIGHT_ZERO, _find_zero_weights),
        (UNKNOWN, _find_unknown_disabled_plugins),
        (FOREIGN, _find_foreign_plugins),
        (UNUSED_ARGS, _find_unused_args),
    )
    for i, (profile, profile_document) in enumerate(zip(configuration.profiles.values(), profiles, strict=False)):
        checked = _CheckedProfile(
            subject,
            path=("profiles", i),
            profile=profile,
            document=object_at(profile_document),
            gates=gates,
            mismatches=mismatches,
            has_siblings=len(profiles) > 1,
        )
        for rule, find_problems in profile_checks:
            for problem in find_problems(checked):
                yield rule, problem
    if nodes is not None:
        for problem in _find_unsuitable_percentages(subject, configuration, nodes):
            yield PERCENTAGE, problem


def _refine_error_by_version(path: Path, message: str, mismatches: Iterable[VersionMismatch]) -> tuple[Path, str]:
    """Return an error's path and message, made more precise if another version has the field or plugin.

    In this case the path leads to the exact field, and the message names the version.
    """
    for mismatch in mismatches:
        if mismatch.path[: len(path)] == path and mismatch.name in message:
            return mismatch.path, f"{message} ({mismatch})"
    return path, message


def _build_rule(name: str, severity: Severity, summary: str, why: str, *, fix: str, source: str = PAGE) -> Rule:
    """Build a rule about configurations from its texts. ``check_configuration`` finds its problems."""
    return Rule(name, severity, find_nothing, summary=summary, why=why, fix=fix, source=source)


INVALID = _build_rule(
    "cfg-invalid",
    ERROR,
    "A configuration that kube-scheduler rejects",
    "kube-scheduler does not start with it.",
    fix="Correct the field",
)
OLD_VERSION = _build_rule(
    "cfg-old-version",
    ERROR,
    "An API version of the configuration that is no longer supported",
    "kube-scheduler does not start: v1beta2 was removed in 1.28, v1beta3 in 1.29.",
    fix=f"Write apiVersion: {API_VERSION}",
)


def _find_plugins_without_state(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each plugin that is enabled at a point but not at the point where it prepares its state."""
    plugins_at = checked.profile.plugins
    for name, declared in IN_TREE.items():
        state_points = declared.plugin.needs_state if declared.plugin else {}
        for point, preparing_point in state_points.items():
            if name in plugins_at[point] and name not in plugins_at[preparing_point]:
                message = (
                    f"{name} runs at {point} but not at {preparing_point}: it fails for lack of its state, so pods "
                    "that it applies to are not scheduled"
                )
                yield checked.subject.build_problem((*checked.path, "plugins", preparing_point), message)


WITHOUT_STATE = _build_rule(
    "cfg-without-state",
    ERROR,
    "A plugin that is not enabled at the point that prepares its state",
    "Its Filter or Score finds no state, and every scheduling cycle fails.",
    fix="Enable or disable the plugin at both points, preferably with multiPoint",
)


def _find_disabled_defaults(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each default plugin that is not enabled although pods or nodes suffer without it.

    A plugin is also reported if it is enabled, but not at its decisive point (see `DECISIVE_POINTS`). This does not
    apply to PostFilter if a custom plugin runs there instead.
    """
    profile = checked.profile
    has_custom_post_filter = any(name not in IN_TREE for name in profile.plugins["postFilter"])
    for plugin in list_default_plugins(checked.gates):
        declared = IN_TREE[plugin.name]
        consequence = declared.plugin.without if declared.plugin else ""
        if not consequence:
            continue
        name = plugin.name
        missing_plugin = name
        if name in profile.enabled_names:
            decisive_point = next((point for point in DECISIVE_POINTS if point in declared.points), "")
            runs_where_needed = not decisive_point or name in profile.plugins[decisive_point]
            is_replaced = decisive_point == "postFilter" and has_custom_post_filter
            if runs_where_needed or is_replaced:
                continue
            missing_plugin = f"{name} at {decisive_point}"
        message = f"without {missing_plugin}, {consequence}"
        if checked.has_siblings:
            message = f"profile {profile.scheduler_name}: {message}"
        yield checked.subject.build_problem((*checked.path, "plugins"), message)


DISABLED = _build_rule(
    "cfg-disabled-default",
    WARNING,
    "A default plugin is disabled and not replaced",
    "Nothing does its work any more, and other components rely on it.",
    fix="Enable it again, or make sure that one of your own plugins does its work",
)


def _find_zero_weights(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each score plugin with weight 0."""
    for point in ("multiPoint", "score"):
        for i, plugin in enumerate(array_at(checked.document, "plugins", point, "enabled")):
            if object_at(plugin).get("weight") == 0:
                message = f"{object_at(plugin).get('name')} has weight 0, which counts as 1"
                yield checked.subject.build_problem((*checked.path, "plugins", point, "enabled", i, "weight"), message)


WEIGHT_ZERO = _build_rule(
    "cfg-weight-zero",
    WARNING,
    "A weight of 0",
    "A weight of 0 does not switch a score off: it counts as a missing field, so the default of 1 applies.",
    fix="Disable the plugin at score instead",
)


def _find_unknown_disabled_plugins(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each disabled plugin that does not exist in this version.

    Plugins that other builds register count as existing, and so does `*`, which stands for all plugins.
    """
    existing = {*get_in_tree_plugins(checked.gates.minor), *find_registered_plugins(other_builds=True), "*"}
    for point in object_at(checked.document, "plugins"):
        for i, plugin in enumerate(array_at(checked.document, "plugins", point, "disabled")):
            name = object_at(plugin).get("name")
            if name not in existing:
                path = (*checked.path, "plugins", point, "disabled", i)
                _exact_path, message = _refine_error_by_version(
                    path, f"plugin {name} does not exist", checked.mismatches
                )
                yield checked.subject.build_problem(path, message)


UNKNOWN = _build_rule(
    "cfg-unknown-plugin",
    WARNING,
    "A plugin that does not exist is disabled",
    "kube-scheduler accepts the entry silently, and the plugin that was meant still runs.",
    fix="Correct the name",
)


def _find_foreign_plugins(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for each enabled plugin that the released kube-scheduler does not have.

    The message says if it is a plugin of scheduler-plugins, or suggests an in-tree plugin with a similar name.
    """
    out_of_tree = SCHEDULER_PLUGINS.keys() - find_registered_plugins(other_builds=False).keys()
    for point in object_at(checked.document, "plugins"):
        for i, plugin in enumerate(array_at(checked.document, "plugins", point, "enabled")):
            name = str(object_at(plugin).get("name"))
            path = (*checked.path, "plugins", point, "enabled", i, "name")
            if name in out_of_tree:
                message = (
                    f"{name} is a plugin of kubernetes-sigs/scheduler-plugins; the released kube-scheduler does not "
                    "have it and does not start"
                )
                yield checked.subject.build_problem(path, message)
            elif name in checked.profile.foreign:
                message = f"{name} is not a plugin of the released kube-scheduler, which does not start with it"
                for similar in get_close_matches(name, get_in_tree_plugins(checked.gates.minor), n=1, cutoff=0.8):
                    message += f"; did you mean {similar}?"
                yield checked.subject.build_problem(path, message)


FOREIGN = _build_rule(
    "cfg-foreign-plugin",
    WARNING,
    "A plugin that the released kube-scheduler does not have",
    "The released kube-scheduler does not start with it. A build that contains the plugin does, but kschedctl replays "
    "the plugin only if it knows it or a package registers it.",
    fix="Correct the name, or make sure that the scheduler that reads this configuration contains the plugin",
)


def _find_unused_args(checked: _CheckedProfile) -> Iterator[Problem]:
    """Yield a problem for the arguments of each plugin that is not enabled or does not read them in this version."""
    enabled_plugins = checked.profile.enabled_names.union(checked.profile.foreign)
    for i, config in enumerate(array_at(checked.document, "pluginConfig")):
        name = str(object_at(config).get("name"))
        path = (*checked.path, "pluginConfig", i)
        mismatches = [mismatch for mismatch in checked.mismatches if mismatch.path[: len(path)] == path]
        if name not in enabled_plugins:
            is_known = name in get_in_tree_plugins(checked.gates.minor)
            state = "is not enabled" if is_known else "is unknown and not enabled"
            _exact_path, message = _refine_error_by_version(
                path, f"arguments of {name}, which {state} in this profile", mismatches
            )
            yield checked.subject.build_problem(path, message)
        elif mismatches:
            yield checked.subject.build_problem(path, f"{mismatches[0]}: this version ignores them")


UNUSED_ARGS = _build_rule(
    "cfg-unused-args",
    WARNING,
    "Arguments of a plugin that is not enabled or has no arguments in this version",
    "They have no effect.",
    fix="Enable the plugin, or remove the arguments",
)


def count_feasible_nodes_to_find(percentage: int, nodes: int) -> int:
    """Return how many feasible nodes kube-scheduler looks for. A percentage of 0 adapts to the number of nodes.

    The result is at least `MIN_FEASIBLE_NODES`, or the number of nodes in a smaller cluster. Upstream:
    numFeasibleNodesToFind in pkg/scheduler/schedule_one.go (v1.36).

    >>> count_feasible_nodes_to_find(0, 5000), count_feasible_nodes_to_find(1, 5000)
    (500, 100)
    >>> count_feasible_nodes_to_find(50, 80)
    80
    """
    if nodes < MIN_FEASIBLE_NODES:
        return nodes
    adaptive_percentage = max(50 - nodes // 125, 5)
    return max(nodes * (percentage or adaptive_percentage) // 100, MIN_FEASIBLE_NODES)


def _find_unsuitable_percentages(
    subject: Subject, configuration: SchedulerConfiguration, nodes: int
) -> Iterator[Problem]:
    """Yield a problem for each percentageOfNodesToScore that has no effect or slows a large cluster down.

    The global value and those of the profiles are checked. A value has no effect in a small cluster, or if it stands
    for fewer nodes than the minimum. It slows a cluster of over 1000 nodes down if the scheduler has to find more than
    twice the default number of feasible nodes.
    """
    # The global percentage, and those of the profiles
    percentages: list[tuple[Path, int]] = [((), configuration.percentage_of_nodes_to_score)]
    for i, profile in enumerate(configuration.profiles.values()):
        percentages.append((("profiles", i), profile.percentage_of_nodes_to_score or 0))
    default_count = count_feasible_nodes_to_find(percentage=0, nodes=nodes)
    for path, percentage in percentages:
        if not percentage:
            continue
        count = count_feasible_nodes_to_find(percentage, nodes)
        if nodes < MIN_FEASIBLE_NODES:
            message = f"no effect: clusters of fewer than {MIN_FEASIBLE_NODES} nodes are always searched in full"
        elif nodes * percentage // 100 < MIN_FEASIBLE_NODES:
            message = (
                f"{percentage}% of {counted(nodes, 'node')} is less than the minimum of {MIN_FEASIBLE_NODES}, which "
                "applies instead"
            )
        elif count > _MAX_RATIO_TO_DEFAULT * default_count and nodes > _LARGE_CLUSTER_NODES:
            message = (
                f"the scheduler looks for {counted(count, 'feasible node')} instead of {default_count:,} by default, "
                "which slows scheduling down"
            )
        else:
            continue
        yield subject.build_problem((*path, "percentageOfNodesToScore"), message)


PERCENTAGE = _build_rule(
    "cfg-percentage",
    NOTE,
    "percentageOfNodesToScore does not suit the size of the cluster",
    "The scheduler never looks for fewer than 100 feasible nodes; a high percentage slows it down in a large cluster.",
    fix="Leave the field out, so that the percentage adapts to the size of the cluster",
    source=TUNING,
)
