"""Compare the search with brute force, and nodes searched together with each node alone."""

from __future__ import annotations

import sys
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import build_snapshot

from kschedctl.api.objects import ResourceClaim
from kschedctl.cluster import convert_document
from kschedctl.scheduler.framework import Code
from kschedctl.scheduler.plugins.dynamic_resources.allocator import MAX_RESULTS, Search
from kschedctl.scheduler.plugins.dynamic_resources.claims import PodClaims
from kschedctl.scheduler.plugins.dynamic_resources.evaluation import Evaluation
from kschedctl.scheduler.plugins.dynamic_resources.inventory import Inventory
from kschedctl.scheduler.plugins.dynamic_resources.requests import read_claim
from kschedctl.scheduler.plugins.helper.device_features import Features

DRIVER = "dra.example.com"
ATTRIBUTE = f"{DRIVER}/numa"
devices = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2), st.booleans()), max_size=5)
"""Model, NUMA node and whether it is allocated, of each device of a node."""
requests = st.lists(st.tuples(st.integers(1, 3), st.sampled_from([None, 0, 1])), min_size=1, max_size=3)
"""How many devices, and of which model, each request wants."""
constraints = st.sampled_from([None, "matchAttribute"])


@given(st.lists(devices, min_size=1, max_size=3), requests, constraints)
def test_brute_force(nodes, wanted, constraint):
    view, claim = build_snapshot(build_cluster(nodes)), convert_document(build_claim(wanted, constraint))
    inventory = Inventory(view, Features())
    evaluation = Evaluation(inventory, None, PodClaims((claim,)), {})
    for row, name in enumerate(view.nodes.names):
        want = find_first_fit(nodes[int(name)], wanted, constraint)
        alone = Search(inventory, row, [read_claim(claim, inventory.classes, Features())]).run()
        found = None if alone is None else [int(result.device.device.name) for result in alone[0]]
        assert found == want
        assert (evaluation.outcomes[row].code is Code.SUCCESS) == (want is not None)
        if want is not None:
            allocated = evaluation.build_allocations(row)[0].devices.results
            assert [int(result.device) for result in allocated] == want


def test_recursion_limit_is_restored_after_a_search() -> None:
    before = sys.getrecursionlimit()
    view, claim = build_snapshot(build_cluster([[(0, 0, False)]])), convert_document(build_claim([(1, None)], None))
    inventory = Inventory(view, Features())
    claims = [read_claim(claim, inventory.classes, Features())] * (before // MAX_RESULTS + 1)
    assert Search(inventory, 0, claims).run() is None
    assert sys.getrecursionlimit() == before


def find_first_fit(found, wanted, constraint, taken=()):
    """Return the first choice of devices, in order, that satisfies each request."""
    if not wanted:
        return list(taken)
    (count, model), *later = wanted
    free = [
        i for i, (kind, _, used) in enumerate(found) if not used and i not in taken and (model is None or kind == model)
    ]
    for choice in combinations(free, count):
        together = (*taken, *choice)
        if constraint is None or len({found[i][1] for i in together}) == 1:
            rest = find_first_fit(found, later, constraint, together)
            if rest is not None:
                return rest
    return None


def build_cluster(nodes):
    objects = [{"kind": "DeviceClass", "metadata": {"name": "class"}}]
    for n, found in enumerate(nodes):
        pool = {"name": f"pool-{n}", "generation": 1, "resourceSliceCount": 1}
        devices = [
            {"name": str(i), "attributes": {"model": {"int": model}, "numa": {"int": numa}}}
            for i, (model, numa, _) in enumerate(found)
        ]
        spec = {"driver": DRIVER, "nodeName": str(n), "pool": pool, "devices": devices}
        objects.append({"kind": "ResourceSlice", "metadata": {"name": f"slice-{n}"}, "spec": spec})
        results = [
            {"driver": DRIVER, "pool": f"pool-{n}", "device": str(i)} for i, (*_, used) in enumerate(found) if used
        ]
        status = {"allocation": {"devices": {"results": results}}}
        objects.append({"kind": "ResourceClaim", "metadata": {"name": f"used-{n}"}, "spec": {}, "status": status})
    return {"nodes": [{"kind": "Node", "metadata": {"name": str(n)}} for n in range(len(nodes))], "objects": objects}


def build_claim(wanted, constraint):
    found = [
        {"name": f"r{i}", "exactly": {"deviceClassName": "class", "count": count, "selectors": build_selectors(model)}}
        for i, (count, model) in enumerate(wanted)
    ]
    devices = {"requests": found, "constraints": [{constraint: ATTRIBUTE}] if constraint else []}
    return {"kind": "ResourceClaim", "metadata": {"name": "claim"}, "spec": {"devices": devices}}


def build_selectors(model):
    return [] if model is None else [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == {model}'}}]


def test_drawn_claims_are_decoded_as_claims():
    assert isinstance(convert_document(build_claim([(1, None)], None)), ResourceClaim)


def test_identical_devices_are_not_tried_one_by_one():
    """Ten requests for one device each cannot be met by nine identical devices. The search detects this at once."""
    view = build_snapshot(build_cluster([[(0, 0, False)] * 9]))
    inventory = Inventory(view, Features())
    search = Search(
        inventory, 0, [read_claim(convert_document(build_claim([(1, 0)] * 10, None)), inventory.classes, Features())]
    )
    assert search.run() is None
    assert search.limit.tried < 100
