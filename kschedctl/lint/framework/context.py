"""What rules look at: the objects that are linted, and the cluster that they are in or go to, where it is known."""

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
from kschedctl.api.labels import EQUALS, IN, Selector
from kschedctl.api.ownership import Owner
from kschedctl.api.priority import SYSTEM_CLASSES
from kschedctl.api.validation.options import ValidationOptions
from kschedctl.autoscaling.karpenter.instance_types import Sold
from kschedctl.cluster import FIELDS, Cluster, Gap
from kschedctl.lint.analysis.facts import ClusterFacts
from kschedctl.lint.analysis.pool_types import SoldToPools
from kschedctl.lint.objects.custom_resources import may_make_pods, may_own_in
from kschedctl.lint.objects.kinds import WrittenNodePool, written_pool
from kschedctl.lint.objects.manifests import (
    TYPED,
    UNSCOPED,
    ManifestObjects,
    ObjectsByKind,
    TypedObject,
    release_namespaces,
    release_of,
    subject_of,
)
from kschedctl.lint.objects.owners import Makers, cluster_workloads
from kschedctl.lint.objects.subject import Located, Problem, Subject
from kschedctl.lint.objects.variants import NO_SETS, AppliedSet, Sets, Variants
from kschedctl.lint.objects.workload import Workload, compiled
from kschedctl.reports.findings import PassedOver
from kschedctl.reports.unknown import INSTANCE_TYPES
from kschedctl.scheduler.configuration.validation_options import validation_options
from kschedctl.scheduler.framework.feature_gates import FeatureGates

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class WithMetadata(Protocol):
    """An object with metadata."""

    @property
    def metadata(self) -> api.ObjectMeta: ...


N = TypeVar("N", bound=WithMetadata)


