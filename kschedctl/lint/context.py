"""The input of lint rules: the linted objects, and the cluster that contains them or that they are applied to."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Protocol, TypeVar

from kschedctl.api import objects as api
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kinds import get_api_kind
from kschedctl.api.labels import EQUALS, IN, Selector
from kschedctl.api.ownership import Owner
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.validation import ValidationOptions
from kschedctl.autoscaling.karpenter.instance_types import InstanceTypeCatalog
from kschedctl.cluster import FIELDS, Cluster, Gap
from kschedctl.lint.analysis.facts import ClusterFacts
from kschedctl.lint.analysis.node_requirements import PoolTypeCatalog
from kschedctl.lint.objects.kinds import (
    AUTOSCALERS,
    NAMESPACE_LIMITS,
    REPLICA_LIMIT_FIELDS,
    ScalingLimits,
    WrittenNodePool,
    to_written_pool,
)
from kschedctl.lint.objects.manifests import (
    TYPED,
    UNSCOPED,
    ManifestObjects,
    ObjectsByKind,
    TypedObject,
    build_manifest_subject,
    find_release_namespaces,
    get_helm_release,
    may_create_pods,
    may_own_pods_in,
)
from kschedctl.lint.objects.owners import TopmostOwners, iter_cluster_workloads
from kschedctl.lint.objects.subject import Location, Path, Problem, Subject
from kschedctl.lint.objects.variants import NO_SETS, AppliedSet, AppliedSets, Variants
from kschedctl.lint.objects.workload import SERVING_KINDS, Workload, compile_selector
from kschedctl.reports.findings import PassedOver
from kschedctl.reports.unknown import INSTANCE_TYPES
from kschedctl.scheduler.configuration.version_fields import build_validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class WithMetadata(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> api.ObjectMeta:
        """The object's metadata."""


N = TypeVar("N", bound=WithMetadata)


