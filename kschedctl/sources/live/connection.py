"""Connection to an API server as kubectl would make it, from kubeconfig files or a service account.

The official client reads the files, and nothing is ever written to them. The client is imported only on demand.
"""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies_environment

import urllib3
import yaml
from urllib3.exceptions import InsecureRequestWarning

from kschedctl.api.defaults import DEFAULT_NAMESPACE
from kschedctl.api.json_values import JsonObject
from kschedctl.errors import ClusterError, UsageError
from kschedctl.sources.live.http import LIST_SECONDS, REQUEST_SECONDS, Server
from kschedctl.sources.live.limits import enforce_limits

if TYPE_CHECKING:
    from kubernetes.client import Configuration

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
IN_CLUSTER = "in-cluster"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True)
class Access:
    """The choice of cluster and user by kubectl's options of the same names.

    None means that the kubeconfig decides.
    """

    kubeconfig: str | None = None
    context: str | None = None
    cluster: str | None = None
    user: str | None = None
    as_user: str | None = None
    as_groups: tuple[str, ...] = ()
    request_timeout: str | None = None


@dataclass(frozen=True)
class Connection:
    """A connection to an API server, with the context that led to it."""

    server: Server
    context: str
    namespace: str
    """The default namespace of the context."""
    user_key: tuple[str, ...] = ()
    """The kubeconfig files and user options that identify the user, for cache keys."""


def connect(access: Access) -> Connection:
    """Prepare the connection to the chosen cluster, without sending a request to it.

    Without a kubeconfig, a program in a pod uses the pod's service account. Raises ClusterError if no usable
    credentials are found, and UsageError if an option is invalid.
    """
    request_seconds = REQUEST_SECONDS
    list_seconds = LIST_SECONDS
    if access.request_timeout:
        timeout = parse_timeout(access.request_timeout) or float("inf")  # 0 means no limit
        request_seconds = timeout
        list_seconds = timeout

    # Let the client read the address and the credentials
    files = _find_kubeconfig_files(access)
    configuration: Configuration = import_module("kubernetes.client").Configuration()
    if not files and _uses_service_account(access):
        account = _load_service_account(configuration)
    else:
        account = _load_kubeconfig(configuration, access, files)

    configuration.proxy, configuration.no_proxy = _choose_proxy(configuration.host, account.proxy)
    configuration.connection_pool_maxsize = MAX_CONNECTIONS
    pool = _build_connection_pool(configuration)
    impersonation_headers = tuple(_iter_impersonation_headers(access, account.user))
    credentials = Credentials(configuration, account.load, impersonation_headers, pool)
    server = Server(
        configuration.host.rstrip("/"),
        pool,
        credentials.build_headers,
        seconds=request_seconds,
        list_seconds=list_seconds,
        renew=credentials.renew,
    )
    user_key = (*files, access.user or "", access.as_user or "", *access.as_groups)
    return Connection(server, account.context, account.namespace, user_key)


def parse_timeout(duration: str, option: str = "--request-timeout") -> float:
    """Return the seconds of a duration in kubectl's syntax, in which 0 means no limit.

    Raises UsageError naming the option if the text is not a duration.

    >>> parse_timeout("1m30s"), parse_timeout("45"), parse_timeout("0")
    (90.0, 45.0, 0.0)
    """
    if duration.isdecimal():
        return float(duration)
    if not re.fullmatch(f"({_DURATION.pattern})+", duration):
        raise UsageError(f'"{duration}" is not a duration', where=option, hint="such as 30s or 1m")
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION.findall(duration))


def _find_kubeconfig_files(access: Access) -> list[str]:
    """Return the existing kubeconfig files in order of precedence: that of --kubeconfig, or else those in KUBECONFIG.

    If KUBECONFIG is not set, the default is ``~/.kube/config``. Raises ClusterError if the file of --kubeconfig does
    not exist.
    """
    if access.kubeconfig:
        if not os.path.isfile(access.kubeconfig):
            raise ClusterError("no such file", where=f"--kubeconfig {access.kubeconfig}")
        return [access.kubeconfig]
    listed = os.environ.get("KUBECONFIG") or "~/.kube/config"
    paths = [os.path.expanduser(part) for part in listed.split(os.pathsep) if part]
    return [path for path in paths if os.path.isfile(path)]