@dataclass(frozen=True, eq=False)
class LintContext:
    """``items``: the linted objects by kind. ``whole``: no manifest was left out since it could not be read.
    ``invalid``: fields of the wrong type, for which objects are left out.

    ``gates``: the version of Kubernetes that the objects are linted for, and its feature gates. ``own``: the cluster is
    what the manifests describe. ``stored``: workloads that the cluster has, as its files hold them.
    ``sets``: those in which the objects are applied, by name; ``around``: the context of which this one is such a set.
    ``sold``: the instance types that Karpenter may launch, None where nobody named them.
    What was looked up is kept, since many select the same.
    """

    workloads: tuple[Workload, ...] = ()
    items: ObjectsByKind = field(default_factory=dict)
    cluster: Cluster | None = None
    invalid: tuple[Problem, ...] = ()
    subjects: tuple[Subject, ...] = ()
    gates: FeatureGates = field(default_factory=FeatureGates)
    gaps: dict[str, Gap] = field(default_factory=dict, init=False)
    variants: Variants = field(default_factory=lambda: Variants(()))
    unreadable: tuple[Problem, ...] = ()
    passed_over: tuple[PassedOver, ...] = ()
    whole: bool = True
    own: bool = False
    stored: Mapping[Owner, JsonObject] = field(default_factory=dict)
    sets: Sets = field(default_factory=lambda: NO_SETS)
    around: LintContext | None = None
    sold: Sold | None = None
    _set_contexts: dict[AppliedSet, LintContext] = field(default_factory=dict, init=False)
    _selected: dict[tuple[str, Selector], list[Workload]] = field(default_factory=dict, init=False)
    _beside: dict[tuple[Subject, str, Selector], list[Workload]] = field(default_factory=dict, init=False)
    _named: dict[tuple[str, str], set[str]] = field(default_factory=dict, init=False)

    @classmethod
    def of_manifests(
        cls,
        manifests: Iterable[tuple[JsonObject, Located]],
        cluster: Cluster | None,
        gates: FeatureGates | None = None,
        namespace: str = "",
        sets_of: Callable[[Located], frozenset[AppliedSet]] | None = None,
    ) -> LintContext:
        """Manifests, and the cluster that they go to; ``gates`` where there is none.

        ``namespace``: where objects go that name none, if that is known; what Helm rendered goes with its release.
        ``sets_of``: the sets in which what stands there is applied; without it all is one.
        """
        located = [(document, place) for document, place in manifests if document.get("kind")]
        releases = {} if namespace else release_namespaces(located)
        objects = ManifestObjects()
        for document, place in located:
            objects.read(subject_of(document, place, namespace or releases.get(release_of(place), "")))
        subjects, invalid = tuple(objects.subjects), tuple(objects.invalid)
        sets = {s: sets_of(s.place) for s in subjects if s.place} if sets_of else NO_SETS
        variants = Variants(subjects, sets)
        scaled = objects.scaled(variants)
        gates = _gates_of(cluster) if cluster else gates or FeatureGates()
        return cls(scaled, objects.by_kind, cluster, invalid, subjects, gates, variants=variants, sets=sets)

    @classmethod
    def of_cluster(cls, cluster: Cluster) -> LintContext:
        """Everything in a cluster."""
        items = {struct: tuple(map(_of_cluster, getattr(cluster, FIELDS[kind]))) for kind, struct in TYPED.items()}
        pools = tuple(TypedObject(_of_cluster(p).subject, written_pool(p)) for p in cluster.karpenter_node_pools)
        workloads = tuple(cluster_workloads(cluster))
        return cls(workloads, {**items, WrittenNodePool: pools}, cluster, gates=_gates_of(cluster))

    def sets_with(self, subject: Subject) -> Iterator[LintContext]:
        """The sets in which an object is applied, each as a context by itself."""
        for applied in sorted(self.sets.get(subject, ())):
            if applied not in self._set_contexts:
                self._set_contexts[applied] = self._within(applied)
            yield self._set_contexts[applied]

    def _within(self, applied: AppliedSet) -> LintContext:
        members = self._members[applied]
        sets = dict.fromkeys(members.subjects, frozenset({applied})) if applied.loose else NO_SETS
        return replace(
            self,
            workloads=tuple(members.workloads),
            items=members.by_kind,
            subjects=tuple(members.subjects),
            variants=Variants(() if applied.closed else members.subjects, sets),
            sets=NO_SETS,
            around=self,
        )

    @cached_property
    def _members(self) -> Mapping[AppliedSet, ManifestObjects]:
        members: dict[AppliedSet, ManifestObjects] = defaultdict(ManifestObjects)
        for subject, sets in self.sets.items():
            for applied in sets:
                members[applied].subjects.append(subject)
        for workload in self.workloads:
            for applied in self.sets.get(workload.subject, ()):
                members[applied].workloads.append(workload)
        for kind, items in self.items.items():
            for item in items:
                for applied in self.sets.get(item.subject, ()):
                    members[applied].typed[kind].append(item)
        return members

    @property
    def objects(self) -> Iterator[Subject]:
        """Whatever is linted."""
        if self.subjects:
            return iter(self.subjects)
        items = (item.subject for of_kind in self.items.values() for item in of_kind)
        return chain((workload.subject for workload in self.workloads), items)

    @cached_property
    def validation_options(self) -> ValidationOptions:
        """What the API server validates by."""
        return validation_options(self.gates)

    @cached_property
    def facts(self) -> ClusterFacts:
        """The nodes and pods. Only for rules that need a cluster."""
        assert self.cluster is not None
        if self.around is not None:
            return self.around.facts
        return ClusterFacts(
            self.cluster.with_objects({"PriorityClass": [i.value for i in self.linted(api.PriorityClass)]})
        )

    @cached_property
    def pool_types(self) -> SoldToPools | None:
        """What NodePools may launch; None, and a gap, where nobody named the instance types."""
        if self.around is not None:
            return self.around.pool_types
        if self.sold is None:
            self.gaps[INSTANCE_TYPES] = Gap("were not given (--instance-types): EC2's are judged by name alone")
        return None if self.sold is None else SoldToPools(self.sold, self.cluster)

    def linted(self, kind: type[T]) -> tuple[TypedObject[T], ...]:
        """The linted objects of a kind."""
        return self.items.get(kind, ())

    def known(self, kind: type[N]) -> list[N]:
        """The objects of a kind: the linted ones, and those that the cluster has besides."""
        linted = [item.value for item in self.linted(kind)]
        named = {(o.metadata.namespace or "default", o.metadata.name) for o in linted}
        others: Iterable[N] = getattr(self.cluster, FIELDS[kind.__name__]) if self.cluster else ()
        return linted + [o for o in others if (o.metadata.namespace or "default", o.metadata.name) not in named]

    def known_items(self, kind: type[N]) -> list[TypedObject[N]]:
        """The objects of a kind as linted ones are; those of the cluster stand in no file."""
        linted = self.linted(kind)
        return [*linted, *map(_of_cluster, self.known(kind)[len(linted) :])]

    def all_known(self, *kinds: str) -> bool:
        """Whether what is absent of these kinds does not exist; not so where the cluster could not be read in full.

        What is not known is kept in ``gaps``, for who reads the findings.
        """
        gaps = {kind: gap for kind in kinds if self.cluster and (gap := self.cluster.gap(kind))}
        self.gaps.update(gaps)
        return not gaps

    def others_own(self, namespaces: Iterable[str]) -> bool:
        """Whether pods may be there that custom resources among the manifests make, with labels that nobody knows."""
        return any(may_own_in(maker, namespace) for namespace in namespaces for maker in self._makers)

    @cached_property
    def _makers(self) -> list[Subject]:
        return [subject for subject in self.subjects if may_make_pods(subject)]

    def maker(self, subject: Subject) -> str:
        """What makes an object of the cluster, empty where nothing is known to."""
        return self._controllers.maker(subject) if self._controllers else ""

    @cached_property
    def _controllers(self) -> Makers | None:
        return Makers(self.cluster) if self.cluster else None

    @cached_property
    def priority_classes(self) -> dict[str, api.PriorityClass]:
        """The priority classes by name, the system's included."""
        return {c.metadata.name: c for c in (*SYSTEM_CLASSES, *self.known(api.PriorityClass))}

    def priority(self, workload: Workload) -> int:
        """The priority that new pods of the workload get."""
        if workload.spec.priority is not None:
            return workload.spec.priority
        if workload.spec.priority_class_name:
            priority_class = self.priority_classes.get(workload.spec.priority_class_name)
            return priority_class.value if priority_class else 0
        return self.default_priority

    @cached_property
    def default_priority(self) -> int:
        """The priority of new pods that name no class."""
        return min((c.value for c in self.priority_classes.values() if c.global_default), default=0)

    @cached_property
    def by_namespace(self) -> dict[str, list[Workload]]:
        """The linted workloads of each namespace."""
        return _grouped((workload.namespace, workload) for workload in self.workloads)

    def selected(self, namespace: str, selector: Selector) -> list[Workload]:
        """The linted workloads of a namespace whose pods a selector matches."""
        if (namespace, selector) not in self._selected:
            self._selected[namespace, selector] = self._matching(namespace, selector)
        return self._selected[namespace, selector]

    def selected_beside(self, subject: Subject, namespace: str, selector: Selector) -> list[Workload]:
        """The linted workloads whose pods a selector matches and that can be in one cluster with an object."""
        selected = self.selected(namespace, selector)
        if not self.variants:
            return selected
        key = subject, namespace, selector
        if key not in self._beside:
            self._beside[key] = [w for w in selected if self.variants.together(subject, w.subject)]
        return self._beside[key]

    def budgets(self) -> Iterator[tuple[Subject, api.PodDisruptionBudget, list[Workload]]]:
        """Every linted budget, with the workloads that it selects."""
        for subject, budget in self.linted(api.PodDisruptionBudget):
            selector, namespace = compiled(budget.spec.selector), subject.namespace or "default"
            yield subject, budget, [] if selector is None else self.selected_beside(subject, namespace, selector)

    def in_one_namespace(self, one: Subject, other: Subject) -> bool:
        """Whether both go to one namespace: that which they name, or, where they name none, from folders in a line."""
        if (one.namespace or "default") != (other.namespace or "default") or not self.variants.together(one, other):
            return False
        if one.place is None or other.place is None or (one.namespace and other.namespace):
            return True
        here, there = (f"{posixpath.dirname(place.file)}/" for place in (one.place, other.place))
        return here.startswith(there) or there.startswith(here)

    def names_beside(self, subject: Subject, kind: str, namespace: str = "") -> set[str]:
        """The names of a kind that can be in one cluster with an object; of a namespace, if it is no kind without."""
        if not self.variants:
            return self._names(kind, namespace)
        named = self._of_kind.get((kind, namespace), ())
        beside = {other.name for other in named if self.variants.together(subject, other)}
        return beside | self._names_in_cluster(kind, namespace)

    def _names(self, kind: str, namespace: str) -> set[str]:
        if (kind, namespace) not in self._named:
            names = {subject.name for subject in self._of_kind.get((kind, namespace), ())}
            self._named[kind, namespace] = names | self._names_in_cluster(kind, namespace)
        return self._named[kind, namespace]

    def _names_in_cluster(self, kind: str, namespace: str) -> set[str]:
        known = getattr(self.cluster, FIELDS[kind], ()) if self.cluster and kind in FIELDS else ()
        return {o.metadata.name for o in known if not namespace or o.metadata.namespace == namespace}

    def names_anywhere(self, kind: str) -> set[str]:
        """The names of a kind among the manifests, wherever they go."""
        return {subject.name for (other, _), named in self._of_kind.items() if other == kind for subject in named}

    def namespaces_of(self, kind: str, name: str) -> list[str]:
        """The namespaces in which an object of the manifests has this kind and name."""
        return [space for (k, space) in self._of_kind if k == kind and name in self._names(kind, space)]

    @cached_property
    def _of_kind(self) -> dict[tuple[str, str], list[Subject]]:
        """(kind, namespace) -> the manifests; the namespace is empty for kinds without one."""
        return _grouped(
            ((subject.kind, "" if subject.kind in UNSCOPED else subject.namespace or "default"), subject)
            for subject in self.subjects
        )

    def beside(self, subject: Subject, items: Iterable[TypedObject[T]]) -> list[T]:
        """The values of those that can be in one cluster with an object."""
        return [item.value for item in items if self.variants.together(subject, item.subject)]

    def _matching(self, namespace: str, selector: Selector) -> list[Workload]:
        fixed = next((r for r in selector.requirements if r.operator in (EQUALS, IN)), None)
        if fixed is None:
            candidates = self.by_namespace.get(namespace, [])
        else:
            candidates = [w for value in fixed.values for w in self._by_label.get((namespace, fixed.key, value), ())]
        return [workload for workload in candidates if selector.matches(workload.labels)]

    @cached_property
    def _by_label(self) -> dict[tuple[str, str, str], list[Workload]]:
        return _grouped(((w.namespace, key, value), w) for w in self.workloads for key, value in w.labels.items())

    def claims(self, workload: Workload) -> Iterator[tuple[int, api.PersistentVolumeClaim]]:
        """(index of the volume, claim) of the claims that a workload names, as far as they are known."""
        for i, volume in enumerate(workload.spec.volumes):
            if volume.persistent_volume_claim is not None:
                key = workload.namespace, volume.persistent_volume_claim.claim_name
                linted = self._linted_claims.get(key, ())
                beside = (i.value for i in linted if self.variants.together(i.subject, workload.subject))
                claim = next(beside, None) or self._claims.get(key)
                if claim is not None:
                    yield i, claim

    @cached_property
    def _linted_claims(self) -> dict[tuple[str, str], list[TypedObject[api.PersistentVolumeClaim]]]:
        claims = self.linted(api.PersistentVolumeClaim)
        return _grouped(((claim.subject.namespace or "default", claim.subject.name), claim) for claim in claims)

    @cached_property
    def _claims(self) -> dict[tuple[str, str], api.PersistentVolumeClaim]:
        """The claims of the cluster, by namespace and name."""
        claims = self.cluster.persistent_volume_claims if self.cluster else ()
        return {(c.metadata.namespace or "default", c.metadata.name): c for c in claims}


def _grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, in order."""
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _of_cluster(value: N) -> TypedObject[N]:
    return TypedObject(Subject(type(value).__name__, value.metadata.name, value.metadata.namespace), value)


def _gates_of(cluster: Cluster) -> FeatureGates:
    return FeatureGates(cluster.kube_version, cluster.feature_gates)
