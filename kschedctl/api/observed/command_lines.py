"""Pods and workloads reduced to the command lines of their containers, and the flags in these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from kschedctl.api.json_values import JsonObject, object_at


class ContainerCommand(msgspec.Struct, frozen=True):
    """The image and command line of a container."""

    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """Return command and arguments."""
        return (*(self.command or ()), *(self.args or ()))

    @property
    def tag(self) -> str:
        """Return the tag of the image."""
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[2]

    def runs(self, program: str) -> bool:
        """Return whether the image or the first word of the command has the program's name."""
        repository = self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return repository.startswith(program) or (bool(self.words) and self.words[0].rpartition("/")[2] == program)


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[ContainerCommand, ...] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _OwnerSpec(msgspec.Struct, frozen=True):
    containers: tuple[ContainerCommand, ...] | None = None
    template: _Template | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class ContainerOwner(msgspec.Struct, frozen=True):
    """A workload or pod reduced to the command lines of its containers."""

    kind: str = ""
    metadata: _Meta = _Meta()
    spec: _OwnerSpec = _OwnerSpec()

    @property
    def containers(self) -> tuple[ContainerCommand, ...]:
        """Return the containers of the pod or of the pod template."""
        template = self.spec.template.spec.containers if self.spec.template else None
        return (*(self.spec.containers or ()), *(template or ()))

    def describe(self, kind: str) -> str:
        """Return ``Pod kube-system/name``. ``kind`` is used if the object does not state its kind."""
        return f"{self.kind or kind} {self.metadata.namespace}/{self.metadata.name}"


def may_run(document: JsonObject, program: str) -> bool:
    """Return whether the program is mentioned in the containers of a pod or pod template."""
    spec = object_at(document, "spec")
    return any(program in str(c) for s in (spec, object_at(spec, "template", "spec")) for c in _containers(s))


def _containers(spec: JsonObject) -> Iterable[object]:
    containers = spec.get("containers")
    return containers if isinstance(containers, list) else ()


def iter_flags(words: tuple[str, ...], switches: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yield name and value of each flag: ``--name=value``, ``--name value``, or ``--name`` for switches."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            yield name, value if equals else "true" if name in switches else following
