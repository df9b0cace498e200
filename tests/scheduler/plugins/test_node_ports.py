"""NodePorts against upstream's own tables (plugins/nodeports and HostPortInfo; v1.36)."""

from __future__ import annotations

from plugin_cases import answer, cases, pod_info, snapshot

from kschedctl.scheduler.plugins.node_ports import NodePorts
from kschedctl.snapshot.pod_info import ALL_HOST_IPS, HostPort


@cases("nodeports", "nodeports")
def test_filter(case):
    view = snapshot(case)
    found, want = answer(NodePorts(), pod_info(case, view), view), case["want"]
    if "fits" in want:
        fits = found.get("filter", {}).get("unnamed-node", {"code": "Success"})["code"] == "Success"
        assert fits == want["fits"]
        want = {}
    assert {part: found.get(part) for part in want} == want


@cases("nodeports", "hostportconflict", left_out=["empty port check should pass"])  # port 0 is no host port
def test_conflict(case):
    used, check = ([host_port(port) for port in ports] for ports in (case["used"], [case["check"]]))
    assert any(port.conflicts(check[0]) for port in used) == case["want"]["conflict"]


def host_port(port):
    """Absent parts as PodInfo fills them in."""
    return HostPort(port["ip"] or ALL_HOST_IPS, port["protocol"] or "TCP", port["port"])
