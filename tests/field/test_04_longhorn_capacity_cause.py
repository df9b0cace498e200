"""A driver that publishes no storage while its CSIDriver asks the scheduler to look at it (longhorn/longhorn#12807).

The claim waits for its first consumer. Nodes c1 and c2 have a CSIStorageCapacity of 0, and CSIDriver
driver.longhorn.io says storageCapacity: true, so kube-scheduler rejects both. The third node has a taint, which is not
the cause. The right answer is to set storageCapacity to false, or to correct the objects.
"""

from __future__ import annotations

from pathlib import Path

import kschedctl

FOLDER = Path(__file__).parent / "04-longhorn-capacity"


def test_the_cause_is_that_the_driver_publishes_zero() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([FOLDER / "in2.yaml"]), "default/db-0")
    (cause,) = report.causes
    assert (cause.plugin, cause.nodes, cause.within, cause.nearest) == ("VolumeBinding", 2, 2, "c1")
    says = (
        "driver.longhorn.io publishes 0 for this node in CSIStorageCapacity cap-c1, "
        "and its CSIDriver says storageCapacity: true"
    )
    assert says in report.headline
    assert "taint" not in report.headline
    fact = report.to_dict()["causes"][0]["factData"]
    assert (fact["driver"], fact["largest"], fact["requested"], fact["pools"]) == ("driver.longhorn.io", 0, 20 << 30, 3)


def test_the_first_fixes_set_storage_capacity_to_false_or_correct_the_objects() -> None:
    report = kschedctl.remedies(kschedctl.Cluster.from_paths([FOLDER / "in2.yaml"]), "default/db-0")
    first, second = report.remedies[:2]
    assert first.kinds == ("IgnoreStorageCapacity",)
    assert first.opens == ("c1", "c2")
    assert first.commands == (
        """kubectl patch csidriver driver.longhorn.io --type=merge -p '{"spec": {"storageCapacity": false}}'""",
    )
    assert second.summary.startswith("Correct the capacity that driver.longhorn.io publishes in CSIStorageCapacity ")


def test_without_volumes_the_answer_depends_on_them() -> None:
    """The files hold no PersistentVolume, so a volume that fits the claim may exist."""
    report = kschedctl.explain(kschedctl.Cluster.from_paths([FOLDER / "in.yaml"]), "default/db-0")
    assert report.undecided
    assert "PersistentVolume" in [unknown.kind for unknown in report.unknown if unknown.affects == "verdict"]
