"""What wakes pods that the plugins refused which look at other pods, or at the pod itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kschedctl.api.gangs import coscheduling_gang
from kschedctl.api.labels import Selector
from kschedctl.scheduler.engine.pod_groups.gangs import gang_pods, gang_terms
from kschedctl.scheduler.engine.pod_groups.state import find_pod_group, state_of
from kschedctl.scheduler.framework import PluginError
from kschedctl.scheduler.framework.events import NODE, POD, ActionType, node_actions
from kschedctl.scheduler.plugins.inter_pod_affinity.hints import CHECKS_BOTH_WAYS, COMPARES_NODES, own_terms
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, AffinityTerm, HostPort
from kschedctl.snapshot.pods import group_key
from kschedctl.studies.waking.ways.told import ADD, BY_THE_PLUGIN, DELETE, UPDATE, Told, Waiting, listed


def scheduling_gates(waiting: Waiting) -> Iterator[Told]:
    gates = [gate.name for gate in waiting.info.spec.scheduling_gates]
    released = ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    yield Told(POD, released, f"the last of its scheduling gates is removed: {', '.join(gates)}")


def node_ports(waiting: Waiting) -> Iterator[Told]:
    ports = [f"{port.protocol} {_port(port)}" for port in waiting.info.host_ports]
    yield Told(POD, DELETE, f"a pod leaves a node that holds host port {listed(ports, 'or')}")
    yield Told(NODE, ADD, "a node is added")


def _port(port: HostPort) -> str:
    """
    >>> _port(HostPort("0.0.0.0", "TCP", 80)), _port(HostPort("::1", "TCP", 80))
    ('80', '80 of ::1')
    """
    return str(port.port) if port.ip == ALL_HOST_IPS else f"{port.port} of {port.ip}"


def inter_pod_affinity(waiting: Waiting) -> Iterator[Told]:
    try:
        affinity, anti_affinity = own_terms(waiting.info)
    except PluginError as error:
        affinity, anti_affinity = (), ()
        yield Told(POD, ADD, f"any pod comes, changes or goes: the pod's terms cannot be read: {error}")
    both_ways, labels = CHECKS_BOTH_WAYS.at(waiting.gates.release), ActionType.UPDATE_POD_LABEL
    itself = ["the pod's own labels change"] if both_ways else []
    comes = [f"a pod on a node comes to be one {_all_of(affinity)}"] if affinity else []
    if affinity:
        yield Told(POD, ADD, f"a pod {_all_of(affinity)} gets a node")
    if comes or itself:
        yield Told(POD, labels, ", or ".join((*comes, *itself)))
    leaves = [f"a pod {_all_of(anti_affinity)} leaves a node"] if anti_affinity else []
    if both_ways:
        whose = "whose own anti-affinity is against this pod"
        leaves.append(f"one leaves {whose}" if leaves else f"a pod leaves a node {whose}")
    if leaves:
        yield Told(POD, DELETE, ", or ".join(leaves))
    if anti_affinity:
        yield Told(POD, labels, f"a pod on a node is no longer one {_all_of(anti_affinity)}")
    yield from _of_nodes(affinity, anti_affinity, waiting)


def _of_nodes(
    affinity: Sequence[AffinityTerm], anti_affinity: Sequence[AffinityTerm], waiting: Waiting
) -> Iterator[Told]:
    keys = [term.topology_key for term in (*affinity, *anti_affinity)]
    if not keys:
        return
    of = listed(list(dict.fromkeys(keys)), "or")
    if not COMPARES_NODES.at(waiting.gates.release):
        changes, how = node_actions(ActionType.UPDATE_NODE_LABEL, waiting.gates), "its labels change"
        how = "its labels or taints change" if ActionType.UPDATE_NODE_TAINT in changes else how
        yield Told(NODE, ADD | changes, f"a node with label {of} is added, or {how}")
        return
    yield Told(NODE, ADD, "a node is added" if anti_affinity else f"a node is added with label {of}")
    yield Told(NODE, ActionType.UPDATE_NODE_LABEL, f"label {of} of a node changes")


def pod_topology_spread(waiting: Waiting) -> Iterator[Told]:
    constraints = waiting.plugin.hard_constraints(waiting.info, waiting.view)
    keys = listed(list(dict.fromkeys(constraint.topology_key for constraint in constraints)))
    selectors = list(dict.fromkeys(selected(constraint.selector) for constraint in constraints))
    counted = f"a pod {listed(selectors, 'or')} in namespace {waiting.info.namespace}"
    yield Told(POD, ADD, f"{counted} gets a node")
    yield Told(POD, DELETE, f"{counted} leaves its node")
    yield Told(POD, ActionType.UPDATE_POD_LABEL, "a pod comes to be such a one by its labels, or no longer is one")
    if any(constraint.honor_taints for constraint in constraints):
        yield Told(POD, ActionType.UPDATE_POD_TOLERATION, "the pod gets another toleration")
    if waiting.changed_as_new:
        action = ADD | ActionType.UPDATE_NODE_LABEL | ActionType.UPDATE_NODE_TAINT
        yield Told(NODE, action, f"a node with label {keys} is added, or its labels or taints change")
        return
    yield Told(NODE, ADD | DELETE, f"a node with label {keys} is added or deleted")
    yield Told(NODE, ActionType.UPDATE_NODE_LABEL, f"label {keys} of a node changes")
    yield Told(NODE, ActionType.UPDATE_NODE_TAINT, f"taints of a node with label {keys} change")


def gang_scheduling(waiting: Waiting) -> Iterator[Told]:
    group = waiting.info.spec.scheduling_group
    name = f"{waiting.info.namespace}/{group.pod_group_name}" if group else "its group"
    key = group_key(waiting.info.pod)
    found = find_pod_group(waiting.view, key) if key else None
    gang = found.spec.scheduling_policy.gang if found else None
    missing = gang.min_count - state_of(waiting.view, key).size if gang and key else 0
    another = f"{missing:,} more pods" if missing > 1 else "another pod"
    yield Told(POD, ADD, f"{another} of group {name} {'are' if missing > 1 else 'is'} created")
    yield Told("PodGroup", ADD, f"PodGroup {name} is created")


def coscheduling(waiting: Waiting) -> Iterator[Told]:
    """It has no hints. A pod that is created makes no event, but being tried it may be the first to get a node."""
    key = coscheduling_gang(waiting.info.pod)
    if key is None:
        return
    pods = gang_pods(waiting.view, key)
    missing = max((gang_terms(waiting.view, key).least or 0) - pods.size, 0)
    yield Told(POD, ADD, "any pod gets a node")
    yield Told("CoschedulingPodGroup", ADD | UPDATE, f"any PodGroup is created or changed, {key.name} or another")
    if not len(pods.assigned) and missing + len(pods.waiting) > 1:
        first = f"{missing:,} more of {key.name} are created and one" if missing else f"a first pod of {key.name}"
        yield Told(POD, BY_THE_PLUGIN, f"{first} gets a node: then the plugin has all of them tried")


def selected(selector: Selector) -> str:
    """
    >>> selected(Selector()), selected(Selector(nothing=True))
    ('with any labels', 'that no selector selects')
    """
    if selector.nothing:
        return "that no selector selects"
    return f"with {selector}" if selector.requirements else "with any labels"


def _all_of(terms: Sequence[AffinityTerm]) -> str:
    """The pods that all terms are about: upstream's hints look for one that meets them all."""
    return " and ".join(dict.fromkeys(f"{selected(term.selector)}{_where(term)}" for term in terms))


def _where(term: AffinityTerm) -> str:
    if term.namespace_selector.empty:
        return " in any namespace"
    by_labels = ["one selected by its labels"] if term.by_namespace_labels else []
    return f" in namespace {listed([*sorted(term.namespaces), *by_labels], 'or')}"
