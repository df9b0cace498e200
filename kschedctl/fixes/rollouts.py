"""A change of a pod's template replayed as its controller makes it: all pods of the workload, within its limits.

The pod alone fits after each remedy; its siblings get the same template, and they move, restart and preempt with it.
The pods that they evict come back, which may take the room again.
Upstream: pkg/controller/{deployment,replicaset,statefulset,daemon,job} (v1.36). Strategies are not read where no
manifest says them: those that the API server sets by default are replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from kschedctl.api.arrays import Position
from kschedctl.api.objects import OwnerReference, Pod, PodSpec, PodStatus, Struct
from kschedctl.api.observed.failed_creation import shorten_api_message
from kschedctl.api.ownership import REVISION, TEMPLATE_HASH, Owner, find_owner
from kschedctl.api.workloads import (
    NEW,
    DaemonSet,
    Deployment,
    DeploymentSpec,
    RollingUpdate,
    StatefulSet,
    UpdateStrategy,
    pin_to_node,
)
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError
from kschedctl.fixes.ranking import Ranked
from kschedctl.fixes.trial.trials import RemedyTrial, changed_cluster
from kschedctl.lint.objects.stored_pods import to_written_spec
from kschedctl.replay.controllers.admissions import Admissions
from kschedctl.replay.controllers.creation import create
from kschedctl.replay.controllers.plan_change import ExistingPods, is_controlled_by, rank_for_removal
from kschedctl.replay.controllers.remaining_quotas import create_allowed_claims
from kschedctl.replay.controllers.rollout import Rollout, RolloutCreation, rename_replaced_pods, roll_out
from kschedctl.replay.controllers.workload_change import WorkloadChange, get_slot, set_rollout_limits
from kschedctl.replay.controllers.workload_pods import ORDINAL_LABELS
from kschedctl.replay.edits import add_pods, change_pods
from kschedctl.replay.object_keys import ObjectKey
from kschedctl.replay.placements import report_evictions, summarize_evictions
from kschedctl.replay.settling import recreate_evicted
from kschedctl.reports.eviction_chain import EvictionChain
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation
from kschedctl.snapshot.fork import Fork
from kschedctl.text.counts import agreeing, first_few

KEEPS_OTHERS = frozenset({"ReplicaSet", "ReplicationController"})
"""Kinds whose pods keep their template until they are deleted."""

DESIRED, MOST = "deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"
REVISION_NUMBER = "deployment.kubernetes.io/revision"
MOST_REFUSED = 3


class RolledOut(NamedTuple):
    """What a changed template did: running pods of the ``owner`` were ``restarted``, the ``victims`` of others evicted.

    ``refused``: why nobody should do it; empty where more pods of the workload have a node in the end. ``chain``: what
    becomes of the victims, None if there are none.
    """

    owner: Owner
    restarted: int = 0
    victims: tuple[str, ...] = ()
    refused: str = ""
    chain: EvictionChain | None = None


class Rollouts:
    """Rollouts of trials' changes, each replayed once, and only when it is asked for."""

    def __init__(self, manifest: Struct | None = None) -> None:
        self._manifest = manifest
        self._known: dict[int, tuple[RemedyTrial, RolledOut | None]] = {}

    def of(self, trial: RemedyTrial) -> RolledOut | None:
        """Return what the trial's changes do; None if no other pod has the changed template and nobody is evicted."""
        if id(trial) not in self._known:
            self._known[id(trial)] = trial, _replayed(trial, self._manifest)
        return self._known[id(trial)][1]

    def holds(self, trial: RemedyTrial) -> bool:
        rolled_out = self.of(trial)
        return rolled_out is None or not rolled_out.refused

    def refused(self) -> Iterator[str]:
        """What was asked about and would do harm, and why."""
        for trial, rolled_out in islice(((t, f) for t, f in self._known.values() if f and f.refused), MOST_REFUSED):
            assert rolled_out is not None
            yield f"{' and '.join(fix.text for fix in trial.changes)}: {rolled_out.refused}"

    def holding(self, best: Iterable[Ranked]) -> Iterator[Ranked]:
        """The ranked sets that hold, each replayed when it is its turn."""
        for candidate in best:
            first, *others = [trial for trial in (candidate.trial, *candidate.others) if self.holds(trial)] or (None,)
            if first is not None:
                yield Ranked(first, tuple(other for other in others if other is not None))


def changes_template(trial: RemedyTrial) -> bool:
    """Whether what makes the pod is changed."""
    own = next((edit for key, edit in trial.edits.items() if key == ObjectKey.of(trial.own)), None)
    return own is not None and isinstance(own.before, Pod) and own.before.spec != trial.own.spec


