"""The command `versions`: what differs between versions of kube-scheduler?

A rule or message that differs is declared as a ByVersion in the module that uses it, and is found there. Plugins and
feature gates declare their versions themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from string import Formatter
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.kube_version import NEWEST_MINOR, OLDEST_MINOR, VERIFIED_MINOR, ByVersion, KubeVersion
from kschedctl.commands.versions.report import Basis, VersionChange, VersionChanges
from kschedctl.errors import UsageError
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.framework.declaration import EXTENSION_POINTS, Declaration
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, MERGED_GATES, FeatureGates, get_stage
from kschedctl.scheduler.framework.strict_decoding import list_fields
from kschedctl.scheduler.framework.version_changes import find_version_changes
from kschedctl.scheduler.in_tree_plugins import IN_TREE
from kschedctl.scheduler.third_party_plugins import SCHEDULER_PLUGINS

WITHOUT_HINTS = ByVersion(
    "plugins without queueing hints",
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
"""The minor versions that are replayed."""
NOT_YET, NO_LONGER = "absent", "removed"
"""The states of plugins and feature gates in versions before and after those that have them."""
SORTS = ("rule", "plugin", "gate")
"""The kinds of changes, in the order in which they are reported."""
MAX_LISTED = 3
"""The number of elements up to which both collections are listed in full."""
SEARCHED_PACKAGES = ("kschedctl.api.pod_requests", "kschedctl.scheduler")
"""The modules and packages that declare rules and messages that differ."""


class VersionedAspect(NamedTuple):
    """An aspect of kube-scheduler that differs between versions."""

    sort: str
    """The kind of aspect, from SORTS."""
    where: str
    """The plugin or feature gate, or "kube-scheduler"."""
    values: ByVersion[object]
    """Version -> the value of the aspect, None if the aspect does not exist."""


def version_changes(before: str = "", after: str = "") -> VersionChanges:
    """List what differs between two versions of kube-scheduler, or between all versions.

    A version is a release such as `1.33.4`, or `1.33` for its newest patch. Raises UsageError for a single version, and
    ConfigurationError for a version that is not replayed.

    >>> version_changes("1.36", "1.36").changes
    ()
    """
    if not (before or after):
        return list_all_changes()
    if not (before and after):
        only_version = before or after
        raise UsageError(
            f"give a second version to compare {only_version} with", hint=f"kschedctl versions {only_version} 1.36"
        )
    return compare_versions(before, after)


def list_all_changes() -> VersionChanges:
    """List all changes since the oldest version that is replayed. Added plugins are not listed."""
    changes = []
    for aspect in iter_versioned_aspects():
        for (_, before), (since, after) in pairwise(aspect.values.steps):
            if before is not None:
                change = _build_version_change(aspect, since, before, after)
                *_, newest_release = change.since  # after its backports
                minor = KubeVersion.parse(newest_release).minor
                version_before = KubeVersion.parse(f"1.{max(minor - 1, OLDEST_MINOR)}")
                version_after = KubeVersion.parse(f"1.{minor}")
                changes.append(_add_release_switching_default(change, aspect, version_before, version_after))
    return VersionChanges(tuple(f"1.{minor}" for minor in MINORS), compared=False, changes=_sort_newest_first(changes))


def compare_versions(first: str, second: str) -> VersionChanges:
    """List the differences between two versions, either of which may be the newer one.

    Aspects that do not exist in one of the versions are left out. Raises ConfigurationError if a version is not
    replayed.
    """
    first_version, second_version = KubeVersion.parse_supported(first), KubeVersion.parse_supported(second)
    changes: list[VersionChange] = []
    for aspect in iter_versioned_aspects():
        before, after = aspect.values.at(first_version), aspect.values.at(second_version)
        if before is not None and after is not None and before != after:
            since, _ = aspect.values.find_step(max(first_version, second_version))
            change = _build_version_change(aspect, since, before, after)
            change = replace(change, between=_describe_values_between(aspect.values, first_version, second_version))
            changes.append(_add_release_switching_default(change, aspect, first_version, second_version))
    return VersionChanges((str(first_version), str(second_version)), compared=True, changes=_sort_newest_first(changes))


def _describe_values_between(
    values: ByVersion[object], first_version: KubeVersion, second_version: KubeVersion
) -> tuple[str, ...]:
    """Describe the values that an aspect had after the older version and before the newer one, but in neither of them.

    Each text names the value's first release. The texts go from the first version to the second.
    """
    oldest, newest = sorted((first_version, second_version))
    values_at_ends = (values.at(oldest), values.at(newest))
    states = []
    for since, value in values.steps:
        is_first_step = not since  # it has no release
        if is_first_step or value is None or value in values_at_ends:
            continue
        *_, first_release = since.split()  # the releases with a backport come first
        if oldest < KubeVersion.parse(first_release) < newest:
            states.append(f"from {first_release}: {describe_rule_value(value)}")
    return tuple(states if first_version < second_version else reversed(states))


def _add_release_switching_default(
    change: VersionChange, aspect: VersionedAspect, first_version: KubeVersion, second_version: KubeVersion
) -> VersionChange:
    """Return the change of a gate or plugin with the release that switched its default, and with the new default.

    This is the first release from which on the default is that of the newer version. Both are left out if the default
    is the same in the two versions. For a gate, also set whether the second version no longer has the gate. Changes of
    other aspects are returned unchanged.
    """
    get_default = DEFAULT_GETTERS.get((aspect.sort, aspect.values.what))
    if get_default is None:
        return change
    oldest, newest = sorted((first_version, second_version))
    default_by_minor = {minor: get_default(aspect.where, minor) for minor in range(oldest.minor, newest.minor + 1)}
    is_removed = aspect.sort == "gate" and get_stage(aspect.where, second_version.minor).maturity == "removed"
    if default_by_minor[oldest.minor] == default_by_minor[newest.minor]:
        return replace(change, is_removed=is_removed)

    # The default switched after the last release that differs from the newer version
    newest_default = default_by_minor[newest.minor]
    last_different = max(minor for minor, default in default_by_minor.items() if default != newest_default)
    return replace(
        change,
        switched=f"1.{last_different + 1}",
        is_on=default_by_minor[second_version.minor],
        is_removed=is_removed,
    )


def _is_gate_on_by_default(gate: str, minor: int) -> bool:
    """Return whether a feature gate is on by default in a minor version."""
    return get_stage(gate, minor).on


def _is_plugin_on_by_default(plugin: str, minor: int) -> bool:
    """Return whether a plugin exists in a minor version and is enabled by default."""
    return IN_TREE[plugin].restrict_to_minor(minor) is not None and IN_TREE[plugin].is_default(
        FeatureGates(f"1.{minor}")
    )


AVAILABILITY = "availability"
DEFAULT_GETTERS: Mapping[tuple[str, str], Callable[[str, int], bool]] = {
    ("gate", "stage"): _is_gate_on_by_default,
    ("plugin", AVAILABILITY): _is_plugin_on_by_default,
}
"""The functions that return the default of a gate or plugin in a minor version, by sort and aspect."""


def _build_version_change(aspect: VersionedAspect, since: str, before: object, after: object) -> VersionChange:
    """Build the report entry for a change, including the basis on which it is known.

    `since` lists the releases that brought the change, separated by spaces, backports first.
    """
    releases = tuple(since.split())
    *_, newest_release = releases
    if aspect.values.from_notes in releases:  # known only from the release notes
        basis: Basis = "release notes"
    elif KubeVersion.parse(newest_release).minor > VERIFIED_MINOR:  # no real scheduler was compared
        basis = "source"
    else:
        basis = "answers"
    before_text, after_text = describe_values(before, after)
    return VersionChange(
        aspect.sort,
        aspect.where,
        what=aspect.values.what,
        since=releases,
        before=before_text,
        after=after_text,
        upstream=aspect.values.upstream,
        basis=basis,
    )


def _sort_newest_first(changes: Iterable[VersionChange]) -> tuple[VersionChange, ...]:
    """Sort the changes by kind, in the order of `SORTS`, and within each kind by minor version, newest first."""

    def get_sort_key(change: VersionChange) -> tuple[int, int]:
        """Return the rank of the change's kind, and the negative minor version of its newest release."""
        *_, newest_release = change.since
        return SORTS.index(change.sort), -KubeVersion.parse(newest_release).minor

    return tuple(sorted(changes, key=get_sort_key))


