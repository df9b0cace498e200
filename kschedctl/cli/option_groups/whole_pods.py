"""Collection of pod fields that extenders receive but kube-scheduler's plugins do not read."""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kschedctl.api.workloads import get_pod_template, identity
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Source
from kschedctl.cli.source import connect_to_cluster
from kschedctl.errors import KschedctlError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.sources.read import read_documents

if TYPE_CHECKING:
    from kschedctl.sources.extenders.whole_pods import PodExtras

MAX_FILE_BYTES = 64 << 20
"""Larger files are not read a second time."""
MAX_LIVE_PODS = 20
"""Number of pods that are read again from a live cluster, one request each."""


def collect_pod_extras(
    call: CallExtender | None, targets: Iterable[TargetPod], inquiry: Inquiry, source: Source
) -> None:
    """Pass the fields of the pods from manifests, files and the live cluster to the extender caller."""
    if call is None:
        return
    from kschedctl.sources.extenders.recording import Recorder  # noqa: PLC0415
    from kschedctl.sources.extenders.whole_pods import PodExtras  # noqa: PLC0415

    if not isinstance(call, Recorder) or not inquiry.scheduler.extenders:
        return
    full_pods, remaining_keys = call.full_pods, []
    for asked_pod in targets:
        written = inquiry.written.get(identity(asked_pod.workload)) if asked_pod.workload else None
        if written is not None:
            full_pods[asked_pod.pod.key] = PodExtras.from_document(get_pod_template(written.document))
        elif asked_pod.pod.metadata.uid or not asked_pod.note:  # none that is made up for the question
            remaining_keys.append(asked_pod.pod.key)
    _add_from_files(full_pods, remaining_keys, inquiry)
    if not (source.snapshot or source.demo) and inquiry.cluster.provenance is not None:
        _add_from_cluster(full_pods, [key for key in remaining_keys if key not in full_pods][:MAX_LIVE_PODS], source)


def _add_from_files(full_pods: MutableMapping[str, PodExtras], keys: Iterable[str], inquiry: Inquiry) -> None:
    """Add the fields of the pods whose files can be read again."""
    from kschedctl.sources.extenders.whole_pods import PodExtras, iter_pod_documents  # noqa: PLC0415

    origins = inquiry.cluster.origins
    places = {key: origins.get(("Pod", key.partition("/")[0], key.partition("/")[2]), "") for key in keys}
    for file in {place.rpartition(", document ")[0] or place for place in places.values()}:
        if not Path(file).is_file() or Path(file).stat().st_size > MAX_FILE_BYTES:
            continue
        with suppress(KschedctlError):
            pods = dict(iter_pod_documents(read_documents(file)))
            full_pods.update({key: PodExtras.from_document(pods[key]) for key in places if key in pods})


def _add_from_cluster(full_pods: MutableMapping[str, PodExtras], keys: Sequence[str], source: Source) -> None:
    """Add the fields of pods of the live cluster, unless reading is forbidden."""
    from kschedctl.sources.extenders.whole_pods import PodExtras  # noqa: PLC0415
    from kschedctl.sources.live.http import RefusedError, segment  # noqa: PLC0415

    if not keys:
        return
    server = connect_to_cluster(source).server
    try:
        for namespace, name in (key.split("/", 1) for key in keys):
            with suppress(RefusedError, KschedctlError, ValueError):
                path = f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}"
                full_pods[f"{namespace}/{name}"] = PodExtras.from_document(json.loads(server.get(path)))
    finally:
        server.close()
