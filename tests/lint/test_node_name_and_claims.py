"""Check a workload with nodeName whose claim waits for the scheduler to choose a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from kschedctl.cli.main import main

MANIFESTS = """\
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disk}
provisioner: csi.test
volumeBindingMode: MODE
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: shop}
spec: {storageClassName: disk, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: db, namespace: shop}
spec:
  nodeName: n1
  containers: [{name: c, image: i}]
  volumes: [{name: d, persistentVolumeClaim: {claimName: data}}]
"""


@pytest.mark.parametrize(("mode", "named"), [("WaitForFirstConsumer", True), ("Immediate", False)])
def test_unbound_claim_is_named(mode: str, named: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "db.yaml"
    file.write_text(MANIFESTS.replace("MODE", mode))
    main(("lint", "-f", str(file), "-o", "json"))
    out = capsys.readouterr().out
    assert "nodeName n1 bypasses the scheduler" in out
    assert ("claim data of class disk is never bound" in out) == named