def group_rules_by_plugin() -> Mapping[str, tuple[ByVersion[object], ...]]:
    """Map each plugin to its rules and messages that differ between versions.

    Rules that belong to no plugin are listed under "kube-scheduler".
    """
    by_plugin = {
        name: declaration.plugin.list_version_changes()
        for name, declaration in {**IN_TREE, **SCHEDULER_PLUGINS}.items()
        if declaration.plugin
    }
    # Rules are told apart by identity, because two of them may have equal contents.
    ids_in_plugins = {id(rule) for rules in by_plugin.values() for rule in rules}
    all_rules = (*find_version_changes(*SEARCHED_PACKAGES), WITHOUT_HINTS)
    general_rules = tuple(rule for rule in all_rules if id(rule) not in ids_in_plugins)
    return {"kube-scheduler": general_rules, **by_plugin}


def iter_versioned_aspects() -> Iterator[VersionedAspect]:
    """Yield everything that differs between versions: rules, then properties of plugins, then feature gates."""
    for subject, rules in group_rules_by_plugin().items():
        for rule in rules:
            yield VersionedAspect("rule", subject, _describe_bools(rule))
    for plugin in IN_TREE.values():
        plugin_by_minor = {minor: plugin.restrict_to_minor(minor) for minor in MINORS}
        values_by_property: dict[str, list[object]] = {
            AVAILABILITY: [_describe_default(plugin, minor) for minor in MINORS]
        }
        for point in EXTENSION_POINTS:
            implements_point = f"implements the {point[0].upper()}{point[1:]} extension point"
            values_by_property[implements_point] = [_implements(version, point) for version in plugin_by_minor.values()]
        values_by_property["arguments"] = [
            _list_argument_names(version, minor) for minor, version in plugin_by_minor.items()
        ]
        for name, values in values_by_property.items():
            yield VersionedAspect("plugin", plugin.name, ByVersion(name, _build_value_changes(values)))
    for gate in GATE_STAGES:
        stages = (_describe_gate_stage(gate, minor) for minor in MINORS)
        yield VersionedAspect("gate", gate, ByVersion("stage", _build_value_changes(stages)))


