"""Check that no rule reports sound manifests, with a roomy cluster and without one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kschedctl.api.node_selector import compile_required_node_affinity
from kschedctl.api.objects import PodSpec, Toleration
from kschedctl.api.tolerations import HARD_EFFECTS, UNSCHEDULABLE_TAINT, find_untolerated_taint
from kschedctl.cluster import Cluster
from kschedctl.lint.analysis.facts import ClusterFacts
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import lint
from kschedctl.lint.objects.subject import Subject
from kschedctl.lint.objects.workload import Workload
from kschedctl.sources.documents.positions import load_objects

SOUND = """\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: standard}
value: 1000
globalDefault: true
description: For all that says nothing else
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: shop}
value: 2000
description: For what customers see
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      priorityClassName: shop
      topologySpreadConstraints:
      - maxSkew: 1
        topologyKey: topology.kubernetes.io/zone
        whenUnsatisfiable: DoNotSchedule
        nodeTaintsPolicy: Honor
        labelSelector: {matchLabels: {app: web}}
        matchLabelKeys: [pod-template-hash]
      - maxSkew: 1
        topologyKey: kubernetes.io/hostname
        whenUnsatisfiable: ScheduleAnyway
        labelSelector: {matchLabels: {app: web}}
      containers: [{name: web, image: web, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: shop}
spec:
  maxUnavailable: 1
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector: {matchLabels: {app: web}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      priorityClassName: shop
      affinity:
        podAntiAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
          - topologyKey: kubernetes.io/hostname
            labelSelector: {matchLabels: {app: db}}
      containers: [{name: db, image: db, resources: {requests: {cpu: 100m, memory: 64Mi}}}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: db, namespace: shop}
spec:
  minAvailable: 2
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector: {matchLabels: {app: db}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: shop}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec:
      priorityClassName: shop
      tolerations: [{operator: Exists}]
      containers:
      - name: agent
        image: agent
        ports: [{containerPort: 80, hostPort: 80}]
        resources: {requests: {cpu: 10m, memory: 8Mi}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: one, namespace: shop}
spec:
  replicas: 1
  selector: {matchLabels: {app: one}}
  template:
    metadata: {labels: {app: one}}
    spec: {containers: [{name: one, image: one, resources: {requests: {cpu: 10m, memory: 8Mi}}}]}
---
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly, namespace: shop}
spec:
  schedule: "0 3 * * *"
  jobTemplate:
    spec:
      parallelism: 3
      template:
        metadata: {labels: {app: nightly}}
        spec:
          restartPolicy: OnFailure
          containers: [{name: nightly, image: nightly, resources: {requests: {cpu: 10m, memory: 8Mi}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
data: {a: b}
"""

CLUSTER = [
    {
        "kind": "Node",
        "metadata": {
            "name": f"{zone}{i}",
            "labels": {"kubernetes.io/hostname": f"{zone}{i}", "topology.kubernetes.io/zone": zone},
        },
        "spec": {"taints": [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}]}
        if i == 3
        else {},
        "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
    }
    for zone in "ab"
    for i in range(4)
]
CLUSTER.append(
    {
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
)
CLUSTER.append({"kind": "Pod", "metadata": {"name": "x"}, "spec": {"nodeName": "a0", "priorityClassName": "standard"}})


@pytest.mark.parametrize("cluster", [None, Cluster.from_objects(CLUSTER)], ids=["alone", "in a cluster"])
@pytest.mark.parametrize("as_list", [False, True], ids=["documents", "list"])
def test_sound_manifests_have_no_findings(tmp_path: Path, cluster: Cluster | None, as_list: bool) -> None:
    text = SOUND
    if as_list:
        text = yaml.safe_dump({"kind": "List", "items": list(yaml.safe_load_all(SOUND))})
    (tmp_path / "m.yaml").write_text(text)
    manifests = list(load_objects(str(tmp_path / "m.yaml")))
    report = lint(LintContext.from_manifests(((m.value, m) for m in manifests), cluster))
    assert [(f.rule, f.object, f.message) for f in report.findings] == []


keys, values = st.sampled_from(["a", "b"]), st.sampled_from(["1", "2"])
taints = st.builds(
    lambda key, value, effect: {"key": key, "value": value, "effect": effect},
    keys,
    values,
    st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"]),
)
nodes = st.lists(
    st.tuples(st.dictionaries(keys, values), st.lists(taints, max_size=2), st.booleans()), min_size=1, max_size=8
)
tolerations = st.lists(
    st.builds(Toleration, keys | st.just(""), st.sampled_from(["Exists", "Equal", ""]), values | st.just("")),
    max_size=2,
)


@given(nodes, st.dictionaries(keys, values, max_size=2), tolerations)
def test_eligible_nodes_equal_a_naive_loop(
    found: list[tuple[dict[str, str], list[dict[str, str]], bool]],
    selector: dict[str, str],
    tolerated: list[Toleration],
) -> None:
    documents = [
        {
            "kind": "Node",
            "metadata": {"name": f"n{i}", "labels": labels},
            "spec": {"taints": t, "unschedulable": cordoned},
        }
        for i, (labels, t, cordoned) in enumerate(found)
    ]
    facts = ClusterFacts(Cluster.from_objects(documents))
    spec = PodSpec(node_selector=selector, tolerations=tuple(tolerated))
    workload = Workload(Subject("Deployment", "web"), {}, spec, 1)
    wanted = compile_required_node_affinity(spec)
    expected = [
        wanted.match(node.metadata.labels, node.metadata.name)
        and find_untolerated_taint(node.spec.taints, tolerated, HARD_EFFECTS) is None
        and (not node.spec.unschedulable or find_untolerated_taint((UNSCHEDULABLE_TAINT,), tolerated) is None)
        for node in facts.view.nodes.objects
    ]
    assert facts.get_eligible_nodes(workload).tolist() == expected
    labels = [
        node.metadata.labels.get("a") for node, usable in zip(facts.view.nodes.objects, expected, strict=True) if usable
    ]
    assert facts.count_domains("a", np.array(expected, np.bool_)) == len(
        {label for label in labels if label is not None}
    )
