"""The options that commands share, in groups that a command takes as parameters.

A metavar also tells shell completion what a value is: `FILE` for files, `a|b|c` for these words.
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast, get_args, get_type_hints

import typer

from kschedctl.api.copying import replace
from kschedctl.api.json_values import JsonObject
from kschedctl.api.kube_version import KUBE_VERSION, NEWEST_MINOR, OLDEST_MINOR, KubeVersion
from kschedctl.cli.main import build_command_line
from kschedctl.cli.output_options import Answer
from kschedctl.errors import UsageError
from kschedctl.scheduler.framework.feature_gates import BOOLEANS

if TYPE_CHECKING:
    from kschedctl.sources.builds.build import Build


@dataclass(frozen=True)
class Builds:
    """Options that choose which kustomizations and charts are built."""

    kustomize: Annotated[
        bool,
        typer.Option(
            "--kustomize",
            help="Build the kustomizations in the input with kustomize or kubectl; with --helm, also render their "
            "charts.",
        ),
    ] = False
    helm: Annotated[bool, typer.Option("--helm", help="Render Helm charts in the input with helm template.")] = False
    values: Annotated[
        list[str],
        typer.Option(
            "--values", metavar="FILE", help="With --helm: values file for helm template. Repeatable; later files win."
        ),
    ] = field(default_factory=list)

    def find_builds(self, files: Sequence[str], kube_version: str) -> list[Build]:
        """Find the builds to run for the files.

        Raises UsageError if options are missing or contradict each other, or if a program is not installed.
        """
        if self.values and not self.helm:
            raise UsageError("--values needs --helm")
        builds: list[Build] = []
        if self.kustomize:
            from kschedctl.sources.builds.kustomize import find_kustomize_builds  # noqa: PLC0415 - few ask for it

            builds += find_kustomize_builds(files, with_helm=self.helm)
        if self.helm:
            from kschedctl.sources.builds.helm import find_helm_renders  # noqa: PLC0415 - few ask for it

            builds += find_helm_renders(files, self.values, kube_version)
        return builds


LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)
"""Log level by the number of `-v` options."""
DEFAULT_NAMESPACE = "default"

Result = TypeVar("Result")


def set_verbosity(verbose: int, quiet: bool) -> None:
    """Set the log level: errors only if `quiet`, else by the number of `-v` options."""
    level = logging.ERROR if quiet else LEVELS[min(verbose, 2)]
    logging.getLogger("kschedctl").setLevel(level)


def _check_version(version: str | None) -> str | None:
    """Return the version unchanged, or None without one. Raise ConfigurationError if it is not supported."""
    if version is not None:
        KubeVersion.parse_supported(version)
    return version


FeatureGatesOption = Annotated[
    list[str],
    typer.Option(
        "--feature-gates",
        metavar="GATE=BOOL,…",
        help="Set feature gates of kube-scheduler, such as GangScheduling=true.",
    ),
]
KubeVersionOption = Annotated[
    str | None,
    typer.Option(
        "--kube-version",
        metavar="VERSION",
        help=f"Version of kube-scheduler to replay: 1.{OLDEST_MINOR} to 1.{NEWEST_MINOR}, or a patch release such as "
        f"1.34.1.  [default: the cluster's, else {KUBE_VERSION}]",
        callback=_check_version,
    ),
]
AdmissionPluginsOption = Annotated[
    list[str],
    typer.Option(
        "--admission-plugins",
        metavar="NAME,…",
        help="Admission plugins that kube-apiserver enables in addition to its defaults.",
    ),
]
KubeconfigOption = Annotated[
    str | None,
    typer.Option(
        "--kubeconfig",
        metavar="FILE",
        help="Kubeconfig file for the live cluster.  [default: $KUBECONFIG, else ~/.kube/config]",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option("--context", metavar="NAME", help="Kubeconfig context to use.  [default: the current context]"),
]


class Truth(StrEnum):
    """The values of an option that defaults to true."""

    TRUE = "true"
    FALSE = "false"


@dataclass(frozen=True)
class Source(Builds):
    """Options that name the cluster and its scheduler."""

    filename: Annotated[
        list[str],
        typer.Option(
            "-f",
            "--filename",
            metavar="FILE",
            help="File, folder or - (stdin) with Kubernetes objects in JSON or YAML. Repeatable.",
        ),
    ] = field(default_factory=list)
    recursive: Annotated[bool, typer.Option("-R", "--recursive", help="Also read the files in subfolders.")] = False
    assume_complete: Annotated[
        bool,
        typer.Option("--assume-complete", help="Treat the files as the whole cluster: no other objects exist."),
    ] = False
    demo: Annotated[bool, typer.Option("--demo", help="Use the built-in demo cluster instead of a real one.")] = False
    config: Annotated[
        str | None,
        typer.Option(
            "--config",
            metavar="FILE",
            help="Replay the scheduler with the KubeSchedulerConfiguration in this file.  "
            "[default: Kubernetes' defaults]",
        ),
    ] = None
    feature_gates: FeatureGatesOption = field(default_factory=list)
    kube_version: KubeVersionOption = None
    admission_plugins: AdmissionPluginsOption = field(default_factory=list)
    snapshot: Annotated[
        list[str],
        typer.Option(
            "--snapshot",
            metavar="FILE",
            help="Read the cluster from a file written by kschedctl snapshot save.",
        ),
    ] = field(default_factory=list)
    kubeconfig: KubeconfigOption = None
    context: ContextOption = None
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="NAME", help="Kubeconfig cluster to use.  [default: the context's]"),
    ] = None
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="Kubeconfig user to use.  [default: the context's]")
    ] = None
    as_user: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="User to impersonate in requests to the API server.")
    ] = None
    as_group: Annotated[
        list[str],
        typer.Option(
            "--as-group",
            metavar="NAME",
            help="Group to impersonate in requests to the API server. Repeatable.",
        ),
    ] = field(default_factory=list)
    request_timeout: Annotated[
        str | None,
        typer.Option(
            "--request-timeout",
            metavar="DURATION",
            help="Time limit for each API request or list, such as 30s. 0 means no limit.",
        ),
    ] = None
    assume_namespaces: Annotated[
        Truth,
        typer.Option(
            "--assume-namespaces",
            metavar="true|false",
            help="Assume that the namespaces of the manifests exist even if the cluster lacks them. Nothing is "
            "created.",
        ),
    ] = Truth.TRUE
    cache: Annotated[
        bool,
        typer.Option(
            "--cache", help="Cache the objects of the live cluster on disk, and read only their changes next time."
        ),
    ] = False

    @property
    def live(self) -> bool:
        """True if the cluster is a live one, because no other source is named."""
        return not (self.filename or self.demo or self.snapshot)

    def list_live_only_options(self) -> list[str]:
        """List the given options that matter only if the cluster is read from an API server."""
        given = {
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--cluster": self.cluster,
            "--user": self.user,
            "--as": self.as_user,
            "--as-group": self.as_group,
            "--request-timeout": self.request_timeout,
            "--cache": self.cache,
        }
        return [option for option, value in given.items() if value]

    def builds(self, files: Sequence[str]) -> list[Build]:
        """Find the builds to run for the files. Raises UsageError if an option or a program is missing."""
        return self.find_builds(files, self.kube_version or "")

    @property
    def title(self) -> str:
        """The name of the cluster for people: of the context, the snapshots or the files."""
        names = [*self.snapshot, *("standard input" if name == "-" else name for name in self.filename)]
        return "demo" if self.demo else ", ".join(names) or self.context or self.cluster or "current context"

    def build_command(
        self, command: str, *arguments: str | Iterable[str], options: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Build a command about the same cluster, or () if a part of the cluster came from standard input."""
        if "-" in (*self.filename, *self.snapshot, self.config):
            return ()
        return (build_command_line(command, *arguments, self.to_cli_options(), options),)

    def build_whatif_command(self, scenario: JsonObject, options: Iterable[str]) -> tuple[str, ...]:
        """Build the `whatif` command for a scenario, or () if a part of the cluster came from standard input."""
        return self.build_command("whatif", json.dumps(scenario, ensure_ascii=False), options)

    def to_cli_options(self) -> list[str]:
        """Return the command-line options that select this cluster and scheduler."""
        repeated = {
            "-f": self.filename,
            "--snapshot": self.snapshot,
            "--values": self.values,
            "--as-group": self.as_group,
        }
        switches = {
            "--kustomize": self.kustomize,
            "--helm": self.helm,
            "-R": self.recursive,
            "--demo": self.demo,
            "--assume-complete": self.assume_complete,
            "--cache": self.cache,
            "--assume-namespaces=false": self.assume_namespaces is Truth.FALSE,
        }
        single = {
            "--config": self.config,
            "--feature-gates": ",".join(self.feature_gates),
            "--kube-version": self.kube_version,
            "--admission-plugins": ",".join(self.admission_plugins),
            "--kubeconfig": self.kubeconfig,
            "--context": self.context,
            "--cluster": self.cluster,
            "--user": self.user,
            "--as": self.as_user,
            "--request-timeout": self.request_timeout,
        }
        arguments = [word for option, values in repeated.items() for value in values for word in (option, value)]
        arguments += [option for option, is_set in switches.items() if is_set]
        arguments += [word for option, value in single.items() if value for word in (option, value)]
        return arguments