def _uses_service_account(access: Access) -> bool:
    """Return whether to use a pod's service account: in a pod, if no context, cluster or user was chosen."""
    has_choice = bool(access.context or access.cluster or access.user)
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and not has_choice


class _Account(NamedTuple):
    """The loaded context and credentials."""

    context: str
    namespace: str
    user: JsonObject
    """The user entry of the kubeconfig."""
    load: Callable[[], None]
    """A function that loads the credentials again."""
    proxy: str = ""
    """The proxy URL of the cluster entry, or ""."""


def _load_service_account(configuration: Configuration) -> _Account:
    """Load the server and credentials of the pod's service account into the configuration.

    Raises ClusterError if the service account cannot be read.
    """
    config = import_module("kubernetes.config")
    try:
        config.load_incluster_config(configuration)
        namespace = (SERVICE_ACCOUNT / "namespace").read_text().strip()
    except (config.ConfigException, OSError) as error:
        raise ClusterError(f"no service account: {error}", where=IN_CLUSTER) from None
    return _Account(IN_CLUSTER, namespace, {}, lambda: config.load_incluster_config(configuration))


def _load_kubeconfig(configuration: Configuration, access: Access, files: list[str]) -> _Account:
    """Load the server and credentials of the chosen context into the configuration.

    Raises ClusterError if there are no files, if the files or the context are invalid, or if the user's credential
    plugin gives no credentials.
    """
    if not files:
        raise _build_no_cluster_error()
    kube_config = import_module("kubernetes.config.kube_config")
    where = os.pathsep.join(files)
    format_errors = yaml.YAMLError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError
    try:
        merged = kube_config.KubeConfigMerger(where).config
        context_name = _choose_context(merged, access, where)
        loader = kube_config.KubeConfigLoader(merged, context_name, config_base_path=None)
        with collect_client_errors() as client_messages:
            loader.load_and_set(configuration)
    except (kube_config.ConfigException, *format_errors) as error:
        raise ClusterError(" ".join(str(error).split()) or type(error).__name__, where=where) from None

    context = loader.current_context["context"]
    user = dict(loader._user.value) if loader._user else {}
    if "exec" in user and not (configuration.api_key or configuration.cert_file):
        # The client only logs the failure of a credential plugin.
        raise ClusterError(f"no credentials: {' '.join(client_messages) or 'the plugin gave none'}", where=where)

    def load() -> None:
        """Load the credentials again."""
        loader._load_authentication()
        loader._set_config(configuration)

    proxy = str(loader._cluster.value.get("proxy-url") or "")
    return _Account(context_name, context.get("namespace") or DEFAULT_NAMESPACE, user, load, proxy)


def _build_no_cluster_error() -> ClusterError:
    """Build the error for a missing kubeconfig, with the ways to name a cluster."""
    kubeconfig = os.environ.get("KUBECONFIG")
    problem = f"KUBECONFIG names {kubeconfig}, which does not exist" if kubeconfig else "no kubeconfig was found"
    verb = "correct" if kubeconfig else "set"
    return ClusterError(problem, hint=f"{verb} KUBECONFIG, pass files with -f, or use --demo")


def _choose_context(merged: Any, access: Access, where: str) -> str:
    """Return the name of the context to use: the chosen or current one, or one created for --cluster or --user.

    A created context is added to ``merged``, the merged kubeconfig. ``where`` names the kubeconfig files in messages.
    Raises ClusterError if the context, cluster or user does not exist.
    """
    name = access.context or _find_current_context(where)
    contexts = merged.value["contexts"]
    entry = next((context for context in contexts if context["name"] == name), None)
    # With --cluster and no --context, a missing current context is no error, since a context is created below
    if entry is None and (access.context or not access.cluster):
        problem = f'no context "{name}"' if name else "no current context"
        raise ClusterError(problem, where=where, hint=_describe_choices(contexts))
    if not (access.cluster or access.user):
        return name

    if access.cluster:
        _require_entry(merged.value["clusters"], access.cluster, noun="cluster")
    if access.user:
        _require_entry(merged.value["users"], access.user, noun="user")

    # Create a context for the chosen cluster and user, with the other fields of the named or current context
    context = dict(entry["context"].value) if entry else {}
    if access.cluster:
        context["cluster"] = access.cluster
    if access.user:
        context["user"] = access.user
    combined_name = f"{context.get('cluster')} as {context.get('user')}"
    contexts.append({"name": combined_name, "context": context})
    return combined_name


