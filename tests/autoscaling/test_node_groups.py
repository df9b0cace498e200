"""Check the sources of node groups (status map, Cluster API, flags, labels) and that options take precedence."""

from __future__ import annotations

from typing import Any

import pytest

import kschedctl
from kschedctl.api.node_pools import POOL_LABELS
from kschedctl.autoscaling.node_groups.discovery import NodeGroups, UserGroups, discover_node_groups

Json = dict[str, Any]
VMSS = (
    "azure:///subscriptions/s/resourceGroups/r/providers/Microsoft.Compute/virtualMachineScaleSets/{}/virtualMachines/0"
)
UUID = "3ac1b2d4-0000-4444-8888-0123456789ab"


def build_node(name: str, labels: Json | None = None, provider: str = "", annotations: Json | None = None) -> Json:
    meta = {"name": name, "labels": labels or {}, "annotations": annotations or {}}
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"providerID": provider},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def build_status(*groups: tuple[str, int, int, int, int], state: str = "NoActivity") -> Json:
    """Build the status ConfigMap for groups with name, minimum, maximum, target and registered nodes."""
    text = "autoscalerStatus: Running\ntime: 2026-06-01 12:00:00 +0000 UTC\nnodeGroups:\n"
    for name, least, most, target, registered in groups:
        text += (
            f"- name: {name}\n  health: {{status: Healthy, cloudProviderTarget: {target}, minSize: {least},"
            f" maxSize: {most}, nodeCounts: {{registered: {{total: {registered}}}}}}}\n"
            f"  scaleUp: {{status: {state}, backoffInfo: {{errorCode: QUOTA, errorMessage: no more}}}}\n"
        )
    meta = {"name": "cluster-autoscaler-status", "namespace": "kube-system"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"status": text}}


def build_machines(kind: str, name: str, annotations: Json, spec: Json | None = None, **more: Any) -> Json:
    meta = {"name": name, "namespace": "default", "annotations": annotations, **more}
    return {"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": kind, "metadata": meta, "spec": spec or {}}


def build_owner_metadata(kind: str, name: str) -> Json:
    return {"ownerReferences": [{"kind": kind, "name": name, "apiVersion": "cluster.x-k8s.io/v1beta1", "uid": "u"}]}


def build_limits(least: str, most: str, project: str = "cluster.x-k8s.io") -> Json:
    key = f"{project}/cluster-api-autoscaler-node-group-"
    return {f"{key}min-size": least, f"{key}max-size": most}


