"""Plugins from outside kube-scheduler: from kubernetes-sigs/scheduler-plugins and from other installed packages.

A profile can name a plugin of scheduler-plugins only in a scheduler build that contains them (upstream:
cmd/scheduler/main.go of kubernetes-sigs/scheduler-plugins). Plugins of other packages are built when a profile enables
them, and guarded: they may raise what the protocols of kschedctl/scheduler/framework allow, and any other error becomes
a ThirdPartyError that names the package. What they print goes to stderr, since stdout is for answers.
"""

from __future__ import annotations

import os
import sys
from collections import ChainMap
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import lru_cache, partial
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, get_args

import msgspec
import numpy as np

from kschedctl.api.copying import replace
from kschedctl.api.objects import Struct
from kschedctl.cluster import FIELDS
from kschedctl.errors import ConfigurationError, ThirdPartyError
from kschedctl.scheduler.engine.permit import MAX_TIMEOUT_SECONDS
from kschedctl.scheduler.engine.reserve import RESERVED_KINDS
from kschedctl.scheduler.framework import (
    REJECTIONS,
    Changes,
    Code,
    Peers,
    Plugin,
    PluginError,
    PostFilterResult,
    PreFilterResult,
    PreScoreResult,
    Reads,
    Rejection,
    Reservation,
    Status,
    get_answer_dependency,
    get_peers,
)
from kschedctl.scheduler.framework.declaration import (
    EXTENSION_POINTS,
    Declaration,
    DeclaredPlugin,
    PluginClass,
    find_extension_points,
)
from kschedctl.scheduler.framework.dependencies import Dependency, Effect
from kschedctl.scheduler.framework.events import RESOURCES, ClusterEventWithHint, HintFunction
from kschedctl.scheduler.framework.feature_gates import FeatureGates
from kschedctl.scheduler.in_tree_plugins import IN_TREE, AnyFact
from kschedctl.scheduler.scheduler_plugins.capacity_scheduling import CapacityScheduling
from kschedctl.scheduler.scheduler_plugins.coscheduling import Coscheduling
from kschedctl.scheduler.scheduler_plugins.node_resource_topology_match import NodeResourceTopologyMatch
from kschedctl.scheduler.scheduler_plugins.node_resources_allocatable import NodeResourcesAllocatable
from kschedctl.snapshot.fork import Fork
from kschedctl.snapshot.pod_info import PodInfo

Texts = TypeVar("Texts", bound=Iterable[object])
Method = Callable[..., Any]
"""A method of a plugin, which may return anything."""
ENTRY_POINTS = "kschedctl.plugins"
"""The entry-point group: name -> a class with the declarations of `DeclaredPlugin`, derived from it or not, or a
factory with these attributes. Without a `make`, the target itself is called with the arguments of `make`.
"""

RESULT_TYPES: Mapping[str, type] = {
    "pre_enqueue": Status,
    "pre_filter": PreFilterResult,
    "post_filter": PostFilterResult,
    "pre_score": PreScoreResult,
    "reservation": Reservation,
    "permit": Status,
}
"""Method of a plugin -> the type of its result. Methods that yield or map values have checks of their own."""
FILTER_REJECTIONS = frozenset({Code.UNSCHEDULABLE, Code.UNRESOLVABLE})
"""The codes of rejections by PreFilter and Filter, at which Pending is not replayed."""
CODES: Mapping[str, frozenset[Code]] = {
    "pre_enqueue": REJECTIONS | {Code.SUCCESS},
    "pre_filter": FILTER_REJECTIONS | {Code.SUCCESS, Code.SKIP},
    "filter": FILTER_REJECTIONS | {Code.ERROR},
    "post_filter": REJECTIONS | {Code.SUCCESS},
    "permit": REJECTIONS | {Code.SUCCESS, Code.WAIT},
}
"""Method -> the codes that its statuses or rejections may have. Other failures must be raised as PluginErrors."""
NO_ERRORS = frozenset({"", "pre_enqueue", "events_to_register", "fact", "dependencies", "release", "reservation"})
"""The methods that may not raise PluginError. An empty name stands for building the plugin."""
SCORES = {"score": 3, "normalize": 1}
"""Method that returns scores -> the index of the argument with the same length."""


