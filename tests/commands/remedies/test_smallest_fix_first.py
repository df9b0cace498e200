"""Check that `remedies`, which searches sets of any size, has the same first fix as `explain`."""

from __future__ import annotations

from small import HOSTNAME, build_node, build_pod, build_replica

from kschedctl import Cluster, explain, remedies


def test_single_change_comes_before_two_cheaper_changes() -> None:
    """The cache runs in namespace shop on a full node.

    Selecting that namespace helps only if a pod also moves off the node.
    """
    term = {"labelSelector": {"matchLabels": {"app": "cache"}}, "topologyKey": HOSTNAME}
    near = build_pod(
        "near", cpu="2", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    )
    cache = build_pod("cache", "n1", cpu="2")
    cache["metadata"] |= {"namespace": "shop", "labels": {"app": "cache"}}
    cluster = Cluster.from_objects([build_node("n1"), build_node("n2"), cache, build_replica("r1", "n1"), near])
    found = remedies(cluster, "d/near").remedies
    assert found[0].kinds == explain(cluster, "d/near", remedies=True).remedies[0].kinds
    assert found[0].kinds == ("SoftenPodAffinity",)
    assert any(set(fix.kinds) == {"MovePod", "OtherNamespace"} for fix in found)