def build_deployment(*args: str, image: str = "registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.0") -> Json:
    container = {"name": "ca", "image": image, "command": ["./cluster-autoscaler", *args]}
    meta = {"name": "ca", "namespace": "kube-system", "uid": "1"}
    template = {"metadata": {"labels": {"app": "ca"}}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": {"app": "ca"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


NOTHING_GIVEN = UserGroups()


def find_groups(*objects: Json, given: UserGroups = NOTHING_GIVEN) -> NodeGroups:
    """Find the node groups of these objects."""
    return discover_node_groups(kschedctl.Cluster.from_objects(objects), given)


def get_nodes_by_group(groups: NodeGroups) -> dict[str, list[str]]:
    return {str(group["id"]): list(group["nodes"]) for group in groups.groups}  # type: ignore[call-overload]


MEMBERS: dict[str, tuple[str, Json]] = {
    "EKS": (f"eks-blue-{UUID}", build_node("ip-10-0-0-1", {"eks.amazonaws.com/nodegroup": "blue"})),
    "eksctl": (
        "eksctl-shop-nodegroup-blue-NodeGroup-1ABC",
        build_node("ip-1", {"alpha.eksctl.io/nodegroup-name": "blue"}),
    ),
    "GKE": (
        "https://www.googleapis.com/compute/v1/projects/p/zones/us-a/instanceGroups/gke-shop-blue-1a2b3c4d-grp",
        build_node("gke-shop-blue-1a2b3c4d-x7qz", {"cloud.google.com/gke-nodepool": "blue"}),
    ),
    "AKS by its scale set": (
        "aks-blue-12345678-vmss",
        build_node("aks-blue-12345678-vmss000000", {}, VMSS.format("aks-blue-12345678-vmss")),
    ),
    "AKS in other letters": ("aks-Blue-12345678-vmss", build_node("n", {}, VMSS.format("aks-blue-12345678-VMSS"))),
    "AKS by its label": ("aks-blue-12345678-vmss", build_node("n", {"kubernetes.azure.com/agentpool": "blue"})),
    "kOps": ("blue.shop.example.com", build_node("i-0abc", {"kops.k8s.io/instancegroup": "blue"})),
    "Gardener": (
        "shoot--shop--prod.shoot--shop--prod-blue-z1",
        build_node("shoot--shop--prod-blue-z1-5d6f7-x7qzw", {"worker.gardener.cloud/pool": "blue"}),
    ),
    "DigitalOcean": (UUID, build_node("blue-x7qz", {"doks.digitalocean.com/node-pool-id": UUID})),
    "OKE": (
        "ocid1.nodepool.oc1..aaa",
        build_node("10.0.0.1", {}, "", {"oci.oraclecloud.com/node-pool-id": "ocid1.nodepool.oc1..aaa"}),
    ),
    "OpenStack Magnum": ("blue-3ac1b2d4", build_node("n", {"magnum.openstack.org/nodegroup": "blue"})),
    "Rancher": ("blue", build_node("n", {"rke.cattle.io/rke-machine-pool-name": "blue"})),
    "Hetzner": ("blue", build_node("n", {"hcloud/node-group": "blue"})),
    "Cluster API": (
        "MachineDeployment/default/blue",
        build_node("n", {}, "", {"cluster.x-k8s.io/owner-name": "blue-x7qzw"}),
    ),
}


@pytest.mark.parametrize("provider", MEMBERS)
def test_nodes_are_matched_to_their_groups(provider: str) -> None:
    """They are matched by names that both share on each cloud.

    A node of no group and a group without nodes stay separate.
    """
    group, member = MEMBERS[provider]
    other = build_node("other", {"team": "x"})
    groups = find_groups(build_status((group, 1, 5, 1, 1), ("elsewhere", 0, 3, 0, 0)), member, other)
    assert get_nodes_by_group(groups) == {group: [member["metadata"]["name"]], "elsewhere": []}
    assert (groups.doubts, groups.faults) == ((), ())
    first, second = groups.groups
    assert (first["min"], first["max"], first["target"]) == (1, 5, 1)
    assert "templateUnknown" not in first
    assert second["templateUnknown"] is True


def test_labels_share_a_row_but_have_separate_sources() -> None:
    assert len({label.key for label in POOL_LABELS}) == len(POOL_LABELS)
    assert all(label.source.startswith("https://") for label in POOL_LABELS)


def test_ambiguous_groups_are_not_guessed() -> None:
    """Two Auto Scaling groups belong to node groups of the same name in two clusters."""
    member = build_node("ip-1", {"kops.k8s.io/instancegroup": "blue"})
    groups = find_groups(build_status(("blue.a.example.com", 0, 3, 1, 1), ("blue.b.example.com", 0, 3, 0, 0)), member)
    assert get_nodes_by_group(groups) == {"blue.a.example.com": [], "blue.b.example.com": []}
    assert groups.doubts == (
        "node ip-1 may belong to any of blue.a.example.com, blue.b.example.com",
        "blue.a.example.com: the autoscaler counts 1 node; 0 could be identified",
    )


def test_state_of_a_group_limits_its_growth() -> None:
    """Nodes that are on their way count for the target. A group in backoff may not grow."""
    groups = find_groups(build_status(("blue", 0, 9, 5, 3), state="InProgress"))
    assert groups.active_scale_ups == {"blue": 2}
    (group,) = find_groups(build_status(("blue", 0, 9, 5, 5), state="Backoff")).groups
    assert group["backOff"] == "QUOTA: no more"
    (group,) = find_groups(build_status(("blue", 0, 9, 5, 5), state="Unhealthy")).groups
    assert group["unhealthy"] is True


CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"


def test_cluster_api() -> None:
    """The objects are a MachineDeployment whose nodes are found by machines, an empty one with capacity annotations,
    and one that is not autoscaled."""
    capacity = {f"{CAPACITY}/cpu": "8", f"{CAPACITY}/memory": "16G", f"{CAPACITY}/gpu-type": "nvidia.com/gpu"}
    capacity |= {
        f"{CAPACITY}/gpu-count": "2",
        f"{CAPACITY}/labels": "tier=gpu,x=y",
        f"{CAPACITY}/taints": "gpu=yes:NoSchedule",
    }
    machine = build_machines("Machine", "blue-1-a", {}, **build_owner_metadata("MachineSet", "blue-1"))
    groups = find_groups(
        build_node("n1"),
        build_machines("MachineDeployment", "blue", build_limits("1", "5"), {"replicas": 2}),
        build_machines(
            "MachineSet",
            "blue-1",
            build_limits("1", "5"),
            {"replicas": 2},
            **build_owner_metadata("MachineDeployment", "blue"),
        ),
        machine | {"status": {"nodeRef": {"name": "n1"}}},
        build_machines("MachineDeployment", "gpu", {**build_limits("0", "3"), **capacity}, {"replicas": 0}),
        build_machines("MachineDeployment", "unknown", build_limits("0", "3"), {"replicas": 0}),
        build_machines("MachineDeployment", "fixed", {}, {"replicas": 3}),
        build_machines(
            "MachineDeployment", "paused", {**build_limits("0", "3"), "cluster.x-k8s.io/paused": ""}, {"replicas": 3}
        ),
    )
    blue, gpu, unknown = groups.groups
    assert (blue["id"], blue["min"], blue["max"], blue["target"], blue["nodes"]) == (
        "MachineDeployment/default/blue",
        1,
        5,
        2,
        ["n1"],
    )
    template: Any = gpu["template"]
    assert template["status"]["capacity"] == {"cpu": "8", "memory": "16G", "nvidia.com/gpu": "2", "pods": "110"}
    assert template["metadata"]["labels"] == {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "tier": "gpu",
        "x": "y",
    }
    assert template["spec"]["taints"] == [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    assert (unknown["id"], unknown["templateUnknown"]) == ("MachineDeployment/default/unknown", True)
    assert groups.limits_known


def test_openshift() -> None:
    """MachineSets of OpenShift have annotations of their own."""
    own = {
        **build_limits("1", "4", "machine.openshift.io"),
        "machine.openshift.io/vCPU": "4",
        "machine.openshift.io/memoryMb": "16384",
    }
    made = build_machines("MachineSet", "worker-a", own, {"replicas": 0})
    (group,) = find_groups({**made, "apiVersion": "machine.openshift.io/v1beta1"}).groups
    template: Any = group["template"]
    assert (group["id"], group["max"]) == ("MachineSet/default/worker-a", 4)
    assert template["status"]["allocatable"] == {"cpu": "4", "memory": "16384Mi", "pods": "110"}


def test_annotations_of_cluster_api_precede_openshift() -> None:
    """OpenShift's cluster-autoscaler-operator copies its own annotations only to missing ones of Cluster API."""
    annotations = {
        **build_limits("1", "4", "machine.openshift.io"),
        "machine.openshift.io/vCPU": "4",
        f"{CAPACITY}/cpu": "8",
        "machine.openshift.io/memoryMb": "16384",
        f"{CAPACITY}/memory": "32Gi",
        "machine.openshift.io/maxPods": "250",
        f"{CAPACITY}/maxPods": "500",
    }
    machine_set = build_machines("MachineSet", "worker-a", annotations, {"replicas": 0})
    (group,) = find_groups({**machine_set, "apiVersion": "machine.openshift.io/v1beta1"}).groups
    template: Any = group["template"]
    assert template["status"]["capacity"] == {"cpu": "8", "memory": "32Gi", "pods": "500"}


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        (
            build_limits("1", "many"),
            "annotation cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size: not a size: 'many'",
        ),
        (build_limits("5", "1"), "min size 5 is above max size 1"),
        ({**build_limits("0", "1"), f"{CAPACITY}/cpu": "lots"}, "quantities must match"),
    ],
)
def test_invalid_annotations(annotations: Json, said: str) -> None:
    groups = find_groups(
        build_machines("MachineDeployment", "bad", annotations),
        build_machines("MachineDeployment", "good", build_limits("0", "1")),
    )
    assert [group["id"] for group in groups.groups] == ["MachineDeployment/default/good"]
    (fault,) = groups.faults
    assert fault.startswith("MachineDeployment/default/bad: ")
    assert said in fault


