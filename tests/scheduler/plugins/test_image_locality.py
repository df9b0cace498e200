"""Check ImageLocality against upstream's own tables (plugins/imagelocality; v1.36)."""

from __future__ import annotations

import pytest
from hypothesis import given
from plugin_cases import build_snapshot, compute_scores, find_pod_info, parametrize_cases
from small_clusters import check_scores, draw_clusters, draw_many, get_name

from kschedctl.api.kube_version import KubeVersion
from kschedctl.scheduler.plugins.image_locality import ImageLocality, normalize_image_name


@parametrize_cases("imagelocality", "score")
def test_score(case):
    view = build_snapshot(case)
    assert compute_scores(ImageLocality(), find_pod_info(case, view), view)["scores"] == case["want"]["scores"]


@parametrize_cases("imagelocality", "normalizedimagename")
def test_normalized_image_name(case):
    assert normalize_image_name(case["input"]) == case["want"]["output"]


IMAGES = ["web:1", "web:latest", "registry:5000/db:2"]


def draw_container(random):
    return {"image": random.choice([*IMAGES, "web", "none"])}


def draw_pending_pod(random):
    return {"containers": draw_many(random, 3, draw_container), "initContainers": draw_many(random, 2, draw_container)}


def draw_images(random):
    """Draw images, each with a unique name."""
    names = random.sample(IMAGES, random.randint(0, 3))
    images = [names[:2], names[2:]]
    return {"status": {"images": [{"names": n, "sizeBytes": random.randint(0, 3000) << 20} for n in images if n]}}


@given(draw_clusters(pending=draw_pending_pod, node=draw_images))
def test_naive_scores(cluster):
    check_scores(ImageLocality(), cluster, score_naively)


def score_naively(cluster):
    """Score nodes by the bytes of the containers' images that they hold, weighted by the share of nodes with each."""
    spec = cluster.pending["spec"]
    containers = spec["initContainers"] + spec["containers"]
    scores = {}
    for node in cluster.nodes:
        if get_name(node) in cluster.feasible:
            held = sum(weigh_naively(container["image"], node, cluster.nodes) for container in containers)
            low, high = 23 << 20, (1000 << 20) * len(containers)
            held = low if held < low else min(held, high)
            scores[get_name(node)] = 100 * (held - low) // (high - low)
    return scores, scores


def weigh_naively(image, node, nodes):
    """Return an image's size, as the first node that holds the image reports it."""
    image = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
    sizes = [
        next(found["sizeBytes"] for found in other["status"]["images"] if image in found["names"])
        for other in nodes
        if holds(other, image)
    ]
    return int(sizes[0] * (len(sizes) / len(nodes))) if holds(node, image) else 0


def holds(node, image):
    return any(image in found["names"] for found in node["status"]["images"])


@pytest.mark.parametrize(("minor", "expected"), [(35, 0), (36, 50), (37, 24)])
def test_image_volumes(minor, expected):
    """One of two nodes has an image of 1023 MiB.

    Half of it counts, less 23 MiB, which is 488.5 MiB. An image volume counts since #130231, up to the limit of the one
    container (1000 - 23 MiB), which is 50 percent. Since #138951 it adds its own 1000 MiB to the limit, which gives
    488.5 of 1977.
    """
    images = [{"names": ["data:1"], "sizeBytes": 1023 << 20}]
    nodes = [{"metadata": {"name": "n1"}, "status": {"images": images}}, {"metadata": {"name": "n2"}}]
    volume = {"name": "v", "image": {"reference": "data:1"}}
    pod = {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [{"image": "web:1"}], "volumes": [volume]}}
    case = {"nodes": [{"kind": "Node", **node} for node in nodes], "pod": pod}
    view = build_snapshot(case)
    found = compute_scores(ImageLocality(KubeVersion(minor)), find_pod_info(case, view), view)["scores"]
    assert found == {"n1": expected, "n2": 0}
