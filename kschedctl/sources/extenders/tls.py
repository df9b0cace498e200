"""TLS contexts for calls of extenders, configured as kube-scheduler configures them.

Upstream: makeTransport in pkg/scheduler/extender.go, TLSConfigFor in client-go/transport/transport.go (v1.36).
"""

from __future__ import annotations

import base64
import os
import ssl
import tempfile
from contextlib import suppress

from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.secrets import REDACTED
from kschedctl.scheduler.engine.extenders.extender import Extender, ExtenderTLSConfig

_LEFT_OUT = base64.b64decode(REDACTED)


def build_tls_context(settings: Extender, url: str) -> ssl.SSLContext:
    """Build the TLS context of an extender's configuration, in which data take precedence over files.

    Raises InputError, whose message shows no key.
    """
    tls = settings.tls_config or ExtenderTLSConfig()
    for data in (tls.ca_data, tls.cert_data, tls.key_data):
        if data == _LEFT_OUT:
            raise InputError("its TLS keys were left out when the cluster was saved", where=url, hint="give --config")
    try:
        context = _build_verifying_context(tls)
        if tls.insecure or (settings.enable_https and not (tls.ca_data or tls.ca_file)):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _load_client_certificate(context, tls)
    except (OSError, ValueError) as error:
        message = error.strerror or "no PEM certificates and key" if isinstance(error, OSError) else str(error)
        raise InputError(f"its tlsConfig cannot be used: {message}", where=url) from None
    return context


def _build_verifying_context(tls: ExtenderTLSConfig) -> ssl.SSLContext:
    """Build a context that verifies the server by the configured CA, or by the system's."""
    if tls.ca_data:
        return ssl.create_default_context(cadata=tls.ca_data.decode("ascii"))
    return ssl.create_default_context(cafile=tls.ca_file or None)


def _load_client_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """Load the client certificate into the context, if there is one.

    The ssl module reads it only from files, so data are written to a private temporary file for a moment.
    """
    if not (tls.cert_data or tls.cert_file):
        return
    if not (tls.cert_data or tls.key_data):
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
        return
    parts = [tls.cert_data or _read_file(tls.cert_file), tls.key_data or _read_file(tls.key_file)]
    file, path = tempfile.mkstemp(prefix="kschedctl-")
    try:
        with open(file, "wb") as written:
            written.write(b"\n".join(parts))
        context.load_cert_chain(path)
    finally:
        with suppress(OSError):
            os.unlink(path)


def _read_file(path: str) -> bytes:
    """Read a file."""
    with open(path, "rb") as file:
        return file.read()
