"""Metrics providers of a DeschedulerPolicy, with their validation.

Upstream: validateDeschedulerConfiguration in pkg/descheduler/policyconfig.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from kschedctl.api.objects import Struct
from kschedctl.descheduling.arguments import ArgumentError

KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"


class MetricsCollector(Struct, frozen=True):
    """The deprecated collector of usage from the metrics server."""

    enabled: bool = False


class SecretOfToken(Struct, frozen=True):
    """The Secret that holds a token."""

    namespace: str = ""
    name: str = ""


class AuthToken(Struct, frozen=True):
    """The token for a Prometheus server."""

    secret_reference: SecretOfToken | None = None


class PrometheusServer(Struct, frozen=True):
    """A Prometheus server."""

    url: str = ""
    auth_token: AuthToken | None = None

    def validate(self, path: str) -> Iterator[ArgumentError]:
        """Yield the errors for which upstream rejects the configuration."""
        if not self.url:
            yield ArgumentError(f"{path}.url", "must be set")
        elif not _is_valid_url(self.url):
            yield ArgumentError(f"{path}.url", f'"{self.url}" is not a URL')
        if self.auth_token is not None:
            secret = self.auth_token.secret_reference
            if secret is None or not (secret.namespace and secret.name):
                yield ArgumentError(f"{path}.authToken.secretReference", "must have a namespace and a name")


class MetricsProvider(Struct, frozen=True):
    """A source of actual usage."""

    source: str = ""
    prometheus: PrometheusServer | None = None


def validate_metrics(
    collector: MetricsCollector | None, providers: tuple[MetricsProvider, ...]
) -> Iterator[ArgumentError]:
    """Yield the errors in the metrics collector and the metrics providers.

    If several providers have the same source, the first one is used.
    """
    provider_by_source: dict[str, tuple[int, MetricsProvider]] = {}
    for index, provider in enumerate(providers):
        if provider.source in provider_by_source:
            yield ArgumentError(f"metricsProviders[{index}].source", f'"{provider.source}" is configured twice')
        provider_by_source.setdefault(provider.source, (index, provider))
    if collector is not None and collector.enabled and KUBERNETES_METRICS in provider_by_source:
        yield ArgumentError("metricsProviders", "cannot be combined with metricsCollector")
    if PROMETHEUS in provider_by_source:
        index, provider = provider_by_source[PROMETHEUS]
        path = f"metricsProviders[{index}].prometheus"
        yield from provider.prometheus.validate(path) if provider.prometheus else (ArgumentError(path, "must be set"),)


def _is_valid_url(text: str) -> bool:
    """Return whether the text can be parsed as a URL.

    >>> _is_valid_url("https://prometheus:9090"), _is_valid_url("http://example.com:-80")
    (True, False)
    """
    try:
        urlsplit(text).port  # noqa: B018 - read for its error
    except ValueError:
        return False
    return True
