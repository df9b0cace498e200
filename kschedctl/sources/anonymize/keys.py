"""Well-known keys of labels and taints, and well-known names of resources and scheduling gates.

They identify nobody. They also have to be kept, since plugins know them by name and readers of the snapshot need them.
"""

from __future__ import annotations

from kschedctl.api.node_pools import POOL_NAMES
from kschedctl.api.resource_names import (
    ATTACHABLE_VOLUMES_PREFIX,
    CPU,
    DEVICE_CLASS_PREFIX,
    EPHEMERAL_STORAGE,
    HUGE_PAGES_PREFIX,
    MEMORY,
    PODS,
    QUOTA_PREFIX,
)

DOMAINS = {
    "kubernetes.io": "Kubernetes: hostname, topology, node conditions as taints, what controllers set",
    "k8s.io": "Kubernetes and its projects",
    "x-k8s.io": "projects of Kubernetes: scheduling.x-k8s.io/pod-group, kueue.x-k8s.io/pod-group-name",
    "amazonaws.com": "AWS: eks, vpc",
    "amazon.com": "AWS: aws.amazon.com/neuron",
    "aws.com": "AWS: topology.ebs.csi.aws.com/zone, by which volumes are placed",
    "k8s.aws": "AWS: karpenter.k8s.aws",
    "azure.com": "Azure: kubernetes.azure.com, topology.disk.csi.azure.com",
    "gke.io": "Google: topology.gke.io/zone, by which volumes are placed",
    "google.com": "Google: cloud.google.com, google.com/tpu",
    "openstack.org": "OpenStack: topology.cinder.csi.openstack.org/zone, by which volumes are placed",
    "karpenter.sh": "Karpenter",
    "amd.com": "devices: amd.com/gpu",
    "habana.ai": "devices: habana.ai/gaudi",
    "intel.com": "devices: gpu.intel.com/i915, qat.intel.com",
    "nvidia.com": "devices: nvidia.com/gpu",
    "volcano.sh": "Volcano: volcano.sh/task-spec",
}
"""Domain, including its subdomains -> its owner. Keys in these domains are kept, except in CUSTOM_NAME_DOMAINS."""

CUSTOM_NAME_DOMAINS = frozenset({"node-role.kubernetes.io", "node-restriction.kubernetes.io"})
"""Domains of Kubernetes in which users choose the names."""
COMMON_ROLES = frozenset({"control-plane", "master", "worker", "infra"})
"""Names in these domains that are in general use."""

BARE_KEYS = frozenset(
    {
        *(CPU, MEMORY, EPHEMERAL_STORAGE, PODS, "storage"),
        *("controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", "pod-template-hash"),
        *("metadata.name", "metadata.namespace"),
        *POOL_NAMES,
    }
)
"""Well-known keys without a domain: resources, labels of controllers, fields of selectors, and labels of node pools."""
KEPT_PARTS = frozenset(POOL_NAMES)
"""Names that are kept after the slash of any domain, because they identify the label of a node pool."""

KEPT_VALUES = {"pod-security.kubernetes.io/enforce": frozenset({"privileged", "baseline", "restricted"})}
"""Label key -> its well-known values."""

RESOURCE_PREFIXES = (DEVICE_CLASS_PREFIX, ATTACHABLE_VOLUMES_PREFIX, QUOTA_PREFIX)
"""Prefixes of resources that the scheduler reads. The user chooses what follows."""


def is_well_known(key: str) -> bool:
    """Return whether the key is kept.

    >>> is_well_known("topology.kubernetes.io/zone"), is_well_known("example.com/zone"), is_well_known("team")
    (True, False, False)
    """
    domain, slash, name = key.rpartition("/")
    if not slash:
        return key in BARE_KEYS or key.startswith(HUGE_PAGES_PREFIX)
    return name in COMMON_ROLES if domain in CUSTOM_NAME_DOMAINS else is_well_known_domain(domain)


def is_well_known_domain(domain: str) -> bool:
    """Return whether the domain or one of its parent domains is in DOMAINS."""
    labels = domain.split(".")
    return any(".".join(labels[start:]) in DOMAINS for start in range(len(labels)))