def _describe_bools(rule: ByVersion[object]) -> ByVersion[object]:
    """Return the rule with boolean values replaced by their descriptions."""
    steps = [(since, rule.bool_texts[value] if isinstance(value, bool) else value) for since, value in rule.steps]
    return replace(rule, steps=tuple(steps))


def describe_values(before: object, after: object) -> tuple[str, str]:
    """Describe the values before and after a change.

    If one is a collection of more than MAX_LISTED elements and both have elements in common, only the differing
    elements are named.

    >>> describe_values(("a", "b", "c"), ("a", "b", "c", "d"))
    ('excludes d', 'includes d')
    >>> describe_values(("a",), ("a", "b")), describe_values(False, True)
    (('a', 'a, b'), ('no', 'yes'))
    """
    if isinstance(before, tuple | frozenset) and isinstance(after, tuple | frozenset):
        removed = [element for element in before if element not in after]
        added = [element for element in after if element not in before]
        is_long = max(len(before), len(after)) > MAX_LISTED
        if is_long and (removed or added) and len(removed) < len(before):
            return _name_distinct_elements(removed, added), _name_distinct_elements(added, removed)
    return describe_rule_value(before), describe_rule_value(after)


def _name_distinct_elements(present: Sequence[object], absent: Sequence[object]) -> str:
    """Name the elements that a collection has and another one lacks, and those that only the other one has."""
    parts = {"includes": present, "excludes": absent}
    return ", ".join(f"{word} {describe_rule_value(tuple(elements))}" for word, elements in parts.items() if elements)


