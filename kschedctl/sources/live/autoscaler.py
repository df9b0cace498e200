"""Detection of the Cluster Autoscaler of a live cluster from its pods."""

from __future__ import annotations

import logging

import msgspec

from kschedctl.api.decoding import get_json_decoder
from kschedctl.api.observed.autoscaler import PROGRAM, AutoscalerInstance, find_autoscaler
from kschedctl.api.observed.command_lines import ContainerOwner
from kschedctl.errors import ClusterError
from kschedctl.sources.live.http import RefusedError, Server

log = logging.getLogger(__name__)

PODS = "/api/v1/pods"
CLOUDS = ("aws", "azure", "civo", "clusterapi", "exoscale", "gce", "hetzner", "magnum", "oci", "rancher")
_CHARTS = ",".join((PROGRAM, *(f"{cloud}-{PROGRAM}" for cloud in CLOUDS)))
SELECTORS = (f"app={PROGRAM}", f"k8s-app={PROGRAM}", f"app.kubernetes.io/name in ({_CHARTS})")
"""How upstream's examples, kOps and OpenShift, and the Helm chart label it."""


class _Pods(msgspec.Struct, frozen=True):
    items: tuple[ContainerOwner, ...] | None = None


def owners_of_containers(server: Server, path: str, selector: str) -> tuple[ContainerOwner, ...]:
    """Return the command lines of the pods that a label selector selects.

    Raises RefusedError, ClusterError.
    """
    return server.decoded(path, {"labelSelector": selector}, get_json_decoder(_Pods).decode).items or ()


def read_autoscaler(server: Server) -> AutoscalerInstance | None:
    """Read the autoscaler's flags and version, or return None if no such pod is visible."""
    for selector in SELECTORS:
        try:
            owners = owners_of_containers(server, PODS, selector)
        except (RefusedError, ClusterError) as error:
            log.info("pods of the %s: %s", PROGRAM, error)
            return None
        if instance := find_autoscaler(owners, "Pod"):
            return instance
    return None
