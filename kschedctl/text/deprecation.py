"""Old names of parameters of public functions, which keep working for one release with a warning."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def accept_old_names(**new_names: str) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that lets callers pass renamed parameters by their old names, with a DeprecationWarning.

    Each keyword is an old name, and its value the new one. A call that passes both raises TypeError.

    >>> @accept_old_names(colour="color")
    ... def paint(color: str) -> str:
    ...     return f"painted {color}"
    >>> paint(color="red")
    'painted red'
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        @functools.wraps(function)
        def call_with_new_names(*arguments: Any, **keywords: Any) -> Result:
            for old, new in new_names.items():
                if old in keywords:
                    if new in keywords:
                        raise TypeError(f"{function.__name__}() got both {old} and {new}, which is its new name")
                    message = f"{function.__name__}: the parameter {old} is deprecated: use {new}"
                    warnings.warn(message, DeprecationWarning, stacklevel=2)
                    keywords[new] = keywords.pop(old)
            return function(*arguments, **keywords)

        return call_with_new_names

    return decorate
