"""The defaults that the API server sets before admission in pods, claims and Deployments.

Documents are changed in place. Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/apps/v1/defaults.go (v1.36).
"""

from __future__ import annotations

from kschedctl.admission.request import AdmissionRequest, Writable
from kschedctl.api.pod_requests import Options, aggregate_container_requests
from kschedctl.api.quantity import MILLI, Quantity, parse_quantity
from kschedctl.api.resource_names import is_pod_level

_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_SOURCES_WITH_MODE = ("secret", "configMap", "downwardAPI", "projected")
_DEFAULT_MODE = 0o644
_CONTAINER_OPTIONS = Options(use_status=False, pod_level=False, overhead=False)
_ROLLING_UPDATE = {"maxSurge": "25%", "maxUnavailable": "25%"}


def set_defaults(request: AdmissionRequest) -> None:
    """Set the defaults of the object in place, as the API server does for its kind.

    Raises QuantityError if an amount is invalid.
    """
    if request.is_pod:
        set_pod_spec_defaults(request.spec, is_pod=True)
        set_pod_level_requests(request)
    elif request.kind == "PersistentVolumeClaim":
        request.spec.setdefault("volumeMode", "Filesystem")
        _canonicalize_resources(request.spec.get("resources"))
    elif request.kind == "Deployment":
        _set_deployment_defaults(request.spec)


def _set_deployment_defaults(spec: Writable) -> None:
    """Set the defaults of a Deployment's spec and of its pod template in place."""
    for name, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        spec.setdefault(name, value)
    strategy: Writable = spec.setdefault("strategy", {})
    strategy.setdefault("type", "RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        strategy["rollingUpdate"] = {**_ROLLING_UPDATE, **(strategy.get("rollingUpdate") or {})}
    template: Writable = spec.setdefault("template", {})
    set_pod_spec_defaults(template.setdefault("spec", {}), is_pod=False)


def set_pod_spec_defaults(spec: Writable, *, is_pod: bool) -> None:
    """Set the defaults of a pod spec in place, and canonicalize its quantities.

    A pod gets more defaults than a pod template. A negative grace period becomes 1 second.
    """
    _set_missing_fields(
        spec, dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler", securityContext={}
    )
    _set_missing_fields(spec, terminationGracePeriodSeconds=30)
    if isinstance(spec["terminationGracePeriodSeconds"], int) and spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    if is_pod:
        _set_missing_fields(spec, enableServiceLinks=True)
    for name in ("containers", "initContainers"):
        for container in _list_objects(spec.get(name)):
            _set_container_defaults(container, host_network=bool(spec.get("hostNetwork")), is_pod=is_pod)
    for volume in _list_objects(spec.get("volumes")):
        _set_volume_defaults(volume)
    if isinstance(spec.get("overhead"), dict):
        spec["overhead"] = _canonicalize_amounts(spec["overhead"])
    _canonicalize_resources(spec.get("resources"))


def _set_container_defaults(container: Writable, *, host_network: bool, is_pod: bool) -> None:
    """Set the defaults of a container, its ports, probes and environment in place.

    With ``host_network``, host ports default to container ports. Missing requests default to the limits only in a pod,
    not in a pod template.
    """
    image = str(container.get("image", ""))
    _set_missing_fields(container, imagePullPolicy="Always" if _is_latest_image(image) else "IfNotPresent")
    _set_missing_fields(
        container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={}
    )
    resources = container["resources"]
    _canonicalize_resources(resources)
    # Like upstream, requests default to limits when a pod is created
    limits = resources.get("limits")
    if is_pod and isinstance(limits, dict) and limits:
        resources["requests"] = {**limits, **(resources.get("requests") or {})}
    for port in _list_objects(container.get("ports")):
        _set_missing_fields(port, protocol="TCP")
        if host_network and "containerPort" in port:
            _set_missing_fields(port, hostPort=port["containerPort"])
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(name), dict):
            _set_missing_fields(container[name], **_PROBE)
            _set_http_defaults(container[name])
    for handler in (container.get("lifecycle") or {}).values():
        _set_http_defaults(handler)
    for variable in _list_objects(container.get("env")):
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if isinstance(reference, dict):
            _set_missing_fields(reference, apiVersion="v1")