@dataclass(frozen=True, eq=False)
class LintContext:
    """The linted objects and their cluster, with cached lookups."""

    workloads: tuple[Workload, ...] = ()
    items: ObjectsByKind = field(default_factory=dict)
    """The linted objects by kind."""
    cluster: Cluster | None = None
    """The cluster that is linted, or that the manifests are applied to."""
    invalid: tuple[Problem, ...] = ()
    """Problems of objects that cannot be decoded and so are left out."""
    subjects: tuple[Subject, ...] = ()
    """All linted manifests, or () if a cluster is linted."""
    gates: FeatureGates = field(default_factory=FeatureGates)
    """The version of Kubernetes that the objects are linted for, and its feature gates."""
    gaps: dict[str, Gap] = field(default_factory=dict, init=False)
    """Kinds that rules needed and that were not fully read."""
    variants: Variants = field(default_factory=lambda: Variants(()))
    """The alternatives among the manifests, which cannot be in one cluster."""
    unreadable: tuple[Problem, ...] = ()
    """Problems of files that cannot be parsed."""
    passed_over: tuple[PassedOver, ...] = ()
    """Files that were skipped."""
    all_manifests_read: bool = True
    """True if no manifest was left out because it could not be read."""
    is_self_described: bool = False
    """True if the cluster is described by the linted manifests themselves."""
    stored_manifests: Mapping[Owner, JsonObject] = field(default_factory=dict)
    """The manifests of the cluster's workloads in its files."""
    applied_sets: AppliedSets = field(default_factory=lambda: NO_SETS)
    """The sets in which each object is applied."""
    enclosing: LintContext | None = None
    """The context of all sets, or None unless this context is restricted to a single set."""
    instance_types: InstanceTypeCatalog | None = None
    """The instance types that Karpenter may launch, or None if they are not known."""
    _set_contexts: dict[AppliedSet, LintContext] = field(default_factory=dict, init=False)
    _selected: dict[tuple[str, Selector], list[Workload]] = field(default_factory=dict, init=False)
    _coexisting: dict[tuple[Subject, str, Selector], list[Workload]] = field(default_factory=dict, init=False)
    _names: dict[tuple[str, str], set[str]] = field(default_factory=dict, init=False)

    @classmethod
    def from_manifests(
        cls,
        manifests: Iterable[tuple[JsonObject, Location]],
        cluster: Cluster | None,
        gates: FeatureGates | None = None,
        namespace: str = "",
        get_sets: Callable[[Location], frozenset[AppliedSet]] | None = None,
    ) -> LintContext:
        """Build the context of manifests and the cluster that they are applied to.

        Objects without a namespace go to ``namespace`` or, if that is empty, to the namespace of their Helm release.
        ``get_sets`` returns the sets in which the objects at a location are applied. Without it, all objects are one
        set. ``gates`` is used only without a cluster. Documents without a kind are left out.
        """
        located = [(document, place) for document, place in manifests if document.get("kind")]
        release_namespaces = {} if namespace else find_release_namespaces(located)
        objects = ManifestObjects()
        for document, place in located:
            default_namespace = namespace or release_namespaces.get(get_helm_release(place), "")
            objects.add(build_manifest_subject(document, place, default_namespace))

        subjects = tuple(objects.subjects)
        applied_sets = NO_SETS
        if get_sets is not None:
            applied_sets = {subject: get_sets(subject.location) for subject in subjects if subject.location}
        variants = Variants(subjects, applied_sets)
        if cluster:
            gates = _get_gates(cluster)
        return cls(
            objects.apply_autoscalers(variants),
            objects.by_kind,
            cluster,
            invalid=tuple(objects.invalid),
            subjects=subjects,
            gates=gates or FeatureGates(),
            variants=variants,
            applied_sets=applied_sets,
        )

    @classmethod
    def from_cluster(cls, cluster: Cluster) -> LintContext:
        """Build the context for linting all workloads and other objects of a cluster."""
        structs = {**TYPED, **NAMESPACE_LIMITS}
        items = {
            struct: tuple(map(_to_typed_object, getattr(cluster, FIELDS[kind]))) for kind, struct in structs.items()
        }
        pools = tuple(
            TypedObject(_to_typed_object(pool).subject, to_written_pool(pool)) for pool in cluster.karpenter_node_pools
        )
        workloads = tuple(iter_cluster_workloads(cluster))
        return cls(workloads, {**items, WrittenNodePool: pools}, cluster, gates=_get_gates(cluster))

    def iter_applied_set_contexts(self, subject: Subject) -> Iterator[LintContext]:
        """Yield a context for each applied set that contains ``subject``.

        The objects of an applied set are applied together, and the context holds only these objects. Contexts are
        cached. Nothing is yielded if the object is in no set.
        """
        for applied in sorted(self.applied_sets.get(subject, ())):
            if applied not in self._set_contexts:
                self._set_contexts[applied] = self._build_applied_set_context(applied)
            yield self._set_contexts[applied]

    def _build_applied_set_context(self, applied: AppliedSet) -> LintContext:
        """Build the context for linting only the objects that are applied together as this set.

        The objects of a closed set are no alternatives of each other. The objects of another set may be. In a loose
        set, which is only a guess, objects in different folders may also be in different clusters.
        """
        members = self._objects_by_set[applied]
        if applied.closed:
            variants = Variants(subjects=())
        elif applied.loose:
            variants = Variants(members.subjects, sets=dict.fromkeys(members.subjects, frozenset({applied})))
        else:
            variants = Variants(members.subjects)
        return replace(
            self,
            workloads=tuple(members.workloads),
            items=members.by_kind,
            subjects=tuple(members.subjects),
            variants=variants,
            applied_sets=NO_SETS,
            enclosing=self,
        )

    @cached_property
    def _objects_by_set(self) -> Mapping[AppliedSet, ManifestObjects]:
        """The linted objects of each set of objects that are applied together."""
        members: dict[AppliedSet, ManifestObjects] = defaultdict(ManifestObjects)
        for subject, sets in self.applied_sets.items():
            for applied in sets:
                members[applied].subjects.append(subject)
        for workload in self.workloads:
            for applied in self.applied_sets.get(workload.subject, ()):
                members[applied].workloads.append(workload)
        for kind, items in self.items.items():
            for item in items:
                for applied in self.applied_sets.get(item.subject, ()):
                    members[applied].typed[kind].append(item)
        return members

    @property
    def objects(self) -> Iterator[Subject]:
        """Iterate over all linted objects: the manifests, or the workloads and typed objects of a cluster."""
        if self.subjects:
            return iter(self.subjects)
        items = (item.subject for of_kind in self.items.values() for item in of_kind)
        return chain((workload.subject for workload in self.workloads), items)

    @cached_property
    def validation_options(self) -> ValidationOptions:
        """The options of the API server's validation in the linted version."""
        return build_validation_options(self.gates)

    @cached_property
    def facts(self) -> ClusterFacts:
        """Facts about the cluster's nodes and pods, with the linted PriorityClasses.

        The context of an applied set shares the facts of its enclosing context. Requires a cluster.
        """
        assert self.cluster is not None
        if self.enclosing is not None:
            return self.enclosing.facts
        linted_classes = [item.value for item in self.list_linted_objects(api.PriorityClass)]
        return ClusterFacts(self.cluster.with_objects({"PriorityClass": linted_classes}))

    @cached_property
    def pool_types(self) -> PoolTypeCatalog | None:
        """The instance types that NodePools may launch, or None if no instance types were given.

        If none were given, ``gaps`` records that they are missing. The context of an applied set shares the instance
        types of its enclosing context.
        """
        if self.enclosing is not None:
            return self.enclosing.pool_types
        if self.instance_types is None:
            self.gaps[INSTANCE_TYPES] = Gap(
                "were not given (--instance-types FILE), so EC2 instance types are judged by their names"
            )
            return None
        return PoolTypeCatalog(self.instance_types, self.cluster)

    @cached_property
    def autoscaler_by_scaled_workload(self) -> Mapping[Workload, Subject]:
        """The linted autoscalers that scale workloads of the cluster, by workload.

        The workloads have the replica limits of their autoscalers. If several autoscalers scale one workload, the first
        counts. Workloads that are linted themselves are left out.
        """
        scalers = [item for kind in AUTOSCALERS for item in self.list_linted_objects(kind)]
        if self.cluster is None or not scalers:
            return {}
        linted_owners = {workload.owner for workload in self.workloads}
        scaler_by_target: dict[Owner, tuple[Subject, ScalingLimits]] = {}
        for subject, autoscaler in scalers:
            limits = autoscaler.limits
            if limits is not None:
                target = Owner(limits.kind, subject.namespace or "default", limits.name)
                scaler_by_target.setdefault(target, (subject, limits))
        scaler_by_workload = {}
        for workload in iter_cluster_workloads(self.cluster, scaler_by_target.keys() - linted_owners):
            subject, limits = scaler_by_target[workload.owner]
            scaled = replace(workload, min_replicas=limits.min_replicas, max_replicas=limits.max_replicas)
            scaler_by_workload[scaled] = subject
        return scaler_by_workload

    def build_replica_problem(self, workload: Workload, path: Path, message: str, *, at_maximum: bool) -> Problem:
        """Build a problem about the number of replicas, at the workload or at the linted autoscaler that scales it.

        For a workload, ``path`` is the field of its pod. For an autoscaler, the field is maxReplicas with `at_maximum`
        and otherwise minReplicas, and the message begins with the name of the workload.
        """
        autoscaler = self.autoscaler_by_scaled_workload.get(workload)
        if autoscaler is None:
            return workload.build_problem(path, message)
        fields = REPLICA_LIMIT_FIELDS[autoscaler.kind]
        limit_path = ("spec", fields.maximum if at_maximum else fields.minimum)
        return autoscaler.build_problem(limit_path, f"{workload.owner}: {message}")

    def find_stored_workload(self, workload: Workload) -> api.StoredWorkload | None:
        """Return the stored object of a serving workload of the linted cluster.

        Returns None for a workload from a manifest, for other kinds, and if the object was not read.
        """
        return None if workload.subject.document else self._stored_workloads.get(workload.owner)

    def iter_stored_workloads_without_pods(self, namespace: str) -> Iterator[Workload]:
        """Yield the serving workloads of the linted cluster of which no pod exists. Owned ReplicaSets are left out."""
        owners_with_pods = {workload.owner for workload in self.workloads}
        for owner, stored in self._stored_workloads.items():
            is_owned_replica_set = owner.kind == "ReplicaSet" and bool(stored.metadata.owner_references)
            if owner.namespace == namespace and owner not in owners_with_pods and not is_owned_replica_set:
                template = stored.spec.template
                subject = Subject(owner.kind, owner.name, namespace)
                yield Workload(subject, template.metadata.labels, template.spec, stored.spec.replicas)

    @cached_property
    def _stored_workloads(self) -> dict[Owner, api.StoredWorkload]:
        """The stored objects of the cluster's serving workloads, or {} without a cluster."""
        if self.cluster is None:
            return {}
        stored_workloads = {}
        for kind in SERVING_KINDS & FIELDS.keys():
            for stored in getattr(self.cluster, FIELDS[kind]):
                stored_workloads[Owner(kind, *_get_full_name(stored))] = stored
        return stored_workloads

    def list_linted_objects(self, kind: type[T]) -> tuple[TypedObject[T], ...]:
        """Return the linted objects of a kind."""
        return self.items.get(kind, ())

    def list_all_objects(self, kind: type[N]) -> list[N]:
        """Return the objects of a kind: linted objects, then objects of the cluster with other names."""
        linted = [item.value for item in self.list_linted_objects(kind)]
        linted_names = {_get_full_name(obj) for obj in linted}
        cluster_objects: Iterable[N] = getattr(self.cluster, FIELDS[kind.__name__]) if self.cluster else ()
        return linted + [obj for obj in cluster_objects if _get_full_name(obj) not in linted_names]

    def list_all_items(self, kind: type[N]) -> list[TypedObject[N]]:
        """Return the objects of a kind that `list_all_objects` returns, each with its subject."""
        linted = self.list_linted_objects(kind)
        return [*linted, *map(_to_typed_object, self.list_all_objects(kind)[len(linted) :])]

    def are_all_read(self, *kinds: str) -> bool:
        """Return whether all objects of these kinds were read, so that objects that were not read do not exist.

        Kinds that were not fully read are recorded in ``gaps``. Returns True without a cluster.
        """
        if self.cluster is None:
            return True
        all_read = True
        for kind in kinds:
            gap = self.cluster.find_gap(kind)
            if gap:
                self.gaps[kind] = gap
                all_read = False
        return all_read

    def are_priority_classes_known(self) -> bool:
        """Return whether all PriorityClasses are known. Every cluster has some: if there are none, none were read."""
        return bool(self.list_all_objects(api.PriorityClass)) and self.are_all_read("PriorityClass")

    def list_existing_storage_classes(self) -> frozenset[str] | None:
        """Return the names of the StorageClasses that exist, or None if StorageClasses or volumes were not fully read.

        A StorageClass that some volume names does not have to exist, and is included.
        """
        if not self.are_all_read("StorageClass", "PersistentVolume"):
            return None
        of_volumes = {volume.spec.storage_class_name for volume in self.list_all_objects(api.PersistentVolume)}
        return frozenset(of_volumes | {existing.metadata.name for existing in self.list_all_objects(api.StorageClass)})

    def may_have_unknown_pods(self, namespaces: Iterable[str]) -> bool:
        """Return whether custom resources among the manifests may create pods in one of the namespaces."""
        return any(may_own_pods_in(maker, namespace) for namespace in namespaces for maker in self._pod_creators)

    @cached_property
    def _pod_creators(self) -> list[Subject]:
        """The custom resources among the manifests that may create pods."""
        return [subject for subject in self.subjects if may_create_pods(subject)]

    def find_creator(self, subject: Subject) -> str:
        """Name the topmost controller that creates an object of the cluster, or return "" if none is known."""
        return self._topmost_owners.describe_topmost_owner(subject) if self._topmost_owners else ""

    @cached_property
    def _topmost_owners(self) -> TopmostOwners | None:
        """The topmost controllers of the cluster's objects, or None without a cluster."""
        return TopmostOwners(self.cluster) if self.cluster else None

    @cached_property
    def priority_classes(self) -> dict[str, api.PriorityClass]:
        """The PriorityClasses by name, including the system's classes."""
        return {
            priority_class.metadata.name: priority_class
            for priority_class in (*SYSTEM_CLASSES, *self.list_all_objects(api.PriorityClass))
        }

    def get_priority(self, workload: Workload) -> int:
        """Return the priority of new pods of the workload: its own, its class's, or else the default.

        Returns 0 if the class does not exist.
        """
        if workload.spec.priority is not None:
            return workload.spec.priority
        if workload.spec.priority_class_name:
            priority_class = self.priority_classes.get(workload.spec.priority_class_name)
            return priority_class.value if priority_class else 0
        return self.default_priority

    @cached_property
    def default_priority(self) -> int:
        """The priority of new pods without a class: that of the global default class, or 0 if there is none.

        If there are several global default classes, the lowest priority counts.
        """
        return min(
            (
                priority_class.value
                for priority_class in self.priority_classes.values()
                if priority_class.global_default
            ),
            default=0,
        )

    @cached_property
    def workloads_by_namespace(self) -> dict[str, list[Workload]]:
        """The linted workloads of each namespace."""
        return _group_values_by_key((workload.namespace, workload) for workload in self.workloads)

    def select_workloads(self, namespace: str, selector: Selector) -> list[Workload]:
        """Return the linted workloads of a namespace with pods that a selector matches."""
        if (namespace, selector) not in self._selected:
            self._selected[namespace, selector] = self._find_matching_workloads(namespace, selector)
        return self._selected[namespace, selector]

    def select_coexisting_workloads(self, subject: Subject, namespace: str, selector: Selector) -> list[Workload]:
        """Return the workloads of a namespace that match the selector and can share a cluster with the subject.

        Results are cached if the manifests have variants.
        """
        selected = self.select_workloads(namespace, selector)
        if not self.variants:
            return selected
        key = subject, namespace, selector
        if key not in self._coexisting:
            self._coexisting[key] = [
                workload for workload in selected if self.variants.can_coexist(subject, workload.subject)
            ]
        return self._coexisting[key]

    def iter_disruption_budgets(
        self, *, also_of_cluster: bool = False
    ) -> Iterator[tuple[Subject, api.PodDisruptionBudget, list[Workload]]]:
        """Yield each linted PodDisruptionBudget with the linted workloads that it selects.

        Workloads that cannot be in one cluster with the budget are left out. If none remain and `also_of_cluster` is
        set, the budget comes with the cluster's workloads that it selects. An invalid selector selects none.
        """
        for subject, budget in self.list_linted_objects(api.PodDisruptionBudget):
            selector = compile_selector(budget.spec.selector)
            workloads: list[Workload] = []
            if selector is not None:
                namespace = subject.namespace or "default"
                workloads = self.select_coexisting_workloads(subject, namespace, selector)
                if not workloads and also_of_cluster:
                    candidates = self._cluster_workloads_by_namespace.get(namespace, ())
                    workloads = [workload for workload in candidates if workload.is_selected_by(selector)]
            yield subject, budget, workloads

    @cached_property
    def _cluster_workloads_by_namespace(self) -> dict[str, list[Workload]]:
        """The workloads by namespace of the cluster to which manifests are applied, or {} without a cluster.

        The context of an applied set shares the workloads of its enclosing context.
        """
        if self.cluster is None:
            return {}
        if self.enclosing is not None:
            return self.enclosing._cluster_workloads_by_namespace
        return _group_values_by_key((workload.namespace, workload) for workload in iter_cluster_workloads(self.cluster))

    def can_share_namespace(self, first: Subject, second: Subject) -> bool:
        """Return whether two objects can be in the same namespace of one cluster.

        If either manifest names no namespace, the folder of one manifest also has to contain the other one's folder.
        """
        if (first.namespace or "default") != (second.namespace or "default"):
            return False
        if not self.variants.can_coexist(first, second):
            return False
        both_name_namespace = first.namespace and second.namespace
        if both_name_namespace or first.location is None or second.location is None:
            return True
        first_folder = f"{posixpath.dirname(first.location.file)}/"
        second_folder = f"{posixpath.dirname(second.location.file)}/"
        return first_folder.startswith(second_folder) or second_folder.startswith(first_folder)

    def list_coexisting_names(self, subject: Subject, kind: str, namespace: str = "") -> set[str]:
        """Return the names of the objects of a kind and namespace that can be in one cluster with the subject.

        ``namespace`` is empty for cluster-scoped kinds. The cluster's own objects always count.
        """
        if not self.variants:
            return self._list_object_names(kind, namespace)
        candidates = self._subjects_by_kind.get((kind, namespace), ())
        coexisting = {other.name for other in candidates if self.variants.can_coexist(subject, other)}
        return coexisting | self._list_cluster_names(kind, namespace)

    def _list_object_names(self, kind: str, namespace: str) -> set[str]:
        """Return the names of all objects of a kind in a namespace, from the manifests and from the cluster.

        The result is cached.
        """
        if (kind, namespace) not in self._names:
            manifest_names = {subject.name for subject in self._subjects_by_kind.get((kind, namespace), ())}
            self._names[kind, namespace] = manifest_names | self._list_cluster_names(kind, namespace)
        return self._names[kind, namespace]

    def _list_cluster_names(self, kind: str, namespace: str) -> set[str]:
        """Return the names of the cluster's objects of a kind in a namespace, or in all namespaces if it is "".

        The set is empty without a cluster, or if the kind is not read from clusters.
        """
        if self.cluster is None or kind not in FIELDS:
            return set()
        objects = getattr(self.cluster, FIELDS[kind], ())
        return {obj.metadata.name for obj in objects if not namespace or obj.metadata.namespace == namespace}

    def list_manifest_names(self, kind: str) -> set[str]:
        """Return the names of the linted manifests of a kind in all namespaces."""
        return {
            subject.name
            for (subject_kind, _), subjects in self._subjects_by_kind.items()
            if subject_kind == kind
            for subject in subjects
        }

    def find_namespaces(self, kind: str, name: str) -> list[str]:
        """Return the namespaces with manifests of a kind in which an object of this kind and name exists."""
        namespaces = [namespace for subject_kind, namespace in self._subjects_by_kind if subject_kind == kind]
        return [namespace for namespace in namespaces if name in self._list_object_names(kind, namespace)]

    @cached_property
    def _subjects_by_kind(self) -> dict[tuple[str, str], list[Subject]]:
        """The manifests by kind and namespace. The namespace is "" for cluster-scoped kinds."""
        return _group_values_by_key(
            ((subject.kind, "" if subject.kind in UNSCOPED else subject.namespace or "default"), subject)
            for subject in self.subjects
        )

    def list_coexisting_values(self, subject: Subject, items: Iterable[TypedObject[T]]) -> list[T]:
        """Return the values of the items that can be in one cluster with an object."""
        return [item.value for item in items if self.variants.can_coexist(subject, item.subject)]

    def _find_matching_workloads(self, namespace: str, selector: Selector) -> list[Workload]:
        """Find the workloads of a namespace that a selector matches, whether or not they can share a cluster."""
        requirement = next((r for r in selector.requirements if r.operator in (EQUALS, IN)), None)
        if requirement is None:
            candidates = self.workloads_by_namespace.get(namespace, [])
        else:  # an index by label is faster than a search through all workloads
            labels = [(namespace, requirement.key, value) for value in requirement.values]
            candidates = [workload for label in labels for workload in self._workloads_by_label.get(label, ())]
        return [workload for workload in candidates if selector.matches(workload.labels)]

    @cached_property
    def _workloads_by_label(self) -> dict[tuple[str, str, str], list[Workload]]:
        """The workloads by namespace, label and value."""
        return _group_values_by_key(
            ((workload.namespace, key, value), workload)
            for workload in self.workloads
            for key, value in workload.labels.items()
        )

    def iter_claims(self, workload: Workload) -> Iterator[tuple[int, api.PersistentVolumeClaim]]:
        """Yield each existing PersistentVolumeClaim that a workload refers to, with the index of the volume.

        A linted claim takes precedence over the cluster's claim of the same name.
        """
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is None:
                continue
            key = workload.namespace, volume.persistent_volume_claim.claim_name
            linted_claims = self.list_coexisting_values(workload.subject, self._linted_claims.get(key, ()))
            claim = linted_claims[0] if linted_claims else self._cluster_claims.get(key)
            if claim is not None:
                yield i, claim

    @cached_property
    def _linted_claims(self) -> dict[tuple[str, str], list[TypedObject[api.PersistentVolumeClaim]]]:
        """The linted claims by namespace and name."""
        claims = self.list_linted_objects(api.PersistentVolumeClaim)
        return _group_values_by_key(
            ((claim.subject.namespace or "default", claim.subject.name), claim) for claim in claims
        )

    @cached_property
    def _cluster_claims(self) -> dict[tuple[str, str], api.PersistentVolumeClaim]:
        """The claims of the cluster by namespace and name."""
        claims = self.cluster.persistent_volume_claims if self.cluster else ()
        return {(claim.metadata.namespace or "default", claim.metadata.name): claim for claim in claims}


def _group_values_by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """Group (key, value) pairs: return the list of values of each key, in the order of the pairs."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _get_full_name(obj: WithMetadata) -> tuple[str, str]:
    """Return the namespace and name of an object. No namespace counts as ``default``."""
    return obj.metadata.namespace or "default", obj.metadata.name


def _to_typed_object(value: N) -> TypedObject[N]:
    """Return an object of the cluster with its subject."""
    kind = get_api_kind(type(value).__name__)
    return TypedObject(Subject(kind, value.metadata.name, value.metadata.namespace), value)


def _get_gates(cluster: Cluster) -> FeatureGates:
    """Return the version and feature gates of a cluster."""
    return FeatureGates(cluster.kube_version, cluster.feature_gates)
