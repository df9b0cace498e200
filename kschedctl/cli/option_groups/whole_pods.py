"""What extenders are sent of the pods that are asked about, besides what kube-scheduler's plugins read of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from kschedctl.api.workloads import identity
from kschedctl.cli.inquiry import Inquiry
from kschedctl.cli.options import Source
from kschedctl.cli.source import connection
from kschedctl.errors import KschedctlError
from kschedctl.replay.controllers.target_pod import TargetPod
from kschedctl.scheduler.engine.extenders.extender import CallExtender
from kschedctl.sources.read import read_documents

if TYPE_CHECKING:
    from kschedctl.sources.extenders.whole_pods import PodExtras

MOST_BYTES = 64 << 20
"""Larger files are not read once more."""
ONE_BY_ONE = 20
"""Most pods for which a live cluster is asked, each by itself."""


def remember(call: CallExtender | None, asked: Iterable[TargetPod], inquiry: Inquiry, source: Source) -> None:
    """Let the call know what manifests, files and a live cluster tell of the pods; of others nothing is known."""
    if call is None:
        return
    from kschedctl.sources.extenders.recording import Recorder  # noqa: PLC0415
    from kschedctl.sources.extenders.whole_pods import PodExtras, template_of  # noqa: PLC0415

    if not isinstance(call, Recorder) or not inquiry.scheduler.extenders:
        return
    known, left = call.full_pods, []
    for asked_pod in asked:
        written = inquiry.written.get(identity(asked_pod.workload)) if asked_pod.workload else None
        if written is not None:
            known[asked_pod.pod.key] = PodExtras.of(template_of(written.document))
        elif asked_pod.pod.metadata.uid or not asked_pod.note:  # none that is made up for the question
            left.append(asked_pod.pod.key)
    _of_files(known, left, inquiry)
    if not (source.snapshot or source.demo) and inquiry.cluster.provenance is not None:
        _of_cluster(known, [key for key in left if key not in known][:ONE_BY_ONE], source)


def _of_files(known: MutableMapping[str, PodExtras], keys: Iterable[str], inquiry: Inquiry) -> None:
    from kschedctl.sources.extenders.whole_pods import PodExtras, pods_among  # noqa: PLC0415

    origins = inquiry.cluster.origins
    places = {key: origins.get(("Pod", key.partition("/")[0], key.partition("/")[2]), "") for key in keys}
    for file in {place.rpartition(", document ")[0] or place for place in places.values()}:
        if not Path(file).is_file() or Path(file).stat().st_size > MOST_BYTES:
            continue
        with suppress(KschedctlError):
            pods = dict(pods_among(read_documents(file)))
            known.update({key: PodExtras.of(pods[key]) for key in places if key in pods})


def _of_cluster(known: MutableMapping[str, PodExtras], keys: Sequence[str], source: Source) -> None:
    """Each is read once more, whole; where that is refused nothing is known."""
    from kschedctl.sources.extenders.whole_pods import PodExtras  # noqa: PLC0415
    from kschedctl.sources.live.http import RefusedError, segment  # noqa: PLC0415

    if not keys:
        return
    server = connection(source).server
    try:
        for namespace, name in (key.split("/", 1) for key in keys):
            with suppress(RefusedError, KschedctlError, ValueError):
                path = f"/api/v1/namespaces/{segment(namespace)}/pods/{segment(name)}"
                known[f"{namespace}/{name}"] = PodExtras.of(json.loads(server.get(path)))
    finally:
        server.close()
