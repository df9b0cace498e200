"""Check on which kinds the answers about a pod's devices depend."""

from __future__ import annotations

import pytest

from kschedctl.cluster import Cluster
from kschedctl.scheduler.plugins.dynamic_resources.claim_dependencies import iter_device_dependencies
from kschedctl.scheduler.plugins.helper.device_features import Features
from kschedctl.snapshot.fork import Fork


@pytest.mark.parametrize(
    ("metadata", "kinds"),
    [({}, ["ResourceClaimTemplate"]), ({"creationTimestamp": "2026-01-01T00:00:00Z"}, [])],
    ids=["of a manifest", "of a cluster"],
)
def test_ungenerated_claim_depends_on_its_template(metadata: dict[str, str], kinds: list[str]) -> None:
    """For a pod in the cluster, the status says which claims were generated, whatever templates exist."""
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    pod = {"kind": "Pod", "metadata": {"name": "p", "namespace": "d", **metadata}, "spec": spec}
    view = Fork.from_cluster(Cluster.from_objects([pod]))
    assert [dependency.kind for dependency in iter_device_dependencies(view.pods.infos[0], view, Features())] == kinds
