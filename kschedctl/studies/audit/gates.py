"""Who is likely to hold a scheduling gate: the domain of its name tells whose controllers take it away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kschedctl.api.objects import Pod
from kschedctl.reports.audit.pending import GateHolder


class Holder(NamedTuple):
    """Whose gates these are, and how to see what they wait for; NAMESPACE and POD stand for those of the pod."""

    name: str
    fix: str


KUEUE = Holder(
    "Kueue",
    "kubectl get workloads.kueue.x-k8s.io -n NAMESPACE tells what its workload waits for: quota, or admission checks",
)
HOLDERS: Mapping[str, Holder] = {
    "kueue.x-k8s.io/topology": Holder(
        "Kueue's topology-aware scheduling", "Its workload is admitted; look at the log of kueue-controller-manager"
    ),
    "kueue.x-k8s.io": KUEUE,
    "scheduling.volcano.sh": Holder(
        "Volcano's queue admission", "kubectl get podgroups.scheduling.volcano.sh,queues.scheduling.volcano.sh -A"
    ),
    "multiarch.openshift.io": Holder(
        "OpenShift's Multiarch Tuning Operator",
        "It reads the image's architectures: look at deployment pod-placement-controller, and whether the image exists",
    ),
    "grove.io": Holder("the operator of Grove", "kubectl get podgangs.scheduler.grove.io -n NAMESPACE"),
    "gke.io": Holder("GKE's topology-aware scheduler", "Look at the topology scheduler's pod in kube-system"),
    "gke-gcsfuse": Holder("GKE's Cloud Storage FUSE driver", "It scans the bucket of a volume: see the pod's events"),
    "experimental.s3.csi.aws.com": Holder("the Mountpoint for Amazon S3 CSI driver", "Look at s3-csi-controller's log"),
    "agents.kruise.io": Holder("OpenKruise Agents", "Look at the log of its manager"),
}
"""The name of a gate, or its domain -> its holder; from the holders' own documents and sources."""


def gates_of(pod: Pod) -> tuple[GateHolder, ...]:
    """The gates of a pod with who holds them.

    >>> from kschedctl.api.objects import PodMeta, PodSchedulingGate, PodSpec
    >>> spec = PodSpec(scheduling_gates=(PodSchedulingGate("kueue.x-k8s.io/admission"), PodSchedulingGate("mine")))
    >>> [(each.gate, each.holder) for each in gates_of(Pod(PodMeta("p", "shop"), spec))]
    [('kueue.x-k8s.io/admission', 'Kueue'), ('mine', '')]
    """
    return tuple(_holder(gate.name, pod.metadata.namespace) for gate in pod.spec.scheduling_gates)


def _holder(gate: str, namespace: str) -> GateHolder:
    domain, slash, _ = gate.partition("/")
    found = HOLDERS.get(gate) or (HOLDERS.get(domain) if slash else None)
    if found is not None:
        return GateHolder(gate=gate, holder=found.name, fix=found.fix.replace("NAMESPACE", namespace))
    whose = f"a controller of {domain}" if slash else ""
    return GateHolder(gate=gate, holder=whose)
