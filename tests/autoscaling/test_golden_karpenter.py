"""Rounds of the real Karpenter 1.14, answered the same, what chance decides there included: see golden/README.md."""

from __future__ import annotations

import json

import pytest
from golden_cases import family_lines
from karpenter_cases import objects
from scaling_answers import plain, same

import kschedctl

ORDERED = frozenset(("templates", "newNodeClaims", "existingNodes", "pods", "relaxations", "instanceTypes"))
"""Lists whose order is part of the answer."""
SHARES = 3


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", ["provisioning", "disruption"])
def test_a_round_is_answered_as_by_the_real_one(family: str, share: int) -> None:
    ask = kschedctl.provision if family == "provisioning" else kschedctl.disrupt
    cases = [json.loads(line) for line in family_lines(f"autoscaling/{family}")[share::SHARES]]
    assert len(cases) >= 25
    for case in cases:
        given, wanted = case["input"], case["answer"]
        cluster = kschedctl.Cluster.from_objects(objects(given))
        got = ask(cluster, given["instanceTypes"], given.get("options"), now=given["now"]).to_dict()
        parts = {key: (plain(got.get(key), ORDERED, key), plain(wanted[key], ORDERED, key)) for key in wanted}
        different = {key: pair for key, pair in parts.items() if not same(*pair)}
        assert not different, case["id"]
