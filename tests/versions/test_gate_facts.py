"""Check the script that adds a version's changes to the tables of gates."""

from __future__ import annotations

from pathlib import Path

import pytest
from gates import add_new_gates, add_stages, changes, parse_stages

SOURCE = """
	NodeDeclaredFeatures: {
		{Version: version.MustParse("1.35"), Default: false, PreRelease: featuregate.Alpha},
		{Version: version.MustParse("1.36"), Default: true, PreRelease: featuregate.Beta},
		{Version: version.MustParse("1.37"), Default: true, LockToDefault: true, PreRelease: featuregate.GA},
	},

	genericfeatures.APIServerIdentity: {
		{Version: version.MustParse("1.26"), Default: true, PreRelease: featuregate.Beta},
	},
"""
"""Stages of gates by version, in the form of upstream's source."""


def test_facts_are_parsed_from_upstreams_source() -> None:
    assert parse_stages(SOURCE, 36) == {"NodeDeclaredFeatures": "beta on", "APIServerIdentity": "beta on"}
    assert parse_stages(SOURCE, 37) == {"NodeDeclaredFeatures": "GA locked", "APIServerIdentity": "beta on"}


def test_facts_are_parsed_from_a_list() -> None:
    assert parse_stages("A beta on # why\n\nB removed\n", 37) == {"A": "beta on", "B": "removed"}


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.glob("gates-*.txt")), ids=lambda path: path.stem)
def test_gate_tables_have_all_facts_of_a_version(path: Path) -> None:
    minor = int(path.stem.rpartition(".")[2])
    assert changes(parse_stages(path.read_text(), minor), minor) == {}


def test_new_facts_are_added_to_the_tables() -> None:
    """The facts are a stage that changed, a new gate, one whose stage is unchanged, and removed gates."""
    facts = {"StorageCapacityScoring": "GA", "MadeUp": "alpha", "VolumeLimitScaling": "beta on", "NeverSeen": "removed"}
    added = changes({**facts, "APIListChunking": "removed"}, 38)
    assert added == {"StorageCapacityScoring": "1.38 GA", "MadeUp": "1.38 alpha"}
    table = 'UNREAD_GATE_STAGES: dict[str, str] = {\n    "A": "1.30 beta",\n    "Z": "1.30 beta",\n}\n'
    assert add_stages(table, {"A": "1.38 GA", "MadeUp": "1.38 alpha"}) == (
        table.replace('"A": "1.30 beta"', '"A": "1.30 beta, 1.38 GA"'),
        {"A"},
    )
    assert add_new_gates(table, {"MadeUp": "1.38 alpha"}) == table.replace(
        '    "Z"', '    "MadeUp": "1.38 alpha",\n    "Z"'
    )
