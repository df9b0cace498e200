"""`size`: which nodes would you need if you built the cluster from scratch?

Read `sizing` first: it starts from node sets of a solver (`solved`) or of a greedy packing, and makes them cheaper
(`search`). `replays` proves each set, and `optimality` looks for cheaper ones. `shapes` and `type_shapes` are the node
shapes to choose from. `program` is the packing problem as arrays, with the greedy packing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from kschedctl.api.json_values import JsonObject
from kschedctl.api.objects import Struct
from kschedctl.api.ownership import Owner
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare_simulation
from kschedctl.commands.size.report import NodeSizing
from kschedctl.commands.size.shapes import NodeShape, add_prices_to_shapes, build_pool_shapes
from kschedctl.commands.size.sizing import SizingCriteria, iter_instance_type_hints, size_cluster
from kschedctl.commands.size.type_shapes import build_type_shapes
from kschedctl.commands.whatif import ScenarioRun
from kschedctl.errors import InputError, KschedctlError, UsageError
from kschedctl.replay.edits import cordon_nodes
from kschedctl.replay.parallel import NO_PROGRESS, ONE_PROCESS, Progress, Workers
from kschedctl.replay.scenarios import (
    FileReader,
    add_step_to_error,
    find_step_nodes,
    get_step_name_and_parameters,
    load_scenario,
    read_step_files,
    reject_file,
)
from kschedctl.replay.scenarios.steps import iter_manifests
from kschedctl.replay.settling import SettledCluster
from kschedctl.reports import scenario as parts
from kschedctl.reports.not_created import NotCreated
from kschedctl.reports.scenario import Scenario
from kschedctl.text.deprecation import accept_old_names


@accept_old_names(wishes="criteria")
def size(
    cluster: Cluster,
    manifests: Iterable[JsonObject | Struct] = (),
    criteria: SizingCriteria = SizingCriteria(),
    *,
    instance_types: Sequence[JsonObject] = (),
    pool_label: str = "",
    pools: bool = False,
    node_labels: Mapping[str, str] | None = None,
    written: Mapping[Owner, JsonObject] | None = None,
    scenario: Scenario | JsonObject | None = None,
    read: FileReader = reject_file,
    where: str = "",
    workers: Workers = ONE_PROCESS,
    progress: Progress = NO_PROGRESS,
) -> NodeSizing:
    """Find the cheapest nodes that take all pods of a cluster and of `manifests`.

    If prices are unknown, find the fewest nodes. Every set of nodes is replayed with all pods.

    Arguments:
        cluster: the cluster, whose nodes are replaced.
        manifests: new workloads and pods to place as well.
        criteria: the requirements for a set of nodes, and the time limit.
        instance_types: the catalogue in the format of kwok's instance_types.json. If the cluster has Karpenter
            NodePools, nodes are those that the pools would launch. Without a catalogue, nodes are like those of the
            cluster's pools.
        pool_label: the node label that names the cluster's pools.
        pools: size with nodes like those of the cluster's pools. The catalogue then supplies only prices.
        node_labels: labels that nodes of the catalogue get.
        written: the documents of manifests given as structs, by owner, as for `simulate`.
        scenario: the steps to apply before sizing, as for `whatif`.
        read: reads the files that the scenario names.
        where: the name of the scenario in error messages.
        workers: the processes that share the search.
        progress: receives the progress of the search.

    Raises UsageError if there is nothing to buy, and InputError for invalid input.

    >>> import kschedctl
    >>> node = {"kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "2", "pods": "9"}}}
    >>> spec = {"containers": [{"name": "c", "image": "web", "resources": {"requests": {"cpu": "1"}}}]}
    >>> pods = [{"kind": "Pod", "metadata": {"name": name}, "spec": spec} for name in "abc"]
    >>> str(size(kschedctl.Cluster.from_objects([node, *pods])))
    '2 nodes can run 3 pods; their requests alone need at least 2'
    """
    cluster, denied_manifests = _apply_manifests(cluster, list(manifests), written or {})
    cluster, denied_steps = _apply_scenario(cluster, scenario, read, where)
    uses_types = bool(instance_types) and not pools
    if uses_types:
        shapes = build_type_shapes(cluster, instance_types, node_labels or {})
    else:
        shapes = add_prices_to_shapes(build_pool_shapes(cluster, pool_label), instance_types)
    _validate_shapes(shapes, criteria, from_types=uses_types)
    report = size_cluster(
        cluster, shapes, criteria, progress, workers=workers, not_created=[*denied_manifests, *denied_steps]
    )
    if not uses_types:
        return report
    pods_without_node = {key for group in report.never for key in group.pods}
    return replace(report, hints=tuple(iter_instance_type_hints(cluster, shapes, pods_without_node)))


def _apply_manifests(
    cluster: Cluster, manifests: Sequence[JsonObject | Struct], written: Mapping[Owner, JsonObject]
) -> tuple[Cluster, Sequence[NotCreated]]:
    """Return the cluster with the manifests applied, and the workloads with pods that the API server would deny.

    `written` maps workloads to their manifests as written.
    """
    if not manifests:
        return cluster, ()
    shared_cluster = prepare_simulation(cluster, manifests, documents=written)
    return shared_cluster.remove_old_pods(), shared_cluster.not_created


def _apply_scenario(
    cluster: Cluster, scenario: Scenario | JsonObject | None, read: FileReader, where: str
) -> tuple[Cluster, Sequence[NotCreated]]:
    """Return the cluster after the steps of the scenario, and the workloads with pods that the API server would deny.

    `read` reads the files that the scenario names, and `where` is its name in error messages. Raises KschedctlError if
    a step cannot be carried out.
    """
    if scenario is None:
        return cluster, ()
    steps = scenario if isinstance(scenario, Scenario) else load_scenario(scenario, where)
    return apply_steps(cluster, steps, read_step_files(steps, read, where), where)


def _validate_shapes(shapes: Sequence[NodeShape], criteria: SizingCriteria, *, from_types: bool) -> None:
    """Raise UsageError if there are no shapes or too few zones, and InputError for a negative price.

    There are too few zones if all pods have to survive the loss of a zone, but there is only one. `from_types` says
    whether the shapes come from instance types, for the error message.
    """
    if not shapes:
        if from_types:
            raise UsageError(
                "no nodes to choose from: no instance type is available",
                hint="mark an offering as available in --instance-types",
            )
        raise UsageError("no nodes to buy", hint="pass --instance-types FILE, or a cluster with worker nodes")
    for shape in shapes:
        for price in shape.prices.values():
            if price is not None and price < 0:
                raise InputError(f'the price of "{shape.name}" must not be negative: {price}', where="instanceTypes")
    zones = {zone for shape in shapes for zone in shape.zones if zone}
    if criteria.keep_zone_loss and len(zones) < 2:
        raise UsageError(
            "to survive the loss of a zone, nodes in several zones are needed",
            hint=f"zones: {', '.join(zones) or 'none'}",
        )


Documents = Mapping[str, Sequence[JsonObject]]
"""The documents of each file that a scenario names."""


def apply_steps(
    cluster: Cluster, scenario: parts.Scenario, files: Documents, where: str = ""
) -> tuple[Cluster, list[NotCreated]]:
    """Apply the steps of a scenario. Return the cluster, and the workloads whose pods the API server would deny.

    Nothing is scheduled between the steps, because all pods are placed anew afterwards. Raises a KschedctlError that
    names the step if a step cannot be carried out.
    """
    run = ScenarioRun(SettledCluster(cluster, waiting={}), files.__getitem__, where, seed=0, sampling=None)
    for number, (name, step) in enumerate(map(get_step_name_and_parameters, scenario.steps), 1):
        try:
            run.settled = SettledCluster(_apply_step(run, name, step), waiting={})
        except KschedctlError as error:
            raise add_step_to_error(error, number, name, where) from None
    return run.settled.cluster, run.not_created


def _apply_step(run: ScenarioRun, name: str, step: parts.Part) -> Cluster:
    """Apply a step, given by its name and its content `step`, to the run's cluster, and return the changed cluster.

    Drained nodes are only cordoned, since all pods are placed again afterwards. Workloads whose pods are denied are
    added to the run's `not_created`. Raises UsageError for a step that launches nodes.
    """
    cluster = run.settled.cluster
    match step:
        case parts.ApplyManifests():
            manifests = [manifest for _, manifest in iter_manifests(step, run.read)]
            prepared = prepare_simulation(cluster, manifests, documents={})
            run.not_created += prepared.not_created
            return prepared.remove_old_pods()
        case parts.InstanceTypes():
            raise UsageError("size replaces all nodes, so no nodes can be launched before", hint="leave the step out")
        case parts.SomeNodes() if name == "drain":  # other steps with this content are built as usual
            return cordon_nodes(cluster, find_step_nodes(cluster, step))
    return run.build_edit(name, step).resulting_cluster
