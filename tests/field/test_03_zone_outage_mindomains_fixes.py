"""A zone is out and minDomains is 3: wait for the zone, or lower minDomains to 2 (kubernetes/enhancements#6211)."""

from __future__ import annotations

import pytest
from first_screens import cut_fixes, read_first_screen

POD, FILE = "default/front-7-d", "03-zone-outage-mindomains/in.yaml"


@pytest.mark.parametrize("command", ["explain", "remedies"])
def test_restoring_the_zone_precedes_lowering_min_domains(capsys: pytest.CaptureFixture[str], command: str) -> None:
    fixes = cut_fixes(read_first_screen(capsys, command, POD, FILE))
    assert fixes.startswith("Make node nc ready again (unreachable)")
    assert "2 Lower minDomains from 3 to 2 for topology.kubernetes.io/zone" in fixes
    assert "Add a node" not in fixes
