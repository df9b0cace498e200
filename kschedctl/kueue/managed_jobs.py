"""The jobs that Kueue manages, and the LocalQueue of each: by labels, Kueue's Configuration, and default LocalQueues.

Upstream: pkg/controller/jobframework (defaults.go, utils.go and integrationmanager.go) and apis/config/v1beta2 of
kubernetes-sigs/kueue.
"""

from __future__ import annotations

import msgspec

from kschedctl.api.decoding import convert_builtins
from kschedctl.api.json_values import JsonObject, object_at, text_at
from kschedctl.api.labels import Selector, SelectorError, selector_from_api
from kschedctl.api.objects import LabelSelector, SelectorRequirement, Struct
from kschedctl.api.ownership import Owner
from kschedctl.api.queueing import QUEUE_LABEL
from kschedctl.api.workloads import CronJob
from kschedctl.cluster import Cluster
from kschedctl.errors import InputError

_FRAMEWORKS = {
    "Job": "batch/job",
    "Pod": "pod",
    "Deployment": "deployment",
    "StatefulSet": "statefulset",
    "LeaderWorkerSet": "leaderworkerset.x-k8s.io/leaderworkerset",
    "JobSet": "jobset.x-k8s.io/jobset",
    "MPIJob": "kubeflow.org/mpijob",
    "PyTorchJob": "kubeflow.org/pytorchjob",
    "TFJob": "kubeflow.org/tfjob",
    "XGBoostJob": "kubeflow.org/xgboostjob",
    "PaddleJob": "kubeflow.org/paddlejob",
    "JAXJob": "kubeflow.org/jaxjob",
    "TrainJob": "trainer.kubeflow.org/trainjob",
    "RayJob": "ray.io/rayjob",
    "RayCluster": "ray.io/raycluster",
    "RayService": "ray.io/rayservice",
    "AppWrapper": "workload.codeflare.dev/appwrapper",
    "SparkApplication": "sparkoperator.k8s.io/sparkapplication",
}
"""The integration of each kind, as integrations.frameworks of the Configuration names it."""

_KINDS_OF_PODS = frozenset({"ReplicaSet", "ReplicationController", "DaemonSet"})
"""Kinds without an integration, of which Kueue manages only the pods."""

_DEFAULT_FRAMEWORKS = ("batch/job",)
_DEFAULT_QUEUE = "default"
_DEFAULT_NAMESPACE = "kueue-system"
_NAMESPACE_LABEL = "kubernetes.io/metadata.name"


class ManagedJobs:
    """The rules that decide which jobs Kueue manages."""

    def __init__(self, cluster: Cluster, configuration: JsonObject) -> None:
        """Read from Kueue's Configuration and the cluster's namespaces and LocalQueues which jobs Kueue manages.

        If the Configuration is empty, all integrations count as enabled. Raises InputError if it is malformed.
        """
        self._frameworks = _read_frameworks(configuration)
        self._manages_unqueued = configuration.get("manageJobsWithoutQueueName") is True
        self._selector = _build_namespace_selector(configuration)
        self._namespace_labels = {
            namespace.metadata.name: namespace.metadata.labels for namespace in cluster.namespaces
        }
        self._with_default_queue = frozenset(
            queue.metadata.namespace for queue in cluster.local_queues if queue.metadata.name == _DEFAULT_QUEUE
        )

    def find_local_queue_name(self, owner: Owner, job: Struct) -> str | None:
        """Return the name of a job's LocalQueue, or None if Kueue does not manage the job.

        The name comes from the label of the job or of its pod template. Without a label, the namespace's default
        LocalQueue is used. The name is "" if Kueue manages the job but keeps it suspended because it has no LocalQueue.
        """
        # Kueue manages the Jobs of a CronJob
        kind = "Job" if isinstance(job, CronJob) else owner.kind

        queue = find_queue_label(job)
        if queue is not None and self._has_integration(kind):
            return queue
        # Jobs that Kueue does not suspend as a whole are queued pod by pod, so the label of their pods counts
        if not _is_suspended_as_whole(kind) and self._has_integration("Pod"):
            template = getattr(job.spec, "template", None)  # type: ignore[attr-defined]
            if template is not None and QUEUE_LABEL in template.metadata.labels:
                template_queue: str = template.metadata.labels[QUEUE_LABEL]
                return template_queue

        # Without a label, the default LocalQueue of a managed namespace or the Configuration decides
        if kind in _FRAMEWORKS and self._has_integration(kind) and self._is_namespace_managed(owner.namespace):
            if owner.namespace in self._with_default_queue:
                return _DEFAULT_QUEUE
            return "" if self._manages_unqueued else None
        return None

    def _has_integration(self, kind: str) -> bool:
        """Return whether Kueue's integration for objects of this kind is enabled.

        Unknown kinds count as enabled, except for kinds of which Kueue manages only the pods. If it is unknown which
        integrations are enabled, all known kinds count as enabled.
        """
        framework = _FRAMEWORKS.get(kind)
        if framework is None:
            return kind not in _KINDS_OF_PODS
        return self._frameworks is None or framework in self._frameworks

    def _is_namespace_managed(self, namespace: str) -> bool:
        """Return whether Kueue may manage jobs without a queue label in the namespace."""
        labels = {**self._namespace_labels.get(namespace, {}), _NAMESPACE_LABEL: namespace}
        return self._selector.matches(labels)


def find_queue_label(job: Struct) -> str | None:
    """Return the LocalQueue that a job's queue label names, or None. For a CronJob, the label of its Jobs counts."""
    metadata = job.spec.job_template.metadata if isinstance(job, CronJob) else job.metadata  # type: ignore[attr-defined]
    queue: str | None = metadata.labels.get(QUEUE_LABEL)
    return queue


def _is_suspended_as_whole(kind: str) -> bool:
    """Return whether Kueue suspends objects of this kind as a whole, instead of holding back their pods."""
    return kind in _FRAMEWORKS and kind not in ("Deployment", "StatefulSet")


def _read_frameworks(configuration: JsonObject) -> frozenset[str] | None:
    """Return the integrations that the Configuration enables, or None if the Configuration is empty.

    A Configuration that lists no integrations enables Kueue's defaults. Raises InputError if the integrations are not a
    list.
    """
    if not configuration:
        return None
    frameworks = object_at(configuration, "integrations").get("frameworks")
    if frameworks is not None and not isinstance(frameworks, list):
        raise InputError("integrations.frameworks of Kueue's Configuration must be a list")
    return frozenset(map(str, frameworks or _DEFAULT_FRAMEWORKS))


def _build_namespace_selector(configuration: JsonObject) -> Selector:
    """Build the selector of the namespaces in which jobs without a queue label are managed.

    By default it selects all namespaces except kube-system and Kueue's own. Raises InputError if the Configuration's
    selector is invalid.
    """
    document = configuration.get("managedJobsNamespaceSelector")
    try:
        if document is not None:
            return selector_from_api(convert_builtins(document, LabelSelector))
    except (msgspec.ValidationError, SelectorError) as error:
        raise InputError(f"managedJobsNamespaceSelector of Kueue's Configuration: {error}") from None
    excluded = ("kube-system", text_at(configuration, "namespace") or _DEFAULT_NAMESPACE)
    requirement = SelectorRequirement(_NAMESPACE_LABEL, "NotIn", excluded)
    return selector_from_api(LabelSelector(match_expressions=(requirement,)))
