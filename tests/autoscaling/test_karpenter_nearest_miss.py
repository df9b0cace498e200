"""Check what the nearest NodePool lacks for a pod, and where Karpenter's rules differ from kube-scheduler's."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.autoscaling.karpenter.new_node import predict_new_node
from kschedctl.reports.new_node import NewNode

NOW = "2026-03-04T12:00:00Z"
NONE = "none of 3 instance types fits: 3 with too little cpu"
FAR = "closest type far: has 7900m of cpu for pods"
Json = dict[str, Any]


def build_instance_type(name: str, cpu: str, memory: str, arch: str = "amd64", zone: str = "a", **more: str) -> Json:
    """Build an instance type. 100m of CPU and 10Mi of memory are not available to pods."""
    terms = {"topology.kubernetes.io/zone": zone, "karpenter.sh/capacity-type": "on-demand"}
    return {
        "name": name,
        "architecture": arch,
        "operatingSystems": ["linux"],
        "resources": {"cpu": cpu, "memory": memory, **more},
        "offerings": [
            {
                "Price": int(cpu) / 10,
                "Requirements": [{"key": k, "operator": "In", "values": [v]} for k, v in terms.items()],
            }
        ],
    }


TYPES = [
    build_instance_type("small", "2", "4Gi"),
    build_instance_type("large", "8", "16Gi"),
    build_instance_type("arm", "16", "32Gi", "arm64"),
    build_instance_type("far", "8", "16Gi", zone="b"),
]


def build_pool(
    name: str = "general", *, labels: Json | None = None, limits: Json | None = None, **template: object
) -> Json:
    reference = {"group": "karpenter.kwok.sh", "kind": "KWOKNodeClass", "name": "default"}
    requirements = [{"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}]
    spec = {"requirements": requirements, "nodeClassRef": reference, **template}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": labels or {}}, "spec": spec},
            **({"limits": limits} if limits else {}),
        },
    }


def build_pod(cpu: str = "1", **spec: object) -> Json:
    containers = [{"name": "app", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "1"},
        "spec": {"containers": containers, **spec},
    }


def explain_node(asked: Json, *objects: Json, **options: object) -> NewNode:
    """Explain whether a node comes for the pod."""
    cluster = kschedctl.Cluster.from_objects([asked, *objects])
    (found,) = cluster.pods
    return predict_new_node(cluster, found, TYPES, options, NOW)


GPU = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("asked", "given", "missing"),
    [
        (build_pod(), build_pool(taints=[GPU]), ["the pod does not tolerate gpu=yes:NoSchedule"]),
        (
            build_pod(nodeSelector={"kubernetes.io/arch": "arm64"}),
            build_pool(),
            ["the pod needs kubernetes.io/arch In [arm64]; the pool has In [amd64]"],
        ),
        (
            build_pod(nodeSelector={"team": "a"}),
            build_pool(),
            ["the pod needs team In [a]; the pool does not define the label"],
        ),
        # small is within, and too small
        (
            build_pod("4"),
            build_pool(limits={"cpu": "3"}),
            ["cpu limit 3, 3 left; far, the smallest type that takes the pod, has cpu 8"],
        ),
        (build_pod(), build_pool(limits={"cpu": "1"}), ["cpu limit 1, 1 left; the smallest type has cpu 2"]),
        (build_pod("7950m"), build_pool(), [f"{NONE}; {FAR}, 7950m needed"]),  # costs as much as large
        (
            build_pod("7950m", nodeSelector={"topology.kubernetes.io/zone": "a"}),
            build_pool(),
            [f"{NONE}, 1 not topology.kubernetes.io/zone In [a]; "
             "closest type large: has 7900m of cpu for pods, 7950m needed"],
        ),
        (
            build_pod(nodeSelector={"topology.kubernetes.io/zone": "c"}),
            build_pool(labels={"topology.kubernetes.io/zone": "b"}),
            ["the pod needs topology.kubernetes.io/zone In [c]; the pool has In [b]",
             "none of 4 instance types fits: 4 not topology.kubernetes.io/zone In [c], "
             "1 not kubernetes.io/arch In [amd64]; "
         "closest type far: is topology.kubernetes.io/zone In [b], In [c] needed"],
        ),
        (
            build_pod("9", nodeSelector={"team": "a"}),
            build_pool(taints=[GPU], limits={"cpu": "1"}),
            [
                "the pod does not tolerate gpu=yes:NoSchedule",
                "the pod needs team In [a]; the pool does not define the label",
                "cpu limit 1, 1 left; the smallest type has cpu 2",
                f"{NONE}; {FAR}, 9 needed",
            ],
        ),
    ],
)  # fmt: skip
def test_all_missing_properties_are_reported(asked: Json, given: Json, missing: list[str]) -> None:
    (verdict,) = explain_node(asked, given).pools
    assert not verdict.takes
    assert list(verdict.missing) == missing


def test_requests_of_daemon_sets_count() -> None:
    template = {"metadata": {"labels": {"app": "log"}}, "spec": build_pod("200m")["spec"]}
    daemon = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "log", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "log"}}, "template": template},
    }
    (verdict,) = explain_node(build_pod("7800m"), build_pool(), daemon).pools
    assert verdict.missing == (f"{NONE}; {FAR}, 8 needed",)


def test_listed_types_that_were_not_tried_are_named() -> None:
    """The pool lists four types. One is not known, and one has another architecture than the pool requires."""
    pool = build_pool()
    names = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["arm", "huge", "large", "small"]}
    pool["spec"]["template"]["spec"]["requirements"].append(names)
    (verdict,) = explain_node(build_pod("9"), pool).pools
    (missing,) = verdict.missing
    assert missing.startswith("none of 2 instance types fits: 2 with too little cpu; closest type large: ")
    assert missing.endswith("; not known: huge; ruled out by the NodePool's other requirements: arm")


def test_nearest_pool_lacks_the_fewest_properties() -> None:
    near, far = build_pool("near", taints=[GPU]), build_pool("far", taints=[GPU], limits={"cpu": "1"})
    answer = explain_node(build_pod(), far, near)
    assert (answer.closest, answer.would_launch) == ("near", False)
    assert not explain_node(build_pod(), near, build_pool("free")).closest


def test_adding_what_is_missing_makes_the_pod_fit() -> None:
    """A node comes once the pod has the toleration or the pool has the label."""
    tolerating = {**build_pod(nodeSelector={"team": "a"})}
    tolerating["spec"] = {**tolerating["spec"], "tolerations": [{"key": "gpu", "operator": "Exists"}]}
    (verdict,) = explain_node(tolerating, build_pool(taints=[GPU], labels={"team": "a"})).pools
    assert verdict.takes


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"replicas": 3}, "not used: static, with 3 replicas"),
        ({"template": {"spec": {"requirements": [{"key": "kubernetes.io/arch", "operator": "In", "values": ["s"]}]}}},
         "NodePool requirements filtered out all compatible available instance types"),
    ],
)  # fmt: skip
def test_reasons_of_unusable_pools(given: Json, answer: str) -> None:
    base = build_pool()
    (verdict,) = explain_node(build_pod(), {**base, "spec": {**base["spec"], **given}}).pools
    assert (verdict.takes, verdict.answer) == (False, answer)


def test_unready_pool_gives_its_reason() -> None:
    status = {"conditions": [{"type": "Ready", "status": "False", "message": "NodeClass not found"}]}
    (verdict,) = explain_node(build_pod(), {**build_pool(), "status": status}).pools
    assert verdict.answer == "not used: not Ready: NodeClass not found"


# -- events --------------------------------------------------------------------------------------------------------


def build_event(reason: str, message: str, at: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"web.{at}", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web", "uid": "1"},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
    }


REFUSED = "Failed to schedule pod, did not tolerate taint (taint=gpu=yes:NoSchedule)"


def test_events_of_karpenter_are_compared() -> None:
    """kube-scheduler's own event of the same reason is ignored."""
    events = [
        build_event("FailedScheduling", REFUSED, "2026-03-04T11:00:00Z"),
        build_event("FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu.", "2026-03-04T11:30:00Z"),
    ]
    answer = explain_node(build_pod(), build_pool(taints=[GPU]), *events)
    assert answer.message == REFUSED
    assert answer.said is not None
    assert (answer.said.message, answer.said.at, answer.said.agrees) == (REFUSED, "2026-03-04T11:00:00Z", True)
    nominated = build_event("Nominated", "Pod should schedule on: nodeclaim/general-x1", "2026-03-04T11:40:00Z")
    later = explain_node(build_pod(), build_pool(taints=[GPU]), *events, nominated)
    assert later.said is not None
    assert not later.said.agrees
    taken = explain_node(build_pod(), build_pool(), nominated)
    assert taken.said is not None
    assert (taken.message, taken.said.agrees) == ("", True)