def _is_latest_image(image: str) -> bool:
    """Return whether an image has no digest, and has the tag ``latest`` or no tag."""
    if "@" in image:
        return False
    name = image.rpartition("/")[2]
    return name.partition(":")[2] in ("", "latest")


def _set_http_defaults(handler: object) -> None:
    """Set the defaults of the HTTP request in a probe or lifecycle handler. Other handlers stay unchanged."""
    http_get = handler.get("httpGet") if isinstance(handler, dict) else None
    if isinstance(http_get, dict):
        _set_missing_fields(http_get, path="/", scheme="HTTP")


def _set_volume_defaults(volume: Writable) -> None:
    """Set the defaults of a volume in place. A volume without a source becomes an emptyDir.

    The other defaults are file modes, the type of a hostPath, and the lifetime of a service account token.
    """
    if len(volume) == 1 and "name" in volume:
        volume["emptyDir"] = {}
    for source in _SOURCES_WITH_MODE:
        if isinstance(volume.get(source), dict):
            _set_missing_fields(volume[source], defaultMode=_DEFAULT_MODE)
    if isinstance(volume.get("hostPath"), dict):
        _set_missing_fields(volume["hostPath"], type="")
    projected: Writable = volume.get("projected") or {}
    for projection in _list_objects(projected.get("sources")):
        if isinstance(projection.get("serviceAccountToken"), dict):
            _set_missing_fields(projection["serviceAccountToken"], expirationSeconds=3600)


def set_pod_level_requests(request: AdmissionRequest) -> None:
    """Set missing pod-level requests in place, if the pod has pod-level limits.

    A missing request is set to the containers' requests or, if there are none, to the pod-level limit.
    """
    pod_resources: Writable = request.spec.get("resources") or {}
    limits = pod_resources.get("limits")
    if not limits:
        return
    requests = dict(pod_resources.get("requests") or {})
    container_requests = aggregate_container_requests(request.decode_pod(), _CONTAINER_OPTIONS)
    for name, amount in container_requests.items():
        if is_pod_level(name):
            requests.setdefault(name, str(amount))
    for name, text in limits.items():
        if is_pod_level(name):
            requests.setdefault(name, text)
    if requests:
        pod_resources["requests"] = requests


def _canonicalize_resources(resources: object) -> None:
    """Rewrite requests and limits in place in their canonical form, rounded up to thousandths."""
    if isinstance(resources, dict):
        for part in ("requests", "limits"):
            if isinstance(resources.get(part), dict):
                resources[part] = _canonicalize_amounts(resources[part])


def _canonicalize_amounts(amounts: dict[str, object]) -> dict[str, str]:
    """Return amounts in their canonical form, rounded up to thousandths."""
    return {name: str(parse_quantity(_strip_blanks(amount)).round_up(MILLI)) for name, amount in amounts.items()}


def _strip_blanks(amount: object) -> object:
    """Return the amount without surrounding blanks."""
    return amount.strip() if isinstance(amount, str) else amount


def _set_missing_fields(target: Writable, **values: object) -> None:
    """Set each field in ``values`` that the object lacks or has as an empty text."""
    for name, value in values.items():
        if target.get(name) is None or target.get(name) == "":
            target[name] = value


def _list_objects(value: object) -> list[Writable]:
    """Return the objects in a list, or an empty list for any other value."""
    if not isinstance(value, list):
        return []
    return [element for element in value if isinstance(element, dict)]


def parse_amounts(resources: dict[str, object]) -> dict[str, Quantity]:
    """Parse the amounts of resources, by name. Raises QuantityError if an amount is malformed."""
    return {name: parse_quantity(_strip_blanks(amount)) for name, amount in resources.items()}