class ThirdPartyPlugins(Mapping[str, Declaration]):
    """The registered plugins by name. Each is loaded when it is looked up, which may raise ThirdPartyError."""

    def __init__(self, points: Mapping[str, EntryPoint]) -> None:
        self._points = points
        self._declared: dict[str, Declaration] = {}

    def __getitem__(self, name: str) -> Declaration:
        if name not in self._declared:
            self._declared[name] = _load_declaration(self._points[name])
        return self._declared[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._points)

    def __len__(self) -> int:
        return len(self._points)


def find_third_party_plugins() -> ThirdPartyPlugins:
    """Return the plugins that packages installed on this machine register.

    Raises ConfigurationError if a name is taken by an in-tree plugin or by another package, as kube-scheduler's
    registry does.
    """
    # Modification times are part of the key of the cache, so that newly installed packages are found.
    search_paths = tuple((path, _get_modification_time(path)) for path in sys.path)
    points: dict[str, EntryPoint] = {}
    for point in find_entry_points(search_paths):
        # Equal entry points are one package that is on the path twice.
        is_from_other_package = point.name in points and points[point.name] != point
        if point.name in IN_TREE or is_from_other_package:
            raise ConfigurationError(f"a plugin named {point.name} already exists", where=_describe_package(point))
        points[point.name] = point
    return ThirdPartyPlugins(points)