def _require_entry(entries: list[Any], name: str, *, noun: str) -> None:
    """Raise ClusterError if no entry of the kubeconfig has the name. ``noun`` is also the name of the option."""
    if not any(entry["name"] == name for entry in entries):
        raise ClusterError(f'no {noun} "{name}"', where=f"--{noun}", hint=_describe_choices(entries))


def _find_current_context(where: str) -> str:
    """Return the current context from the first kubeconfig file that sets one, as kubectl does, or ""."""
    for path in where.split(os.pathsep):
        document = yaml.safe_load(Path(path).read_text())
        if isinstance(document, dict) and document.get("current-context"):
            return str(document["current-context"])
    return ""


def _describe_choices(entries: list[Any]) -> str:
    """Return a hint that lists the names of the entries."""
    names = sorted(str(entry["name"]) for entry in entries)
    return f"available: {', '.join(names) or 'none'}"


def _choose_proxy(host: str, cluster_proxy: str) -> tuple[str | None, str]:
    """Return the proxy URL for a host, or None, and the list of hosts that are reached without a proxy.

    A cluster's own proxy is used for all hosts, so the list is empty. Otherwise, both come from the environment, and
    the local machine is reached without a proxy. A proxy without a scheme gets the scheme http. The choice is not left
    to the Kubernetes client, because its versions differ. Upstream: Proxy of client-go's rest.Config, and Go's
    golang.org/x/net/http/httpproxy.
    """
    if cluster_proxy:
        return cluster_proxy, ""
    url = urlsplit(host)
    proxies = getproxies_environment()
    proxy = None if _is_loopback(url.hostname or "") else proxies.get(url.scheme)
    if proxy and "://" not in proxy:
        proxy = f"http://{proxy}"
    return proxy, proxies.get("no", "")


def _is_loopback(name: str) -> bool:
    """Return whether the host name is localhost or a loopback address."""
    with suppress(ValueError):
        return ip_address(name).is_loopback
    return name == "localhost"


def _build_connection_pool(configuration: Configuration) -> urllib3.PoolManager:
    """Build the client's connection pool with limits. Raises ClusterError if certificates cannot be loaded.

    If the kubeconfig turns off the verification of certificates, warnings about this are disabled, as in kubectl.
    """
    rest_module = import_module("kubernetes.client.rest")
    if not configuration.verify_ssl:
        urllib3.disable_warnings(InsecureRequestWarning)
    try:
        return enforce_limits(rest_module.RESTClientObject(configuration).pool_manager)
    except (OSError, ValueError) as error:
        hint = "check the certificates of the kubeconfig"
        raise ClusterError(str(error), where=configuration.host, hint=hint) from None


