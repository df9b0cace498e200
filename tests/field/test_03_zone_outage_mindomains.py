"""A zone outage that leaves fewer zones than minDomains (kubernetes/enhancements#6211).

Zone c is unreachable, and nodeTaintsPolicy: Honor leaves it out. Zones a and b have a pod each, so one more pod would
be no skew of 2 by itself. But 2 domains are fewer than minDomains 3, so the minimum counts as 0, and the skew is 2. The
pod waits for zone c, or for minDomains 2.
"""

from __future__ import annotations

from pathlib import Path

import kschedctl

SITUATION = Path(__file__).parent / "03-zone-outage-mindomains" / "in.yaml"
WHY = "the minimum counts as 0 because there are 2 domains, fewer than minDomains 3"


def test_cause_names_fewer_domains_than_min_domains() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), "default/front-7-d")
    assert WHY in report.headline
    assert "emptiest domain" not in report.headline
    fact = report.to_dict()["causes"][0]["factData"]
    assert (fact["domains"], fact["minDomains"], fact["fewest"]) == (2, 3, 0)
    assert [advice.kind for advice in report.advice] == ["AddDomains"]


def test_fixes_wait_for_the_zone_or_lower_min_domains() -> None:
    report = kschedctl.remedies(kschedctl.Cluster.from_paths([SITUATION]), "default/front-7-d")
    assert report.remedies[0].kinds == ("RepairNode",)
    assert any("minDomains from 3 to 2" in remedy.summary for remedy in report.remedies)
