"""Check that a NodeResourceTopologyMatch cache causes exit code 5 only if its contents decide the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import Run, Write, build_node, build_pod

from kschedctl.scheduler.scheduler_plugins.numa_cache import compute_fingerprint

Json = dict[str, Any]
CONFIGURATION = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: NodeResourceTopologyMatch}]}
  pluginConfig: [{name: NodeResourceTopologyMatch, args: {cacheResyncPeriodSeconds: 5, cache: null}}]
"""


def build_published_topology(about: str) -> Json:
    """Build the published topology of node w1 with this pod."""
    attributes = {
        "topologyManagerPolicy": "single-numa-node",
        "nodeTopologyPodsFingerprint": compute_fingerprint([("default", about)]),
    }
    resources = [{"name": "cpu", "available": "4"}, {"name": "memory", "available": "8Gi"}]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "w1"},
        "zones": [{"name": "node-0", "type": "Node", "resources": resources}],
        "attributes": [{"name": name, "value": value} for name, value in attributes.items()],
    }


GUARANTEED = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
WEB = build_pod("web", containers=[{"name": "c", "image": "i", "resources": GUARANTEED}])
"""All others share the NUMA nodes' cpu, and nothing of the cache matters for them."""


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ("old", (0, "NodeResourceTopologies may be older in the scheduler's cache, so the scores could differ")),
        ("gone", (5, "NodeResourceTopologies of a node do not match the pods that are there")),
    ],
)
def test_explain(run: Run, write: Write, tmp_path: Path, about: str, expected: tuple[int, str]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIGURATION)
    old = {**build_pod("old", nodeName="w1"), "status": {"phase": "Running"}}
    cluster = write(build_node("w1"), build_published_topology(about), old, WEB)
    found = run("explain", "web", "-f", cluster, "--config", str(config))
    code, told = expected
    assert found.code == code
    assert told in " ".join(found.out.split())