def _replayed(trial: RemedyTrial, manifest: Struct | None) -> RolledOut | None:
    owner, own = find_owner(trial.own), ObjectKey.of(trial.own)
    alone = owner.kind in ("Pod", "Node") or not changes_template(trial)
    if alone and not trial.victims:
        return None
    edits = {key: edit for key, edit in trial.edits.items() if key != own}
    cluster = changed_cluster(trial.scheduler.cluster, edits, whole=True)
    old = [] if alone else ExistingPods(cluster).pods_of(*owner)
    if not any(pod.key != trial.own.key for pod in old):
        return _preempting_alone(owner, trial, cluster) if trial.victims else None
    try:
        change, cluster = _planned(owner, trial, old, cluster, manifest)
    except InputError as error:
        return RolledOut(owner, refused=f"its pods are not created: {error.what}")
    staying = {pod.key for pod in (*change.kept, *change.removed)}
    deleted = [pod for pod in old if pod.key not in staying]
    return _rolled_out(owner, change, Scheduler(cluster, trial.scheduler.call_extender), deleted)


def _preempting_alone(owner: Owner, trial: RemedyTrial, cluster: Cluster) -> RolledOut:
    """Let the pod alone preempt in the changed ``cluster``, and follow the replacements of its victims."""
    pod = trial.pod
    if cluster.pod(pod.metadata.namespace, pod.metadata.name) is None:
        cluster = add_pods(cluster, [pod])
    else:
        cluster = change_pods(cluster, {(pod.metadata.namespace, pod.metadata.name): pod})
    simulation = recreate_evicted(Simulation(Scheduler(cluster, trial.scheduler.call_extender)))
    position = _position(simulation.view, pod)
    simulation.schedule([position])
    rolled_out = _with_evictions(RolledOut(owner), simulation, [position])
    if simulation.view.node[position] >= 0:
        return rolled_out
    return rolled_out._replace(refused=_why_in_vain(rolled_out))


def _with_evictions(rolled_out: RolledOut, simulation: Simulation, own: Sequence[Position]) -> RolledOut:
    """Return the result with the pods that were evicted, the workload's ``own`` ones aside, and their chain."""
    evicted = report_evictions(simulation)
    keys = {simulation.view.pods.objects[position].key for position in own}
    victims = tuple(dict.fromkeys(pod.pod for pod in evicted if pod.pod not in keys))
    return rolled_out._replace(victims=victims, chain=summarize_evictions(simulation, evicted))


def _why_in_vain(rolled_out: RolledOut) -> str:
    """Return why a pod that evicts others has no node in the end."""
    victims, chain = rolled_out.victims, rolled_out.chain
    evicts = f"it evicts {first_few(victims)}" if victims else "it evicts nobody"
    if chain is not None and chain.outrun:
        return f"{evicts}, whose replacements take the node again before the pod gets there"
    return f"{evicts}, and has no node in the end"


def _planned(
    owner: Owner, trial: RemedyTrial, old: Sequence[Pod], cluster: Cluster, manifest: Struct | None
) -> tuple[WorkloadChange, Cluster]:
    """What becomes of the pods, and the cluster in which the old and the new ones both are. Raises InputError."""
    asked, before = trial.own, trial.edits[ObjectKey.of(trial.own)].before
    assert isinstance(before, Pod)
    siblings = [pod for pod in old if pod.key != asked.key]
    change, workload = WorkloadChange(str(owner)), _workload(owner, cluster, manifest)
    if owner.kind in KEEPS_OTHERS:
        change.kept, wanted = siblings, 1
    else:
        change.removed = rank_for_removal(siblings if owner.kind == "StatefulSet" else old)
        wanted = _replicas(workload) or 1 + len(siblings)
    made = [_new(asked, pod, number) for number, pod in enumerate((before, *siblings)[:wanted])]
    creation = create(cluster, made)
    create_allowed_claims(cluster, creation, creation.pods)
    change.new = [_with_priority(pod, asked) for pods in creation.pods.values() for pod in pods]
    _set_pace(change, workload)
    gone = {(pod.metadata.namespace, pod.metadata.name): None for pod in old if pod not in change.kept}
    cluster = change_pods(creation.apply_to(cluster), gone)
    return change, add_pods(cluster, (*rename_replaced_pods(change), *change.new))


def _workload(owner: Owner, cluster: Cluster, manifest: Struct | None) -> Struct | None:
    """The workload by its manifest, or by what its controller noted at ReplicaSets; the rest is by default."""
    if isinstance(manifest, Deployment | StatefulSet | DaemonSet):
        return manifest
    if owner.kind in (*KEEPS_OTHERS, "Job"):
        return None
    noted = [
        replica_set.metadata.annotations for replica_set in cluster.replica_sets if is_controlled_by(owner, replica_set)
    ]
    last = max(
        (annotations for annotations in noted if annotations.get(DESIRED, "").isdigit()), key=_revision, default=None
    )
    if last is None:
        return {"StatefulSet": StatefulSet(), "DaemonSet": DaemonSet()}.get(owner.kind, Deployment())
    desired, most = int(last[DESIRED]), last.get(MOST, "")
    update = RollingUpdate(max_surge=max(int(most) - desired, 0) if most.isdigit() else None)
    return Deployment(spec=DeploymentSpec(desired, strategy=UpdateStrategy(rolling_update=update)))


