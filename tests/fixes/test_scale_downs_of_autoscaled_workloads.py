"""Check that fixes which scale a workload down respect its HorizontalPodAutoscaler."""

from __future__ import annotations

import pytest
from small import Json, build_node, build_pod, build_replica

from kschedctl import Cluster
from kschedctl.commands.remedies import remedies

HPA: Json = {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler"}


def find_scale_downs(autoscalers: list[Json]) -> list[str]:
    """Return what the scale-downs of Deployment d/web give up, which make room for pod d/big."""
    web = [build_replica(f"web-5f-{i}", f"n{i}", cpu="2") for i in range(2)]
    big = build_pod("big", cpu="4")
    objects = [build_node("n0"), build_node("n1"), *web, big, *autoscalers]
    document = remedies(Cluster.from_objects(objects), "d/big")
    return [remedy.weakens for remedy in document.remedies if [str(kind) for kind in remedy.kinds] == ["ScaleDown"]]


def build_autoscaler(target: str, least: int) -> Json:
    """Build a HorizontalPodAutoscaler of a Deployment with minReplicas."""
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": target}, "minReplicas": least, "maxReplicas": 9}
    return {**HPA, "metadata": {"name": "scaler", "namespace": "d"}, "spec": spec}


@pytest.mark.parametrize(
    ("autoscalers", "expected"),
    [
        ([], ["Deployment d/web loses one replica"]),
        ([build_autoscaler("other", 2)], ["Deployment d/web loses one replica"]),
        (
            [build_autoscaler("web", 1)],
            ["Deployment d/web loses one replica; HorizontalPodAutoscaler scaler may scale it up again"],
        ),
        ([build_autoscaler("web", 2)], []),  # with fewer replicas than minReplicas, it is scaled up at once
    ],
)
def test_scale_down_is_not_proposed_if_an_autoscaler_undoes_it(autoscalers: list[Json], expected: list[str]) -> None:
    assert find_scale_downs(autoscalers) == expected