def test_flags() -> None:
    """The flags are those of the container, with the defaults of its release. Invalid flags are reported."""
    groups = find_groups(
        build_deployment(
            *(
                "--expander=priority,least-waste",
                "--nodes=1:10:blue",
                "--nodes=0:5:green",
                "--skip-nodes-with-local-storage=false",
            ),
            *(
                "--balance-similar-node-groups",
                "--max-nodes-total",
                "40",
                "--cores-total=0:100",
                "--memory-total=0:256",
            ),
            *(
                "--scale-down-unneeded-time=3m",
                "--startup-taint=a",
                "--ignore-taint=b",
                "--max-drain-parallelism=few",
                "--v=4",
            ),
        ),
        build_node("n1", {"hcloud/node-group": "blue"}),
    )
    assert groups.options == {
        "expander": "priority,least-waste",
        "skipNodesWithLocalStorage": False,
        "balanceSimilarNodeGroups": True,
        "maxNodesTotal": 40,
        "startupTaints": ["a", "b"],
        "resourceLimits": {"cpu": {"min": 0, "max": 100}, "memory": {"min": 0, "max": 256 * 2**30}},
    }
    assert get_nodes_by_group(groups) == {"blue": ["n1"], "green": []}
    assert groups.waits["scale-down-unneeded-time"] == "3m"
    assert groups.faults == ("Deployment kube-system/ca: --max-drain-parallelism=few: invalid value",)
    assert groups.sources == (
        "node groups from --nodes of Deployment kube-system/ca",
        "flags from Deployment kube-system/ca, else the defaults of release 1.36",
    )


