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
    """Decides which jobs Kueue manages."""

    def __init__(self, cluster: Cluster, configuration: JsonObject) -> None:
        """``configuration`` is Kueue's Configuration. If it is empty, all integrations count as enabled.

        Raises InputError for a malformed Configuration.
        """
        self._frameworks = _read_frameworks(configuration)
        self._manages_unqueued = configuration.get("manageJobsWithoutQueueName") is True
        self._selector = _build_namespace_selector(configuration)
        self._namespace_labels = {n.metadata.name: n.metadata.labels for n in cluster.namespaces}
        self._with_default_queue = frozenset(
            queue.metadata.namespace for queue in cluster.local_queues if queue.metadata.name == _DEFAULT_QUEUE
        )

    def find_queue(self, owner: Owner, job: Struct) -> str | None:
        """Return the LocalQueue of a job, "" for one that waits for a LocalQueue, or None if Kueue ignores the job.

        A workload without a label of its own is managed if Kueue manages its pods by the label of their template.
        """
        kind = "Job" if isinstance(job, CronJob) else owner.kind

        # By the job's own label, or by that of its pods
        queue = find_queue_label(job)
        if queue is not None and self._has_integration(kind):
            return queue
        if not _is_suspended_as_whole(kind) and self._has_integration("Pod"):
            template = getattr(job.spec, "template", None)  # type: ignore[attr-defined]
            if template is not None and QUEUE_LABEL in template.metadata.labels:
                template_queue: str = template.metadata.labels[QUEUE_LABEL]
                return template_queue

        # Without a label by the default LocalQueue of a managed namespace, or by the Configuration
        if kind in _FRAMEWORKS and self._has_integration(kind) and self._is_namespace_managed(owner.namespace):
            if owner.namespace in self._with_default_queue:
                return _DEFAULT_QUEUE
            return "" if self._manages_unqueued else None
        return None

    def _has_integration(self, kind: str) -> bool:
        """Return whether Kueue reads the labels of objects of this kind. Kinds without a known integration count."""
        framework = _FRAMEWORKS.get(kind)
        if framework is None:
            return kind not in _KINDS_OF_PODS
        return self._frameworks is None or framework in self._frameworks

    def _is_namespace_managed(self, namespace: str) -> bool:
        """Return whether jobs without a label are managed in the namespace."""
        labels = {**self._namespace_labels.get(namespace, {}), _NAMESPACE_LABEL: namespace}
        return self._selector.matches(labels)


def find_queue_label(job: Struct) -> str | None:
    """Return the LocalQueue in the label of a job, or in that of a CronJob's Jobs, or None."""
    metadata = job.spec.job_template.metadata if isinstance(job, CronJob) else job.metadata  # type: ignore[attr-defined]
    queue: str | None = metadata.labels.get(QUEUE_LABEL)
    return queue


def _is_suspended_as_whole(kind: str) -> bool:
    """Return whether Kueue suspends objects of the kind as a whole, and does not hold back their pods instead."""
    return kind in _FRAMEWORKS and kind not in ("Deployment", "StatefulSet")


def _read_frameworks(configuration: JsonObject) -> frozenset[str] | None:
    """Return the enabled integrations, or None if the Configuration is not known. Raises InputError."""
    if not configuration:
        return None
    frameworks = object_at(configuration, "integrations").get("frameworks")
    if frameworks is not None and not isinstance(frameworks, list):
        raise InputError("integrations.frameworks of Kueue's Configuration must be a list")
    return frozenset(map(str, frameworks or _DEFAULT_FRAMEWORKS))


def _build_namespace_selector(configuration: JsonObject) -> Selector:
    """Build the selector of the namespaces whose jobs are managed without a label. Raises InputError."""
    document = configuration.get("managedJobsNamespaceSelector")
    try:
        if document is not None:
            return selector_from_api(convert_builtins(document, LabelSelector))
    except (msgspec.ValidationError, SelectorError) as error:
        raise InputError(f"managedJobsNamespaceSelector of Kueue's Configuration: {error}") from None
    excluded = ("kube-system", text_at(configuration, "namespace") or _DEFAULT_NAMESPACE)
    requirement = SelectorRequirement(_NAMESPACE_LABEL, "NotIn", excluded)
    return selector_from_api(LabelSelector(match_expressions=(requirement,)))
