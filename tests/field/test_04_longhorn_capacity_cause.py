"""A driver that publishes no storage capacity although its CSIDriver enables capacity tracking
(longhorn/longhorn#12807)."""

from __future__ import annotations

from pathlib import Path

import kschedctl

FOLDER = Path(__file__).parent / "04-longhorn-capacity"


def test_cause_is_the_published_capacity_of_zero() -> None:
    report = kschedctl.explain(kschedctl.Cluster.from_paths([FOLDER / "in2.yaml"]), "default/db-0")
    (cause,) = report.causes
    assert (cause.plugin, cause.nodes, cause.within, cause.nearest) == ("VolumeBinding", 2, 2, "c1")
    says = (
        "driver.longhorn.io publishes a capacity of 0 in CSIStorageCapacity cap-c1, "
        "and its CSIDriver says storageCapacity: true"
    )
    assert says in report.headline
    assert "taint" not in report.headline
    fact = report.to_dict()["causes"][0]["factData"]
    assert (fact["driver"], fact["largest"], fact["requested"], fact["pools"]) == ("driver.longhorn.io", 0, 20 << 30, 3)


def test_first_fixes_disable_tracking_or_correct_the_objects() -> None:
    report = kschedctl.remedies(kschedctl.Cluster.from_paths([FOLDER / "in2.yaml"]), "default/db-0")
    first, second = report.remedies[:2]
    assert first.kinds == ("IgnoreStorageCapacity",)
    assert first.opens == ("c1", "c2")
    assert first.commands == (
        """kubectl patch csidriver driver.longhorn.io --type=merge -p '{"spec": {"storageCapacity": false}}'""",
    )
    assert second.summary.startswith("Correct the capacity that driver.longhorn.io publishes in CSIStorageCapacity ")


def test_answer_depends_on_unread_volumes() -> None:
    """The files contain no PersistentVolume, so a volume that fits the claim may exist."""
    report = kschedctl.explain(kschedctl.Cluster.from_paths([FOLDER / "in.yaml"]), "default/db-0")
    assert report.undecided
    assert "PersistentVolume" in [unknown.kind for unknown in report.unknown if unknown.affects == "verdict"]
