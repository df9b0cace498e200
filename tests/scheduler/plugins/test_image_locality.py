"""ImageLocality against upstream's own tables (plugins/imagelocality; v1.36)."""

from __future__ import annotations

from plugin_cases import cases, pod_info, scores, snapshot

from kschedctl.scheduler.plugins.image_locality import ImageLocality, normalized_image_name


@cases("imagelocality", "score")
def test_score(case):
    view = snapshot(case)
    assert scores(ImageLocality(), pod_info(case, view), view)["scores"] == case["want"]["scores"]


@cases("imagelocality", "normalizedimagename")
def test_normalized_image_name(case):
    assert normalized_image_name(case["input"]) == case["want"]["output"]
