"""A simulated operator who carries out a fix on a control plane, by its commands if it has any."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from command_worlds import World
from control_plane import kubectl
from control_plane.running import run
from control_plane.store import Json, Key, Store, apply_patch
from control_plane.validation import complete_volume, explain_rejected_creation
from control_plane.workloads import find_workload, is_ready
from control_plane.world import build_store

from kschedctl.cluster import FIELDS, Cluster
from kschedctl.commands.remedies import remedies
from kschedctl.commands.remedies.report import Remedies
from kschedctl.fixes.search import RemedyCriteria
from kschedctl.reports.remedy import Remedy

OF_SYSTEMS = {"Node", "CSINode", "CSIStorageCapacity", "ResourceSlice"}
"""Kinds that kubelets and drivers write."""


class Operator:
    """A user who asks about a pod of a control plane without other waiting pods, and tries each fix on a copy of it."""

    def __init__(self, world: World) -> None:
        self.world, self.asked = world, Key("Pod", *world.asked.split("/"))
        alone = [each for each in world.documents if not _is_waiting(each) or Key.of(each) == self.asked]
        self.store = build_store(alone, world.asked)
        self._run(self.store)
        if is_ready(self.store.read(self.asked)):  # something that works here does not work in the documents
            self.store = build_store(alone, world.asked)

    def _run(self, store: Store) -> None:
        run(store, self.world.gates, self.world.config)

    def find_fixes(self) -> Remedies:
        """Return the fixes for the pod, without the plan of moves, which this operator cannot carry out."""
        read = [each for each in self.store.documents() if each["kind"] in FIELDS]
        cluster = Cluster.from_objects(read, self.world.config, self.world.gates, other_builds=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("kschedctl.commands.remedies.add_room_plan", lambda report, *_: report)
            return remedies(cluster, self.world.asked, RemedyCriteria(self.world.most))

    def explain_wrong_outcome(self, remedy: Remedy) -> str:
        """Apply the remedy's commands, and return how the outcome differs from the answer, or "" if it does not.

        Raises RefusedError if a command is rejected.
        """
        store = self.carry_out(remedy)
        if lost := [line for line in store.log if "DATA LOST" in line and "lost" not in (remedy.weakens or "")]:
            return lost[0]
        workload = find_workload(self.store, self.store.read(self.asked))
        return self._explain_wrong_node(store, workload, sum(map(is_ready, list_pods(self.store, workload))), remedy)

    def carry_out(self, remedy: Remedy) -> Store:
        """Return a copy of the control plane on which the remedy was carried out.

        Raises RefusedError if a request is rejected.
        """
        store = self.store.copy()
        _make_uncommanded_changes(store, remedy)
        for command in remedy.commands:
            kubectl.run(store, command)
            self._run(store)
        for manifest in remedy.manifests:
            assert explain_rejected_creation(manifest), f"{manifest} is accepted before anybody completes it"
            store.create(complete_volume(manifest))
        self._run(store)
        return store

    def is_placed(self, store: Store) -> bool:
        """Return whether the pod has a node.

        If the pod was replaced, return whether more pods of its workload have a node than before, or all of them.
        """
        if self.asked in store.objects:
            return is_ready(store.read(self.asked))
        workload = find_workload(self.store, self.store.read(self.asked))
        assert workload is not None
        before = sum(map(is_ready, list_pods(self.store, workload)))
        after = sum(map(is_ready, list_pods(store, store.get(Key.of(workload)))))
        return after > before or after == workload["spec"].get("replicas")

    def apply_changes(self, remedy: Remedy) -> None:
        """Send the remedy's changes to the API server as JSON patches.

        Raises RefusedError if the API server rejects a change.
        """
        if remedy.needs_values:
            return
        store = self.store.copy()
        for each in remedy.changes:
            if "create" in each:
                store.create(each["create"])
            elif "delete" in each:
                if _build_key(each["delete"]) in store.objects:  # else its owner is gone, and it is with it
                    store.delete(_build_key(each["delete"]))
            elif each.get("anew"):
                new = apply_patch(store.read(_build_key(each)), each["patch"], "json")
                del store.objects[_build_key(each)]
                store.create(new)
            else:
                store.patch(_build_key(each), each["patch"], "json", each.get("subresource", ""))

    def _explain_wrong_node(self, store: Store, workload: Json | None, before: int, remedy: Remedy) -> str:
        """Return why the pod, or its first replacement, is not on one of the remedy's nodes, or "" if it is."""
        if self.asked in store.objects:
            node = store.read(self.asked)["spec"].get("nodeName")
            return "" if node in remedy.opens else f"the pod is on {node}, not on {remedy.opens}"
        pods = list_pods(store, store.get(Key.of(workload))) if workload else []
        names = {f"bound {Key.of(pod)} to {pod['spec']['nodeName']}" for pod in pods if is_ready(pod)}
        first = next((line for line in store.log if line in names), "none")
        placed, wanted = sum(map(is_ready, pods)), workload["spec"].get("replicas") if workload else None
        if placed <= before and placed != wanted:
            return f"{placed} pods of it have a node, {before} had one"
        return "" if first.rpartition(" ")[2] in remedy.opens else f"{first}, not {remedy.opens}"


def _is_waiting(document: Json) -> bool:
    return document["kind"] == "Pod" and not document["spec"].get("nodeName")


def _make_uncommanded_changes(store: Store, remedy: Remedy) -> None:
    """Make the changes that no command makes.

    Drivers, kubelets and node providers make them, or they happen with time.
    """
    alone = not remedy.manifests and not any(_changes(command) for command in remedy.commands)
    for each in remedy.changes:
        if "create" in each:
            if alone or each["create"]["kind"] in OF_SYSTEMS:
                store.create(each["create"])
            continue
        key = _build_key(each.get("delete", each))
        waited = "delete" in each and key.kind == "Pod" and "deletionTimestamp" in store.read(key)["metadata"]
        if "delete" in each and (alone or waited):
            store.delete(key)
        elif "patch" in each and (alone or key.kind in OF_SYSTEMS - {"Node"} or _is_repaired(key, remedy)):
            store.objects[key] = apply_patch(store.read(key), each["patch"], "json")


def _is_repaired(key: Key, remedy: Remedy) -> bool:
    return key.kind == "Node" and "RepairNode" in remedy.kinds


def _changes(command: str) -> bool:
    """Return whether the command changes anything instead of showing or waiting."""
    return not command.startswith(("kubectl describe ", "kubectl wait "))


def _build_key(named: Mapping[str, str]) -> Key:
    return Key(named["kind"], named["namespace"], named["name"])


def list_pods(store: Store, workload: Json | None) -> list[Json]:
    """Return the pods of a workload, including those of all ReplicaSets of a Deployment.

    Without a workload, return [].
    """
    if workload is None:
        return []
    sets = store.owned(workload, "ReplicaSet")
    return [pod for each in (workload, *sets) for pod in store.owned(each)]
