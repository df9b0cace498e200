"""Check NodePorts against upstream's own tables (plugins/nodeports and HostPortInfo; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import answer, build_snapshot, find_pod_info, parametrize_cases
from small_clusters import UNSCHEDULABLE, check_filter, draw_clusters, draw_many, draw_some, get_name

from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort


@parametrize_cases("nodeports", "nodeports")
def test_filter(case):
    view = build_snapshot(case)
    found, want = answer(NodePorts(), find_pod_info(case, view), view), case["want"]
    if "fits" in want:
        fits = found.get("filter", {}).get("unnamed-node", {"code": "Success"})["code"] == "Success"
        assert fits == want["fits"]
        want = {}
    assert {part: found.get(part) for part in want} == want


@parametrize_cases("nodeports", "hostportconflict", left_out=["empty port check should pass"])  # port 0 is no host port
def test_conflict(case):
    used, check = ([complete_port(port) for port in ports] for ports in (case["used"], [case["check"]]))
    assert any(port.conflicts_with(check[0]) for port in used) == case["want"]["conflict"]


def complete_port(port):
    """Return the port with absent parts filled in as PodInfo does."""
    return HostPort(port["ip"] or ALL_HOST_IPS, port["protocol"] or "TCP", port["port"])


def draw_port(random):
    return {
        "containerPort": 80,
        **draw_some(
            random,
            hostPort=random.choice([80, 81]),
            hostIP=random.choice(["", "0.0.0.0", "10.0.0.1", "10.0.0.2"]),
            protocol=random.choice(["TCP", "UDP"]),
        ),
    }


def draw_serving_pod(random):
    return {"containers": draw_many(random, 2, lambda r: {"ports": draw_many(r, 2, draw_port)})}


@given(draw_clusters(pending=draw_serving_pod, running=draw_serving_pod))
def test_naive_filter(cluster):
    check_filter(NodePorts(), cluster, filter_naively)


@given(draw_clusters(pending=draw_serving_pod, running=draw_serving_pod, changing=True))
def test_naive_filter_under_changes(cluster):
    check_filter(NodePorts(), cluster, filter_naively)


def filter_naively(cluster, node, pods):
    """Check the ports of the node as a set: removing a pod frees its port even if another pod has it too."""
    taken = {port for pod in cluster.pods if pod["spec"]["nodeName"] == get_name(node) for port in list_host_ports(pod)}
    known = {get_name(pod): pod for pod in cluster.pods + cluster.nominated}
    for change in cluster.changes:
        if change.node == get_name(node):
            ports = list_host_ports(known[change.pod])
            taken = taken | ports if change.sign > 0 else taken - ports
    wanted = list_host_ports(cluster.pending)
    if any(is_conflict(mine, other) for mine in wanted for other in taken):
        return UNSCHEDULABLE, ["node(s) didn't have free ports for the requested pod ports"]
    return None


def list_host_ports(pod):
    return {
        (port.get("hostIP") or "0.0.0.0", port.get("protocol", "TCP"), port["hostPort"])
        for container in pod["spec"]["containers"]
        for port in container["ports"]
        if port.get("hostPort")
    }


def is_conflict(one, other):
    return one[1:] == other[1:] and (one[0] == other[0] or "0.0.0.0" in (one[0], other[0]))
