"""Scenario steps that are applied before nodes are bought: more pods, other workloads, other pools.

Nothing is scheduled in between, since all pods are placed anew afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kschedctl.api.json_values import JsonObject
from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import prepare
from kschedctl.commands.whatif import ScenarioRun
from kschedctl.errors import KschedctlError, UsageError
from kschedctl.replay.edits import cordon
from kschedctl.replay.scenarios.scenario import find_step_nodes, get_step, locate_step_error
from kschedctl.replay.scenarios.steps_on_pods import iter_manifests
from kschedctl.replay.settling import SettledCluster
from kschedctl.reports import scenario as parts
from kschedctl.reports.not_created import NotCreated

Documents = Mapping[str, Sequence[JsonObject]]
"""The documents of each file that a scenario names."""


def apply_steps(
    cluster: Cluster, scenario: parts.Scenario, files: Documents, where: str = ""
) -> tuple[Cluster, list[NotCreated]]:
    """Return the cluster after all steps, and the objects that the API server would deny on the way.

    Raises KschedctlError that names the step.
    """
    run = ScenarioRun(SettledCluster(cluster, {}), files.__getitem__, where, 0, None)
    for number, (name, part) in enumerate(map(get_step, scenario.steps), 1):
        try:
            run.settled = SettledCluster(_apply_step(run, name, part), {})
        except KschedctlError as error:
            raise locate_step_error(error, number, name, where) from None
    return run.settled.cluster, run.not_created


def _apply_step(run: ScenarioRun, name: str, part: parts.Part) -> Cluster:
    cluster = run.settled.cluster
    match part:
        case parts.ApplyManifests():
            manifests = [manifest for _, manifest in iter_manifests(part, run.read)]
            prepared = prepare(cluster, manifests, counting={})
            run.not_created += prepared.not_created
            return prepared.cluster
        case parts.InstanceTypes():
            raise UsageError("all nodes are bought anew, so none are launched before", hint="leave the step out")
        case parts.SomeNodes() if name == "drain":  # their pods are placed anew, as all are
            return cordon(cluster, find_step_nodes(cluster, part))
    return run.build_edit(name, part).resulting_cluster
