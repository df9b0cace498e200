"""ImageLocality against upstream's own tables (plugins/imagelocality; v1.36)."""

from __future__ import annotations

from hypothesis import given
from plugin_cases import cases, pod_info, scores, snapshot
from small_clusters import check_scores, clusters, many, name_of

from kschedctl.scheduler.plugins.image_locality import ImageLocality, normalized_image_name


@cases("imagelocality", "score")
def test_score(case):
    view = snapshot(case)
    assert scores(ImageLocality(), pod_info(case, view), view)["scores"] == case["want"]["scores"]


@cases("imagelocality", "normalizedimagename")
def test_normalized_image_name(case):
    assert normalized_image_name(case["input"]) == case["want"]["output"]


IMAGES = ["web:1", "web:latest", "registry:5000/db:2"]


def container(random):
    return {"image": random.choice([*IMAGES, "web", "none"])}


def pending(random):
    return {"containers": many(random, 3, container), "initContainers": many(random, 2, container)}


def holding(random):
    """A name belongs to one image."""
    names = random.sample(IMAGES, random.randint(0, 3))
    images = [names[:2], names[2:]]
    return {"status": {"images": [{"names": n, "sizeBytes": random.randint(0, 3000) << 20} for n in images if n]}}


@given(clusters(pending=pending, node=holding))
def test_naive_scores(cluster):
    check_scores(ImageLocality(), cluster, naive_scores)


def naive_scores(cluster):
    """Of each container's image that a node holds the bytes count, by the share of nodes that hold it."""
    spec = cluster.pending["spec"]
    containers = spec["initContainers"] + spec["containers"]
    scores = {}
    for node in cluster.nodes:
        if name_of(node) in cluster.feasible:
            held = sum(naive_weight(container["image"], node, cluster.nodes) for container in containers)
            low, high = 23 << 20, (1000 << 20) * len(containers)
            held = low if held < low else min(held, high)
            scores[name_of(node)] = 100 * (held - low) // (high - low)
    return scores, scores


def naive_weight(image, node, nodes):
    """An image's size is what the first node that holds it says."""
    image = image if ":" in image.rpartition("/")[2] else f"{image}:latest"
    sizes = [
        next(found["sizeBytes"] for found in other["status"]["images"] if image in found["names"])
        for other in nodes
        if holds(other, image)
    ]
    return int(sizes[0] * (len(sizes) / len(nodes))) if holds(node, image) else 0


def holds(node, image):
    return any(image in found["names"] for found in node["status"]["images"])
