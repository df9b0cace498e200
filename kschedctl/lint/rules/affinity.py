"""Affinity to other pods, and against them, as host ports are too: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kschedctl.api.labels import Selector
from kschedctl.api.validation.node_affinity import weight
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import ERROR, NOTE, WARNING, Rule
from kschedctl.lint.subject import Problem
from kschedctl.lint.terms import PREFERRED, anti_affinity_terms, pod_terms
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World
from kschedctl.snapshot.node_order import HOSTNAME


def spread_missing(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        apart = any("podAntiAffinity" in path for path, _ in pod_terms(workload)) or _has_host_port(workload)
        if workload.serving and not apart and not workload.spec.topology_spread_constraints:
            yield workload.problem((), f"{workload.range} replicas, and nothing says that they go apart")


def _has_host_port(workload: Workload) -> bool:
    """Whether no two of its pods fit on a node."""
    host = workload.spec.host_network
    return any(port.host_port or host for container in workload.spec.containers for port in container.ports)


def no_host_anti_affinity(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        spec = workload.spec
        keys = {term.topology_key for path, term in pod_terms(workload) if "podAntiAffinity" in path}
        keys |= {constraint.topology_key for constraint in spec.topology_spread_constraints}
        apart = HOSTNAME in keys or any(anti_affinity_terms(workload)) or _has_host_port(workload)
        if not workload.serving or not keys or apart:
            continue
        field = "topologySpreadConstraints" if spec.topology_spread_constraints else "affinity"
        yield workload.problem((field,), f"kept apart by {', '.join(sorted(keys))} only: replicas may share a node")


def one_a_node(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        serving = workload.serving and not workload.spec.host_network
        ports = [
            (("containers", i, "ports", j, "hostPort"), port.host_port)
            for i, container in enumerate(workload.spec.containers if serving else ())
            for j, port in enumerate(container.ports)
            if port.host_port
        ]
        if ports:
            path, number = ports[0]
            message = f"a node has port {number} once: {workload.range} replicas need as many nodes"
            yield workload.problem(path, message + ", an update one more" * (workload.surge()[0] > 0))


def null_selector(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for path, term in pod_terms(workload):
            if term.label_selector is None:
                effect = (
                    "the pod can never be scheduled"
                    if "podAffinity" in path and PREFERRED not in path
                    else "it does nothing"
                )
                yield workload.problem(path, f"a term without labelSelector matches no pods: {effect}")


def anti_affinity_not_self(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for path, term in pod_terms(workload) if workload.serving else ():
            selector = compiled(term.label_selector)
            own = not term.namespaces and term.namespace_selector is None and "podAntiAffinity" in path
            if not own or selector is None or not _nearly_selected(workload, selector):
                continue
            if not _selects_any(world, workload, selector):
                message = f'selector "{selector}" matches no pods, not even their own: nothing keeps them apart'
                yield workload.problem((*path, "labelSelector"), message)


def _nearly_selected(workload: Workload, selector: Selector) -> bool:
    """Whether it asks for labels that the pods have, but with other values."""
    keys = {requirement.key for requirement in selector.requirements}
    return bool(keys & workload.labels.keys()) and not workload.selected_by(selector)


def _selects_any(world: World, workload: Workload, selector: Selector) -> bool:
    """Whether it matches a known pod of the workload's namespace, or there may be one."""
    if world.selected(workload.namespace, selector) or not world.all_known("Pod"):
        return True
    pods = world.facts.view.pods if world.cluster else None
    return pods is not None and bool(pods.matching(selector, frozenset((workload.namespace,))).any())


def weight_range(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        affinity = workload.spec.affinity
        parts = (
            ("nodeAffinity", affinity.node_affinity if affinity else None),
            ("podAffinity", affinity.pod_affinity if affinity else None),
            ("podAntiAffinity", affinity.pod_anti_affinity if affinity else None),
        )
        for name, part in parts:
            preferred: tuple[Any, ...] = part.preferred_during_scheduling_ignored_during_execution if part else ()
            for i, term in enumerate(preferred):
                at = workload.at_field("affinity", name, PREFERRED, i, "weight")
                yield from workload.refused(weight(term.weight, at))


RULES = (
    Rule(
        "ts-missing",
        NOTE,
        spread_missing,
        summary="Several replicas without spread constraints or anti-affinity",
        why="Only the scheduler's weak default preference keeps them apart; one node or zone may take all of them "
        "down.",
        fix="Add topologySpreadConstraints over kubernetes.io/hostname and topology.kubernetes.io/zone",
        source=doc.SPREAD,
        once=True,
    ),
    Rule(
        "af-no-host-anti",
        NOTE,
        no_host_anti_affinity,
        summary="Replicas are kept apart, but may share a node",
        why="A spread over zones alone allows all replicas of a zone on one node.",
        fix="Add a spread constraint or an anti-affinity term over kubernetes.io/hostname",
        source=doc.AFFINITY,
    ),
    Rule(
        "hp-one-a-node",
        NOTE,
        one_a_node,
        summary="Several replicas with a port of the node",
        why="Each node has a port once: replicas that find no other node stay Pending.",
        fix="Use a Service, or a DaemonSet",
        source="pkg/scheduler/framework/plugins/nodeports (v1.36)",
    ),
    Rule(
        "af-null-selector",
        WARNING,
        null_selector,
        summary="Pod (anti-)affinity term without labelSelector",
        why="A missing selector matches no pods, an empty one ({}) all: required affinity can then never be met, "
        "anything "
        "else does nothing.",
        fix="Add labelSelector; write {} to mean all pods",
        source="https://github.com/kubernetes/kubernetes/pull/117025",
    ),
    Rule(
        "af-anti-not-self",
        WARNING,
        anti_affinity_not_self,
        summary="Anti-affinity whose selector matches no pods, as the labels of its own have other values",
        why="Replicas that do not match the selector are not kept apart.",
        fix="Make labelSelector match the labels of the pod template",
        source=doc.AFFINITY,
    ),
    Rule(
        "af-weight-range",
        ERROR,
        weight_range,
        summary="Weight of a preference outside 1 to 100",
        why="The API server refuses the pods.",
        fix="Choose a weight from 1 to 100",
        source=f"{doc.AFFINITY}; {doc.VALIDATION}",
    ),
)
