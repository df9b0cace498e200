"""Tolerations of taints that nobody sets, but for a slip of the finger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kschedctl.api.objects import Taint, Toleration
from kschedctl.lint import documentation as doc
from kschedctl.lint.near_names import one_meant
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.workload import InvalidFieldError, typed_at
from kschedctl.lint.world import World

_OF_KUBERNETES = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/network-unavailable",
    "node.kubernetes.io/unschedulable",
    "node.kubernetes.io/out-of-service",
    "node.cloudprovider.kubernetes.io/uninitialized",
    "node.cloudprovider.kubernetes.io/shutdown",
)
_OF_OTHERS = (
    *("CriticalAddonsOnly", "ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    *("nvidia.com/gpu", "amd.com/gpu", "habana.ai/gaudi", "google.com/tpu", "aws.amazon.com/neuron"),
    *("karpenter.sh/disrupted", "karpenter.sh/unregistered", "node.cilium.io/agent-not-ready"),
    *("kubernetes.azure.com/scalesetpriority", "cloud.google.com/gke-spot", "eks.amazonaws.com/compute-type"),
    *("node-role.kubernetes.io/infra", "node-role.kubernetes.io/etcd", "sandbox.gke.io/runtime"),
)
_ALSO_SET = frozenset({"node-role.kubernetes.io/controlplane", "node.alpha.kubernetes.io/ismaster"})
"""Nearly Kubernetes' own, and yet somebody's: of RKE."""
KNOWN = (*_OF_KUBERNETES, *_OF_OTHERS)
_BY_NAME = {key.rpartition("/")[2]: key for key in _OF_KUBERNETES}
_FAMILY = "kubernetes.io"


def misspelt(world: World) -> Iterator[Problem]:
    declared = list(_declared(world)) if world.cluster is None else []
    keys = [*KNOWN, *(taint.key for taint in declared)]
    for workload in world.workloads:
        for i, toleration in enumerate(workload.spec.tolerations):
            if meant := _key_meant(toleration.key, keys):
                message = f"no node has a taint {toleration.key}"
                yield workload.problem(("tolerations", i, "key"), message, f"Write {meant}")
            elif meant := _value_meant(toleration, declared):
                message = f"no node has the taint {toleration.key}={toleration.value}"
                yield workload.problem(("tolerations", i, "value"), message, f"Write {meant}")


def _key_meant(key: str, known: Iterable[str]) -> str:
    """The taint's key that was meant, in the domain where Kubernetes has it; empty where the key may be somebody's."""
    if not key or key in known or key in _ALSO_SET:
        return ""
    domain, _, name = key.rpartition("/")
    of_kubernetes = _BY_NAME.get(name, "") if domain == _FAMILY or domain.endswith("." + _FAMILY) else ""
    return of_kubernetes or one_meant(key, known)


def _value_meant(toleration: Toleration, declared: Iterable[Taint]) -> str:
    """Of the taints with the key, where none has the value, the value that is nearly it."""
    values = {taint.value for taint in declared if taint.key == toleration.key}
    wanted = toleration.operator in (None, "", "Equal") and toleration.value and toleration.value not in values
    return one_meant(toleration.value, values) if wanted else ""


def _declared(world: World) -> Iterator[Taint]:
    """The taints of the NodePools and Nodes among the manifests."""
    for _, pool in world.linted("NodePool"):
        yield from pool.spec.template.spec.taints
    for subject in world.subjects:
        spec = subject.document.get("spec") if subject.kind == "Node" else None
        try:
            yield from typed_at((), spec.get("taints") or [], tuple[Taint, ...]) if isinstance(spec, dict) else ()
        except InvalidFieldError:
            continue


RULES = (
    Rule(
        "tt-misspelt",
        WARNING,
        misspelt,
        summary="A toleration of what is nearly a well-known taint, or one of the manifests' nodes",
        why="No node has such a taint: the toleration does nothing, and the nodes that were meant stay closed.",
        fix="Correct the key or the value",
        source=doc.TAINTS,
    ),
)
