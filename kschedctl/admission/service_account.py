"""The account that a pod runs as. Upstream: plugin/pkg/admission/serviceaccount/admission.go (v1.36)."""

from __future__ import annotations

from collections.abc import Iterator

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.objects import ServiceAccount

DEFAULT = "default"
MIRROR = "kubernetes.io/config.mirror"
ENFORCED = "kubernetes.io/enforce-mountable-secrets"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def fill_in(request: AdmissionRequest) -> None:
    """The account, and what comes with it. Raises NotAdmittedError where there is none."""
    if not request.is_pod:
        return
    spec = request.spec
    if MIRROR in request.annotations:
        _check_mirror(request)
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = _account(request, name)
    if account.metadata.annotations.get(ENFORCED) in ("true", "True", "TRUE", "T", "t", "1"):
        _check_secrets(request, account)
    if not spec.get("imagePullSecrets") and account.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]


def _account(request: AdmissionRequest, name: str) -> ServiceAccount:
    account = _found(request, name)
    if account is not None:
        return account
    where = f"{request.namespace}/{name}"
    raise request.forbidden(f'error looking up service account {where}: serviceaccount "{name}" not found')


def _found(request: AdmissionRequest, name: str) -> ServiceAccount | None:
    accounts = request.cluster.in_namespace("service_accounts", request.namespace)
    return next((account for account in accounts if account.metadata.name == name), None)


def _check_mirror(request: AdmissionRequest) -> None:
    spec = request.spec
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        raise request.forbidden("a mirror pod may not reference service accounts")
    if any("secret" in volume for volume in spec.get("volumes") or ()):
        raise request.forbidden("a mirror pod may not reference secrets")


def has_token_volume(request: AdmissionRequest) -> bool:
    """Whether a volume for the account's token is added."""
    spec = request.spec
    if MIRROR in request.annotations:
        return False
    name = spec.get("serviceAccountName")
    account = _found(request, str(name))
    own, of_account = spec.get("automountServiceAccountToken"), account and account.automount_service_account_token
    mounts = own if own is not None else of_account if of_account is not None else True
    paths = ({mount.get("mountPath") for mount in c.get("volumeMounts") or ()} for c in request.containers)
    return bool(mounts) and any(TOKEN_PATH not in mounted for mounted in paths)


def _check_secrets(request: AdmissionRequest, account: ServiceAccount) -> None:
    """The account may insist on its own secrets."""
    mountable = {secret.name for secret in account.secrets}
    who = f"service account {account.metadata.name}"
    for what, name in _secrets(request):
        if name not in mountable:
            raise request.forbidden(f"{what} is not allowed because {who} does not reference that secret")
    pulling = {secret.name for secret in account.image_pull_secrets}
    for at, secret in enumerate(request.spec.get("imagePullSecrets") or ()):
        if (name := secret.get("name", "")) not in pulling:
            said = f'imagePullSecrets[{at}].name="{name}" is not allowed because {who}'
            raise request.forbidden(f"{said} does not reference that imagePullSecret")


def _secrets(request: AdmissionRequest) -> Iterator[tuple[str, str]]:
    """Where the pod refers to secrets, as upstream says it, and to which."""
    for volume in request.spec.get("volumes") or ():
        if name := (volume.get("secret") or {}).get("secretName"):
            yield f'volume with secret.secretName="{name}"', name
    for what, containers in (("init container", request.init_containers), ("container", request.containers)):
        for container in containers:
            for variable in container.get("env") or ():
                if name := ((variable.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name"):
                    where = f"{what} {container['name']} with envVar {variable.get('name', '')}"
                    yield f'{where} referencing secret.secretName="{name}"', name
            for source in container.get("envFrom") or ():
                if name := (source.get("secretRef") or {}).get("name"):
                    yield f'{what} {container["name"]} with envFrom referencing secret.secretName="{name}"', name
