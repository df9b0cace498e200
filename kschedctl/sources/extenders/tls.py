"""The TLS that kube-scheduler speaks with an extender.

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
from kschedctl.scheduler.engine.extenders.settings import Extender, ExtenderTLSConfig

_LEFT_OUT = base64.b64decode(REDACTED)


def tls_context(settings: Extender, url: str) -> ssl.SSLContext:
    """What the configuration says; data goes before files. Raises InputError, which names no key."""
    tls = settings.tls_config or ExtenderTLSConfig()
    for data in (tls.ca_data, tls.cert_data, tls.key_data):
        if data == _LEFT_OUT:
            raise InputError("its TLS keys were left out when the cluster was saved", where=url, hint="give --config")
    try:
        context = _verifying(tls)
        if tls.insecure or (settings.enable_https and not (tls.ca_data or tls.ca_file)):
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        _take_certificate(context, tls)
    except (OSError, ValueError) as error:
        what = error.strerror or "no PEM certificates and key" if isinstance(error, OSError) else str(error)
        raise InputError(f"its tlsConfig cannot be used: {what}", where=url) from None
    return context


def _verifying(tls: ExtenderTLSConfig) -> ssl.SSLContext:
    if tls.ca_data:
        return ssl.create_default_context(cadata=tls.ca_data.decode("ascii"))
    return ssl.create_default_context(cafile=tls.ca_file or None)


def _take_certificate(context: ssl.SSLContext, tls: ExtenderTLSConfig) -> None:
    """The client's. The ssl module takes it from files alone: data are in one for a moment, which nobody else reads."""
    if not (tls.cert_data or tls.cert_file):
        return
    if not (tls.cert_data or tls.key_data):
        context.load_cert_chain(tls.cert_file, tls.key_file or None)
        return
    parts = [tls.cert_data or _read(tls.cert_file), tls.key_data or _read(tls.key_file)]
    file, path = tempfile.mkstemp(prefix="kschedctl-")
    try:
        with open(file, "wb") as written:
            written.write(b"\n".join(parts))
        context.load_cert_chain(path)
    finally:
        with suppress(OSError):
            os.unlink(path)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
