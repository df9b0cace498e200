"""The admission plugin ServiceAccount, which sets a pod's service account and image pull secrets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kschedctl.admission.request import AdmissionRequest
from kschedctl.api.objects import ServiceAccount

DEFAULT_ACCOUNT = "default"
MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
ENFORCE_SECRETS_ANNOTATION = "kubernetes.io/enforce-mountable-secrets"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"


def set_service_account(request: AdmissionRequest) -> None:
    """Run the ServiceAccount plugin: set the pod's service account and its image pull secrets.

    Mirror pods are only checked. Raises NotAdmittedError if the service account does not exist, if it does not allow
    the pod's secrets, or if a mirror pod refers to a service account or secret.
    """
    if not request.is_pod:
        return
    spec = request.spec
    if MIRROR_ANNOTATION in request.annotations:
        _check_mirror_pod(request)
        return
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    account = _require_service_account(request, name)
    # The values that Go's ParseBool takes for true
    if account.metadata.annotations.get(ENFORCE_SECRETS_ANNOTATION) in ("true", "True", "TRUE", "T", "t", "1"):
        _check_secrets_are_listed(request, account)
    if not spec.get("imagePullSecrets") and account.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": secret.name} for secret in account.image_pull_secrets]


def _require_service_account(request: AdmissionRequest, name: str) -> ServiceAccount:
    """Return the service account of this name. Raises NotAdmittedError if it does not exist."""
    account = _find_service_account(request, name)
    if account is not None:
        return account
    key = f"{request.namespace}/{name}"
    raise request.build_denial_error(f'error looking up service account {key}: serviceaccount "{name}" not found')


def _find_service_account(request: AdmissionRequest, name: str) -> ServiceAccount | None:
    """Return the service account of this name in the request's namespace, or None if there is none."""
    accounts: Sequence[ServiceAccount] = request.cluster.list_in_namespace("service_accounts", request.namespace)
    for account in accounts:
        if account.metadata.name == name:
            return account
    return None


def _check_mirror_pod(request: AdmissionRequest) -> None:
    """Raise NotAdmittedError if a mirror pod refers to a service account or a secret."""
    spec = request.spec
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        raise request.build_denial_error("a mirror pod may not reference service accounts")
    if any("secret" in volume for volume in spec.get("volumes") or ()):
        raise request.build_denial_error("a mirror pod may not reference secrets")


def has_token_volume(request: AdmissionRequest) -> bool:
    """Return whether the ServiceAccount plugin adds a volume with the account's token to the pod.

    Mirror pods get no such volume. Other pods get one unless all containers already mount a volume at its path, or
    automountServiceAccountToken is false. The pod's own setting takes precedence over the account's.
    """
    spec = request.spec
    if MIRROR_ANNOTATION in request.annotations:
        return False
    account = _find_service_account(request, str(spec.get("serviceAccountName")))
    automounts = spec.get("automountServiceAccountToken")
    if automounts is None and account is not None:
        automounts = account.automount_service_account_token
    if automounts is not None and not automounts:
        return False
    mounted_paths_by_container = [
        {mount.get("mountPath") for mount in container.get("volumeMounts") or ()} for container in request.containers
    ]
    return any(TOKEN_PATH not in mounted_paths for mounted_paths in mounted_paths_by_container)


def _check_secrets_are_listed(request: AdmissionRequest, account: ServiceAccount) -> None:
    """Raise NotAdmittedError if the pod refers to a secret that its service account does not list.

    Secrets in volumes and environment variables have to be among the account's secrets, and image pull secrets among
    its image pull secrets.
    """
    mountable = {secret.name for secret in account.secrets}
    account_title = f"service account {account.metadata.name}"
    for reference in _iter_secret_references(request):
        if reference.secret not in mountable:
            raise request.build_denial_error(
                f"{reference.description} is not allowed because {account_title} does not reference that secret"
            )
    pull_secrets = {secret.name for secret in account.image_pull_secrets}
    for index, secret in enumerate(request.spec.get("imagePullSecrets") or ()):
        name = secret.get("name", "")
        if name not in pull_secrets:
            message = f'imagePullSecrets[{index}].name="{name}" is not allowed because {account_title}'
            raise request.build_denial_error(f"{message} does not reference that imagePullSecret")


class _SecretReference(NamedTuple):
    """A reference of a pod to a secret."""

    description: str
    """The place of the reference, as upstream's message describes it."""
    secret: str
    """The name of the secret."""


def _iter_secret_references(request: AdmissionRequest) -> Iterator[_SecretReference]:
    """Yield the pod's references to secrets in volumes and environment variables.

    Image pull secrets are left out.
    """
    for volume in request.spec.get("volumes") or ():
        name = (volume.get("secret") or {}).get("secretName")
        if name:
            yield _SecretReference(f'volume with secret.secretName="{name}"', name)
    for container_kind, containers in (("init container", request.init_containers), ("container", request.containers)):
        for container in containers:
            container_title = f"{container_kind} {container['name']}"
            for variable in container.get("env") or ():
                name = ((variable.get("valueFrom") or {}).get("secretKeyRef") or {}).get("name")
                if name:
                    place = f"{container_title} with envVar {variable.get('name', '')}"
                    yield _SecretReference(f'{place} referencing secret.secretName="{name}"', name)
            for source in container.get("envFrom") or ():
                name = (source.get("secretRef") or {}).get("name")
                if name:
                    place = f"{container_title} with envFrom"
                    yield _SecretReference(f'{place} referencing secret.secretName="{name}"', name)
