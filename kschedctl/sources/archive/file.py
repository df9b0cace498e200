"""Snapshots: a Cluster in one file, compressed, only what scheduling reads; made to be read back fast.

It is a zip file: ``snapshot.json`` says what it is and how many objects of each kind it holds
(``unzip -p FILE snapshot.json``), and each kind is a member of its own.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import msgspec

from kschedctl.api.decoding import decode_json
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import Json, JsonDict
from kschedctl.api.kube_version import KubeVersion, clamp_minor, describe_substitute
from kschedctl.api.observed.api_server import AS_BY_DEFAULT, ApiServerInstance
from kschedctl.api.observed.autoscaler import AutoscalerInstance
from kschedctl.cluster import FIELDS, NOT_HELD, OF_CREATION, Cluster, Gap, Provenance
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.secrets import redact_secrets
from kschedctl.sources.archive.container import Archive, archive, open_archive
from kschedctl.sources.archive.sections import pack, unpack
from kschedctl.sources.output_file import write_file

FORMAT = 2
KIND = "Snapshot"
HEADER, LONGEST_HEADER = "snapshot.json", 16 << 20


class _Format(msgspec.Struct, frozen=True, rename="camel"):
    """The fields of a header that every version has."""

    kind: str = ""
    format: int = 0
    written_by: str = ""


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """What a snapshot says of itself. ``objects``: how many of each kind; ``stays``: what has no pseudonym.

    ``kinds``: those that it would hold if there were objects of them; the first snapshots of this format do not say.
    """

    api_version: str = "kschedctl.dev/v1"
    kind: str = KIND
    format: int = FORMAT
    written_by: str = ""
    written_at: str = ""
    anonymized: bool = False
    stays: tuple[str, ...] = ()
    kube_version: str = ""
    feature_gates: dict[str, bool] = {}
    configuration: dict[str, Json] | None = None
    admit: bool = False
    gaps: dict[str, Gap] = {}
    provenance: Provenance | None = msgspec.field(default=None, name="picture")
    objects: dict[str, int] = {}
    kinds: tuple[str, ...] = ()
    autoscaler: AutoscalerInstance | None = None
    api_server: ApiServerInstance = AS_BY_DEFAULT


# -- writing ------------------------------------------------------------------------------------------------------


def write_archive(
    cluster: Cluster, path: str, *, written_by: str = "", anonymized: bool = False, stays: tuple[str, ...] = ()
) -> Header:
    """Write the file, ``-`` for standard output; ``stays``: what has no pseudonym if it is ``anonymized``.

    Raises InputError where it cannot be written.
    """
    by_kind = {kind: getattr(cluster, field) for kind, field in FIELDS.items() if getattr(cluster, field)}
    header = Header(
        written_by=written_by,
        written_at=datetime.now(UTC).isoformat(timespec="seconds"),
        anonymized=anonymized,
        stays=stays,
        kube_version=cluster.kube_version,
        feature_gates=dict(cluster.feature_gates),
        configuration=None if cluster.configuration is None else redact_secrets(cluster.configuration),
        admit=cluster.admit,
        gaps=dict(cluster.gaps),
        provenance=cluster.provenance,
        objects={kind: len(objects) for kind, objects in by_kind.items()},
        kinds=tuple(FIELDS),
        autoscaler=cluster.autoscaler,
        api_server=cluster.api_server,
    )
    members = {HEADER: msgspec.json.encode(header)} | {_member(kind): pack(kind, by_kind[kind]) for kind in by_kind}
    write_file(path, [archive(members)], private=True)
    return header


# -- reading ------------------------------------------------------------------------------------------------------


def read_header(path: str) -> Header:
    """What the file is and holds. Raises InputError."""
    with open_archive(path) as members:
        return _header(members)


def read_archive(path: str) -> Cluster:
    """The Cluster of the file, ``-`` for standard input. Raises InputError."""
    with without_garbage_collection(), open_archive(path) as members:
        header = _header(members)
        return _cluster(header, _objects(header, members))


def _header(members: Archive) -> Header:
    """Raises InputError, msgspec.DecodeError, KeyError."""
    data = members.read(HEADER, LONGEST_HEADER) if HEADER in members else b"{}"
    form = decode_json(data, _Format)
    if form.kind != KIND:
        raise InputError("not a snapshot", hint="kschedctl snapshot save writes them; -f reads other files")
    if form.format != FORMAT:
        what = f"a snapshot of format {form.format}, written by {form.written_by or 'nobody knows what'}"
        raise InputError(what, hint=f"this kschedctl reads format {FORMAT}")
    return decode_json(data, Header)


def _objects(header: Header, members: Archive) -> dict[str, object]:
    """By field of the Cluster; kinds that this version does not know are passed over."""
    known = {kind: count for kind, count in header.objects.items() if kind in FIELDS}
    with ThreadPoolExecutor(4) as threads:  # unpacking leaves the interpreter to the others
        read = {kind: threads.submit(members.read, _member(kind)) for kind in known}
        return {FIELDS[kind]: unpack(kind, read.pop(kind).result(), count) for kind, count in known.items()}


def _cluster(header: Header, objects: JsonDict) -> Cluster:
    return Cluster(
        configuration=header.configuration,
        feature_gates=header.feature_gates,
        kube_version=header.kube_version,
        admit=header.admit,
        gaps=_gaps(header),
        provenance=header.provenance,
        warnings=_warnings(header),
        autoscaler=header.autoscaler,
        api_server=header.api_server,
        **objects,
    )


def _gaps(header: Header) -> dict[str, Gap]:
    """What was not read then, and what snapshots of that version do not hold."""
    newer = OF_CREATION if not header.kinds else [kind for kind in FIELDS if kind not in header.kinds]
    return {kind: Gap(NOT_HELD) for kind in newer if kind not in header.objects} | header.gaps


def _warnings(header: Header) -> tuple[str, ...]:
    """A warning that the rules of another version are used than that of the server that was read."""
    server_version = header.provenance.server_version if header.provenance else ""
    try:
        minor = KubeVersion.parse(server_version).minor
    except ValueError:
        return ()
    said = describe_substitute(server_version, minor)
    return (said,) if said and KubeVersion.parse(header.kube_version).minor == clamp_minor(minor) else ()


def _member(kind: str) -> str:
    return f"{kind}.msgpack"