def test_defaults_of_an_older_release() -> None:
    """Before 1.33 the default expander was random, and pods of kube-system kept their nodes."""
    groups = find_groups(
        build_deployment(image="k8s.gcr.io/cluster-autoscaler:v1.31.1"), build_node("n", {"hcloud/node-group": "a"})
    )
    assert groups.options == {"expander": "random", "bspDisruptionTimeout": "87600h"}
    assert groups.sources[-1].endswith("else the defaults of release 1.31, replayed as 1.36")


def test_user_input_takes_precedence() -> None:
    """The user gives the sizes of one group and the template of another. The third is read from the cluster."""
    template = {"metadata": {"name": "t"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
    given = UserGroups(
        [{"id": "blue", "max": 99}, {"id": "gpu", "template": template}], {"expander": "random"}, where="g.yaml"
    )
    map = build_status(("blue", 1, 5, 1, 1), ("gpu", 0, 2, 0, 0), ("green", 0, 3, 0, 0))
    groups = find_groups(map, build_node("n1", {"hcloud/node-group": "blue"}), given=given)
    blue, gpu, green = groups.groups
    assert (blue["min"], blue["max"], blue["nodes"]) == (1, 99, ["n1"])
    assert (gpu["max"], gpu["template"]) == (2, template)
    assert "templateUnknown" not in gpu
    assert (green["id"], green["max"]) == ("green", 3)
    assert groups.options == {"expander": "random"}


def test_sizes_of_pools_named_by_labels() -> None:
    """A pool that the file omits is not a group."""
    pools = [build_node("n1", {"crew": "blue"}), build_node("n2", {"crew": "green"})]
    groups = find_groups(*pools, given=UserGroups([{"id": "blue", "min": 1, "max": 3}], label="crew", where="g.yaml"))
    assert groups.groups == ({"id": "blue", "min": 1, "max": 3, "target": 1, "nodes": ["n1"]},)
    assert groups.limits_known


def test_other_config_maps_are_ignored() -> None:
    """They may hold anything, in any form."""
    odd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "odd", "namespace": "shop"}, "data": {"a": 1}}
    assert kschedctl.Cluster.from_objects([odd]).config_maps == ()


@pytest.mark.parametrize(("label", "ids"), [("", ("g",)), ("pool", ("g",)), ("karpenter.sh/nodepool", ("burst",))])
def test_nodes_of_karpenter_belong_to_no_node_group(label: str, ids: tuple[str, ...]) -> None:
    """The Cluster Autoscaler manages no node that Karpenter launched, unless the user names Karpenter's label."""
    nodes = [
        build_node("n", {"pool": "g"}),
        build_node("k", {"karpenter.sh/nodepool": "burst", "pool": "burst"}),
    ]
    groups = discover_node_groups(kschedctl.Cluster.from_objects(nodes), UserGroups(label=label))
    assert groups.ids == ids
