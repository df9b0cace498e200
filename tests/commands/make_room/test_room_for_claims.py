"""Check that devices scattered over nodes are named and gathered by moves; expected values by hand."""

from __future__ import annotations

import pytest
from claimed_devices import CLASS, build_claiming_pod, build_device_slice, build_shared_claim, build_template
from control_plane import kubectl
from control_plane.running import run
from control_plane.world import build_store
from small import HOSTNAME, Json, build_node

from kschedctl.cluster import Cluster
from kschedctl.commands.make_room import find_room, search
from kschedctl.commands.make_room.report import FragmentedResource, MakeRoom
from kschedctl.commands.make_room.room import RoomCriteria
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS


def search_room(*objects: Json, **criteria: int) -> MakeRoom:
    return find_room(Cluster.from_objects([*objects, CLASS]), ["d/new"], RoomCriteria(**criteria))


def list_moves(report: MakeRoom) -> list[tuple[str, str, str]]:
    return [(move.pod, move.source, move.target) for move in report.moves]


def build_large_nodes(*names: str) -> list[Json]:
    return [build_node(name, cpu="64") for name in names]


def build_two_device_nodes() -> list[Json]:
    """Build two nodes with four devices each, of which two are taken."""
    held = (
        build_claiming_pod("a", 2, ["n1-0", "n1-1"], "n1", priority=5),
        build_claiming_pod("b", 2, ["n2-0", "n2-1"], "n2"),
    )
    return [
        *build_large_nodes("n1", "n2"),
        build_device_slice("n1", 4),
        build_device_slice("n2", 4),
        *held[0],
        *held[1],
    ]


def test_moving_a_pod_with_two_devices_frees_a_node() -> None:
    report = search_room(*build_two_device_nodes(), *build_claiming_pod("new", 4))
    assert list_moves(report) == [("d/b", "n2", "n1")]
    assert [(placed.pod, placed.node) for placed in report.placed] == [("d/new", "n2")]


def test_fragmented_devices_are_named() -> None:
    """Two devices are free on each node, and four are needed. n3 has none."""
    report = search_room(*build_two_device_nodes(), *build_large_nodes("n3"), *build_claiming_pod("new", 4))
    assert report.fragmented == (
        FragmentedResource("devices for claim d/new-gpu, request r", requested=4, free=4, on_one=2, nodes=2),
    )
    shown = RENDERERS["table"](report, Style())
    assert (
        "Fragmented: the pod needs 4 devices for claim d/new-gpu, request r, and 2 nodes together have 4 free, but at "
        "most 2 on one node" in " ".join(shown.split())
    )


def test_fragmented_devices_are_named_if_no_pod_may_move() -> None:
    objects = build_two_device_nodes()
    for made in objects:
        if made["kind"] == "Pod":
            made["metadata"]["ownerReferences"] = []
    report = search_room(*objects, *build_claiming_pod("new", 4))
    assert (report.fits, [found.free for found in report.fragmented]) == (False, [4])


