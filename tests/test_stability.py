"""Check `kschedctl help stability` against the program: versions, exit codes, and what the library exports."""

from __future__ import annotations

import re

from documents import TOPICS

import kschedctl
from kschedctl.api.kube_version import KUBE_VERSION, NEWEST_MINOR, OLDEST_MINOR, VERIFIED_MINOR
from kschedctl.sources.archive_file import FORMAT

TEXT = TOPICS["stability"].read_text()
ROWS = re.findall(r"^\| (1\.\d\d.*?) \| (.+?) \| (.+?) \|$", TEXT, re.MULTILINE)


def test_every_replayed_version_has_a_row() -> None:
    versions = [version for cell, _, _ in ROWS for version in cell.split(", ")]
    assert versions == [f"1.{minor}" for minor in range(NEWEST_MINOR, OLDEST_MINOR - 1, -1)]


def test_default_and_unconfirmed_versions_are_marked() -> None:
    states = {version: state for version, _, state in ROWS}
    assert [version for version, state in states.items() if "default" in state] == [KUBE_VERSION]
    unconfirmed = [version for version, state in states.items() if "not yet compared" in state]
    assert unconfirmed == [f"1.{minor}" for minor in range(NEWEST_MINOR, VERIFIED_MINOR, -1)]


def test_references_of_the_page_exist() -> None:
    for topic in re.findall(r"kschedctl help ([a-z-]+)", TEXT):
        assert topic in TOPICS
    assert all(hasattr(kschedctl, name) for name in kschedctl.__all__)
    codes = [int(code) for code in re.findall(r"^\| (\d) \|", TOPICS["exit-codes"].read_text(), re.MULTILINE)]
    assert codes == list(range(6))
    assert "0 to 5, as" in TEXT


def test_snapshot_format_is_that_of_1_0() -> None:
    """Changing this number breaks a promise of the page, so read the older format as well, or wait for 2.0."""
    assert FORMAT == 2
    assert "is read by every later 1.x release" in TEXT
