"""Check how many replicas fit now, counted by hand, and what must not be claimed."""

from __future__ import annotations

from typing import Any

import pytest

from kschedctl.cluster import Cluster
from kschedctl.lint.context import LintContext
from kschedctl.lint.engine import choose_rules, lint
from kschedctl.sources.documents.documents import Content
from kschedctl.sources.documents.positions import parse_objects

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def make_node(name: str, cpu: int = 4, zone: str = "a", **labels: str) -> Json:
    """Return a node."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone, **labels}},
        "status": {"allocatable": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"}},
    }


def make_pod(
    name: str, where: str, cpu: int, owner: str = "", *, namespace: str = "default", priority: int = 0
) -> Json:
    """Return a running pod."""
    owners = [{"kind": "StatefulSet", "name": owner, "controller": True, "apiVersion": "apps/v1"}] if owner else []
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "ownerReferences": owners, "labels": {"app": owner}},
        "spec": {
            "nodeName": where,
            "priority": priority,
            "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}],
        },
    }


def make_workload(replicas: int, cpu: int = 2, spec: str = "", namespace: str = "default") -> str:
    """Return the manifest of a Deployment."""
    where = f", namespace: {namespace}" if namespace else ""
    return f"""\
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: web{where}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec: {{{spec}containers: [{{name: c, image: c, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
"""


def list_messages(manifests: str, *cluster: Json, rule: str = "rq-no-room-now") -> list[str]:
    """Return the messages about manifests in a cluster."""
    located = ((m.value, m) for m in parse_objects("m.yaml", Content("m.yaml", manifests, is_json=False)))
    lint_context = LintContext.from_manifests(located, Cluster.from_objects(cluster))
    return [finding.message for finding in lint(lint_context, choose_rules([rule], ())).findings]


NODES = (make_node("n1"), make_node("n2"), make_node("n3", zone="b"))


@pytest.mark.parametrize(("replicas", "others", "room"), [(7, 0, 6), (6, 0, None), (6, 1, 5), (4, 3, 3)])
def test_replicas_are_counted_as_they_are_placed(replicas: int, others: int, room: int | None) -> None:
    """Each of three nodes of 4 CPUs takes two pods of 2 CPUs, or one if another pod is there."""
    there = [make_pod(f"other-{i}", f"n{i + 1}", 1) for i in range(others)]
    found = list_messages(make_workload(replicas), *NODES, *there)
    if room is None:
        assert found == []
    else:
        left = replicas - room
        assert found == [
            f"{replicas} replicas, but only {room} fit now: {left} stay{'s' * (left == 1)} Pending "
            "(of 3 usable nodes, 3 lack CPU)"
        ]


def test_running_replicas_have_their_room() -> None:
    """Three nodes have four of them already, and two other pods fill the remaining room."""
    mine = [make_pod(f"web-{i}", f"n{i % 3 + 1}", 2, owner="web") for i in range(4)]
    full = [make_pod("x", "n2", 2), make_pod("y", "n3", 2)]
    assert list_messages(make_workload(4), *NODES, *mine, *full) == []
    (found,) = list_messages(make_workload(5), *NODES, *mine, *full)
    assert found.startswith("5 replicas, but only 4 fit now: 1 stays Pending")


def test_namespace_of_a_manifest_may_be_unknown() -> None:
    """Pods of a workload like this manifest without a namespace run in one namespace, and may be its own."""
    mine = [make_pod(f"web-{i}", f"n{i % 3 + 1}", 2, owner="web", namespace="shop") for i in range(6)]
    assert list_messages(make_workload(6, namespace=""), *NODES, *mine) == []
    assert list_messages(make_workload(6), *NODES, *mine) != []


def test_room_that_other_pods_would_take() -> None:
    there = [make_pod(f"low-{i}", f"n{i + 1}", 4, priority=-10) for i in range(3)]
    (found,) = list_messages(make_workload(1), *NODES, *there)
    assert found.startswith("its only replica does not fit now: it stays Pending or preempts other pods (")


@pytest.mark.parametrize(
    "sign",
    [
        make_pod("cluster-autoscaler-0", "n1", 1, owner="cluster-autoscaler", namespace="kube-system"),
        make_pod("karpenter-0", "n1", 1, owner="karpenter", namespace="karpenter"),
        make_node("n4", 0, **{"karpenter.sh/nodepool": "default"}),
    ],
    ids=["cluster-autoscaler", "karpenter", "label of karpenter"],
)
def test_nothing_is_claimed_if_nodes_are_added_automatically(sign: Json) -> None:
    assert list_messages(make_workload(9), *NODES) != []
    assert list_messages(make_workload(9), *NODES, sign) == []


def test_problems_that_room_does_not_solve_are_for_other_rules() -> None:
    """They are anti-affinity by host on three nodes, a selector of no node, and requests that no node can hold."""
    term = "{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}"
    anti = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}, "
    assert list_messages(make_workload(5, spec=anti), *NODES) == []
    assert list_messages(make_workload(5, spec="nodeSelector: {pool: gone}, "), *NODES) == []
    assert list_messages(make_workload(2, cpu=8), *NODES) == []


FAST_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: default}
spec: {accessModes: [ReadWriteMany], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
"""
USES_CLAIM = "volumes: [{name: v, persistentVolumeClaim: {claimName: data}}], "


@pytest.mark.parametrize(
    ("spec", "existing"),
    [
        (USES_CLAIM, {"kind": "StorageClass", "metadata": {"name": "fast"}, "provisioner": "d.io"}),
        ("priorityClassName: high, ", {"kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1}),
        ("runtimeClassName: kata, ", {"kind": "RuntimeClass", "metadata": {"name": "kata"}, "handler": "kata"}),
    ],
)
def test_replicas_that_cannot_start_are_not_counted(spec: str, existing: Json) -> None:
    """No replica fits without the class, which another rule reports. With the class, six fit."""
    other = {**existing, "metadata": {"name": "other"}}
    manifests = FAST_CLAIM + make_workload(7, spec=spec)
    assert list_messages(manifests, *NODES, other) == []
    (found,) = list_messages(manifests, *NODES, other, existing)
    assert found.startswith("7 replicas, but only 6 fit now: 1 stays Pending")


def test_spread_that_waits_for_a_full_zone() -> None:
    """Zone b has room for two pods, and zone a for four. With a skew of at most one, five pods fit."""
    spread = f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, "
    spread += "labelSelector: {matchLabels: {app: web}}}], "
    (found,) = list_messages(make_workload(6, spec=spread), *NODES)
    assert found.startswith("6 replicas, but only 5 fit now: 1 stays Pending (of 3 usable nodes, 1 lacks CPU, 2 are")


def test_maximum_of_an_autoscaler_is_placed() -> None:
    """By sums, six pods fit. The spread allows five."""
    scaler = """\
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, minReplicas: 2, maxReplicas: 6}
"""
    spread = f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, "
    spread += "labelSelector: {matchLabels: {app: web}}}], "
    assert list_messages(make_workload(2) + scaler, *NODES, rule="rq-hpa-burst") == []
    assert list_messages(make_workload(2, spec=spread) + scaler, *NODES) == []
    assert list_messages(make_workload(2, spec=spread) + scaler, *NODES, rule="rq-hpa-burst") == [
        "the autoscaler may create 6 replicas, but only 5 fit now "
        "(of 3 usable nodes, 1 lacks CPU, 2 are ruled out by spread constraints)"
    ]


@pytest.mark.parametrize(("selector", "skewed"), [("{matchLabels: {app: web}}", True), ("{}", False)])
def test_constraint_that_counts_no_pods_has_no_skew(selector: str, skewed: bool) -> None:
    """One zone has three pods and the other none. Before 1.38, an empty selector counts none of them."""
    constraint = f"{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, labelSelector: {selector}}}"
    there = [make_pod(f"web-{number}", "n1", 1, "web") for number in range(3)]
    manifest = make_workload(3, spec=f"topologySpreadConstraints: [{constraint}], ")
    found = list_messages(manifest, *NODES, *there, rule="ts-already-violated")
    assert found == (["the skew is 3 now (0 to 3 pods per domain), but maxSkew is 1"] if skewed else [])
    empty = list_messages(manifest, *NODES, *there, rule="ts-empty-selector")
    assert [
        ("all pods from 1.38 on: pods that are scheduled today may stay Pending then" in message) for message in empty
    ] == ([] if skewed else [True])


def test_skew_by_pods_of_another_workload_names_it() -> None:
    """api counts the three pods of Deployment web in one zone, so a restart of api does not help."""
    selector = "{matchExpressions: [{key: app, operator: In, values: [web]}]}"
    constraint = f"{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, labelSelector: {selector}}}"
    there = [make_pod(f"web-{number}", "n1", 1, "web") for number in range(3)]
    manifest = make_workload(1, spec=f"topologySpreadConstraints: [{constraint}], ").replace("name: web", "name: api")
    (message,) = list_messages(manifest, *NODES, *there, rule="ts-already-violated")
    assert "(0 to 3 pods per domain), but maxSkew is 1; the constraint also counts the pods of " in message
    assert message.endswith(" default/web")


@pytest.mark.parametrize(
    ("is_cordoned", "said"),
    [
        ((False, False), "both nodes that it selects have taints that it does not tolerate"),
        ((True, True), "both nodes that it selects are cordoned"),
        (
            (True, False),
            "none of the 2 nodes that it selects is usable: 1 is cordoned, and 1 has taints that it does not tolerate",
        ),
    ],
)
def test_reasons_why_selected_nodes_are_unusable(is_cordoned: tuple[bool, bool], said: str) -> None:
    nodes = [make_node(f"c{number}") for number in range(2)]
    for node, cordoned in zip(nodes, is_cordoned, strict=True):
        node["metadata"]["labels"]["pool"] = "closed"
        taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
        node["spec"] = {"unschedulable": True} if cordoned else {"taints": [taint]}
    manifest = make_workload(1, spec="nodeSelector: {pool: closed}, ")
    assert list_messages(manifest, *nodes, rule="tt-all-eligible-cordoned") == [said]


def test_required_node_affinity_is_described_with_its_values() -> None:
    in_zone = f"{{key: {ZONE}, operator: In, values: [d]}}"
    zone = f"{{matchExpressions: [{in_zone}, {{key: cores, operator: Gt, values: ['8']}}]}}"
    name = "{matchFields: [{key: metadata.name, operator: In, values: [w99]}]}"
    required = (
        f"{{nodeAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{zone}, {name}]}}}}}}"
    )
    manifest = make_workload(1, spec=f"affinity: {required}, ")
    assert list_messages(manifest, *NODES, rule="na-no-node-matches") == [
        f"none of the {len(NODES)} nodes matches {ZONE}=d and cores > 8 or metadata.name=w99"
    ]


def test_taint_of_large_enough_nodes_is_named() -> None:
    """The workload needs 6 CPUs. The nodes that it tolerates have 4, and the tainted one has 8."""
    tainted = make_node("big", cpu=8)
    tainted["spec"] = {"taints": [{"key": "team", "value": "x", "effect": "NoSchedule"}]}
    rule = "rq-larger-than-any-node"
    (message,) = list_messages(make_workload(1, cpu=6), *NODES, tainted, rule=rule)
    assert message.startswith(
        "1 node (big) is large enough, but the pod does not tolerate its taint team=x:NoSchedule; none of the "
    )
    tainted["spec"]["unschedulable"] = True
    (message,) = list_messages(make_workload(1, cpu=6), *NODES, tainted, rule=rule)
    assert "taint" not in message


def test_taints_of_large_enough_nodes_are_named_by_node() -> None:
    """The tolerated nodes have 4 CPUs, and three nodes with two different sets of taints have 8."""
    team: Json = {"key": "team", "value": "x", "effect": "NoSchedule"}
    gpu: Json = {"key": "gpu", "effect": "NoExecute"}
    nodes = [make_node(name, cpu=8) for name in ("big-0", "big-1", "big-2")]
    for node, taints in zip(nodes, ([team], [team, gpu], [team]), strict=True):
        node["spec"] = {"taints": taints}
    rule = "rq-larger-than-any-node"
    (message,) = list_messages(make_workload(1, cpu=6), *NODES, *nodes, rule=rule)
    assert message.startswith(
        "3 nodes are large enough, but the pod does not tolerate their taints: team=x:NoSchedule (big-0, big-2), "
        "team=x:NoSchedule and gpu:NoExecute (big-1); none of the "
    )
    (message,) = list_messages(make_workload(1, cpu=6), *NODES, nodes[1], rule=rule)
    assert message.startswith(
        "1 node (big-1) is large enough, but the pod does not tolerate its taints team=x:NoSchedule and gpu:NoExecute; "
    )


HOST_ANTI = "{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}"
ZONE_SPREAD = (
    f"topologySpreadConstraints: [{{maxSkew: 1, topologyKey: {ZONE}, whenUnsatisfiable: DoNotSchedule, "
    "labelSelector: {matchLabels: {app: web}}}], "
)


def test_zone_with_one_host_limits_the_others() -> None:
    """Four hosts take one pod each.

    Zone b has one host, and zone a may have one more pod than b: three of four pods fit.
    """
    nodes = [*NODES, make_node("n4")]
    spec = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{HOST_ANTI}]}}}}, "
    rule = "ts-domain-without-room"
    manifest = make_workload(4, cpu=1, spec=spec + ZONE_SPREAD)
    busy = [make_pod("other", "n1", 4)]  # can move, so it does not count
    assert list_messages(manifest, *nodes, *busy, rule=rule) == [
        f"only 3 of 4 replicas find a node, even if all movable pods left: {ZONE}=b (1 usable node) takes 1, and with "
        "maxSkew 1 every other domain at most 2, so 1 stays Pending"
    ]
    assert list_messages(make_workload(3, cpu=1, spec=spec + ZONE_SPREAD), *nodes, rule=rule) == []
    assert list_messages(make_workload(4, cpu=1, spec=spec), *nodes, rule=rule) == []
    assert list_messages(make_workload(5, cpu=1, spec=spec + ZONE_SPREAD), *nodes, rule=rule) == []  # no room at all
    karpenter = make_pod("karpenter-0", "n1", 1, owner="karpenter", namespace="karpenter")
    assert list_messages(manifest, *nodes, karpenter, rule=rule) == []


CLAIM = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce]}\n"