@lru_cache(maxsize=8)
def find_entry_points(paths: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return the plugins' entry points sorted by package, cached until the search paths change.

    Searching all packages takes about 5 ms, and each Scheduler with a configuration needs the result.
    """
    return tuple(sorted(entry_points(group=ENTRY_POINTS), key=_describe_package))


def _get_modification_time(path: str) -> int:
    """Return the time in ns at which the entries of a folder last changed, or 0 if the folder cannot be read.

    An empty path is the current folder.
    """
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return 0


def _describe_package(point: EntryPoint) -> str:
    """Return the name and version of the entry point's package, or its module if the package is unknown."""
    if point.dist is None:
        return f"module {point.module}"
    return f"package {point.dist.name} {point.dist.version}"


def _load_declaration(point: EntryPoint) -> Declaration:
    """Load a plugin's declaration without building the plugin.

    The declaration's `make` builds the plugin, guarded so that its errors become ThirdPartyErrors. `make` is None if
    none of the plugin's extension points is replayed. Raises ThirdPartyError if the declaration cannot be loaded or is
    invalid.
    """
    plugin_label = f'plugin "{point.name}" of {_describe_package(point)}'
    load_guarded = _guard_method(_load_declared_target, f"{plugin_label} cannot be loaded")
    declaration: Declaration
    target: Any
    declaration, target = load_guarded(point)
    if not any(EXTENSION_POINTS[name].methods for name in declaration.points):
        return declaration

    def make(args: object, gates: FeatureGates) -> Plugin | None:
        """Build the plugin with guarded methods, or return None if the target builds none.

        Raises TypeError if the plugin runs at undeclared points.
        """
        plugin = getattr(target, "make", target)(args, gates)
        if plugin is None:
            return None
        undeclared = find_extension_points(plugin) - declaration.points
        if undeclared:
            raise TypeError(f"it runs at {', '.join(sorted(undeclared))}, which it does not declare")
        return _guard_plugin(plugin, declaration, plugin_label)

    return replace(declaration, make=_guard_method(make, f"{plugin_label} cannot be built"))


def _load_declared_target(point: EntryPoint) -> tuple[Declaration, object]:
    """Load the target of an entry point, and return its declaration and the target.

    The declaration has no `make` function yet: the caller adds it. Raises TypeError if the target implements a point
    only in part, never runs, or declares unknown names or a wrong args_type.
    """
    target = point.load()
    points = _read_names(target, "points", EXTENSION_POINTS) | find_extension_points(target)
    error = _describe_incomplete_point(target)
    if error:
        raise TypeError(error)
    if not points:
        raise TypeError("it never runs: it implements no extension point and declares none")

    kinds = tuple(sorted(_read_names(target, "kinds", FIELDS)))
    args_type = getattr(target, "args_type", DeclaredPlugin.args_type)
    if args_type is not None:
        if not issubclass(args_type, msgspec.Struct):
            raise TypeError(f"args_type is {args_type.__name__}, not a msgspec.Struct")
        msgspec.inspect.type_info(args_type)  # raises TypeError for a field of an unsupported type
    return Declaration(point.name, points, kinds=kinds, args_type=args_type), target


def _describe_incomplete_point(target: object) -> str:
    """Return an error if the plugin implements an extension point only in part, otherwise an empty string."""
    for name, point in EXTENSION_POINTS.items():
        missing = [method for method in point.methods if not callable(getattr(target, method, None))]
        if 0 < len(missing) < len(point.methods):
            present = ", ".join(method for method in point.methods if method not in missing)
            return f"it has {present}, but not {', '.join(missing)}: {name} needs {', '.join(point.methods)}"
    return ""


def _read_names(target: object, attribute: str, allowed_names: Collection[str]) -> frozenset[str]:
    """Return the names that an attribute of the plugin declares. Without the attribute, there are none.

    Raises TypeError for unknown names, and for a string instead of a collection.
    """
    names = getattr(target, attribute, ())
    unknown = [names] if isinstance(names, str) else sorted(set(names) - set(allowed_names))
    if unknown:
        raise TypeError(f"{attribute} has unknown names: {', '.join(unknown)}")
    return frozenset(names)


def _guard_plugin(plugin: Plugin, declared: Declaration, plugin_label: str) -> Plugin:
    """Build a plugin with the registered name that calls `plugin`, checks its results and guards against its errors.

    If the plugin has no `dependencies` method, its answers depend on all kinds that it declares.
    """
    checks: dict[str, Method] = {method: _build_result_check(method) for method in RESULT_TYPES}
    checks |= {method: _build_score_check(nodes_index) for method, nodes_index in SCORES.items()}
    checks["dependencies"] = _check_dependencies
    checks["reserve"] = _check_changes
    checks["release"] = _check_changes
    checks["events_to_register"] = partial(_check_and_guard_events, plugin_label)
    checks["filter"] = partial(_check_and_guard_rejections, plugin_label)

    # Guard the methods that the plugin has.
    methods: dict[str, Method] = {}
    for method, check in checks.items():
        function = getattr(plugin, method, None)
        if callable(function):
            methods[method] = _guard_method(_add_check(function, check), f"{plugin_label} fails in {method}", method)
    if "dependencies" not in methods:
        declared_kinds = [Dependency(kind, Effect.EITHER) for kind in declared.kinds]
        methods["dependencies"] = lambda info, view: iter(declared_kinds)

    # Which methods a plugin has decides where it runs, so it gets a class of its own with only these methods.
    members = {method: staticmethod(function) for method, function in methods.items()}
    guarded_plugin: Plugin = type(declared.name, (), {**members, **_collect_declarations(plugin, declared)})()
    return guarded_plugin


def _collect_declarations(plugin: Plugin, declared: Declaration) -> dict[str, object]:
    """Return the attributes by which the guarded plugin declares its name, its dependencies and its Permit timeout."""
    peers = Peers(get_peers(plugin))
    if peers is Peers.DOMAINS:
        peers = Peers.ALL  # DOMAINS needs methods that are not passed on
    return {
        "name": declared.name,
        "reads": Reads(get_answer_dependency(plugin)),
        "peers": peers,
        "permit_timeout": int(getattr(plugin, "permit_timeout", MAX_TIMEOUT_SECONDS)),
    }


def _guard_method(method: Method, failure: str, name: str = "") -> Method:
    """Wrap a method so that its errors become ThirdPartyErrors that begin with `failure`.

    If the method with this `name` may raise PluginError, that error is passed on unchanged. What the method prints goes
    to stderr.
    """
    passed_on = ThirdPartyError if name in NO_ERRORS else PluginError

    def call(*arguments: object) -> object:
        """Call the method with its output on stderr. Raises ThirdPartyError for unexpected errors."""
        try:
            with redirect_stdout(sys.stderr):
                return method(*arguments)
        except passed_on:
            raise
        except (Exception, SystemExit) as fault:
            raise ThirdPartyError(f"{failure}: {type(fault).__name__}: {fault}") from fault

    return call


def _add_check(method: Method, check: Method) -> Method:
    """Wrap a method so that `check` converts its result.

    `check` is called with the result, followed by the method's arguments.
    """
    return lambda *arguments: check(method(*arguments), *arguments)


def _build_result_check(method: str) -> Method:
    """Build a function that checks a result of the plugin's `method` and returns it.

    The function raises TypeError for a wrong type, code, reason or node name. Node names are returned as a frozenset.
    """
    expected_type = RESULT_TYPES[method]

    def check(result: object, *_: object) -> object:
        """Return the result. Raises TypeError if it is invalid."""
        if not isinstance(result, expected_type):
            raise TypeError(f"it returned {type(result).__name__}, not {expected_type.__name__}")
        status = getattr(result, "status", result)
        if isinstance(status, Status):
            _check_code_and_reasons(method, status.code, status.reasons)
        if isinstance(result, PreFilterResult) and result.node_names is not None:
            names = result.node_names
            if not isinstance(names, str):  # a string would be split into letters
                names = frozenset(names)
            _check_strings(names, "node_names")
            result = result._replace(node_names=names)
        return result

    return check


def _check_code_and_reasons(method: str, code: object, reasons: Iterable[object]) -> None:
    """Raise TypeError if the method must not return this code or if a reason is not a string."""
    if not isinstance(code, Code) or code not in CODES[method]:
        allowed_codes = ", ".join(sorted(CODES[method]))
        raise TypeError(
            f"it returned code {code!s:.80}, not one of {allowed_codes}; to report a failure, raise PluginError"
        )
    _check_strings(reasons, "reasons")


def _check_strings(texts: Iterable[object], description: str) -> None:
    """Raise TypeError unless all items are strings. A single string is an error, too."""
    if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
        raise TypeError(f"its {description} are {texts!r:.80}, not a collection of strings")


def _build_score_check(nodes_index: int) -> Method:
    """Build a function that checks scores and returns them.

    `nodes_index` is the index of the method's argument that lists the nodes. The function raises TypeError unless there
    is one integer for each of these nodes.
    """

    def check(column: object, *arguments: Any) -> object:
        """Return the scores. Raises TypeError if they are invalid."""
        nodes = len(arguments[nodes_index])
        if not _is_column(column, nodes, "i"):
            raise TypeError(f"it returned {_describe_value(column)}, not one integer for each of {nodes} nodes")
        return column

    return check


def _check_and_guard_rejections(
    plugin_label: str, answer: Iterable[Rejection] | None, info: PodInfo, view: Fork, *_: object
) -> Iterator[Rejection]:
    """Check the rejections of a plugin's Filter, and wrap each fact so that its errors name the plugin.

    `answer` is the method's result, where None counts as no rejections. The parameters after it are the method's
    arguments. Raises TypeError for an invalid rejection.
    """
    rejections = list(answer or ())
    nodes = len(view.nodes)
    for rejection in rejections:
        if not isinstance(rejection, Rejection):
            raise TypeError(f"it yields {type(rejection).__name__}, not Rejection")
        if not _is_column(rejection.mask, nodes, "b"):
            raise TypeError(f"its mask is {_describe_value(rejection.mask)}, not one boolean for each of {nodes} nodes")
        if rejection.distance is not None and not _is_column(rejection.distance, nodes, "f"):
            raise TypeError(
                f"its distance is {_describe_value(rejection.distance)}, not one float for each of {nodes} nodes"
            )
        _check_code_and_reasons("filter", rejection.code, (rejection.reason,))
        if rejection.fact is not None and not callable(rejection.fact):
            raise TypeError(f"its fact is {_describe_value(rejection.fact)}, not a function of the row")
    return (_guard_fact(rejection, plugin_label) for rejection in rejections)


def _guard_fact(rejection: Rejection, plugin_label: str) -> Rejection:
    """Return the rejection with a fact function that is safe to call, or unchanged if it has no fact function.

    The safe function checks the result of the plugin's function, and reports exceptions as errors of the plugin.
    """
    if rejection.fact is None:
        return rejection
    guarded = _guard_method(_add_check(rejection.fact, _check_fact), f"{plugin_label} fails in a fact", "fact")
    return rejection._replace(fact=guarded)


def _is_column(value: object, nodes: int, kind: str) -> bool:
    """Return whether a value is an array of one entry per node, of numpy's dtype `kind` "b", "i" or "f"."""
    return isinstance(value, np.ndarray) and (value.shape, value.dtype.kind) == ((nodes,), kind)


def _check_fact(value: object, *_: object) -> object:
    """Return the value. Raises TypeError unless it is a fact, text or None."""
    if not isinstance(value, (str, type(None), *get_args(AnyFact))):
        raise TypeError(f"it returned {type(value).__name__}, not text")
    return value


def _check_dependencies(answer: Iterable[Dependency], *_: object) -> Iterator[Dependency]:
    """Check the items that a plugin's `dependencies` method returned, and return them as an iterator.

    Raises TypeError for an item that is not a Dependency. The method's arguments are passed, too, and ignored.
    """
    dependencies = list(answer)  # check all items here, so that the error is raised while the plugin is called
    for dependency in dependencies:
        if not isinstance(dependency, Dependency):
            raise TypeError(f"it yields {type(dependency).__name__}, not Dependency")
    return iter(dependencies)


def _check_and_guard_events(
    plugin_label: str, answer: Iterable[ClusterEventWithHint] | None, *_: object
) -> Iterator[ClusterEventWithHint]:
    """Check the events that a plugin registers, and return them with guarded hints.

    Raises TypeError for an invalid event. None counts as no events. The method's arguments are passed, too, and
    ignored.
    """
    events = list(answer or ())
    for event in events:
        if not isinstance(event, ClusterEventWithHint) or event.kind not in RESOURCES:
            raise TypeError(f"it registers {event!r:.80}, not a ClusterEventWithHint of {', '.join(RESOURCES)}")
    return iter([event._replace(hint=_guard_hint(event.hint, plugin_label)) for event in events])


def _guard_hint(hint: HintFunction | None, plugin_label: str) -> HintFunction | None:
    """Wrap a queueing hint so that its errors name the plugin and its result is a bool.

    Return None if there is no hint.
    """
    if hint is None:
        return None
    guarded = _guard_method(hint, f"{plugin_label} fails in a hint", "hint")
    return lambda *arguments: bool(guarded(*arguments))


def _check_changes(by_kind: object, *_: object) -> Changes:
    """Check the changes that a plugin's `reserve` or `release` method returned, and return them by kind.

    Raises TypeError unless they are API objects of kinds that can be reserved. The method's arguments are passed, too,
    and ignored.
    """
    if not isinstance(by_kind, Mapping):
        raise TypeError(f"it returned {_describe_value(by_kind)}, not a mapping of kinds to objects")
    other_kinds = sorted(map(str, by_kind.keys() - RESERVED_KINDS))
    if other_kinds:
        raise TypeError(f"it changes {', '.join(other_kinds)}, not one of {', '.join(sorted(RESERVED_KINDS))}")
    for objects in by_kind.values():
        for obj in objects:
            if not isinstance(obj, Struct):
                raise TypeError(f"it changes {type(obj).__name__}, which is not an object of kschedctl.api.objects")
    return by_kind


def _describe_value(value: object) -> str:
    """Return the name of a value's type, or the dtype and shape of an array."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    return type(value).__name__


REPLAYED: tuple[PluginClass, ...] = (
    CapacityScheduling,
    Coscheduling,
    NodeResourcesAllocatable,
    NodeResourceTopologyMatch,
)
"""The replayed plugins. None of them runs unless a profile names it."""

_POINTS = {
    "LoadVariationRiskBalancing": "score",
    "LowRiskOverCommitment": "preScore score",
    "TargetLoadPacking": "score",
    "Peaks": "score",
    "NetworkOverhead": "preFilter filter score",
    "TopologicalSort": "queueSort",
    "NodeMetadata": "score",
    "PreemptionToleration": "postFilter",
    "SySched": "score",
    "PodState": "score",
    "QOSSort": "queueSort",
}
"""Plugins that are not replayed -> where they run. Some of them read the load of nodes, which is not recorded."""

SCHEDULER_PLUGINS: Mapping[str, Declaration] = {
    **{plugin.name: Declaration.from_class(plugin) for plugin in REPLAYED},
    **{name: Declaration(name, frozenset(points.split())) for name, points in _POINTS.items()},
}


def find_registered_plugins(*, other_builds: bool) -> Mapping[str, Declaration]:
    """Return the plugins of installed packages and, with `other_builds`, also the plugins of scheduler-plugins.

    A package's plugin takes precedence over the plugin of the same name in scheduler-plugins. Raises ConfigurationError
    if a package's plugin has a name that is taken in-tree or by another package.
    """
    installed = find_third_party_plugins()
    if not other_builds:
        return installed
    return ChainMap(installed, SCHEDULER_PLUGINS)  # type: ignore[arg-type]  # nothing is written
