"""The place of the pod template in each kind of workload. Other modules take these paths from here."""

from __future__ import annotations

from collections.abc import Mapping

from kschedctl.api.json_values import JsonObject, object_at

USUAL_TEMPLATE_PATH: tuple[str, ...] = ("spec", "template")
POD_TEMPLATE_PATHS: Mapping[str, tuple[str, ...]] = {
    "Pod": (),
    "PodTemplate": ("template",),
    **dict.fromkeys(
        ("ReplicationController", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job"), USUAL_TEMPLATE_PATH
    ),
    "CronJob": ("spec", "jobTemplate", *USUAL_TEMPLATE_PATH),
}
"""Kind -> path of its pod template. A pod counts as its own template."""


def get_pod_template(workload: JsonObject) -> JsonObject:
    """Return the pod template of a document, the document itself if it is a pod, or {} if it has no template.

    >>> get_pod_template({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}})
    {'spec': {}}
    """
    return object_at(workload, *POD_TEMPLATE_PATHS.get(str(workload.get("kind")), USUAL_TEMPLATE_PATH))
