"""Steps of a scenario about Karpenter: a NodePool that is edited, and instance types of which it launches nodes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.karpenter import NodePool
from kschedctl.autoscaling.karpenter.launching_pools import LaunchingPools
from kschedctl.cluster import Cluster, convert
from kschedctl.errors import UsageError
from kschedctl.replay.scenarios.scenario import Edit, Files
from kschedctl.reports import scenario as parts
from kschedctl.text.counts import counted

NO_LAUNCH = "the NodePool launches nothing by itself: a step instanceTypes lets Karpenter launch nodes"


def edit_node_pool(part: parts.EditNodePool, cluster: Cluster, read: Files) -> Edit:
    """A pool's spec with a merge patch. Raises UsageError for no such pool, InputError for an invalid one."""
    pools = {pool.metadata.name: pool for pool in cluster.karpenter_node_pools}
    if part.name not in pools:
        raise UsageError(f'there is no NodePool "{part.name}"', hint=f"there are {', '.join(sorted(pools)) or 'none'}")
    document = msgspec.to_builtins(pools[part.name])
    spec = _merged(document.get("spec", {}), part.spec)
    edited = convert({"apiVersion": "karpenter.sh/v1", "kind": "NodePool", **document, "spec": spec})
    assert isinstance(edited, NodePool)
    edit = Edit(replace(cluster, karpenter_node_pools=tuple({**pools, part.name: edited}.values())))
    edit.notes.append(NO_LAUNCH)
    return edit


def _merged(before: object, patch: object) -> object:
    """RFC 7386."""
    if not isinstance(patch, Mapping):
        return patch
    fields = dict(before) if isinstance(before, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = _merged(fields.get(name), value)
    return fields


def launch(part: parts.InstanceTypes, cluster: Cluster, read: Files) -> Edit:
    """Karpenter's next run for the pods that wait, with the nodes up. Raises UsageError, InputError."""
    if not cluster.karpenter_node_pools:
        raise UsageError("the cluster has no NodePools of Karpenter")
    types: list[JsonObject] = [*(document for name in part.files for document in read(name)), *part.types]
    if not types:
        raise UsageError("files or types say which instance types there are")
    now = cluster.provenance.read_at if cluster.provenance else datetime.now(UTC).isoformat(timespec="seconds")
    new = LaunchingPools(cluster, types, part.settings, now).grow(cluster)
    edit = Edit(cluster.with_objects({"Node": [node for nodes in new.nodes.values() for node in nodes]}))
    for pod in new.daemons:
        edit.change(pod, pod)
    edit.notes += [f"{pool} launches {counted(len(nodes), 'node')}" for pool, nodes in sorted(new.nodes.items())]
    edit.notes += [f"{pod}: {why}" for pod, why in sorted(new.refused.items())[: parts.MOST_REFUSED]]
    return edit
