"""ImageLocality plugin: prefers nodes that already have the pod's images."""

from __future__ import annotations

from enum import StrEnum
from typing import Self

import numpy as np

from kschedctl.api.arrays import Rows, Scores
from kschedctl.api.kube_version import VERIFIED, ByVersion, KubeVersion
from kschedctl.scheduler.framework import Fragment, Peers, Reads
from kschedctl.scheduler.framework.declaration import DeclaredPlugin
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.scores import MAX_NODE_SCORE
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

_MEBIBYTE = 1024 * 1024


class CountedImages(StrEnum):
    """The images of a pod that count for its score."""

    CONTAINERS = "container images"
    CONTAINERS_AND_VOLUMES = "container images and image volumes"


SCORED_IMAGES = ByVersion(
    "images that count towards a node's score",
    (("", CountedImages.CONTAINERS), ("1.36", CountedImages.CONTAINERS_AND_VOLUMES)),
    "#130231",
)
THRESHOLD_IMAGES = ByVersion(
    "images for each of which a node must have 1000 MiB to get the highest score",
    (("", CountedImages.CONTAINERS), ("1.37", CountedImages.CONTAINERS_AND_VOLUMES)),
    "#138951",
)
MIN_THRESHOLD = 23 * _MEBIBYTE
MAX_CONTAINER_THRESHOLD = 1000 * _MEBIBYTE


class ImageLocality(DeclaredPlugin):
    """Plugin that prefers nodes that already have the pod's images, by the size of these images.

    Each size is scaled by the share of nodes that have the image.

    Upstream: pkg/scheduler/framework/plugins/imagelocality (v1.36).
    """

    name = "ImageLocality"
    changed = (SCORED_IMAGES, THRESHOLD_IMAGES)
    default_weight = 1
    peers = Peers.NONE
    reads = Reads.NODES

    def __init__(self, version: KubeVersion = VERIFIED) -> None:
        self.scores_volumes = SCORED_IMAGES.at(version) is CountedImages.CONTAINERS_AND_VOLUMES
        self.bounded_by_volumes = THRESHOLD_IMAGES.at(version) is CountedImages.CONTAINERS_AND_VOLUMES

    @classmethod
    def make(cls, args: None, gates: FeatureGates) -> Self:
        """Build the plugin as of the gates' version."""
        return cls(gates.release)

    def score(self, info: PodInfo, view: Fork, state: None, rows: Rows) -> Scores:
        """Score the nodes in `rows` from 0 to 100 by the total size of the pod's images on the node.

        The size of an image is scaled by the share of nodes that have the image. A sum of at most 23 MiB scores 0. The
        sum that scores 100 is 1000 MiB for each of the pod's images. Images of volumes add to the sum if
        `scores_volumes` is true, and to the number of images if `bounded_by_volumes` is true.
        """
        containers = (*info.spec.init_containers, *info.spec.containers)
        volumes = info.spec.volumes if self.scores_volumes else ()
        images = [container.image for container in containers]
        images += [volume.image.reference for volume in volumes if volume.image]
        names = [normalize_image_name(image) for image in images]
        states = [image_state for image_state in view.nodes.find_image_states(names) if image_state is not None]
        if not states:
            return np.zeros(len(rows), np.int64)

        image_bytes = np.zeros(len(view.nodes), np.int64)
        for image_state in states:
            share_of_nodes = len(image_state.rows) / len(view.nodes)
            image_bytes[image_state.rows] += int(float(image_state.size) * share_of_nodes)

        num_counted_images = len(images) if self.bounded_by_volumes else len(containers)
        max_threshold = MAX_CONTAINER_THRESHOLD * num_counted_images
        bounded = np.minimum(np.maximum(image_bytes[rows], MIN_THRESHOLD), max(max_threshold, MIN_THRESHOLD))
        return MAX_NODE_SCORE * (bounded - MIN_THRESHOLD) // (max_threshold - MIN_THRESHOLD)

    def normalize(self, state: None, scores: Scores) -> Scores:
        """Return the scores unchanged."""
        return scores

    def sign(self, info: PodInfo, view: Fork) -> Fragment:
        """Return the sorted, normalized names of the images of the pod's containers as part of its signature."""
        containers = (*info.spec.containers, *info.spec.init_containers)
        return {"images": sorted({normalize_image_name(container.image) for container in containers})}


def normalize_image_name(name: str) -> str:
    """Return the image name with the tag `latest` added if it has no tag.

    >>> normalize_image_name("registry:5000/web"), normalize_image_name("web:1")
    ('registry:5000/web:latest', 'web:1')
    """
    has_tag = name.rfind(":") > name.rfind("/")  # a colon before the last slash precedes a port
    return name if has_tag else f"{name}:latest"
