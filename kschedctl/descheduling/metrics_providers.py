"""Where a policy has the descheduler ask what pods really use, and what upstream refuses of that.

Upstream: validateDeschedulerConfiguration in pkg/descheduler/policyconfig.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from kschedctl.api.objects import Struct
from kschedctl.descheduling.arguments import Fault

KUBERNETES_METRICS, PROMETHEUS = "KubernetesMetrics", "Prometheus"


class MetricsCollector(Struct, frozen=True):
    enabled: bool = False


class SecretOfToken(Struct, frozen=True):
    namespace: str = ""
    name: str = ""


class AuthToken(Struct, frozen=True):
    secret_reference: SecretOfToken | None = None


class PrometheusServer(Struct, frozen=True):
    url: str = ""
    auth_token: AuthToken | None = None

    def faults(self, at: str) -> Iterator[Fault]:
        if not self.url:
            yield Fault(f"{at}.url", "must be set")
        elif not _is_url(self.url):
            yield Fault(f"{at}.url", f'"{self.url}" is not a URL')
        if self.auth_token is not None:
            secret = self.auth_token.secret_reference
            if secret is None or not (secret.namespace and secret.name):
                yield Fault(f"{at}.authToken.secretReference", "must have a namespace and a name")


class MetricsProvider(Struct, frozen=True):
    source: str = ""
    prometheus: PrometheusServer | None = None


def faults_of_metrics(collector: MetricsCollector | None, providers: tuple[MetricsProvider, ...]) -> Iterator[Fault]:
    """Of providers of one source the first counts."""
    known: dict[str, tuple[int, MetricsProvider]] = {}
    for number, provider in enumerate(providers):
        if provider.source in known:
            yield Fault(f"metricsProviders[{number}].source", f'"{provider.source}" is configured twice')
        known.setdefault(provider.source, (number, provider))
    if collector is not None and collector.enabled and KUBERNETES_METRICS in known:
        yield Fault("metricsProviders", "cannot be combined with metricsCollector")
    if PROMETHEUS in known:
        number, provider = known[PROMETHEUS]
        at = f"metricsProviders[{number}].prometheus"
        yield from provider.prometheus.faults(at) if provider.prometheus else (Fault(at, "must be set"),)


def _is_url(text: str) -> bool:
    """Whether it can be taken apart.

    >>> _is_url("https://prometheus:9090"), _is_url("http://example.com:-80")
    (True, False)
    """
    try:
        urlsplit(text).port  # noqa: B018 - read for its error
    except ValueError:
        return False
    return True