def test_claim_needs_a_default_class() -> None:
    """A default class, a class in the claim, a free volume without a class, or a bound claim of this name is enough."""
    slow: Json = {"kind": "StorageClass", "metadata": {"name": "slow"}, "provisioner": "x"}
    volume: Json = {"kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {"capacity": {"storage": "1Gi"}}}
    rule = "vl-no-default"
    assert list_messages(CLAIM, *NODES, rule=rule) == [
        "the claim names no StorageClass, and the cluster has no StorageClass"
    ]
    assert list_messages(CLAIM, *NODES, slow, rule=rule) == [
        "the claim names no StorageClass, and no StorageClass is the default: slow"
    ]
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    fast = {**slow, "metadata": {"name": "fast", "annotations": default}}
    assert list_messages(CLAIM, *NODES, slow, fast, rule=rule) == []
    assert list_messages(CLAIM, *NODES, volume, rule=rule) == []
    for class_name in ("slow", '""'):
        with_class = CLAIM.replace("{accessModes", f"{{storageClassName: {class_name}, accessModes")
        assert list_messages(with_class, *NODES, slow, rule=rule) == []
    bound = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data", "namespace": "default"}}
    assert list_messages(CLAIM, *NODES, {**bound, "spec": {"volumeName": "pv"}}, rule=rule) == []


@pytest.mark.parametrize("exists", [True, False])
def test_claim_template_needs_a_default_class(exists: bool) -> None:
    template = "  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce]}}]\n"
    bound: Json = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data-web-0", "namespace": "default"}}
    claims = [{**bound, "spec": {"volumeName": "pv"}}] if exists else []
    found = list_messages(make_workload(2) + template, *NODES, *claims, rule="vl-no-default")
    assert found == (
        [] if exists else ["the claim template names no StorageClass, and the cluster has no StorageClass"]
    )


def test_daemon_set_pods_need_room_on_cordoned_nodes() -> None:
    """Node n2 is cordoned and full; n1 has room."""
    cordoned = make_node("n2")
    cordoned["spec"] = {"unschedulable": True}
    daemon = make_workload(1).replace("kind: StatefulSet", "kind: DaemonSet").replace("  replicas: 1\n", "")
    nodes = (make_node("n1"), cordoned)
    assert list_messages(daemon, *nodes, make_pod("x", "n2", 3), rule="rq-daemonset-overhead") == [
        "1 of 2 nodes has no room for it unless it preempts other pods: n2"
    ]


def test_limits_that_a_limit_range_sets_make_requests_invalid() -> None:
    """The default limit of 256Mi is below the request of 512Mi, which the API server checks before the minimum."""
    limits = {"type": "Container", "default": {"memory": "256Mi"}, "min": {"memory": "600Mi"}}
    limit_range: Json = {
        "kind": "LimitRange",
        "metadata": {"name": "lr", "namespace": "default"},
        "spec": {"limits": [limits]},
    }
    accounts: Json = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    namespace: Json = {"kind": "Namespace", "metadata": {"name": "default"}}
    manifest = make_workload(1).replace("{cpu: 2}", "{cpu: 2, memory: 512Mi}")
    rule = "rq-apply-refused"
    (message,) = list_messages(manifest, *NODES, limit_range, accounts, namespace, rule=rule)
    assert "must be less than or equal to memory limit of 256Mi" in message
    larger = {**limit_range, "spec": {"limits": [{**limits, "default": {"memory": "1Gi"}}]}}
    (message,) = list_messages(manifest, *NODES, larger, accounts, namespace, rule=rule)
    assert "minimum memory usage per Container is 600Mi, but request is 512Mi" in message


def test_volume_claim_templates_are_volumes_of_the_pods() -> None:
    """The StatefulSet controller adds a volume for each claim template, which containers can mount."""
    manifest = make_workload(1).replace("image: c,", "image: c, volumeMounts: [{name: data, mountPath: /data}],")
    manifest += """\
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
    account: Json = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    namespace: Json = {"kind": "Namespace", "metadata": {"name": "default"}}
    assert list_messages(manifest, *NODES, account, namespace, rule="rq-apply-refused") == []


def make_quota(**hard: str) -> Json:
    """Return a ResourceQuota of which three pods of 2 CPUs are in use."""
    status = {"hard": hard, "used": {"requests.cpu": "6", "pods": "3"}}
    return {
        "kind": "ResourceQuota",
        "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": hard},
        "status": status,
    }


EXCEEDED = "exceeded quota: team, requested: requests.cpu={}, used: requests.cpu={}, limited: requests.cpu=9"


@pytest.mark.parametrize(
    ("replicas", "cpu", "message"),
    [
        (3, 2, ""),
        (4, 2, ""),  # 8 of 9 CPUs
        (30, 2, "26 of its 30 pods: " + EXCEEDED.format(2, 8)),
        (1, 8, ""),  # the three pods of 2 CPUs are removed
        (3, 4, "1 of its 3 pods: " + EXCEEDED.format(4, 8)),
        (4, 3, "1 of its 4 pods: " + EXCEEDED.format(3, 9)),
    ],
)
def test_changes_of_running_workloads_are_checked_against_quotas(replicas: int, cpu: int, message: str) -> None:
    """The quota allows 9 CPUs, and three pods of 2 CPUs run, which leave when pods of another size replace them."""
    account: Json = {"kind": "ServiceAccount", "metadata": {"name": "default", "namespace": "default"}}
    namespace: Json = {"kind": "Namespace", "metadata": {"name": "default"}}
    running = [make_pod(f"web-{i}", "n1", 2, owner="web") for i in range(3)]
    cluster = (*NODES, *running, account, namespace, make_quota(**{"requests.cpu": "9"}))
    messages = list_messages(make_workload(replicas, cpu), *cluster, rule="rq-apply-refused")
    assert messages == ([f"the API server would not create {message}"] if message else [])


SCALER = """\
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: default}
spec: {scaleTargetRef: {apiVersion: apps/v1, kind: StatefulSet, name: web}, minReplicas: MIN, maxReplicas: MAX}
"""


def write_scaler(least: int, most: int) -> str:
    """Return the manifest of an autoscaler of StatefulSet web."""
    return SCALER.replace("MIN", str(least)).replace("MAX", str(most))


def test_autoscaler_alone_is_checked_with_its_target_in_the_cluster() -> None:
    """Three nodes of 4 CPUs have room for six pods of 2 CPUs, and one of these runs."""
    mine = make_pod("web-0", "n1", 2, owner="web")
    assert list_messages(write_scaler(7, 8), *NODES, mine) == [
        "StatefulSet default/web: 7 replicas, but only 6 fit now: 1 stays Pending (of 3 usable nodes, 3 lack CPU)"
    ]
    assert list_messages(write_scaler(6, 8), *NODES, mine) == []
    assert list_messages(write_scaler(6, 8), *NODES, mine, rule="rq-hpa-burst") == [
        "StatefulSet default/web: the autoscaler may create 8 replicas, but only 6 fit now "
        "(of 3 usable nodes, 3 lack CPU)"
    ]
    assert list_messages(write_scaler(7, 8), *NODES, make_pod("api-0", "n1", 2, owner="api")) == []


def test_maximum_above_the_number_of_domains_names_its_field() -> None:
    term = "{labelSelector: {matchLabels: {app: web}}, topologyKey: kubernetes.io/hostname}"
    anti = f"affinity: {{podAntiAffinity: {{requiredDuringSchedulingIgnoredDuringExecution: [{term}]}}}}, "
    manifest = make_workload(2, spec=anti) + "---\n" + write_scaler(2, 5)
    assert list_messages(manifest, *NODES, rule="af-anti-replicas-over-domains") == [
        "5 replicas (maxReplicas), but only 3 usable hosts: at least 2 stay Pending"
    ]


def test_node_with_room_reserved_for_a_nominated_pod_counts_once() -> None:
    """n1 and n2 are full, and the room of n3 is reserved for a pod of higher priority that waits there."""
    full = [make_pod("x", "n1", 4), make_pod("y", "n2", 4)]
    waiting = make_pod("vip", "", 4, priority=10)
    del waiting["spec"]["nodeName"]
    waiting["status"] = {"phase": "Pending", "nominatedNodeName": "n3"}
    waiting["metadata"]["uid"] = "vip"
    assert list_messages(make_workload(1), *NODES, *full, waiting) == [
        "its only replica does not fit now: it stays Pending (of 3 usable nodes, 3 lack CPU)"
    ]


BUDGET = """\
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web, namespace: default}
spec: {minAvailable: LEAST, selector: {matchLabels: {app: web}}}
"""


def test_budget_alone_is_checked_with_the_pods_of_the_cluster() -> None:
    mine = [make_pod(f"web-{number}", "n1", 1, owner="web") for number in range(3)]
    found = list_messages(BUDGET.replace("LEAST", "3"), *NODES, *mine, rule="pdb-zero-disruptions")
    assert found == ["minAvailable 3 allows no eviction, as StatefulSet default/web has 3 replicas"]
    assert list_messages(BUDGET.replace("LEAST", "2"), *NODES, *mine, rule="pdb-zero-disruptions") == []
