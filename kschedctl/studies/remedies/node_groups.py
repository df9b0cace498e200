"""Fixes outside the cluster's objects: a node group that may grow further, a template that has the label."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice

from kschedctl.api.json_values import JsonObject, object_at
from kschedctl.api.machines import MachinePool, MachineTemplateOwner
from kschedctl.api.objects import Pod
from kschedctl.api.pod_requests import pod_requests
from kschedctl.autoscaling.node_groups.machines import CLUSTER_API, OPENSHIFT
from kschedctl.cluster import Cluster
from kschedctl.reports.new_node import NewNode, PoolVerdict
from kschedctl.reports.remedies import Remedy
from kschedctl.scheduler.plugins.node_affinity import NodeAffinity

MOST_TRIED = 3
"""A replay is a whole loop of the autoscaler."""
CHANGE_GROUP = "ChangeNodeGroup"
"""The kind of these changes, by which people choose among them."""
KUBERNETES = ("kubernetes.io", "k8s.io")
"""The domains whose labels say how a node is; others give it a role."""
MAX_SIZE = "cluster-api-autoscaler-node-group-max-size"
Replay = Callable[[Sequence[JsonObject]], NewNode]
"""What the autoscaler says of the pod if these were the node groups."""


def node_group_fixes(
    cluster: Cluster, pod: Pod, groups: Sequence[JsonObject], told: NewNode, replay: Replay
) -> tuple[Remedy, ...]:
    """What lets a group grow for a pod for which none does; ``told``: why not. Each is replayed."""
    if told.comes or told.existing_node:
        return ()
    why = {pool.pool: pool for pool in told.pools}
    tried = islice((_Fix(group, change) for group in groups for change in _changes(group, pod, why)), MOST_TRIED)
    return tuple(fix.remedy(cluster) for fix in tried if fix.helps(groups, replay))


class _Fix:
    """One group as it would be: ``change`` holds what it has instead, and the fix in words."""

    def __init__(self, group: JsonObject, change: tuple[JsonObject, str, str]) -> None:
        self.id = str(group["id"])
        self.group = group
        self.changed, self.summary, self.limit = {**group, **change[0]}, change[1], change[2]

    def helps(self, groups: Sequence[JsonObject], replay: Replay) -> bool:
        after = replay([self.changed if group is self.group else group for group in groups])
        return any(pool.pool == self.id and pool.takes for pool in after.pools)

    def remedy(self, cluster: Cluster) -> Remedy:
        commands = tuple(_commands(cluster, self.id, self.limit)) if self.limit else ()
        elsewhere = (f"# where the node group {self.id} is defined: {self.summary[0].lower()}{self.summary[1:]}",)
        opens = (f"a new node of {self.id}",)
        return Remedy(self.summary, "operator", None, opens, commands or elsewhere, (), (CHANGE_GROUP,))


def _changes(group: JsonObject, pod: Pod, why: Mapping[str, PoolVerdict]) -> Iterator[tuple[JsonObject, str, str]]:
    """What of the group may be in the way: its fields as they would be, in words, and its new maximum if it is that."""
    id = str(group["id"])
    verdict = why.get(id, PoolVerdict(id, False, ""))
    target, most = (int(str(group.get(key) or 0)) for key in ("target", "max"))
    if target >= most and verdict.would_take:
        more = target + 1
        yield {"max": more}, f"Raise the maximum of node group {id} from {most:,} to {more:,}", str(more)
    template = group.get("template")
    if not isinstance(template, dict):
        return
    yield from _resource_change(id, template, pod)
    if verdict.plugin == NodeAffinity.name:
        labels = object_at(object_at(template, "metadata"), "labels")
        lacking = {key: value for key, value in pod.spec.node_selector.items() if labels.get(key) != value}
        if lacking and not any(key.partition("/")[0].endswith(KUBERNETES) for key in lacking):
            meta = {**object_at(template, "metadata"), "labels": {**labels, **lacking}}
            words = ", ".join(f"{key}={value}" for key, value in lacking.items())
            yield {"template": {**template, "metadata": meta}}, f"Label the template of node group {id} {words}", ""


def _resource_change(id: str, template: JsonObject, pod: Pod) -> Iterator[tuple[JsonObject, str, str]]:
    """Yield the group with the extended resources in its template that the pod requests and no template field names."""
    status = object_at(template, "status")
    allocatable, capacity = object_at(status, "allocatable"), object_at(status, "capacity")
    requests = {name: str(amount) for name, amount in pod_requests(pod).items() if "/" in name}
    lacking = {name: amount for name, amount in requests.items() if name not in allocatable}
    if lacking:
        more = {"allocatable": {**allocatable, **lacking}, "capacity": {**capacity, **lacking}}
        words = ", ".join(f"{name}: {amount}" for name, amount in lacking.items())
        changed = {"template": {**template, "status": {**status, **more}}}
        yield changed, f"Tell the template of node group {id} its resource {words}", ""


def _commands(cluster: Cluster, id: str, most: str) -> Iterator[str]:
    """Where a group is an object of the cluster."""
    kind, _, rest = id.partition("/")
    namespace, _, name = rest.partition("/")
    kinds: dict[str, tuple[tuple[str, str, Sequence[MachineTemplateOwner | MachinePool]], ...]] = {
        "MachineDeployment": ((CLUSTER_API, "machinedeployments", cluster.machine_deployments),),
        "MachinePool": ((CLUSTER_API, "machinepools", cluster.machine_pools),),
        "MachineSet": (
            (CLUSTER_API, "machinesets", cluster.machine_sets),
            (OPENSHIFT, "machinesets", cluster.openshift_machine_sets),
        ),
    }
    for project, plural, objects in kinds.get(kind, ()):
        if any((obj.metadata.namespace, obj.metadata.name) == (namespace, name) for obj in objects):
            words = ("kubectl", "annotate", f"{plural}.{project}", name, "-n", namespace, "--overwrite")
            yield shlex.join((*words, f"{project}/{MAX_SIZE}={most}"))
            return
