"""ImageLocality against upstream's own tables (plugins/imagelocality; v1.36)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from plugin_cases import cases, pod_info, scores, snapshot
from small_clusters import check_scores, clusters, name_of

from kschedctl.scheduler.plugins.image_locality import ImageLocality, normalized_image_name


@cases("imagelocality", "score")
def test_score(case):
    view = snapshot(case)
    assert scores(ImageLocality(), pod_info(case, view), view)["scores"] == case["want"]["scores"]


@cases("imagelocality", "normalizedimagename")
def test_normalized_image_name(case):
    assert normalized_image_name(case["input"]) == case["want"]["output"]


IMAGES = ["web:1", "web:latest", "registry:5000/db:2"]
CONTAINERS = st.lists(st.fixed_dictionaries({"image": st.sampled_from([*IMAGES, "web", "none"])}), max_size=3)
HELD = st.lists(
    st.fixed_dictionaries(
        {
            "names": st.lists(st.sampled_from(IMAGES), min_size=1, max_size=2, unique=True),
            "sizeBytes": st.integers(0, 3000).map(lambda mebibytes: mebibytes << 20),
        }
    ),
    max_size=3,
    unique_by=lambda image: image["names"][0],
)


@given(
    clusters(
        pending=st.fixed_dictionaries({"containers": CONTAINERS, "initContainers": CONTAINERS}),
        node=st.fixed_dictionaries({"status": st.fixed_dictionaries({"images": HELD})}),
    )
)
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
