"""Check that a rollout which leaves the pods less evenly spread than their constraint demands is warned about."""

from __future__ import annotations

from small import ZONE, Json, build_node, build_pod_spec, build_replica, build_workload

from kschedctl.cluster import Cluster
from kschedctl.commands.simulate import simulate
from kschedctl.commands.simulate.report import SimulationReport
from kschedctl.render.page import Style
from kschedctl.render.renderers import RENDERERS


def roll_out(objects: list[Json], manifest: Json) -> SimulationReport:
    return simulate(Cluster.from_objects(objects), [manifest], rollout=True)


def build_spread_web(**constraint: object) -> Json:
    """Build a Deployment with 2 replicas that are spread over the zones, and with maxSurge 1."""
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", **constraint}
    selector = {"labelSelector": {"matchLabels": {"app": "web"}}}
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    template = build_pod_spec(topologySpreadConstraints=[{**spread, **selector}])
    return build_workload("Deployment", spec={"replicas": 2, "strategy": strategy}, template=template)


def test_rollout_that_ends_unevenly_spread_is_warned_about() -> None:
    """n2 in zone b is full while it has an old pod, so both new pods go to zone a. The last old pod leaves zone b."""
    nodes = [build_node("n1", "a"), build_node("n2", "b", cpu="1")]
    old_pods = [build_replica("web-old-0", "n1"), build_replica("web-old-1", "n2")]
    report = roll_out([*nodes, *old_pods], build_spread_web())
    assert report.good
    (spread,) = report.workloads[0].uneven_spreads
    assert (spread.pods, spread.skew, spread.max_skew) == ({"a": 2, "b": 0}, 2, 1)
    text = (
        f"Deployment d/web ends up unevenly spread over {ZONE}: 2 and 0 pods in a and b (skew 2, maxSkew 1), because "
        "the constraint also counted the old pods while new ones were placed"
    )
    for output in ("table", "brief", "markdown"):
        assert text in str(RENDERERS[output](report, Style(width=500)))
    assert [problem.rule for problem in report.find_ci_gate_problems()] == ["uneven-spread"]


def test_rollout_that_ends_evenly_spread_has_no_warning() -> None:
    nodes = [build_node("n1", "a"), build_node("n2", "b")]
    old_pods = [build_replica("web-old-0", "n1"), build_replica("web-old-1", "n2")]
    manifest = build_spread_web(matchLabelKeys=["pod-template-hash"])
    report = roll_out([*nodes, *old_pods], manifest)
    assert report.workloads[0].nodes == {"n1": 1, "n2": 1}
    assert not report.workloads[0].uneven_spreads
