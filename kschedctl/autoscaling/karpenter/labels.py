"""Labels that Karpenter knows, and labels that may not be required.

Upstream: pkg/apis/v1/labels.go, kwok/apis/v1alpha1/labels.go (sigs.k8s.io/karpenter v1.14.1).
"""

from __future__ import annotations

from collections.abc import Iterable

GROUP, KWOK_GROUP = "karpenter.sh", "karpenter.kwok.sh"
NODE_POOL, CAPACITY_TYPE = f"{GROUP}/nodepool", f"{GROUP}/capacity-type"
REGISTERED, INITIALIZED = f"{GROUP}/registered", f"{GROUP}/initialized"
DO_NOT_DISRUPT = f"{GROUP}/do-not-disrupt"
MIN_VALUES_RELAXED = f"{GROUP}/nodeclaim-min-values-relaxed"
PRICE_OVERLAID, CAPACITY_OVERLAID = f"{GROUP}/price-overlay-applied", f"{GROUP}/capacity-overlay-applied"
HOSTNAME = "kubernetes.io/hostname"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
INSTANCE_TYPE, ARCH, OS = "node.kubernetes.io/instance-type", "kubernetes.io/arch", "kubernetes.io/os"
SIZE, FAMILY = f"{KWOK_GROUP}/instance-size", f"{KWOK_GROUP}/instance-family"
CPU, MEMORY = f"{KWOK_GROUP}/instance-cpu", f"{KWOK_GROUP}/instance-memory"
RESERVATION_ID = f"{KWOK_GROUP}/reservation-id"
SPOT, ON_DEMAND, RESERVED = "spot", "on-demand", "reserved"
CAPACITY_TYPES = frozenset((SPOT, ON_DEMAND, RESERVED))
PROVIDER_CAPACITY_TYPES = {
    ("eks.amazonaws.com/capacityType", "ON_DEMAND"): ON_DEMAND,
    ("eks.amazonaws.com/capacityType", "SPOT"): SPOT,
    ("kubernetes.azure.com/scalesetpriority", "spot"): SPOT,
    ("kubernetes.azure.com/scalesetpriority", "regular"): ON_DEMAND,
    ("cloud.google.com/gke-provisioning", "standard"): ON_DEMAND,
    ("cloud.google.com/gke-provisioning", "spot"): SPOT,
    ("cloud.google.com/gke-spot", "true"): SPOT,
}
"""(label, value) -> the capacity type of nodes that Karpenter did not launch, from labels of EKS, AKS and GKE."""

WELL_KNOWN = frozenset(
    (
        NODE_POOL,
        ZONE,
        REGION,
        INSTANCE_TYPE,
        ARCH,
        OS,
        CAPACITY_TYPE,
        "node.kubernetes.io/windows-build",
        SIZE,
        FAMILY,
        CPU,
        MEMORY,
        RESERVATION_ID,
    )
)
"""Labels that pods may require although no pool defines them. Labels of offerings are added to them."""
INSTANCE_TYPE_PREFIXES = ("karpenter.k8s.aws/instance-", "karpenter.azure.com/sku-", "karpenter.k8s.gcp/instance-")
"""Prefixes of providers' labels that describe instance types. They are well known if a type has them."""
SIMULATION_LABELS = frozenset((REGISTERED, INITIALIZED))
"""Labels of templates that DaemonSets may require. NodeClaims do not have them."""
NORMALIZED = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    "beta.kubernetes.io/arch": ARCH,
    "beta.kubernetes.io/os": OS,
    "beta.kubernetes.io/instance-type": INSTANCE_TYPE,
}
RESTRICTED_DOMAINS = (KWOK_GROUP, GROUP)


def describe_label_restriction(key: str, well_known: Iterable[str]) -> str:
    """Describe in Karpenter's words why pods may not require the label, or return "" if they may.

    The hostname and labels in Karpenter's restricted domains may be required only if they are well known. All other
    labels may be required.
    """
    allowed = frozenset(well_known)
    if key in allowed:
        return ""
    domain, slash, _ = key.partition("/")
    is_restricted = slash and any(
        domain == restricted or domain.endswith(f".{restricted}") for restricted in RESTRICTED_DOMAINS
    )
    if not is_restricted and key != HOSTNAME:
        return ""
    return (
        f"using label {key} is not allowed as it might interfere with the internal provisioning logic; specify a well "
        f"known label: [{' '.join(sorted(allowed))}], or a custom label that does not use a restricted domain: "
        f"[{' '.join(RESTRICTED_DOMAINS)}]"
    )


def suggest_label(key: str, defined: Iterable[str], well_known: Iterable[str]) -> str:
    """Return a hint with the label that the misspelled ``key`` probably means, or "" if no label is similar.

    Well-known labels are preferred to ``defined`` labels.
    """
    name_without_domain = key.partition("/")[2] if "/" in key else key
    for names in (well_known, defined):
        for name in sorted(names):
            if key in name or name.endswith(name_without_domain):
                return f' (typo of "{name}"?)'
    return ""