def _replicas(workload: Struct | None) -> int | None:
    return workload.spec.replicas if isinstance(workload, Deployment | StatefulSet) else None


def _revision(annotations: Mapping[str, str]) -> int:
    written = annotations.get(REVISION_NUMBER, "")
    return int(written) if written.isdigit() else 0


def _set_pace(change: WorkloadChange, workload: Struct | None) -> None:
    """Two that wait are of a StatefulSet that makes them in parallel.

    Who changes a StatefulSet deletes the pod that waits, for which it would wait forever: that one's place is empty.
    """
    if workload is None:
        return
    set_rollout_limits(change, workload)
    if isinstance(workload, StatefulSet):
        parallel = any(not pod.spec.node_name for pod in change.removed)
        change.ordered = workload.spec.pod_management_policy != "Parallel" and not parallel


def _new(template: Pod, old: Pod, number: int) -> Pod:
    """The pod that comes for an old one, as its controller creates it."""
    owner, meta = find_owner(template), old.metadata
    labels = dict(template.metadata.labels)
    labels |= {name: NEW for name in (TEMPLATE_HASH, REVISION) if name in labels and owner.kind not in KEEPS_OTHERS}
    labels |= {name: meta.labels[name] for name in ORDINAL_LABELS if name in meta.labels}
    name = meta.name if owner.kind == "StatefulSet" else f"{owner.name}-{NEW}-{number}"
    references = tuple(_of_new_set(reference, owner) for reference in template.metadata.owner_references)
    spec = _spec(to_written_spec(template), owner, template, old)
    made = replace(
        template.metadata, name=name, uid="", labels=labels, owner_references=references, creation_timestamp=None
    )
    return Pod(made, spec, PodStatus("Pending"))


def _of_new_set(reference: OwnerReference, owner: Owner) -> OwnerReference:
    return replace(reference, name=f"{owner.name}-{NEW}") if owner.kind == "Deployment" else reference


def _spec(spec: PodSpec, owner: Owner, template: Pod, old: Pod) -> PodSpec:
    """Without a node and what admission sets; a DaemonSet's pod for its node, a StatefulSet's with its own claims."""
    spec = replace(spec, node_name="", priority=None, preemption_policy=None)
    if owner.kind == "DaemonSet":
        return replace(spec, affinity=pin_to_node(spec.affinity, get_slot(old)))
    if owner.kind != "StatefulSet":
        return spec
    volumes = list(spec.volumes)
    for place, volume in enumerate(volumes):
        source = volume.persistent_volume_claim
        if source is not None and source.claim_name == f"{volume.name}-{template.metadata.name}":
            own = replace(source, claim_name=f"{volume.name}-{old.metadata.name}")
            volumes[place] = replace(volume, persistent_volume_claim=own)
    return replace(spec, volumes=tuple(volumes))


def _with_priority(pod: Pod, asked: Pod) -> Pod:
    """With that of the changed template where admission did not know its class."""
    if pod.spec.priority is not None:
        return pod
    spec = replace(pod.spec, priority=asked.spec.priority, preemption_policy=asked.spec.preemption_policy)
    return replace(pod, spec=spec)


def _rolled_out(owner: Owner, change: WorkloadChange, scheduler: Scheduler, deleted: Sequence[Pod]) -> RolledOut:
    """``deleted``: the pods that somebody deletes before."""
    simulation = Simulation(scheduler)
    view = simulation.view
    own = [_position(view, pod) for pod in (*change.kept, *rename_replaced_pods(change), *change.new)]
    before = int((view.node[own] >= 0).sum())
    creation = RolloutCreation(Admissions(scheduler.cluster, {}), owner, None, change)
    creation.release(deleted)
    rollout = Rollout(change, simulation, lambda pod: _position(view, pod), creation)
    recreate_evicted(simulation, frozenset(rollout.old))
    roll_out([rollout], simulation)
    placed = int((view.node[own] >= 0).sum())
    restarted = sum(bool(pod.spec.node_name) for pod in change.removed)
    rolled_out = _with_evictions(RolledOut(owner, restarted), simulation, own)
    if any(eviction.victim in own for eviction in simulation.evictions):
        return rolled_out._replace(refused="its rollout evicts pods of its own")
    if rollout.denied is not None:
        return rolled_out._replace(refused=f"its pods are not created: {shorten_api_message(creation.denials[0])}")
    if rollout.old or rollout.coming:
        return rolled_out._replace(refused=f"its rollout gets {rollout.status}")
    if placed < min(before + 1, change.desired) and rolled_out.chain and rolled_out.chain.outrun:
        return rolled_out._replace(refused=_why_in_vain(rolled_out))
    if placed < min(before + 1, change.desired):
        return rolled_out._replace(
            refused=f"{placed} of its pods {agreeing(placed, 'has', 'have')} a node then, "
            f"{before} {agreeing(before, 'has', 'have')} one now"
        )
    return rolled_out


def _position(view: Fork, pod: Pod) -> Position:
    position = view.pods.find_position(pod.key)
    assert position is not None
    return position
