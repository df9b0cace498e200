"""Check how a Cluster is made, its errors, and its methods."""

from __future__ import annotations

from typing import Any

import pytest
from command_line import build_node, build_pod

from kschedctl import Cluster
from kschedctl.errors import InputError, KschedctlError

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}}


@pytest.mark.parametrize("item", [None, 1, "text", [POD]])
def test_item_that_is_not_an_object_is_named_by_its_number(item: Any) -> None:
    with pytest.raises(InputError, match=r"items\[1\]: expected an object, got "):
        Cluster.from_objects([POD, item])
    with pytest.raises(InputError, match=r"items\[1\]: expected an object, got "):
        Cluster.from_objects([{"apiVersion": "v1", "kind": "List", "items": [POD, item]}])


@pytest.mark.parametrize("documents", [None, 5])
def test_value_that_is_not_a_list_is_rejected(documents: Any) -> None:
    with pytest.raises(InputError, match="expected a list of objects, got "):
        Cluster.from_objects(documents)


@pytest.mark.parametrize("version", ["1.29", "1.38.0", "newest", ""])
def test_unsupported_version_is_rejected_before_reading(version: str) -> None:
    words = rf"Kubernetes version '{version}' is not supported \(supported: 1.30 to 1.37\)"
    made = (
        lambda: Cluster.from_objects([], kube_version=version),
        lambda: Cluster.from_paths(["none"], kube_version=version),
        lambda: Cluster.from_snapshot("none", kube_version=version),
        lambda: Cluster.from_live(kubeconfig="none", kube_version=version),
    )
    for make in made:
        with pytest.raises(KschedctlError, match=words):
            make()


def test_repr_of_a_cluster_counts_its_objects() -> None:
    cluster = Cluster.from_objects([build_node("n1"), POD, build_pod("other")])
    assert repr(cluster) == "<kschedctl.Cluster: 2 Pod, 1 Node; kube-scheduler 1.36>"
    assert repr(Cluster.from_objects([])) == "<kschedctl.Cluster: nothing; kube-scheduler 1.36>"


def test_old_names_of_methods_warn_and_work() -> None:
    cluster = Cluster.from_objects([{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}}])
    with pytest.deprecated_call(match="call find_gap"):
        assert cluster.gap("Pod") == cluster.find_gap("Pod")
    with pytest.deprecated_call(match="call list_in_namespace"):
        assert cluster.in_namespace("pods", "shop") == cluster.list_in_namespace("pods", "shop")
