"""A running control plane: controllers and the scheduler take turns until nothing changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from control_plane import objects, workloads
from control_plane.patches import merge_patch
from control_plane.store import Key, Store
from kschedctl.cluster import FIELDS, Cluster
from kschedctl.replay.kubectl import to_document
from kschedctl.replay.settling import find_pods_still_pending
from kschedctl.scheduler.scheduler import Scheduler
from kschedctl.scheduler.simulation.simulation import Simulation

Json = dict[str, Any]
MOST_ROUNDS = 200
BOUND_BY_SCHEDULER = ("PersistentVolumeClaim", "PersistentVolume", "ResourceClaim")


def run(store: Store, gates: Mapping[str, bool] | None = None, config: Json | None = None) -> None:
    """Run controllers and scheduler until nothing changes. Fails if that does not happen."""
    content = store.encode()
    for _ in range(MOST_ROUNDS):
        before = len(store.log), content
        workloads.reconcile_workloads(store)
        objects.reconcile_storage(store)
        content = store.encode()
        if (len(store.log), content) == before:
            if not schedule(store, content, gates, config):
                return
            content = store.encode()
    raise AssertionError(f"the control plane does not settle: {store.log[-10:]}")


def schedule(store: Store, content: bytes, gates: Mapping[str, bool] | None, config: Json | None) -> bool:
    """Schedule the waiting pods by our replay, with bindings and preemptions, and return whether anything changed.

    ``content`` is the encoded content of the store. If it was scheduled before, nothing is done.
    """
    waiting = [pod for pod in store.of_kind("Pod") if not pod["spec"].get("nodeName")]
    if not waiting or content == getattr(store, "seen", None):
        return False
    store.seen = content  # type: ignore[attr-defined]
    read = [each for each in store.documents() if each["kind"] in FIELDS and each["kind"] not in ("ReplicaSet",)]
    cluster = Cluster.from_objects(read, config, gates, other_builds=True)
    simulation = Simulation(Scheduler(cluster))
    outcomes = simulation.schedule(find_pods_still_pending(simulation))
    view = simulation.view
    keys = [view.pods.objects[position].metadata for position in range(len(view.pods))]
    for outcome in outcomes:
        for victim in outcome.victims:
            key = Key("Pod", keys[victim].namespace, keys[victim].name)
            if key in store.objects:
                store.log.append(f"evicted {key}")
                store.delete(key)
    for outcome in outcomes:
        key = Key("Pod", keys[outcome.position].namespace, keys[outcome.position].name)
        if outcome.row >= 0 and key in store.objects:
            node = view.nodes.names[outcome.row]
            store.objects[key]["spec"]["nodeName"] = node
            store.objects[key].setdefault("status", {})["phase"] = "Running"
            store.log.append(f"bound {key} to {node}")
    _write_back(store, cluster, view.cluster)
    return any(outcome.row >= 0 or outcome.victims for outcome in outcomes)


def _write_back(store: Store, before: Cluster, after: Cluster) -> None:
    """Store what the scheduler wrote to claims and volumes."""
    for kind in BOUND_BY_SCHEDULER:
        known = {(each.metadata.namespace, each.metadata.name): each for each in getattr(before, FIELDS[kind])}
        for each in getattr(after, FIELDS[kind]):
            name = each.metadata.namespace, each.metadata.name
            if each is not known.get(name) and each != known.get(name):
                key = Key(kind, *(name if kind != "PersistentVolume" else ("", name[1])))
                if key in store.objects:
                    store.objects[key] = merge_patch(store.objects[key], to_document(each))
