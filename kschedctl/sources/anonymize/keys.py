"""Which keys of labels and taints, and which names of resources, gates and the like, everybody has: they tell nothing.

They also have to stay: plugins know them by name, and who gets the snapshot reads them.
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
"""Domain, with those below it -> whose it is. Whatever is in them stays, but for COINED."""

COINED = frozenset({"node-role.kubernetes.io", "node-restriction.kubernetes.io"})
"""Domains of Kubernetes in which everybody makes up names."""
ROLES = frozenset({"control-plane", "master", "worker", "infra"})
"""The names in them that everybody makes up alike."""

BARE = frozenset(
    {
        *(CPU, MEMORY, EPHEMERAL_STORAGE, PODS, "storage"),
        *("controller-revision-hash", "controller-uid", "job-name", "pod-template-generation", "pod-template-hash"),
        *("metadata.name", "metadata.namespace"),
        *POOL_NAMES,
    }
)
"""Without a domain: resources, labels that Kubernetes' controllers set, fields of selectors, what names node pools."""
KEPT_PARTS = frozenset(POOL_NAMES)
"""What stays after the slash of any domain: by these a pool is known."""

KEPT_VALUES = {"pod-security.kubernetes.io/enforce": frozenset({"privileged", "baseline", "restricted"})}
"""Key of a label -> the values of it that everybody has."""

RESOURCE_PREFIXES = (DEVICE_CLASS_PREFIX, ATTACHABLE_VOLUMES_PREFIX, QUOTA_PREFIX)
"""What these begin the scheduler reads; what follows is somebody's name."""


def is_well_known(key: str) -> bool:
    """Whether the key stays.

    >>> is_well_known("topology.kubernetes.io/zone"), is_well_known("example.com/zone"), is_well_known("team")
    (True, False, False)
    """
    domain, slash, name = key.rpartition("/")
    if not slash:
        return key in BARE or key.startswith(HUGE_PAGES_PREFIX)
    return name in ROLES if domain in COINED else is_well_known_domain(domain)


def is_well_known_domain(domain: str) -> bool:
    """Whether the domain, or one above it, is in DOMAINS."""
    labels = domain.split(".")
    return any(".".join(labels[start:]) in DOMAINS for start in range(len(labels)))
