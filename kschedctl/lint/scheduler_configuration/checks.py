"""Rules about a KubeSchedulerConfiguration: what kube-scheduler refuses, and what it takes but hardly anybody means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from kschedctl.api.json_values import JsonObject, array_at, object_at
from kschedctl.api.kinds import describe_lifecycle
from kschedctl.errors import ConfigurationError
from kschedctl.lint.framework.context import LintContext
from kschedctl.lint.framework.rule import ERROR, NOTE, WARNING, Rule, Severity
from kschedctl.lint.objects.subject import Path, Problem, Subject
from kschedctl.lint.scheduler_configuration.faults import faults, load, of_other_versions, path_of, without_hint
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration
from kschedctl.scheduler.configuration.document import API_VERSION, GROUP, KIND
from kschedctl.scheduler.configuration.other_versions import OfOtherVersion
from kschedctl.scheduler.configuration.profile import Profile, default_plugins
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.registry.in_tree import IN_TREE, in_tree
from kschedctl.scheduler.registry.scheduler_plugins import SCHEDULER_PLUGINS, registered_plugins
from kschedctl.text.counts import agreeing, counted

PAGE = "https://kubernetes.io/docs/reference/scheduling/config/"
TUNING = "https://kubernetes.io/docs/concepts/scheduling-eviction/scheduler-perf-tuning/"
LEAST_NODES = 100
"""kube-scheduler looks for so many feasible nodes at least."""


def check_configuration(
    subject: Subject, gates: FeatureGates, nodes: int | None = None
) -> Iterator[tuple[Rule, Problem]]:
    """Each problem of a document with its rule; ``nodes`` is the size of the cluster, where that is known."""
    document = subject.document
    version = str(document.get("apiVersion", ""))
    if version.startswith(f"{GROUP}/") and version != API_VERSION:
        end = describe_lifecycle(version, KIND) or "is no longer read"
        yield OLD_VERSION, subject.problem(("apiVersion",), f"{version} {end}: only {API_VERSION} is read")
        return
    others = of_other_versions(document, gates)
    try:
        configuration = load(document, gates)
    except ConfigurationError as error:
        refusals = faults(document, gates) or [(path_of(str(error)), without_hint(error))]
        yield from ((INVALID, subject.problem(*_with_version(path, message, others))) for path, message in refusals)
        return
    profiles = array_at(document, "profiles") or ({},)
    for i, (profile, as_written) in enumerate(zip(configuration.profiles.values(), profiles, strict=False)):
        written = object_at(as_written)
        path: Path = ("profiles", i)
        yield from ((WITHOUT_STATE, p) for p in _without_state(subject, path, profile))
        yield from ((DISABLED, p) for p in _disabled(subject, path, profile, gates))
        yield from ((WEIGHT_ZERO, p) for p in _weights(subject, path, written))
        yield from ((UNKNOWN, p) for p in _unknown(subject, path, written, gates, others))
        yield from ((FOREIGN, p) for p in _foreign(subject, path, profile, written, gates))
        yield from ((UNUSED_ARGS, p) for p in _unused_args(subject, path, profile, written, gates=gates, others=others))
    if nodes is not None:
        yield from ((PERCENTAGE, p) for p in _percentages(subject, configuration, nodes))


def _with_version(path: Path, message: str, others: Iterable[OfOtherVersion]) -> tuple[Path, str]:
    """A refusal and which version has what is refused, at the field that names it."""
    for other in others:
        if other.path[: len(path)] == path and other.name in message:
            return other.path, f"{message} ({other})"
    return path, message


def nodes_to_find(percentage: int, nodes: int) -> int:
    """How many feasible nodes kube-scheduler looks for, of so many; a percentage of 0 is adaptive.

    Upstream: numFeasibleNodesToFind in pkg/scheduler/schedule_one.go (v1.36).

    >>> nodes_to_find(0, 5000), nodes_to_find(1, 5000), nodes_to_find(50, 80)
    (500, 100, 80)
    """
    if nodes < LEAST_NODES:
        return nodes
    return max(nodes * (percentage or max(50 - nodes // 125, 5)) // 100, LEAST_NODES)


def _without_state(subject: Subject, path: Path, profile: Profile) -> Iterator[Problem]:
    for name, declared in IN_TREE.items():
        needs = declared.plugin.needs_state if declared.plugin else {}
        for point, before in needs.items():
            if name in profile.plugins[point] and name not in profile.plugins[before]:
                message = (
                    f"{name} runs at {point} but not at {before}: it fails, and no pod that it concerns is scheduled"
                )
                yield subject.problem((*path, "plugins", before), message)


def _disabled(subject: Subject, path: Path, profile: Profile, gates: FeatureGates) -> Iterator[Problem]:
    for plugin in default_plugins(gates):
        declared = IN_TREE[plugin.name].plugin
        without = declared.without if declared else ""
        if without and plugin.name not in profile.enabled_names:
            yield subject.problem((*path, "plugins"), f"without {plugin.name}, {without}")


def _weights(subject: Subject, path: Path, written: JsonObject) -> Iterator[Problem]:
    for point in ("multiPoint", "score"):
        for i, plugin in enumerate(array_at(written, "plugins", point, "enabled")):
            if object_at(plugin).get("weight") == 0:
                message = f"weight 0 of {object_at(plugin).get('name')} counts as 1"
                yield subject.problem((*path, "plugins", point, "enabled", i, "weight"), message)


def _unknown(
    subject: Subject, path: Path, written: JsonObject, gates: FeatureGates, others: Sequence[OfOtherVersion]
) -> Iterator[Problem]:
    known = {*in_tree(gates.minor), *registered_plugins(other_builds=True), "*"}
    for point in object_at(written, "plugins"):
        for i, plugin in enumerate(array_at(written, "plugins", point, "disabled")):
            name = object_at(plugin).get("name")
            if name not in known:
                at = (*path, "plugins", point, "disabled", i)
                message = f"there is no plugin {name} to disable"
                yield subject.problem(at, _with_version(at, message, others)[1])


def _foreign(
    subject: Subject, path: Path, profile: Profile, written: JsonObject, gates: FeatureGates
) -> Iterator[Problem]:
    others = SCHEDULER_PLUGINS.keys() - registered_plugins(other_builds=False).keys()
    for point in object_at(written, "plugins"):
        for i, plugin in enumerate(array_at(written, "plugins", point, "enabled")):
            name = str(object_at(plugin).get("name"))
            if name in others:
                message = f"{name} is of kubernetes-sigs/scheduler-plugins: kube-scheduler does not start with it"
                yield subject.problem((*path, "plugins", point, "enabled", i, "name"), message)
            elif name in profile.foreign:
                message = f"{name} is no plugin of kube-scheduler as it is released: it does not start with it"
                meant = "".join(f"; is {near} meant?" for near in get_close_matches(name, in_tree(gates.minor), 1, 0.8))
                yield subject.problem((*path, "plugins", point, "enabled", i, "name"), message + meant)


def _unused_args(
    subject: Subject,
    path: Path,
    profile: Profile,
    written: JsonObject,
    *,
    gates: FeatureGates,
    others: Sequence[OfOtherVersion],
) -> Iterator[Problem]:
    running = profile.enabled_names.union(profile.foreign)
    for i, config in enumerate(array_at(written, "pluginConfig")):
        name, at = str(object_at(config).get("name")), (*path, "pluginConfig", i)
        here = [other for other in others if other.path[: len(at)] == at]
        if name not in running:
            known = "is not enabled" if name in in_tree(gates.minor) else "is not known, and not enabled"
            message = f"arguments of {name}, which {known} in this profile"
            yield subject.problem(at, _with_version(at, message, here)[1])
        elif here:
            yield subject.problem(at, f"{here[0]}: this version does not look at them")


def _percentages(subject: Subject, configuration: SchedulerConfiguration, nodes: int) -> Iterator[Problem]:
    places: list[tuple[Path, int]] = [((), configuration.percentage_of_nodes_to_score)]
    for i, profile in enumerate(configuration.profiles.values()):
        places.append((("profiles", i), profile.percentage_of_nodes_to_score or 0))
    for path, percentage in places:
        wanted = nodes_to_find(percentage, nodes)
        message = ""
        if percentage and nodes < LEAST_NODES:
            message = (
                f"no effect: with {counted(nodes, 'node')} {agreeing(nodes, 'it is', 'all of them are')} looked at"
            )
        elif percentage and nodes * percentage // 100 < LEAST_NODES:
            message = (
                f"{percentage} % of {counted(nodes, 'node')} are fewer than {LEAST_NODES}, so {wanted} are looked for"
            )
        elif percentage and wanted > 2 * nodes_to_find(0, nodes) and nodes > 1000:
            usual = nodes_to_find(0, nodes)
            message = (
                f"{wanted:,} of {counted(nodes, 'feasible node')} are looked for, by default {usual:,}: "
                "scheduling is slower"
            )
        if message:
            yield subject.problem((*path, "percentageOfNodesToScore"), message)


def _nothing(context: LintContext) -> Iterator[Problem]:
    return iter(())


def _rule(name: str, severity: Severity, summary: str, why: str, *, fix: str, source: str = PAGE) -> Rule:
    return Rule(name, severity, _nothing, summary=summary, why=why, fix=fix, source=source)


INVALID = _rule(
    "cfg-invalid",
    ERROR,
    "A configuration that kube-scheduler refuses",
    "kube-scheduler does not start with it.",
    fix="Correct the field",
)
OLD_VERSION = _rule(
    "cfg-old-version",
    ERROR,
    "A version of the configuration that is no longer read",
    "kube-scheduler does not start: v1beta2 went with 1.28, v1beta3 with 1.29.",
    fix=f"Write apiVersion: {API_VERSION}",
)
WITHOUT_STATE = _rule(
    "cfg-without-state",
    ERROR,
    "A plugin that is enabled without the point that prepares it",
    "Its Filter or Score finds no state and fails every scheduling cycle.",
    fix="Enable or disable the plugin at both points, best by multiPoint",
)
DISABLED = _rule(
    "cfg-disabled-default",
    WARNING,
    "A default plugin that nothing replaces is disabled",
    "What it looks after is no longer looked after, and other components rely on it.",
    fix="Enable it again, or make sure that a plugin of yours does its work",
)
WEIGHT_ZERO = _rule(
    "cfg-weight-zero",
    WARNING,
    "A weight of 0",
    "0 does not switch a score off: it stands for the field being absent.",
    fix="Disable the plugin at score instead",
)
UNKNOWN = _rule(
    "cfg-unknown-plugin",
    WARNING,
    "A plugin that does not exist is disabled",
    "kube-scheduler takes it without a word; the plugin that was meant still runs.",
    fix="Correct the name",
)
FOREIGN = _rule(
    "cfg-foreign-plugin",
    WARNING,
    "A plugin that is not kube-scheduler's own",
    "kube-scheduler as it is released does not start with it. A build that has it may; what it does is not replayed"
    " unless kschedctl knows it, or a package registers it here.",
    fix="Correct the name, or see that the scheduler that reads this has the plugin",
)
UNUSED_ARGS = _rule(
    "cfg-unused-args",
    WARNING,
    "Arguments of a plugin that does not run, or has none in this version",
    "They have no effect.",
    fix="Enable the plugin, or remove the arguments",
)
PERCENTAGE = _rule(
    "cfg-percentage",
    NOTE,
    "percentageOfNodesToScore that does not suit the size of the cluster",
    "Fewer than 100 nodes are never looked for; a high percentage slows a large cluster down.",
    fix="Leave it out, then it follows the size of the cluster",
    source=TUNING,
)
RULES: Sequence[Rule] = (
    INVALID,
    OLD_VERSION,
    WITHOUT_STATE,
    DISABLED,
    WEIGHT_ZERO,
    UNKNOWN,
    FOREIGN,
    UNUSED_ARGS,
    PERCENTAGE,
)