_POD_HELP = "Pod or workload: NAME, pod/NAME, NAMESPACE/NAME, deploy/NAME, sts/NAME, job/NAME, …"
PodArgument = Annotated[list[str] | None, typer.Argument(metavar="[POD]", help=_POD_HELP)]
PodsArgument = Annotated[list[str] | None, typer.Argument(metavar="[POD]…", help=_POD_HELP)]


@dataclass(frozen=True)
class Scope:
    """Options that choose pods."""

    namespace: Annotated[
        str | None, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace of the pods.  [default: default]")
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("-A", "--all-namespaces", help="Include the pods of all namespaces.")
    ] = False
    selector: Annotated[
        str | None,
        typer.Option(
            "-l",
            "--selector",
            metavar="SELECTOR",
            help="Select only pods that match this label selector, such as app=web.",
        ),
    ] = None
    scheduler_name: Annotated[
        str | None,
        typer.Option("--scheduler-name", metavar="NAME", help="Replay the pods with this spec.schedulerName."),
    ] = None

    def to_namespace_arguments(self) -> list[str]:
        """Return the command-line options that select these namespaces."""
        arguments = ["-n", self.namespace] if self.namespace else []
        if self.all_namespaces:
            arguments.append("-A")
        return arguments

    def to_cli_options(self) -> list[str]:
        """Return the command-line options that assume this scheduler name, or [] if none is assumed."""
        return ["--scheduler-name", self.scheduler_name] if self.scheduler_name else []


