"""Check that the table of `versions` is complete, and a few rows against upstream's change log."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise

import pytest

import kschedctl
from kschedctl.api.kube_version import ByVersion
from kschedctl.commands.versions import compare_versions, group_rules_by_plugin, list_all_changes
from kschedctl.commands.versions.report import VersionChange
from kschedctl.errors import ConfigurationError
from kschedctl.scheduler.framework.feature_gates import GATE_STAGES, get_stage


def iter_versioned_rules() -> Iterator[tuple[str, ByVersion[object]]]:
    for module in pkgutil.walk_packages(kschedctl.__path__, "kschedctl."):
        if not module.name.endswith("__main__"):
            for name, value in vars(import_module(module.name)).items():
                if isinstance(value, ByVersion):
                    yield f"{module.name}.{name}", value


def test_table_has_every_changed_rule() -> None:
    listed = {id(rule) for changed in group_rules_by_plugin().values() for rule in changed}
    found = dict(iter_versioned_rules())
    assert "kschedctl.scheduler.plugins.taint_toleration.REASON" in found
    assert [name for name, rule in found.items() if id(rule) not in listed] == []


def filter_changes(where: str, first: str, second: str, sort: str = "rule") -> list[VersionChange]:
    """Return the changes of a sort at a place between two versions."""
    return [
        change for change in compare_versions(first, second).changes if (change.sort, change.where) == (sort, where)
    ]


def test_text_changed_by_a_patch_release() -> None:
    (change,) = filter_changes("TaintToleration", "1.34.1", "v1.34.2-eks-3abc0de")
    assert change.before == "node(s) had untolerated taint {key: value}"
    assert (change.after, change.since) == ("node(s) had untolerated taint(s)", ("1.34.2",))
    assert compare_versions("1.34.2", "1.34").changes == ()
    assert filter_changes("TaintToleration", "1.34", "1.36") == []


def test_change_backported_to_an_older_minor() -> None:
    (change,) = filter_changes("NodePorts", "1.32", "1.33")
    assert (change.before, change.after, change.since) == ("no", "yes", ("1.33.6", "1.34"))
    assert filter_changes("NodePorts", "1.33.5", "1.33.6") == [change]
    assert filter_changes("NodePorts", "1.33.6", "1.36") == []


def test_downgrade() -> None:
    (there,), (back,) = (
        filter_changes("NodeResourcesFit", "1.33", "1.34"),
        filter_changes("NodeResourcesFit", "1.34", "1.33"),
    )
    assert (there.before, there.after) == ("Unschedulable", "UnschedulableAndUnresolvable")
    assert (back.before, back.after, back.since) == (there.after, there.before, there.since)


def test_new_plugins_and_their_extension_points() -> None:
    became_default, args = filter_changes("DynamicResources", "1.33", "1.34", "plugin")
    assert (became_default.before, became_default.after) == ("disabled by default", "enabled by default")
    assert (args.before, args.after) == ("none", "filterTimeout")
    scores, args = filter_changes("DynamicResources", "1.34", "1.35", "plugin")
    assert (args.what, args.after) == ("arguments", "filterTimeout, bindingTimeout")
    assert (scores.what, scores.before, scores.after) == ("implements the Score extension point", "no", "yes")
    (came,) = filter_changes("GangScheduling", "1.34", "1.35", "plugin")
    assert (came.before, came.after) == ("absent", "disabled by default")


def test_feature_gates() -> None:
    (change,) = filter_changes("DynamicResourceAllocation", "1.31", "1.35", "gate")
    assert (change.before, change.after, change.since) == ("alpha, off by default", "GA, locked on", ("1.35",))
    gates = {change.where for change in compare_versions("1.35", "1.36").changes if change.sort == "gate"}
    assert gates == {gate for gate in GATE_STAGES if get_stage(gate, 35) != get_stage(gate, 36)}


def test_all_changes_equal_those_between_successive_versions() -> None:
    everything = list_all_changes()
    minors = everything.versions
    assert (minors[0], minors[-1], everything.compared) == ("1.30", "1.37", False)
    gates = [change for change in everything.changes if change.sort == "gate"]
    one_by_one = [c for a, b in pairwise(minors) for c in compare_versions(a, b).changes if c.sort == "gate"]
    assert sorted(gates, key=str) == sorted(one_by_one, key=str)


@pytest.mark.parametrize("version", ["1.29", "1.38", "new"])
def test_unknown_versions_are_errors(version: str) -> None:
    with pytest.raises(ConfigurationError, match="is not supported"):
        compare_versions("1.33", version)
