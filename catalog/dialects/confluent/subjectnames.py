"""Names of contexts and subjects: pure.

A context is a schema group, and a subject a schema in it.
"""

from __future__ import annotations

from typing import NamedTuple

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
"""The context that has settings for all contexts, and no subjects."""
ANY_CONTEXT = "*"
_ANY_PREFIX = ":*:"
_RESERVED = ("__GLOBAL", "__EMPTY")
_LONGEST_NAME = 1024


class SubjectName(NamedTuple):
    """The name of a subject in a context; an empty name stands for the context itself."""

    context: str
    name: str

    def __str__(self) -> str:
        """The qualified name, as `orders-value` or `:.team:orders-value`."""
        prefix = "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"
        return prefix + self.name

    @property
    def is_legal(self) -> bool:
        """Whether schemas may be registered under the name."""
        return (
            bool(self.name)
            and self.name not in _RESERVED
            and self.context not in (GLOBAL_CONTEXT, ANY_CONTEXT)
            and len(self.name) <= _LONGEST_NAME
            and self.name.isprintable()
        )


def read_subject(text: str, within: str = DEFAULT_CONTEXT) -> SubjectName:
    """Read a name that may be qualified.

    Args:
        text: the name, as `orders-value`, `:.team:orders-value`, `:.team:` or `:*:orders`.
        within: the context of a name that is not qualified.
    """
    if text.startswith(_ANY_PREFIX):
        return SubjectName(ANY_CONTEXT, text.removeprefix(_ANY_PREFIX))
    if text.startswith(":."):
        context, _, name = text[1:].partition(":")
        return SubjectName(context, name)
    return SubjectName(within, text)


def read_context(text: str) -> str:
    """Read the name of a context, as `team`, `.team` or `:.team:`.

    Raises:
        ValueError: the name has a colon within, or is too long.
    """
    name = text.removeprefix(":").removesuffix(":")
    if ":" in name or len(name) > _LONGEST_NAME or not name.isprintable():
        raise ValueError("it may hold no colon, and 1024 printable characters at most")
    return name if name.startswith(".") else f".{name}"