def with_options(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function that takes option groups, so that typer sees one parameter per option.

    The wrapper also sets the verbosity, and adds facts about the cluster to an Answer.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    groups: dict[str, Any] = {
        name: parameter.annotation for name, parameter in parameters.items() if is_dataclass(parameter.annotation)
    }
    flat = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in parameters.items()
        if name not in groups
    ]
    flat += [option for group in groups.values() for option in _list_group_options(group)]

    @wraps(function)
    def run(**values: Any) -> Result:
        """Fill the option groups from the values, call the function, and add facts about the cluster to an Answer."""
        if "verbose" in values:
            set_verbosity(values["verbose"], quiet=values["quiet"])
        # Collect the values of each group; the others are the function's own options and arguments
        filled_groups = {}
        for name, group in groups.items():
            filled_groups[name] = group(**{option.name: values.pop(option.name) for option in fields(group)})
        result = function(**values, **filled_groups)
        if not isinstance(result, Answer):
            return result
        source = next((group for group in filled_groups.values() if isinstance(group, Source)), None)
        return cast("Result", _with_cluster_facts(result, source))

    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in flat}
    return run


def _with_cluster_facts(answer: Answer, source: Source | None) -> Answer:
    """Return the answer with the cluster's name and the scheduler's version, if they are known."""
    title = source.title if source is not None else ""
    facts = {
        "cluster": title if answer.cluster_name is None else answer.cluster_name,
        "kube-scheduler": str(getattr(answer.document, "kube_version", "")),
    }
    about = tuple((name, value) for name, value in facts.items() if value)
    return replace(answer, style=replace(answer.style, about=about))


def _list_group_options(group: type) -> list[inspect.Parameter]:
    """Return the options of a group as parameters, each with its default.

    An option that names no help heading gets the heading of the class that defines it.
    """
    hints = get_type_hints(group, include_extras=True)
    parameters = []
    for option in fields(group):
        name, hint = option.name, hints[option.name]
        default = option.default if option.default_factory is MISSING else option.default_factory()
        _, *metadata = get_args(hint)
        # The heading is set in place, because typer reads it from the annotation
        for option_info in metadata:
            if not option_info.rich_help_panel:
                option_info.rich_help_panel = PANELS.get(_find_defining_class(group, name))
        parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint))
    return parameters


PANELS = {
    "Source": "Cluster and scheduler",
    "Builds": "Cluster and scheduler",
    "Scope": "Pods",
    "Output": "Output",
    "Drawing": "Output",
    "View": "Output",
    "Extending": "Extenders",
    "Sampled": "Replay",
    "RunOptions": "Replay",
    "Supposed": "As if",
}
"""Class of options -> their heading in the help."""


def _find_defining_class(group: type, name: str) -> str:
    """Return the name of the base class that declares the field first. Subclasses only change its choices."""
    return next(base.__name__ for base in reversed(group.__mro__) if name in vars(base).get("__annotations__", {}))


def parse_feature_gates(texts: list[str]) -> dict[str, bool]:
    """Parse feature gates as kube-scheduler does: `A=true,B=false`, or `kube:A=true`.

    Raises UsageError if a value is missing or not a boolean.

    >>> parse_feature_gates(["A=true,kube:B=0", "C=True"])
    {'A': True, 'B': False, 'C': True}
    """
    gates = {}
    items = [item for text in texts for item in text.split(",") if item.strip()]
    for item in items:
        name, separator, value = (part.strip() for part in item.partition("="))
        name = name.removeprefix("kube:").strip()
        if value not in BOOLEANS:
            # In the words of kube-scheduler
            problem = f"missing bool value for {name}"
            if separator:
                problem = f'invalid value of {name}={value}, err: strconv.ParseBool: parsing "{value}": invalid syntax'
            raise UsageError(problem, where="--feature-gates", hint="such as A=true,B=false")
        gates[name] = BOOLEANS[value]
    return gates
