"""A scheduler: its configuration, its plugins and the cluster that it looks at.

Upstream: pkg/scheduler/scheduler.go and pkg/scheduler/profile (v1.36).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import cached_property
from itertools import chain

from kschedctl.api.json_values import JsonObject, objects_at
from kschedctl.api.kube_version import VERIFIED_MINOR
from kschedctl.api.objects import Pod, PodSpec
from kschedctl.api.pod_requests import COMPARED_REQUESTS, Options
from kschedctl.cluster import Cluster
from kschedctl.scheduler.configuration.configuration import SchedulerConfiguration, load_configuration
from kschedctl.scheduler.configuration.profile import Profile
from kschedctl.scheduler.configuration.version_fields import (
    iter_ignored_cluster_fields,
    iter_ignored_groups_line,
    iter_ignored_pod_fields,
)
from kschedctl.scheduler.engine.cycle import Cycle, run_cycle
from kschedctl.scheduler.engine.extenders import CallExtender, HTTPExtender
from kschedctl.scheduler.engine.sampling import SampledFrom, Sampling
from kschedctl.scheduler.engine.unsure_nominations import ALL_COUNT, COUNTED
from kschedctl.scheduler.event_handling import (
    REJECTING_POINTS,
    EventHandlers,
    Registrations,
    collect_actions,
)
from kschedctl.scheduler.framework import Plugin, PreEnqueuePlugin, QueueSortPlugin, offers
from kschedctl.scheduler.framework.declaration import (
    Declaration,
    DeclaredPlugin,
    find_extension_points,
    find_irrelevant_kinds,
    list_kinds_read,
)
from kschedctl.scheduler.framework.dependencies import DoubtfulPlugin, Unknown, find_plugins_to_skip, find_unknowns
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.framework.version_changes import NotedChange, iter_release_note_unknowns
from kschedctl.scheduler.in_tree_plugins import IN_TREE, get_in_tree_plugins_for_gates
from kschedctl.scheduler.plugins.node_ports import SIDECAR_PORTS
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo
from kschedctl.snapshot.snapshot import Settings

WITHOUT_ANSWER = frozenset({"queueSort", "preBind", "bind", "postBind"})
"""Extension points whose plugins do not decide where a pod fits."""


class Framework:
    """A profile with its plugins.

    `enabled` are the names of the plugins that it runs. `missing` are the names of plugins that are not replayed
    although they could change an answer. `extenders` are the configuration's extenders.
    """

    def __init__(
        self,
        profile: Profile,
        gates: FeatureGates,
        declared: Mapping[str, Declaration],
        extenders: Sequence[HTTPExtender] = (),
    ) -> None:
        self.profile = profile
        self.release = gates.release
        self.extenders = tuple(extenders)
        enabled = profile.enabled_names.union(profile.foreign)
        plugins: dict[str, Plugin] = {}
        for name, declaration in declared.items():
            if name not in enabled or declaration.make is None:
                continue
            plugin = declaration.make(profile.args.get(name), gates)
            if plugin is not None:
                plugins[name] = plugin
        self.plugins: Mapping[str, Plugin] = plugins
        self.enabled = sorted(enabled)
        self.doubtful = [plugin for plugin in self.plugins.values() if offers(plugin, DoubtfulPlugin)]
        self.noted = tuple(_iter_noted_changes(self.plugins.values(), gates))
        self._reduced_frameworks: dict[frozenset[str], Framework] = {}
        self._plugins_by_point: dict[str, list[Plugin]] = {}
        absent = enabled - self.plugins.keys()
        missing = [name for name in absent if name not in declared or not declared[name].points <= WITHOUT_ANSWER]
        self.missing = sorted([*missing, *self._iter_unreplayed_plugin_points()])

    def _iter_unreplayed_plugin_points(self) -> Iterator[str]:
        """Yield `name at point` for each extension point at which a third-party plugin is enabled but not replayed.

        Points that do not affect answers are left out.
        """
        third_party = self.plugins.keys() - IN_TREE.keys()
        replayed_points = {name: find_extension_points(self.plugins[name]) for name in third_party}
        for point, names in self.profile.plugins.items():
            if point in WITHOUT_ANSWER:
                continue
            for name in names:
                if name in third_party and point not in replayed_points[name]:
                    yield f"{name} at {point}"

    def without_plugins(self, names: frozenset[str]) -> Framework:
        """Return the framework without these plugins, or itself if `names` is empty. Results are cached."""
        if not names:
            return self
        if names not in self._reduced_frameworks:
            reduced = self._copy()
            reduced.plugins = {name: plugin for name, plugin in self.plugins.items() if name not in names}
            self._reduced_frameworks[names] = reduced
        return self._reduced_frameworks[names]

    def with_plugin(self, plugin: Plugin) -> Framework:
        """Return a copy of the framework with this plugin instead of the plugin of the same name."""
        framework = self._copy()
        framework.plugins = {**self.plugins, plugin.name: plugin}
        return framework

    def without_extenders(self) -> Framework:
        """Return the framework with extenders that are never called, or itself if no extender is called anyway.

        Such a framework is used for cycles that upstream does not run. Each call builds a new framework.
        """
        if all(extender.call is None for extender in self.extenders):
            return self
        framework = self._copy()
        framework.extenders = tuple(
            HTTPExtender(extender.settings, extender.document, call=None) for extender in self.extenders
        )
        return framework

    def _copy(self) -> Framework:
        """Return a copy with empty caches. The caller then replaces its plugins or extenders."""
        framework = copy(self)
        framework._reduced_frameworks = {}
        framework._plugins_by_point = {}
        return framework

    def plugins_at(self, point: str) -> list[Plugin]:
        """Return the plugins of an extension point in order. The list is built once, and must not be changed."""
        plugins = self._plugins_by_point.get(point)
        if plugins is None:
            names = self.profile.plugins[point]
            plugins = self._plugins_by_point[point] = [self.plugins[name] for name in names if name in self.plugins]
        return plugins

    @property
    def rejecting_plugins(self) -> tuple[Plugin, ...]:
        """The plugins that can reject a pod. A plugin that runs at several extension points occurs once."""
        return tuple({plugin.name: plugin for point in REJECTING_POINTS for plugin in self.plugins_at(point)}.values())


class Scheduler:
    """Replays scheduling cycles on one snapshot. Raises ConfigurationError or InputError.

    `call_extender` calls extenders. Without it, they are not called. `sampled` is the start of searches that examine
    only part of the nodes. Without it, single cycles examine all nodes.
    """

    def __init__(
        self, cluster: Cluster, call_extender: CallExtender | None = None, sampled: SampledFrom | None = None
    ) -> None:
        self.cluster, self.call_extender, self.sampled = cluster, call_extender, sampled
        self.gates = FeatureGates(cluster.kube_version, cluster.feature_gates, cluster.version_mix)
        third_party = _find_registered_plugins(cluster) if cluster.configuration else {}
        self.configuration: SchedulerConfiguration = load_configuration(
            cluster.configuration, self.gates, third_party, other_builds=cluster.other_builds
        )
        self._frameworks: dict[str, Framework] = {}
        self._registrations: dict[str, Registrations] = {}
        self._enabled = {name for profile in self.configuration.profiles.values() for name in profile.enabled_names}
        enabled_third_party = {name: third_party[name] for name in sorted(self._enabled & third_party.keys())}
        self._declared: Mapping[str, Declaration] = {**get_in_tree_plugins_for_gates(self.gates), **enabled_third_party}

    @cached_property
    def extenders(self) -> tuple[HTTPExtender, ...]:
        """The extenders of the configuration, in the order in which they are called."""
        documents = sorted(objects_at(self.cluster.configuration, "extenders"), key=_is_ignorable)
        # The parsed extenders are sorted in the same way: upstream calls ignorable extenders last.
        return tuple(
            HTTPExtender(settings, document, self.call_extender)
            for settings, document in zip(self.configuration.extenders, documents, strict=True)
        )

    def list_kinds_read(self) -> tuple[str, ...]:
        """Return the kinds of objects that the plugins of the profiles read."""
        return list_kinds_read(
            (self._declared[name] for name in sorted(self._enabled & self._declared.keys())), self.gates
        )

    def find_irrelevant_kinds(self, specs: Iterable[PodSpec]) -> dict[str, str]:
        """Return the kinds that cannot affect any answer about these pods, each with the reason."""
        return find_irrelevant_kinds(self._declared.values(), specs)

    @cached_property
    def view(self) -> Fork:
        """The fork of the cluster's snapshot on which the plugins run, built with the scheduler's settings."""
        settings = build_snapshot_settings(self.gates, frozenset(self.configuration.profiles))
        # Older versions ignore the nominations of gated pods, so these pods have to be recognized.
        ignores_some_nominations = COUNTED.at(self.gates.release) != ALL_COUNT
        if ignores_some_nominations:
            settings = settings._replace(held_back=self._is_rejected_by_pre_enqueue)
        return Fork.from_cluster(self.cluster, settings)

    def _is_rejected_by_pre_enqueue(self, info: PodInfo, view: Fork) -> bool:
        """Return whether a PreEnqueue plugin of the pod's profile rejects the pod.

        Return False if no profile serves the pod.
        """
        framework = self.find_framework(info.spec.scheduler_name)
        plugins = framework.plugins_at("preEnqueue") if framework else ()
        return any(p.pre_enqueue(info, view).rejected for p in plugins if offers(p, PreEnqueuePlugin))

    def list_ignored_fields(self, specs: Iterable[PodSpec]) -> tuple[str, ...]:
        """Return a line for each field in use that the version does not store.

        A field is in use if one of these pods or another object of the cluster has it.
        """
        specs = tuple(specs)
        return (
            *iter_ignored_pod_fields(specs, self.gates),
            *iter_ignored_groups_line(specs, self.gates),
            *self._ignored_cluster_fields,
        )

    @cached_property
    def _ignored_cluster_fields(self) -> tuple[str, ...]:
        """A line for each kind that the version does not store.

        There is also a line for each such field of an object other than a pod.
        """
        return tuple(iter_ignored_cluster_fields(self.cluster, self.gates))

    def find_framework(self, scheduler_name: str) -> Framework | None:
        """Return the framework of the profile with this schedulerName, or None if there is no such profile.

        The framework is built on first use.
        """
        if scheduler_name not in self._frameworks and scheduler_name in self.configuration.profiles:
            profile = self.configuration.profiles[scheduler_name]
            self._frameworks[scheduler_name] = Framework(profile, self.gates, self._declared, self.extenders)
        return self._frameworks.get(scheduler_name)

    @cached_property
    def queue_sort(self) -> QueueSortPlugin | None:
        """The plugin that orders the queue, or None for PrioritySort and for a plugin that is not replayed.

        All profiles have the same QueueSort plugin, so the first profile decides.
        """
        first = self.find_framework(next(iter(self.configuration.profiles)))
        plugins = first.plugins_at("queueSort") if first else []
        return next((plugin for plugin in plugins if offers(plugin, QueueSortPlugin)), None)

    def get_registrations(self, scheduler_name: str) -> Registrations:
        """Return the events for which the plugins of a profile registered, collected on first use.

        There are none if the profile does not exist.
        """
        if scheduler_name not in self._registrations:
            framework = self.find_framework(scheduler_name)
            plugins = framework.rejecting_plugins if framework else ()
            self._registrations[scheduler_name] = Registrations(plugins, self.gates, extended=bool(self.extenders))
        return self._registrations[scheduler_name]

    @cached_property
    def event_handlers(self) -> EventHandlers:
        """The handlers that turn changes into events for which some plugin of a profile registered."""
        profiles = frozenset(self.configuration.profiles)
        actions = collect_actions(map(self.get_registrations, sorted(profiles)))
        slices, classes = self.cluster.resource_slices, self.cluster.device_classes
        requests = self.view.settings.requests
        return EventHandlers(actions, profiles, self.gates, requests, slices=slices, classes=classes)

    def find_framework_for(self, info: PodInfo, view: Fork) -> tuple[Framework | None, tuple[Unknown, ...]]:
        """Return the framework to schedule a pod with, and the facts about the pod that remain unknown.

        The framework leaves out plugins that would answer wrongly because required objects were not read. If no profile
        has the pod's schedulerName, return None and no unknowns.
        """
        framework = self.find_framework(info.spec.scheduler_name)
        if framework is None:
            return None, ()
        if not (framework.extenders or framework.doubtful or framework.noted or view.objects.gaps):
            return framework, ()

        # Collect what extenders, plugins and release notes leave unknown.
        extender_unknowns = chain.from_iterable(extender.iter_unknowns(info.pod) for extender in framework.extenders)
        unknowns = list(dict.fromkeys(extender_unknowns))
        for plugin in framework.doubtful:
            unknowns += plugin.iter_unknowns(info, view)
        unknowns += iter_release_note_unknowns(framework.noted, info, view)
        if not view.objects.gaps:
            return framework, tuple(unknowns)

        # Leave out the plugins that would reject nodes falsely because of unread objects.
        unknowns += find_unknowns(framework.plugins.values(), info, view)
        return framework.without_plugins(find_plugins_to_skip(unknowns)), tuple(unknowns)

    def start_sampling(self) -> Sampling | None:
        """Start the node sampling of a single cycle, or return None if all nodes are examined."""
        return self.sampled.start_sampling(self.configuration, len(self.view.nodes)) if self.sampled else None

    def run_cycle(self, framework: Framework, pod: Pod) -> Cycle:
        """Run one scheduling cycle for a pod as the API server stores it. The pod need not be in the cluster."""
        return run_cycle(framework, PodInfo(pod, self.view.settings.requests), self.view)


def _iter_noted_changes(plugins: Iterable[Plugin], gates: FeatureGates) -> Iterator[NotedChange]:
    """Yield the plugins' changes that are known only from release notes and apply to this version.

    A version whose source was read has no such changes.
    """
    if gates.minor > VERIFIED_MINOR:
        declared = (plugin for plugin in plugins if isinstance(plugin, DeclaredPlugin))
        yield from (change for plugin in declared for change in plugin.list_noted_changes() if change.applies(gates))


def _is_ignorable(extender: JsonObject) -> bool:
    """Return whether an extender in the document is ignorable."""
    return bool(extender.get("ignorable"))


def _find_registered_plugins(cluster: Cluster) -> Mapping[str, Declaration]:
    """Return the plugins that are not in-tree but that a configuration may name."""
    from kschedctl.scheduler.third_party_plugins import find_registered_plugins  # noqa: PLC0415 - for few clusters

    return find_registered_plugins(other_builds=cluster.other_builds)


def build_snapshot_settings(gates: FeatureGates, profile_names: frozenset[str]) -> Settings:
    """Build the settings of a snapshot from the feature gates and the names of the scheduler's profiles."""
    uses_label_keys = gates.enabled("MatchLabelKeysInPodTopologySpread")
    merges_into_selector = gates.enabled("MatchLabelKeysInPodTopologySpreadSelectorMerge")
    return Settings(
        profile_names,
        Options(
            use_status=gates.enabled("InPlacePodVerticalScaling"),
            pod_level=gates.enabled("PodLevelResources"),
            pod_level_resize=gates.enabled("InPlacePodLevelResourcesVerticalScaling"),
            dra_node_allocatable=gates.enabled("DRANodeAllocatableResources"),
            sidecar_ports=SIDECAR_PORTS.at(gates.release),
            compared_requests=COMPARED_REQUESTS.at(gates.release),
        ),
        merge_affinity_label_keys=gates.enabled("MatchLabelKeysInPodAffinity"),
        merge_spread_label_keys=uses_label_keys and merges_into_selector,
        migrates_portworx=gates.enabled("CSIMigrationPortworx"),
        groups_of_groups=gates.enabled("CompositePodGroup"),
        policies_of_groups=gates.enabled("PodGroupPreemptionPolicy"),
    )
