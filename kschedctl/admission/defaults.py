"""What the API server fills in before admission: the defaults of pods, claims and Deployments.

Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/apps/v1/defaults.go (v1.36). JSON is written to.
"""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.pod_requests import Options, aggregate_container_requests
from kschedctl.api.quantity import MILLI, Quantity, parse
from kschedctl.api.resource_names import is_pod_level

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_MODE = 0o644
_ALONE = Options(use_status=False, pod_level=False, overhead=False)
_SURGE = {"maxSurge": "25%", "maxUnavailable": "25%"}


def fill_in(request: AdmissionRequest) -> None:
    """The defaults of a kind. Raises QuantityError."""
    if request.is_pod:
        pod_spec(request.spec, of_pod=True)
        pod_level_requests(request)
    elif request.kind == "PersistentVolumeClaim":
        request.spec.setdefault("volumeMode", "Filesystem")
        _resource_lists(request.spec.get("resources"))
    elif request.kind == "Deployment":
        _deployment(request.spec)


def _deployment(spec: Writable) -> None:
    for name, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        spec.setdefault(name, value)
    strategy: Writable = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_SURGE, **(strategy.get("rollingUpdate") or {})}
    template: Writable = spec.setdefault("template", {})
    pod_spec(template.setdefault("spec", {}), of_pod=False)


def pod_spec(spec: Writable, *, of_pod: bool) -> None:
    """The defaults of a pod's spec, of one that is made or of a template."""
    _set(spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler", securityContext={})
    _set(spec, terminationGracePeriodSeconds=30)
    if isinstance(spec["terminationGracePeriodSeconds"], int) and spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if of_pod:
        _set(spec, enableServiceLinks=True)
    for name in ("containers", "initContainers"):
        for container in _objects(spec.get(name)):
            _container(container, bool(spec.get("hostNetwork")), of_pod)
    for volume in _objects(spec.get("volumes")):
        _volume(volume)
    if isinstance(spec.get("overhead"), dict):
        spec["overhead"] = _rounded(spec["overhead"])
    _resource_lists(spec.get("resources"))


def _container(container: Writable, host_network: bool, of_pod: bool) -> None:
    tag = str(container.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[2]
    latest = tag in ("", "latest") and "@" not in str(container.get("image", ""))
    _set(container, imagePullPolicy="Always" if latest else "IfNotPresent")
    _set(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={})
    resources = container["resources"]
    _resource_lists(resources)
    limits = resources.get("limits")
    if of_pod and isinstance(limits, dict) and limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in _objects(container.get("ports")):
        _set(port, protocol="TCP")
        if host_network and "containerPort" in port:
            _set(port, hostPort=port["containerPort"])
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _set(container[name], **_PROBE)
            _http(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        _http(handler)
    for variable in _objects(container.get("env")):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            _set(reference, apiVersion="v1")


def _http(handler: object) -> None:
    get = handler.get("httpGet") if isinstance(handler, dict) else None
    if isinstance(get, dict):
        _set(get, path="/", scheme="HTTP")


def _volume(volume: Writable) -> None:
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source in _WITH_MODE:
        if isinstance(volume.get(source), dict):
            _set(volume[source], defaultMode=_MODE)
    if isinstance(volume.get("hostPath"), dict):
        _set(volume["hostPath"], type="")
    projected: Writable = volume.get("projected") or {}
    for projection in _objects(projected.get("sources")):
        if isinstance(projection.get("serviceAccountToken"), dict):
            _set(projection["serviceAccountToken"], expirationSeconds=3600)


def pod_level_requests(request: AdmissionRequest) -> None:
    """What a pod with limits of its own requests where it does not say so: as its containers do, else as its limits."""
    own: Writable = request.spec.get("resources") or {}
    limits = own.get("limits")
    if not limits:
        return
    requests = dict(own.get("requests") or {})
    of_containers = aggregate_container_requests(request.pod(), _ALONE)
    for name, amount in of_containers.items():
        if is_pod_level(name):
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, text)
    if requests:
        own["requests"] = requests


def _resource_lists(resources: object) -> None:
    """Amounts in their canonical form, to the thousandth."""
    if isinstance(resources, dict):
        for part in ("requests", "limits"):
            if isinstance(resources.get(part), dict):
                resources[part] = _rounded(resources[part])


def _rounded(amounts: dict[str, object]) -> dict[str, str]:
    return {name: str(parse(_text(amount)).round_up(MILLI)) for name, amount in amounts.items()}


def _text(amount: object) -> object:
    return amount.strip() if isinstance(amount, str) else amount


def _set(into: Writable, **values: object) -> None:
    for name, value in values.items():
        if into.get(name) is None or into.get(name) == "":
            into[name] = value


def _objects(value: object) -> list[Writable]:
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def amounts(resources: dict[str, object]) -> dict[str, Quantity]:
    """Amounts by name."""
    return {name: parse(_text(amount)) for name, amount in resources.items()}