def describe_rule_value(value: object) -> str:
    """Describe the value that a rule has in a version. Unnamed placeholders of message templates become ellipses.

    >>> describe_rule_value("taint {{{key}: {value}}} of {}"), describe_rule_value(False), describe_rule_value(())
    ('taint {key: value} of …', 'no', 'none')
    """
    match value:
        case bool():
            return "yes" if value else "no"
        case Code():
            return value.value
        case frozenset():
            return describe_rule_value(tuple(sorted(value)))
        case tuple():
            return ", ".join(map(describe_rule_value, value)) or "none"
        case str():
            return _describe_message_template(value)
    return str(value)


def _describe_message_template(template: str) -> str:
    """Replace the named placeholders of a message template by their names, and the unnamed ones by ellipses."""
    text = ""
    for literal, field_name, *_ in Formatter().parse(template):
        text += literal
        if field_name is not None:  # None follows the last field
            text += field_name or "…"
    return text


def _build_value_changes(values: Iterable[object]) -> tuple[tuple[str, object], ...]:
    """Collapse the values of all minor versions into pairs of a version and its value, one for each change.

    The version of the first pair is "". The value None means that the aspect does not exist in a version, and does not
    count as a change.
    """
    first_value, *later_values = values
    steps = [("", first_value)]
    current = first_value
    for minor, value in zip(MINORS[1:], later_values, strict=True):
        if value is not None and value != current:
            steps.append((f"1.{minor}", value))
            current = value
    return tuple(steps)


def _describe_default(plugin: Declaration, minor: int) -> str:
    """Describe whether the plugin exists in a minor version and is enabled by default."""
    if plugin.restrict_to_minor(minor) is None:
        exists_later = any(plugin.restrict_to_minor(later) for later in MINORS if later > minor)
        return NOT_YET if exists_later else NO_LONGER
    return "enabled by default" if plugin.is_default(FeatureGates(f"1.{minor}")) else "disabled by default"


def _implements(plugin: Declaration | None, point: str) -> bool | None:
    """Return whether the plugin implements the extension point. Return None if there is no plugin."""
    return None if plugin is None else point in plugin.points


def _list_argument_names(plugin: Declaration | None, minor: int) -> tuple[str, ...] | None:
    """List the names of the plugin's arguments. Return None if there is no plugin."""
    if plugin is None:
        return None
    return () if plugin.args_type is None else tuple(list_fields(plugin.args_type, minor))


def _describe_gate_stage(gate: str, minor: int) -> str:
    """Describe a feature gate in a minor version: its maturity and default, or that it does not exist.

    >>> _describe_gate_stage("DRAConsumableCapacity", 36), _describe_gate_stage("GangScheduling", 34)
    ('beta, on by default', 'absent')
    >>> _describe_gate_stage("GangScheduling", 37)
    'removed in 1.37, merged into GenericWorkload'
    """
    stage = get_stage(gate, minor)
    if stage.maturity == "pre-alpha":
        return NOT_YET
    if stage.maturity == "removed":
        return _describe_removal(gate)
    state = "on" if stage.on else "off"
    return f"{stage.maturity}, {f'locked {state}' if stage.locked else f'{state} by default'}"


def _describe_removal(gate: str) -> str:
    """Describe in which version a feature gate was removed, and why.

    The reason is that it was merged into another gate, or that its feature is now always on or always off.
    """
    last_minor = max(minor for minor in MINORS if get_stage(gate, minor).known)
    if gate in MERGED_GATES:
        reason = f"merged into {MERGED_GATES[gate]}"
    else:
        reason = f"feature always {'on' if get_stage(gate, last_minor).on else 'off'}"
    return f"{NO_LONGER} in 1.{last_minor + 1}, {reason}"
