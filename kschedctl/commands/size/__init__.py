"""``size``: which nodes would be needed if the cluster were built from scratch?

Read ``sizing``, which starts from solved ``program``s or a plain ``filling`` and makes sets cheaper; ``replays``
proves each set. ``shapes`` and ``type_shapes`` are the nodes to choose from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare
from kschedctl.commands.size import sizing as study
from kschedctl.commands.size.report import NodeSizing
from kschedctl.commands.size.shapes import NodeShape, priced, shapes_of_pools
from kschedctl.commands.size.sizing import SizingWishes
from kschedctl.commands.size.steps import after_steps
from kschedctl.commands.size.type_shapes import shapes_of_types
from kschedctl.errors import InputError, UsageError
from kschedctl.replay.parallel import ALONE, UNSEEN, Progress, Workers
from kschedctl.replay.scenarios.scenario import Files, files_of, load_scenario, no_files
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.scenario import Scenario


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
    scenario: Scenario | JsonObject | None = None,
    read: Files = no_files,
    where: str = "",
    workers: Workers = ALONE,
    progress: Progress = UNSEEN,
) -> NodeSizing:
    """The cheapest nodes that take all pods of a cluster and of ``manifests``, or the fewest where no price is known.

    ``instance_types``: what can be bought, as kwok's instance_types.json has it, with ``node_labels`` besides those of
    the type, and where there are NodePools of Karpenter as these launch them, with their labels and taints; without
    any, nodes like those of the cluster's pools, which ``pool_label`` may name. With ``pools`` the types only tell what
    those cost. ``scenario``: steps that are taken before, with ``read`` and ``where`` as for ``whatif``. ``wishes``:
    more pods, the loss of a zone, how long sets are tried; ``workers``: who searches. Each set is replayed with all
    pods. ``written``: as for ``simulate``. Raises UsageError where nothing can be bought, InputError.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> pods = [{"kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in "abc"]
    >>> str(size(kschedctl.Cluster.from_objects([node, *pods])))
    '2 nodes take 3 pods; at least 2 by requests'
    """
    cluster, lacking = _with(cluster, list(manifests), written or {})
    cluster, refused = _after(cluster, scenario, read, where)
    types = shapes_of_types(cluster, instance_types, node_labels or {}) if instance_types and not pools else None
    shapes = priced(shapes_of_pools(cluster, pool_label), instance_types) if types is None else types
    _check(shapes, wishes, given=types is not None)
    return study.size(cluster, shapes, wishes, progress, workers=workers, not_created=[*lacking, *refused])


def _with(
    cluster: Cluster, manifests: Sequence[JsonObject | Struct], written: Mapping[Owner, JsonObject]
) -> tuple[Cluster, Sequence[NotCreated]]:
    """The cluster with what manifests bring, and what the API server refuses of it."""
    if not manifests:
        return cluster, ()
    prepared = prepare(cluster, manifests, counting=written)
    return prepared.cluster, prepared.not_created


def _after(
    cluster: Cluster, scenario: Scenario | JsonObject | None, read: Files, where: str
) -> tuple[Cluster, Sequence[NotCreated]]:
    """The same once the steps of a scenario were taken."""
    if scenario is None:
        return cluster, ()
    steps = scenario if isinstance(scenario, Scenario) else load_scenario(scenario, where)
    return after_steps(cluster, steps, files_of(steps, read, where), where)


def _check(shapes: Sequence[NodeShape], wishes: SizingWishes, *, given: bool) -> None:
    """Raises UsageError where nothing can be bought, or only what a loss takes all at once, InputError for a price.

    ``given``: whether instance types were.
    """
    if not shapes:
        if given:
            raise UsageError("no nodes to buy: no instance type is on offer", hint="none has an available offering")
        raise UsageError("no nodes to buy", hint="--instance-types FILE, or a cluster with worker nodes")
    for shape in shapes:
        if below := next((price for price in shape.prices.values() if price is not None and price < 0), None):
            raise InputError(f'the price of "{shape.name}" is negative: {below}', where="instanceTypes")
    zones = {zone for shape in shapes for zone in shape.zones if zone}
    if wishes.keep_zone_loss and len(zones) < 2:
        raise UsageError("nodes of one zone do not survive its loss", hint=f"zones: {', '.join(zones) or 'none'}")
