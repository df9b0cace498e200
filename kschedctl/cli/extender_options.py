"""Options about scheduler extenders, and the pod fields that extenders receive but kube-scheduler does not read."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kschedctl.api.workloads import get_identity, get_pod_template
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Source
from kschedctl.cli.source import connect_to_cluster
from kschedctl.errors import KschedctlError, UsageError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.engine.extenders import CallExtender
from kschedctl.sources.documents.place import get_origin_file
from kschedctl.sources.output_file import validate_output_files
from kschedctl.sources.read import read_documents

if TYPE_CHECKING:
    from kschedctl.sources.extender_recording import PodExtras


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Extending:
    """Options about scheduler extenders."""

    call_extenders: Annotated[
        bool,
        typer.Option("--call-extenders", help="Call the extenders in the scheduler's configuration over HTTP."),
    ] = False
    record_extenders: Annotated[
        str | None,
        typer.Option(
            "--record-extenders",
            metavar="FILE",
            help="With --call-extenders: save the extenders' answers to this file.",
        ),
    ] = None
    extender_answers: Annotated[
        str | None,
        typer.Option(
            "--extender-answers",
            metavar="FILE",
            help="Use the extenders' answers in this file, written by --record-extenders, instead of calling the "
            "extenders.",
        ),
    ] = None

    @contextmanager
    def open_caller(self) -> Iterator[CallExtender | None]:
        """Yield a function that calls extenders, or None if extenders are not called.

        When the block ends, recorded answers are written, and a note is logged if no extender was called. Raises
        UsageError if the options contradict each other, and InputError if recorded answers cannot be read or written.
        """
        self._validate_options()
        if self.extender_answers is not None:
            from kschedctl.sources.extender_recording import RecordedAnswers  # noqa: PLC0415 - for few questions

            yield RecordedAnswers.read(self.extender_answers)
        elif not self.call_extenders:
            yield None
        else:
            from kschedctl.sources.extender_http import HTTPCaller  # noqa: PLC0415
            from kschedctl.sources.extender_recording import Recorder, WholePods  # noqa: PLC0415

            recorder = Recorder(WholePods(HTTPCaller()))
            yield recorder
            if not recorder.call_count:
                log.warning(
                    "note: no extender was called, because the configuration (--config) has none for these pods"
                )
            if self.record_extenders is not None:
                recorder.write(self.record_extenders)
                log.info("saved %s answers of extenders", f"{len(recorder.answers):,}")

    def to_cli_options(self) -> list[str]:
        """Return the command-line options that give another command the same answers from extenders."""
        arguments = ["--call-extenders"] if self.call_extenders else []
        if self.extender_answers:
            arguments += ["--extender-answers", self.extender_answers]
        return arguments

    def _validate_options(self) -> None:
        """Raise UsageError if the options contradict each other, or InputError if the answers cannot be written."""
        if self.call_extenders and self.extender_answers is not None:
            raise UsageError("--call-extenders and --extender-answers cannot be combined", hint="use only one of them")
        if self.record_extenders is not None and not self.call_extenders:
            raise UsageError("--record-extenders needs --call-extenders", hint="add --call-extenders")
        validate_output_files(self.record_extenders)


MAX_FILE_BYTES = 64 << 20
"""Larger files are not read a second time."""
MAX_LIVE_PODS = 20
"""Number of pods that are read again from a live cluster, one request each."""


def collect_pod_extras(
    call: CallExtender | None, targets: Iterable[TargetPod], inquiry: Inquiry, source: Source
) -> None:
    """Collect the pod fields that only extenders may read, and store them in the extender caller.

    These fields are not in snapshots, because kube-scheduler's plugins ignore them. The fields are taken from the
    manifest of a pod's workload if there is one, otherwise from the input files. For at most MAX_LIVE_PODS further
    pods, the fields are read from the live cluster. Nothing is collected unless extenders are actually called.
    """
    if call is None or not inquiry.scheduler.extenders:
        return
    from kschedctl.sources.extender_recording import Recorder  # noqa: PLC0415

    if not isinstance(call, Recorder):  # recorded answers are replayed, so no extender reads the fields
        return
    full_pods = call.full_pods
    keys = _add_extras_from_manifests(full_pods, targets, inquiry)
    _add_extras_from_files(full_pods, keys, inquiry)
    if _is_read_from_live_cluster(inquiry, source):
        missing_keys = [key for key in keys if key not in full_pods]
        _add_extras_from_cluster(full_pods, missing_keys[:MAX_LIVE_PODS], source)


def _add_extras_from_manifests(
    full_pods: MutableMapping[str, PodExtras], targets: Iterable[TargetPod], inquiry: Inquiry
) -> list[str]:
    """Add the fields that snapshots omit to ``full_pods``, for the targets whose workload has a manifest.

    Return the keys of the existing pods whose workload has no manifest.
    """
    from kschedctl.sources.extender_recording import PodExtras  # noqa: PLC0415

    keys_without_manifest = []
    for target in targets:
        written = inquiry.written.get(get_identity(target.workload)) if target.workload else None
        if written is not None:
            full_pods[target.pod.key] = PodExtras.from_document(get_pod_template(written.document))
        elif _is_existing_pod(target):
            keys_without_manifest.append(target.pod.key)
    return keys_without_manifest


def _is_existing_pod(target: TargetPod) -> bool:
    """Return whether the target is a pod that exists or was named itself, and not one that a workload would create."""
    return bool(target.pod.metadata.uid) or not target.note


def _is_read_from_live_cluster(inquiry: Inquiry, source: Source) -> bool:
    """Return whether the cluster was read from an API server. Clusters from files have no provenance."""
    is_stored = bool(source.snapshot or source.demo)
    return not is_stored and inquiry.cluster.provenance is not None


def _add_extras_from_files(full_pods: MutableMapping[str, PodExtras], keys: Iterable[str], inquiry: Inquiry) -> None:
    """Read the pods' files again, and add the fields that snapshots omit to ``full_pods``.

    Faulty files are skipped, and so are files larger than MAX_FILE_BYTES.
    """
    from kschedctl.sources.extender_recording import PodExtras, iter_pod_documents  # noqa: PLC0415

    keys = list(keys)
    files = set()
    for key in keys:
        namespace, _, name = key.partition("/")
        origin = inquiry.cluster.origins.get(("Pod", namespace, name), "")
        files.add(get_origin_file(origin))
    for file in files:
        if not Path(file).is_file() or Path(file).stat().st_size > MAX_FILE_BYTES:
            continue
        with suppress(KschedctlError):
            documents = dict(iter_pod_documents(read_documents(file)))
            full_pods.update({key: PodExtras.from_document(documents[key]) for key in keys if key in documents})


def _add_extras_from_cluster(full_pods: MutableMapping[str, PodExtras], keys: Sequence[str], source: Source) -> None:
    """Read pods from the live cluster, and add the fields that snapshots omit to ``full_pods``.

    Pods that cannot be read are skipped.
    """
    from kschedctl.sources.extender_recording import PodExtras  # noqa: PLC0415
    from kschedctl.sources.live.http import RefusedError, quote_segment  # noqa: PLC0415

    if not keys:
        return
    server = connect_to_cluster(source).server
    try:
        for namespace, name in (key.split("/", 1) for key in keys):
            with suppress(RefusedError, KschedctlError, ValueError):
                path = f"/api/v1/namespaces/{quote_segment(namespace)}/pods/{quote_segment(name)}"
                full_pods[f"{namespace}/{name}"] = PodExtras.from_document(json.loads(server.get(path)))
    finally:
        server.close()
