"""Sets of options that several commands share."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeAlias

Command: TypeAlias = Callable[..., None]


def with_options(**sets: Callable[..., Any]) -> Callable[[Command], Command]:
    """Add the options of functions to a command; each function makes one value from its options.

    Args:
        sets: the functions by name of a parameter; the parameter receives the function's result.
            In `--help`, the options of the function replace the parameter.
    """
    # Typer needs the types behind the annotations, which are texts in these modules.
    options = {name: inspect.signature(make, eval_str=True) for name, make in sets.items()}

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True)
        # Only keyword-only parameters may lack a default after a parameter with a default.
        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in own.parameters.values()
            for each in (
                options[parameter.name].parameters.values()
                if parameter.name in options
                else (parameter,)
            )
        ]

        @functools.wraps(command)
        def run(**given: Any) -> None:
            made = {
                name: make(**{option: given.pop(option) for option in options[name].parameters})
                for name, make in sets.items()
            }
            command(**given, **made)

        # Typer reads the options from the signature and the annotations.
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
