"""A mypy plugin that checks the fields of `msgspec.structs.replace`."""

from __future__ import annotations

from collections.abc import Callable

from mypy.expandtype import expand_type_by_instance
from mypy.nodes import ARG_NAMED_OPT, ARG_POS, ARG_STAR2, CallExpr, TypeInfo
from mypy.plugin import FunctionSigContext, Plugin
from mypy.types import AnyType, CallableType, FunctionLike, Instance, Type, TypeOfAny, get_proper_type


def get_fields(info: TypeInfo) -> dict[str, Type]:
    """Return the fields of a struct, those of its bases first."""
    structs = [base for base in reversed(info.mro) if "dataclass" in base.metadata]
    names = {field["name"] for struct in structs for field in struct.metadata["dataclass"]["attributes"]}
    return {name: kind for name in sorted(names) if (symbol := info.get(name)) and (kind := symbol.type)}


def build_signature(context: FunctionSigContext) -> FunctionLike:
    """Return the signature of a call whose first argument is a known struct."""
    given = context.args[0][0] if context.args and context.args[0] else None
    struct = get_proper_type(context.api.get_expression_type(given)) if given is not None else None
    if not isinstance(struct, Instance) or not (known := get_fields(struct.type)):
        return context.default_signature
    kinds: list[Type] = [expand_type_by_instance(kind, struct) for kind in known.values()]
    if isinstance(context.context, CallExpr) and ARG_STAR2 in context.context.arg_kinds:
        kinds = [AnyType(TypeOfAny.special_form) for _ in known]  # each value of a mapping would be held against all
    return CallableType(
        [struct, *kinds],
        [ARG_POS, *(ARG_NAMED_OPT for _ in known)],
        [None, *known],
        struct,
        context.default_signature.fallback,
        name="replace",
    )


class StructReplace(Plugin):
    def get_function_signature_hook(self, fullname: str) -> Callable[[FunctionSigContext], FunctionLike] | None:
        return build_signature if fullname == "msgspec.structs.replace" else None


def plugin(version: str) -> type[Plugin]:
    return StructReplace
