"""Node pools, recognized by the labels that providers and people put on nodes."""

from __future__ import annotations

from typing import NamedTuple

from kschedctl.api.objects import Node

CONTROL_PLANE = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")


def is_control_plane(node: Node) -> bool:
    """Return whether the node has a control-plane role label."""
    return any(label in node.metadata.labels for label in CONTROL_PLANE)


class PoolLabel(NamedTuple):
    """A label with which a provider names the pool of a node."""

    key: str
    provider: str
    source: str
    """The URL of the provider's documentation."""
    group_pattern: str = ""
    """A regular expression around the label's value for the Cluster Autoscaler's group name; "" if the name is the
    value.
    """


_AUTOSCALER = "https://github.com/kubernetes/autoscaler/blob/cluster-autoscaler-release-1.36/cluster-autoscaler"
POOL_LABELS = (
    PoolLabel("karpenter.sh/nodepool", "Karpenter", "https://karpenter.sh/docs/concepts/scheduling/"),
    PoolLabel(
        "cloud.google.com/gke-nodepool",
        "GKE",
        "https://cloud.google.com/kubernetes-engine/docs/how-to/creating-managing-labels",
    ),
    PoolLabel(
        "eks.amazonaws.com/nodegroup",
        "EKS",
        "https://docs.aws.amazon.com/eks/latest/userguide/managed-node-groups.html",
        r"eks-{}-[0-9a-f]{{8}}-[0-9a-f-]{{27}}",
    ),
    PoolLabel(
        "alpha.eksctl.io/nodegroup-name",
        "EKS by eksctl",
        "https://eksctl.io/usage/nodegroups/",
        r"eksctl-.+-nodegroup-{}-[^-]+-[^-]+",
    ),
    PoolLabel(
        "kubernetes.azure.com/agentpool",
        "AKS",
        "https://learn.microsoft.com/azure/aks/use-labels",
        r"aks-{}-[^-]+-vmss",
    ),
    PoolLabel("agentpool", "AKS", f"{_AUTOSCALER}/cloudprovider/azure/azure_template.go", r"aks-{}-[^-]+-vmss"),
    PoolLabel("kops.k8s.io/instancegroup", "kOps", "https://kops.sigs.k8s.io/labels/", r"{}\..+"),
    PoolLabel(
        "worker.gardener.cloud/pool",
        "Gardener",
        "https://gardener.cloud/docs/gardener/autoscaling/shoot_autoscaling/",
    ),
    PoolLabel(
        "doks.digitalocean.com/node-pool",
        "DigitalOcean",
        "https://docs.digitalocean.com/products/kubernetes/details/managed/",
    ),
    PoolLabel(
        "magnum.openstack.org/nodegroup",
        "OpenStack Magnum",
        f"{_AUTOSCALER}/cloudprovider/magnum/magnum_cloud_provider.go",
        r"{}-[0-9a-f]{{8}}",
    ),
    PoolLabel(
        "rke.cattle.io/rke-machine-pool-name", "Rancher", f"{_AUTOSCALER}/cloudprovider/rancher/rancher_provider.go"
    ),
    PoolLabel("hcloud/node-group", "Hetzner", f"{_AUTOSCALER}/cloudprovider/hetzner/hetzner_cloud_provider.go"),
    PoolLabel("kubernetes.civo.com/civo-node-pool", "Civo", f"{_AUTOSCALER}/cloudprovider/civo/civo_manager.go"),
    PoolLabel("nodepool", "OVHcloud", f"{_AUTOSCALER}/cloudprovider/ovhcloud/ovh_cloud_provider.go"),
)
"""The providers' labels, with those that only one provider uses first."""

KARPENTER_LABELS = frozenset(("karpenter.sh/nodepool", "karpenter.sh/provisioner-name"))
"""The labels of nodes that Karpenter launched, in current and in old releases."""

POOL_ANNOTATION = "oci.oraclecloud.com/node-pool-id"
"""The annotation with which OKE gives a pool's OCID.

Upstream: cloudprovider/oci/common/oci_ref.go.
"""

POOL_NAMES = (
    "nodepool",
    "gke-nodepool",
    "nodegroup",
    "nodegroup-name",
    "agentpool",
    "worker-pool-name",
    "instancegroup",
    "node-pool",
    "pool-name",
    "provisioner-name",
    "pool",
)
"""Label names after the slash that usually name a node pool, most specific first."""


def find_node_pool_name(node: Node) -> str:
    """Return the name of the node's pool, or "" if no label or annotation names it.

    Labels of providers take precedence over other labels that usually name a pool, and all labels over the annotation.
    """
    labels = node.metadata.labels
    provider_pool = next((labels[label.key] for label in POOL_LABELS if label.key in labels), "")
    if provider_pool:
        return provider_pool
    values_by_name = {key.rpartition("/")[2]: value for key, value in labels.items()}
    usual_pool = next((values_by_name[name] for name in POOL_NAMES if name in values_by_name), "")
    return usual_pool or node.metadata.annotations.get(POOL_ANNOTATION, "")
