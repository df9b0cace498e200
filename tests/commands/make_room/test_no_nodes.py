"""Check that fixes for a pod in a cluster without nodes are searched without an exception."""

from __future__ import annotations

from kschedctl import Cluster, remedies


def test_cluster_without_nodes() -> None:
    spec = {"containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "d", "uid": "web"}, "spec": spec}
    report = remedies(Cluster.from_objects([pod]), "d/web")
    assert report.make_room is None
