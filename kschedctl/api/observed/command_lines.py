"""Pods and workloads as far as the command lines of their containers go, and the flags on these."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

import msgspec

from kschedctl.api.json_values import JsonObject, object_at


class RunContainer(msgspec.Struct, frozen=True):
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None

    @property
    def words(self) -> tuple[str, ...]:
        return (*(self.command or ()), *(self.args or ()))

    @property
    def tag(self) -> str:
        return self.image.partition("@")[0].rpartition("/")[2].partition(":")[2]

    def runs(self, program: str) -> bool:
        """Whether its image or its first word is called so."""
        repository = self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return repository.startswith(program) or (bool(self.words) and self.words[0].rpartition("/")[2] == program)


class _Spec(msgspec.Struct, frozen=True):
    containers: tuple[RunContainer, ...] | None = None


class _Template(msgspec.Struct, frozen=True):
    spec: _Spec = _Spec()


class _OwnerSpec(msgspec.Struct, frozen=True):
    containers: tuple[RunContainer, ...] | None = None
    template: _Template | None = None


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""


class ContainerOwner(msgspec.Struct, frozen=True):
    """A workload or a pod, as far as its containers' command lines go."""

    kind: str = ""
    metadata: _Meta = _Meta()
    spec: _OwnerSpec = _OwnerSpec()

    @property
    def containers(self) -> tuple[RunContainer, ...]:
        template = self.spec.template.spec.containers if self.spec.template else None
        return (*(self.spec.containers or ()), *(template or ()))

    def named(self, kind: str) -> str:
        """``Pod kube-system/name``; ``kind``: of those that do not say theirs."""
        return f"{self.kind or kind} {self.metadata.namespace}/{self.metadata.name}"


def may_run(document: JsonObject, program: str) -> bool:
    """Whether the program is named anywhere in the containers of a pod or of a template."""
    spec = object_at(document, "spec")
    return any(program in str(c) for s in (spec, object_at(spec, "template", "spec")) for c in _containers(s))


def _containers(spec: JsonObject) -> Iterable[object]:
    containers = spec.get("containers")
    return containers if isinstance(containers, list) else ()


def spelt(words: tuple[str, ...], switches: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """``--name=value``, ``--name value``, and ``--name`` of switches."""
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            yield name, value if equals else "true" if name in switches else following
