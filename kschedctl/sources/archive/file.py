"""Snapshot files, which contain what scheduling reads of a cluster and are fast to read."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import msgspec

from kschedctl.api.component_flags import DEFAULT_API_SERVER, ApiServerInstance, AutoscalerInstance
from kschedctl.api.decoding import decode_json
from kschedctl.api.garbage import without_garbage_collection
from kschedctl.api.json_values import Json, JsonDict
from kschedctl.api.kube_version import KubeVersion, clamp_minor, describe_substitute
from kschedctl.cluster import CREATION_KINDS, FIELDS, NOT_HELD, Cluster, Gap, Provenance
from kschedctl.errors import InputError
from kschedctl.scheduler.configuration.secrets import redact_secrets
from kschedctl.sources.archive.container import Archive, build_archive, open_archive
from kschedctl.sources.archive.sections import decode_objects, encode_objects
from kschedctl.sources.output_file import write_file

FORMAT = 2
KIND = "Snapshot"
HEADER, MAX_HEADER_SIZE = "snapshot.json", 16 << 20


class _HeaderFormat(msgspec.Struct, frozen=True, rename="camel"):
    """The fields that headers of every version have."""

    kind: str = ""
    format: int = 0
    written_by: str = ""


class Header(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """The description of a snapshot."""

    api_version: str = "kschedctl.dev/v1"
    kind: str = KIND
    format: int = FORMAT
    written_by: str = ""
    written_at: str = ""
    anonymized: bool = False
    stays: tuple[str, ...] = ()
    """The names that were not replaced by pseudonyms."""
    kube_version: str = ""
    feature_gates: dict[str, bool] = {}
    configuration: dict[str, Json] | None = None
    admit: bool = False
    gaps: dict[str, Gap] = {}
    provenance: Provenance | None = msgspec.field(default=None, name="picture")
    objects: dict[str, int] = {}
    """The number of objects of each kind."""
    kinds: tuple[str, ...] = ()
    """The kinds that the snapshot can contain. The first snapshots of this format do not state them."""
    autoscaler: AutoscalerInstance | None = None
    api_server: ApiServerInstance = DEFAULT_API_SERVER


# -- writing ------------------------------------------------------------------------------------------------------


def write_archive(
    cluster: Cluster, path: str, *, written_by: str = "", anonymized: bool = False, stays: tuple[str, ...] = ()
) -> Header:
    """Write a snapshot to a file, or to standard output for ``-``. Raises InputError if the file cannot be written.

    ``stays`` are the names without pseudonyms in an anonymized cluster.
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
    members = {HEADER: msgspec.json.encode(header)} | {
        _get_member_name(kind): encode_objects(kind, by_kind[kind]) for kind in by_kind
    }
    write_file(path, [build_archive(members)], private=True)
    return header


# -- reading ------------------------------------------------------------------------------------------------------


def read_header(path: str) -> Header:
    """Return the header of a snapshot. Raises InputError."""
    with open_archive(path) as members:
        return _decode_header(members)


def read_archive(path: str) -> Cluster:
    """Return the cluster in a snapshot file, or on standard input for ``-``. Raises InputError."""
    with without_garbage_collection(), open_archive(path) as members:
        header = _decode_header(members)
        return _build_cluster(header, _load_objects(header, members))


def _decode_header(members: Archive) -> Header:
    """Decode the header. Raises InputError, msgspec.DecodeError, KeyError."""
    data = members.read(HEADER, MAX_HEADER_SIZE) if HEADER in members else b"{}"
    header_format = decode_json(data, _HeaderFormat)
    if header_format.kind != KIND:
        raise InputError("not a snapshot", hint="kschedctl snapshot save writes them; -f reads other files")
    if header_format.format != FORMAT:
        problem = (
            f"a snapshot of format {header_format.format}, written by {header_format.written_by or 'nobody knows what'}"
        )
        raise InputError(problem, hint=f"this kschedctl reads format {FORMAT}")
    return decode_json(data, Header)


def _load_objects(header: Header, members: Archive) -> dict[str, object]:
    """Return the objects by field of the Cluster. Kinds that this version does not know are skipped."""
    count_by_kind = {kind: count for kind, count in header.objects.items() if kind in FIELDS}
    with ThreadPoolExecutor(4) as threads:  # unpacking leaves the interpreter to the others
        futures = {kind: threads.submit(members.read, _get_member_name(kind)) for kind in count_by_kind}
        return {
            FIELDS[kind]: decode_objects(kind, futures.pop(kind).result(), count)
            for kind, count in count_by_kind.items()
        }


def _build_cluster(header: Header, objects: JsonDict) -> Cluster:
    """Build the cluster from the header and the objects."""
    return Cluster(
        configuration=header.configuration,
        feature_gates=header.feature_gates,
        kube_version=header.kube_version,
        admit=header.admit,
        gaps=_build_gaps(header),
        provenance=header.provenance,
        warnings=_build_warnings(header),
        autoscaler=header.autoscaler,
        api_server=header.api_server,
        **objects,
    )


def _build_gaps(header: Header) -> dict[str, Gap]:
    """Return the gaps of the cluster, and gaps for kinds that snapshots of that version do not contain."""
    unsupported = CREATION_KINDS if not header.kinds else [kind for kind in FIELDS if kind not in header.kinds]
    return {kind: Gap(NOT_HELD) for kind in unsupported if kind not in header.objects} | header.gaps


def _build_warnings(header: Header) -> tuple[str, ...]:
    """Return a warning if the server had another version than the rules that are replayed."""
    server_version = header.provenance.server_version if header.provenance else ""
    try:
        minor = KubeVersion.parse(server_version).minor
    except ValueError:
        return ()
    warning = describe_substitute(server_version, minor)
    return (warning,) if warning and KubeVersion.parse(header.kube_version).minor == clamp_minor(minor) else ()


def _get_member_name(kind: str) -> str:
    """Return the name of the archive member with the objects of a kind."""
    return f"{kind}.msgpack"
