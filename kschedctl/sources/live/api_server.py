"""Detection of the kube-apiserver settings of a live cluster from its static pods."""

from __future__ import annotations

import logging

from kschedctl.api.observed.api_server import AS_BY_DEFAULT, HOME, PROGRAM, ApiServerInstance, find_api_server
from kschedctl.errors import ClusterError
from kschedctl.sources.live.autoscaler import owners_of_containers
from kschedctl.sources.live.http import RefusedError, Server

log = logging.getLogger(__name__)

PODS, SELECTOR = f"/api/v1/namespaces/{HOME}/pods", f"component={PROGRAM}"
"""Where kubeadm, and most who follow it, run it, and how they label it."""


def read_api_server(server: Server) -> ApiServerInstance:
    """Read the relevant flags of kube-apiserver, or return the defaults if no such pod is visible."""
    try:
        owners = owners_of_containers(server, PODS, SELECTOR)
    except (RefusedError, ClusterError) as error:
        log.info("pods of %s: %s", PROGRAM, error)
        owners = ()
    return find_api_server(owners, "Pod") or AS_BY_DEFAULT