# -- unlike kube-scheduler -----------------------------------------------------------------------------------------


def build_term(value: str) -> Json:
    return {"matchExpressions": [{"key": "team", "operator": "In", "values": [value]}]}


WEIGHTED = {"weight": 1, "podAffinityTerm": {"topologyKey": "zone", "labelSelector": {}}}
WISHES: Json = {
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [build_term("a"), build_term("b")]},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": build_term("a")}],
        },
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [WEIGHTED]},
    },
}
SOFT = {"key": "spot", "effect": "PreferNoSchedule"}


def test_relevant_rule_differences_are_named() -> None:
    said = explain_node(build_pod(**WISHES), build_pool(taints=[SOFT])).differences
    assert said == (
        "Karpenter tries the 2 required node affinity terms one at a time, in the order of the manifest",
        "Karpenter first requires preferred pod anti-affinity, preferred node affinity, "
        "and drops one preference after another if no pool takes the pod",
        "Karpenter treats spot:PreferNoSchedule like NoSchedule until it has dropped all other preferences",
    )
    ignored = explain_node(build_pod(**WISHES), build_pool(), preferencePolicy="Ignore").differences
    assert (
        ignored[1]
        == "Karpenter ignores preferred pod anti-affinity, preferred node affinity: preferencePolicy is Ignore"
    )
    assert explain_node(build_pod(), build_pool()).differences == ()
