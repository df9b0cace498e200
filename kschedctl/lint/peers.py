"""What other linters say about where pods go, and the rule here that says it, or why none does."""

from __future__ import annotations

from typing import NamedTuple


class PeerCheck(NamedTuple):
    """``rules``: those that say it here, "" for none; ``why`` there is none, or what is different."""

    checks: str
    rules: str
    why: str = ""


_COUNTS = "how many replicas a workload needs is its owner's to say"
_LIMITS = "the scheduler does not read limits; whether to set them is a choice of its own"

PEERS: dict[str, tuple[PeerCheck, ...]] = {
    "kube-linter": (
        PeerCheck("no-anti-affinity", "ts-missing af-no-host-anti", "a spread constraint will do as well"),
        PeerCheck("no-node-affinity", "", "most pods may go anywhere"),
        PeerCheck("unset-cpu-requirements, unset-memory-requirements", "rq-missing", "limits aside"),
        PeerCheck("pdb-max-unavailable, pdb-min-available", "pdb-zero-disruptions pdb-percent-rounding"),
        PeerCheck("pdb-unhealthy-pod-eviction-policy", "pdb-unhealthy-policy"),
        PeerCheck("priority-class-name", "pc-not-set pc-missing"),
        PeerCheck("mismatching-selector, restart-policy, schema-validation", "api-refused api-unknown-field"),
        PeerCheck("no-extensions-v1beta, no-rolling-update-strategy", "api-version-removed", "rolling is the default"),
        PeerCheck("minimum-three-replicas, hpa-minimum-three-replicas", "", _COUNTS),
    ),
    "kube-score": (
        PeerCheck(
            "deployment-has-host-podantiaffinity, statefulset-has-host-podantiaffinity", "ts-missing af-no-host-anti"
        ),
        PeerCheck(
            "deployment-has-poddisruptionbudget, statefulset-has-poddisruptionbudget", "pdb-missing pdb-selects-nothing"
        ),
        PeerCheck("poddisruptionbudget-has-policy", "pdb-no-policy"),
        PeerCheck("container-resources", "rq-missing", _LIMITS),
        PeerCheck("container-ephemeral-storage-request-and-limit", "rq-ephemeral-missing"),
        PeerCheck("container-resource-requests-equal-limits", "", _LIMITS),
        PeerCheck("statefulset-has-servicename", "ss-no-service"),
        PeerCheck("deployment-pod-selector-labels-match-template-metadata-labels, label-values", "api-refused"),
        PeerCheck("deployment-replicas, horizontalpodautoscaler-replicas", "", _COUNTS),
    ),
    "polaris": (
        PeerCheck("cpuRequestsMissing, memoryRequestsMissing", "rq-missing"),
        PeerCheck("cpuLimitsMissing, memoryLimitsMissing", "", _LIMITS),
        PeerCheck("priorityClassNotSet", "pc-not-set", "only where others have one"),
        PeerCheck("topologySpreadConstraint", "ts-missing"),
        PeerCheck("missingPodDisruptionBudget", "pdb-missing"),
        PeerCheck("pdbDisruptionsIsZero", "pdb-zero-disruptions"),
        PeerCheck("pdbMinAvailableGreaterThanHPAMinReplicas", "pdb-over-hpa-min"),
        PeerCheck("deploymentMissingReplicas, hpaMinAvailability, hpaMaxAvailability", "", _COUNTS),
    ),
    "popeye": (
        PeerCheck("POP-106", "rq-missing"),
        PeerCheck("POP-107", "", _LIMITS),
        PeerCheck("POP-206", "pdb-missing"),
        PeerCheck("POP-700", "tt-taint-nobody-tolerates"),
        PeerCheck("POP-701 to POP-707", "nd-not-ready"),
        PeerCheck("POP-709, POP-710", "", "what is used is not what is requested, and only that decides"),
        PeerCheck("POP-711", "tt-all-eligible-cordoned"),
        PeerCheck("POP-900, POP-901", "pdb-selects-nothing pdb-zero-disruptions"),
        PeerCheck("POP-1003, POP-1004", "vl-missing"),
    ),
}
"""Linter -> its checks about placement."""


def peers_text() -> str:
    """As a section of the table of rules."""
    lines = [
        "## What other linters say about placement\n",
        "| Linter | Its checks | Here | |",
        "| --- | --- | --- | --- |",
    ]
    for linter, checks in PEERS.items():
        for check in checks:
            here = ", ".join(f"`{rule}`" for rule in check.rules.split()) or "none"
            lines.append(f"| {linter} | {check.checks} | {here} | {check.why} |")
    return "\n".join(lines) + "\n"
