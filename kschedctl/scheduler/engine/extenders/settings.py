"""Extenders as configured in a KubeSchedulerConfiguration.

Upstream: staging/src/k8s.io/kube-scheduler/config/v1/types.go (v1.36).
"""

from __future__ import annotations

import msgspec

from kschedctl.api.objects import Struct
from kschedctl.scheduler.framework.strict_decoding import GoDuration, Int64


class ExtenderManagedResource(Struct, frozen=True):
    """An extended resource that an extender manages."""

    name: str = ""
    ignored_by_scheduler: bool = False
    """Whether NodeResourcesFit ignores the resource."""


class ExtenderTLSConfig(Struct, frozen=True):
    """TLS settings for calls of an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""


class Extender(Struct, frozen=True):
    """An HTTP extender."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: GoDuration = msgspec.field(default=GoDuration(0), name="httpTimeout")
    """In seconds; 0 means 5."""
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False
