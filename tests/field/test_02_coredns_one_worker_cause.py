"""A second DNS replica that waits since the control plane counts as an empty domain (kubernetes/kops#18453).

The only worker has a replica, and the tainted control-plane node cp1 has none. nodeTaintsPolicy is Ignore by default,
so cp1 counts although no replica can go there. The cause names cp1, its taint and the policy.
"""

from __future__ import annotations

from pathlib import Path

import kschedctl

SITUATION = Path(__file__).parent / "02-coredns-one-worker" / "in.yaml"
TAINT = "node-role.kubernetes.io/control-plane:NoSchedule"


def test_control_plane_is_named_as_the_empty_domain() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([SITUATION]), "kube-system/dns-6bb-bbbbb")
    assert f"cp1, has 0; nodeTaintsPolicy: Ignore makes cp1 count despite its taint {TAINT}" in report.headline
    emptiest = report.to_dict()["causes"][0]["factData"]["emptiest"]
    assert emptiest == {"domain": "cp1", "policy": "nodeTaintsPolicy", "node": "cp1", "taint": TAINT}
    assert [advice.kind for advice in report.advice] == ["HonorPolicy"]