def _iter_impersonation_headers(access: Access, user: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each impersonation header, if a user is impersonated.

    Options take precedence over the kubeconfig. Raises UsageError if --as-group is given without a user.
    """
    as_user = access.as_user or user.get("as")
    if as_user:
        yield "Impersonate-User", str(as_user)
        for group in access.as_groups or user.get("as-groups") or ():
            yield "Impersonate-Group", str(group)
    elif access.as_groups:
        raise UsageError("--as-group needs --as")


MAX_CONNECTIONS = 32
"""The number of connections that the client keeps open for reuse."""
RENEWAL_SECONDS = 5.0
"""The minimum number of seconds between two runs of a credential plugin."""

_SENDABLE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
"""Matches the values that HTTP allows in a header."""


@dataclass
class Credentials:
    """The credentials that the client loaded from a kubeconfig or a service account."""

    configuration: Configuration
    load: Callable[[], None]
    """A function that loads the credentials into ``configuration`` again and may raise."""
    impersonation_headers: tuple[tuple[str, str], ...]
    """The impersonation headers as pairs of name and value."""
    pool: urllib3.PoolManager
    """The connection pool that uses the client certificate."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _renewed_at: float = float("-inf")
    """The time of the last renewal by the monotonic clock."""

    def build_headers(self) -> urllib3.HTTPHeaderDict:
        """Build the headers of the next request, with the credentials and the impersonated user.

        An expired token is renewed first. Raises ClusterError if there are no credentials, or if the credentials cannot
        be sent.
        """
        headers = urllib3.HTTPHeaderDict({"User-Agent": "kschedctl"})
        with self._lock, self._convert_client_errors():
            settings: Mapping[str, Any] = self.configuration.auth_settings()  # the client renews the token here
        for setting in settings.values():
            if setting["in"] == "header" and setting["value"]:
                headers[setting["key"]] = self._encode_header(str(setting["value"]).strip(), "the token of this user")
        for name, value in self.impersonation_headers:
            headers.add(name, self._encode_header(value, f'"{value[:60]}"'))
        return headers

    def renew(self, rejected_headers: urllib3.HTTPHeaderDict) -> bool:
        """Load the credentials again, and return whether they differ from those in ``rejected_headers``.

        If another thread has replaced the rejected credentials already, return True at once. Within RENEWAL_SECONDS of
        the last renewal, return False. Raises ClusterError if the credential plugin fails. Upstream: client-go's
        exec.go also runs the plugin again after a 401.
        """
        with self._lock:
            if self.build_headers().get("authorization") != rejected_headers.get("authorization"):
                return True
            if monotonic() - self._renewed_at < RENEWAL_SECONDS:
                return False
            old_tokens = dict(self.configuration.api_key)
            old_certificate = self._get_certificate_files()
            with self._convert_client_errors():
                self.load()
            self._renewed_at = monotonic()
            has_new_certificate = self._get_certificate_files() != old_certificate
            if has_new_certificate:
                cert_file, key_file = self._get_certificate_files()
                self.pool.connection_pool_kw.update(cert_file=cert_file, key_file=key_file)
                self.pool.clear()
            return has_new_certificate or dict(self.configuration.api_key) != old_tokens

    def _get_certificate_files(self) -> tuple[str | None, str | None]:
        """Return the files of the client certificate and its key."""
        return self.configuration.cert_file, self.configuration.key_file

    @contextmanager
    def _convert_client_errors(self) -> Iterator[None]:
        """Convert errors within the block to a ClusterError with the message of the plugin or client.

        Errors that the client only logs are converted as well.
        """
        try:
            with collect_client_errors() as messages:
                yield
        except Exception as error:
            messages.append(" ".join(str(error).split()) or type(error).__name__)
        if messages:
            raise ClusterError(f"no credentials: {' '.join(messages)}", where=self.configuration.host)

    def _encode_header(self, value: str, subject: str) -> str:
        """Return the value as a header string that contains its UTF-8 bytes.

        Raises ClusterError naming ``subject`` if the value contains a control character such as a line break.
        """
        text = value.encode(errors="surrogateescape").decode("latin-1")
        if not _SENDABLE.fullmatch(text):
            problem = f"{subject} cannot be sent: it contains a line break or another control character"
            raise ClusterError(problem, where=self.configuration.host, hint="check the credentials of this context")
        return text


@contextmanager
def collect_client_errors() -> Iterator[list[str]]:
    """Collect the errors that the client logs within the block, instead of showing them.

    The client reports only in its log why a credential plugin failed.
    """
    messages: list[str] = []
    root = logging.getLogger()

    class MessageCollector(logging.Handler):
        """A handler that collects the messages of the root logger, which the client uses."""

        def emit(self, record: logging.LogRecord) -> None:
            """Collect a message on one line, unless it comes from another logger."""
            if record.name == root.name:
                messages.append(" ".join(record.getMessage().split()))

    old_handlers = root.handlers
    root.handlers = [MessageCollector(logging.ERROR)]
    try:
        yield messages
    finally:
        root.handlers = old_handlers