def test_enough_devices_on_one_node_are_not_fragmented() -> None:
    """n1 has four free devices but no CPU, which is the obstacle."""
    objects = [
        build_node("n1", cpu="1"),
        *build_large_nodes("n2"),
        build_device_slice("n1", 4),
        build_device_slice("n2", 2),
        *build_claiming_pod("new", 4),
    ]
    objects[-1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert [found.resource for found in search_room(*objects).fragmented] == []


def test_devices_of_a_fabric_count_once() -> None:
    """Three devices are free on a fabric that both nodes reach, fewer than four in all."""
    objects = [*build_large_nodes("n1", "n2"), build_device_slice("fabric", 4, everywhere=True)]
    report = search_room(*objects, *build_claiming_pod("a", 1, ["fabric-0"], "n1"), *build_claiming_pod("new", 4))
    assert (report.fits, report.fragmented) == (False, ())


def test_two_pods_leave_a_node_one_by_one() -> None:
    """n1's pod has three devices, for which no other node has room. n2's pods have one each, for which n1 has one free
    and n3 two."""
    objects = [
        *build_large_nodes("n1", "n2", "n3"),
        build_device_slice("n1", 4),
        build_device_slice("n2", 4),
        build_device_slice("n3", 2),
    ]
    pods = [("a", 3, "n1", ["n1-0", "n1-1", "n1-2"]), ("b", 1, "n2", ["n2-0"]), ("c", 1, "n2", ["n2-3"])]
    for name, count, on, held in pods:
        objects += build_claiming_pod(name, count, held, on)
    report = search_room(*objects, *build_claiming_pod("new", 4))
    assert {move.pod for move in report.moves} == {"d/b", "d/c"}
    assert {move.target for move in report.moves} <= {"n1", "n3"}
    assert [placed.node for placed in report.placed] == ["n2"]
    assert not search_room(*objects, *build_claiming_pod("new", 4), max_moves=1).fits


def test_shared_claim_stays_on_its_node() -> None:
    """a and b share two devices of n1, so a pod that moves finds them only there. c needs its node."""
    users = [build_claiming_pod(name, 2, (), "n1")[1] for name in "ab"]
    pinned = build_claiming_pod("c", 2, ["n2-1", "n2-2"], "n2", nodeSelector={HOSTNAME: "n2"})
    objects = [
        *build_large_nodes("n1", "n2"),
        build_device_slice("n1", 4),
        build_device_slice("n2", 4),
        build_shared_claim(["n1-0", "n1-1"], users),
        *users,
    ]
    report = search_room(*objects, *pinned, *build_claiming_pod("new", 4))
    assert (report.fits, report.moves) == (False, ())
    assert report.build_headline_parts()[0] == "No room can be made:"


@pytest.mark.parametrize("most_sequences", [1_000, 0])
def test_devices_of_a_fabric_are_held_elsewhere(monkeypatch: pytest.MonkeyPatch, most_sequences: int) -> None:
    """n1 reaches the four devices of the fabric, of which a pod on n2 has two.

    That pod gets two of n3's own devices.
    """
    monkeypatch.setattr(search, "MAX_SEQUENCES", most_sequences)
    own = build_device_slice("aside", 2)
    own["spec"]["nodeName"] = "n3"
    objects = [build_node("n1"), *build_large_nodes("n2", "n3"), build_device_slice("fabric", 4, everywhere=True), own]
    objects += build_claiming_pod("a", 2, ["fabric-0", "fabric-1"], "n2")
    report = search_room(*objects, *build_claiming_pod("new", 4, nodeSelector={HOSTNAME: "n1"}))
    assert list_moves(report) == [("d/a", "n2", "n3")]
    objects.remove(own)
    assert not search_room(*objects, *build_claiming_pod("new", 4, nodeSelector={HOSTNAME: "n1"})).fits


def test_destination_may_depend_on_the_order_of_attempts() -> None:
    """a has to leave n1, as new needs its CPU.

    Its two devices belong to the fabric, for which a pod on b2 waits as well. If a is tried first, it gets b2, which is
    emptier, with the devices. Otherwise it gets two devices on b1.
    """
    own = build_device_slice("z-b1", 2)
    own["spec"]["nodeName"] = "b1"
    objects = [
        build_node("n1"),
        build_node("b1", cpu="8"),
        *build_large_nodes("b2"),
        build_device_slice("fabric", 2, everywhere=True),
        own,
    ]
    held = build_claiming_pod("a", 2, ["fabric-0", "fabric-1"], "n1")
    waits = build_claiming_pod("waits", 2, (), "", nodeSelector={HOSTNAME: "b2"})
    new = build_claiming_pod("new", 0, (), "", nodeSelector={HOSTNAME: "n1"})[1]
    del new["spec"]["resourceClaims"]
    new["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    report = search_room(*objects, *held, *waits, new)
    assert list_moves(report) == [("d/a", "n1", "b2")]
    assert report.moves[0].others == ("b1",)
    assert "OR TO" in RENDERERS["table"](report, Style())


def test_commands_on_a_control_plane() -> None:
    objects = [*build_two_device_nodes(), CLASS, build_template(2), build_template(4), *build_claiming_pod("new", 4)]
    report = find_room(Cluster.from_objects(objects), ["d/new"], RoomCriteria())
    store = build_store(objects, "d/new")
    for command in report.commands:
        kubectl.run(store, command)
        run(store)
    where = {made["metadata"]["labels"]["app"]: made["spec"].get("nodeName") for made in store.of_kind("Pod")}
    assert where == {"a": "n1", "b": "n1", "new": "n2"}
    devices = [
        [result["device"] for result in claim["status"]["allocation"]["devices"]["results"]]
        for claim in store.of_kind("ResourceClaim")
        if (claim.get("status") or {}).get("allocation")
    ]
    assert sorted(map(len, devices)) == [2, 2, 4]
    assert len({device for held in devices for device in held}) == 8
