"""Compare rounds with the real Karpenter 1.14, random choices included: see golden/README.md."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from golden_cases import Json, iter_family_lines
from karpenter_cases import build_objects
from scaling_answers import drop_empty_parts, is_same

import kschedctl
from kschedctl.commands.provision import disrupt

ORDERED = frozenset(("templates", "newNodeClaims", "existingNodes", "pods", "relaxations", "instanceTypes"))
"""Lists whose order is part of the answer."""
SHARES = 3


@pytest.mark.parametrize("share", range(SHARES))
@pytest.mark.parametrize("family", ["provisioning", "disruption"])
def test_round_equals_that_of_the_real_karpenter(family: str, share: int) -> None:
    cases = [json.loads(line) for line in iter_family_lines(f"autoscaling/{family}")[share::SHARES]]
    assert len(cases) >= 25
    for case in cases:
        assert not find_differing_parts(family, case), case["id"]


def find_differing_parts(family: str, case: Json) -> Json:
    """Return our value and Karpenter's of each part of the answer in which they differ."""
    ask = kschedctl.provision if family == "provisioning" else kschedctl.disrupt
    given, wanted = case["input"], case["answer"]
    cluster = kschedctl.Cluster.from_objects(build_objects(given))
    got = ask(cluster, given["instanceTypes"], given.get("options"), now=given["now"]).to_dict()
    parts = {
        key: (drop_empty_parts(got.get(key), ORDERED, key), drop_empty_parts(wanted[key], ORDERED, key))
        for key in wanted
    }
    return {key: pair for key, pair in parts.items() if not is_same(*pair)}


def test_progress_counts_nodes_tried_alone() -> None:
    class Seen:
        def __init__(self) -> None:
            self.begun: list[tuple[str, int]] = []
            self.finished = 0

        def begin(self, what: str, total: int) -> Callable[[int], None]:
            self.begun.append((what, total))
            return self.done

        def done(self, number: int) -> None:
            self.finished += number

    given = json.loads(next(line for line in iter_family_lines("autoscaling/disruption") if '"perNode":{"' in line))[
        "input"
    ]
    cluster, seen = kschedctl.Cluster.from_objects(build_objects(given)), Seen()
    report = disrupt(cluster, given["instanceTypes"], given.get("options"), now=given["now"], progress=seen)
    assert seen.begun == [("Taking nodes away", len(report.per_node))]
    assert seen.finished == len(report.per_node) > 0
