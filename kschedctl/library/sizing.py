"""``size``: which nodes all workloads would need, had they to be bought anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.errors import UsageError
from kschedctl.reports.sizing import NodeSizing
from kschedctl.studies.basics.parallel import ALONE, UNSEEN, Progress, Workers
from kschedctl.studies.simulate import prepare
from kschedctl.studies.sizing import size as study
from kschedctl.studies.sizing.shapes import NodeShape, priced, shapes_of_pools, shapes_of_types
from kschedctl.studies.sizing.size import SizingWishes


def size(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct] = (),
    wishes: SizingWishes = SizingWishes(),
    *,
    instance_types: Sequence[JsonObject] = (),
    pool_label: str = "",
    pools: bool = False,
    node_labels: Mapping[str, str] | None = None,
    written: Mapping[Owner, JsonObject] | None = None,
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> NodeSizing:
    """The cheapest nodes that take all pods of a cluster and of ``manifests``, or the fewest where no price is known.

    ``instance_types``: what can be bought, as kwok's instance_types.json has it, with ``node_labels`` besides those of
    the type; without any, nodes like those of the cluster's pools, which ``pool_label`` may name. With ``pools`` the
    types only tell what those cost. ``wishes``: more pods, the loss of a zone, how long sets are tried; ``workers``:
    who searches. Each set is replayed with all pods. ``written``: as for ``simulate``. Raises UsageError where nothing
    can be bought, InputError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> pods = [{"kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in "abc"]
    >>> str(size(kschedctl.Cluster.from_objects([node, *pods])))
    '2 nodes take 3 pods; at least 2 by requests'
    """
    manifests = list(manifests)
    if instance_types and not pools:
        shapes = shapes_of_types(cluster, instance_types, node_labels or {})
    else:
        shapes = priced(shapes_of_pools(cluster, pool_label), instance_types)
    _check(shapes, wishes)
    if not manifests:
        return study.size(cluster, shapes, wishes, progress, workers=workers)
    prepared = prepare(cluster, manifests, counting=dict(written or {}))
    lacking = prepared.not_created
    return study.size(prepared.cluster, shapes, wishes, progress, workers=workers, not_created=lacking)


def _check(shapes: Sequence[NodeShape], wishes: SizingWishes) -> None:
    """Raises UsageError where nothing can be bought, or only what a loss takes all at once."""
    if not shapes:
        raise UsageError("no nodes to buy", hint="--instance-types FILE, or a cluster with worker nodes")
    zones = {zone for shape in shapes for zone in shape.zones if zone}
    if wishes.keep_zone_loss and len(zones) < 2:
        raise UsageError("nodes of one zone do not survive its loss", hint=f"zones: {', '.join(zones) or 'none'}")
