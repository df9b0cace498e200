"""Required anti-affinity that leaves too few places, whatever the cluster: visible in the manifest alone."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.api.labels import EVERYTHING
from kschedctl.lint import documentation as doc
from kschedctl.lint.rule import WARNING, Rule
from kschedctl.lint.rules.spread_fields import HARD, constraints
from kschedctl.lint.subject import Problem
from kschedctl.lint.terms import Term, anti_affinity_terms, domains_of
from kschedctl.lint.workload import Workload, compiled
from kschedctl.lint.world import World
from kschedctl.scheduler.configuration.version_fields import AFFINITY_LABEL_KEYS
from kschedctl.snapshot.node_order import HOSTNAME, REGION, ZONE

MOST_DOMAINS = {ZONE: 4, REGION: 1, "kubernetes.io/os": 1, "kubernetes.io/arch": 2}
"""Label of nodes -> how many values of it most clusters have at most: regions of clouds have three zones, few six."""
_ZONES = 3


def everything(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        for term in anti_affinity_terms(workload):
            if term.selector == EVERYTHING and term.every_version:
                where = ", ".join(sorted(term.namespaces)) if term.namespaces else "other namespaces too"
                message = f"the empty selector matches every pod ({where}): none of them may share its {_one(term.key)}"
                yield workload.problem((*term.path, "labelSelector"), message)


def _one(key: str) -> str:
    return domains_of(key).removesuffix("s")


def too_many_replicas(world: World) -> Iterator[Problem]:
    for workload in world.workloads if world.cluster is None else ():  # else af-anti-replicas-over-domains counts
        for term in anti_affinity_terms(workload):
            most = MOST_DOMAINS.get(term.key)
            if most is not None and term.selects_itself and workload.at_most > most and workload.serving:
                message = f"{workload.range} replicas need as many {domains_of(term.key)}: most clusters have fewer"
                yield workload.problem((*term.path, "topologyKey"), message)


def surge(world: World) -> Iterator[Problem]:
    for workload in world.workloads if world.cluster is None else ():  # else af-rollout-deadlock replays
        surging, unavailable = workload.surge()
        if workload.kind != "Deployment" or not workload.serving or unavailable or not surging:
            continue
        for term in anti_affinity_terms(workload):
            if term.selects_itself and term.every_version and _tight(workload, term):
                domains, count = domains_of(term.key), workload.at_least
                message = f"no old pod may go first, so a rollout needs {count + 1} {domains} for {count} replicas"
                yield workload.problem(term.path, f"{message}: with {count} it never ends")


def _tight(workload: Workload, term: Term) -> bool:
    """Whether somebody asked for maxUnavailable 0, or there are hardly more domains than replicas."""
    asked = workload.strategy.rolling_update.max_unavailable in (0, "0%")
    few = term.key in (ZONE, REGION) and workload.at_least >= _ZONES
    return (asked or few) and workload.at_most <= MOST_DOMAINS.get(term.key, workload.at_most)


def daemon_set(world: World) -> Iterator[Problem]:
    for workload in world.workloads:
        if workload.kind != "DaemonSet":
            continue
        for term in anti_affinity_terms(workload):
            if term.selects_itself and term.key != HOSTNAME:
                message = f"one pod for each {term.key}: the other nodes are left without"
                yield workload.problem((*term.path, "topologyKey"), message)
    for workload, path, constraint in constraints(world):
        selector = compiled(constraint.label_selector)
        hard = workload.kind == "DaemonSet" and constraint.when_unsatisfiable == HARD
        if hard and constraint.topology_key != HOSTNAME and selector is not None and workload.selected_by(selector):
            message = f"where one {constraint.topology_key} has more nodes than another, some are left without a pod"
            yield workload.problem((*path, "topologyKey"), message)


RULES = (
    Rule(
        "af-anti-everything",
        WARNING,
        everything,
        summary="Required anti-affinity against every pod of the namespace",
        why="An empty labelSelector matches all pods: any other pod of the namespace on a node keeps these away, and "
        "these keep all others away.",
        fix="Name the labels of the pods that are to be kept apart",
        source=doc.AFFINITY,
    ),
    Rule(
        "af-anti-many-replicas",
        WARNING,
        too_many_replicas,
        summary="Required anti-affinity over zones, or what a cluster has fewer of, with many replicas",
        why="Each domain takes one replica, the surplus stays Pending. Told from five zones and two regions on; with a "
        "cluster af-anti-replicas-over-domains counts.",
        fix="Use kubernetes.io/hostname, or topologySpreadConstraints with maxSkew 1 over the zones",
        source=f"{doc.AFFINITY}; https://github.com/kubernetes/kubernetes/issues/116891",
    ),
    Rule(
        "af-anti-surge",
        WARNING,
        surge,
        summary="Required anti-affinity and a rollout that must start a new pod first",
        why="With maxUnavailable 0 the new pod needs a domain that no old one is in: where replicas and domains are as "
        "many, no rollout ever ends. With a cluster af-rollout-deadlock proves it.",
        fix="Set maxUnavailable: 1 and maxSurge: 0, or add matchLabelKeys: [pod-template-hash] to the term",
        source="https://github.com/kubernetes/kubernetes/issues/116891",
        advises=AFFINITY_LABEL_KEYS,
    ),
    Rule(
        "ds-kept-apart",
        WARNING,
        daemon_set,
        summary="DaemonSet whose pods keep each other away from nodes",
        why="Each pod of a DaemonSet can only go to its own node: where the term or constraint refuses that, the pod "
        "stays Pending.",
        fix="Remove the term or constraint: a DaemonSet has one pod a node anyway",
        source="https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/#how-daemon-pods-are-scheduled",
    ),
)
