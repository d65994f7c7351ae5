"""The problem documents of refused requests (core/http.md, "Error Processing")."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

_LONGEST_TEXT = 500
_BEFORE_NAME = re.compile(r".*[#:]", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One rule that a request breaks, with the xid of the entity and the reason.

    `args` are the values in its title, such as the `name` of an attribute.
    """

    subject: str
    title: str
    type: str = ""
    detail: str = ""
    args: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        """The last part of the type, such as `mismatched_epoch`."""
        return _BEFORE_NAME.sub("", self.type)

    @classmethod
    def parse(cls, source: Mapping[str, Any]) -> Violation:
        return cls(
            subject=str(source.get("subject", "")),
            title=str(source.get("title", "")),
            type=str(source.get("type", "")),
            detail=str(source.get("detail", "")),
            args=args if isinstance(args := source.get("args"), dict) else {},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(Violation):
    """The problem document with which a node refuses a request.

    `violations` is never empty: a single violation is the problem itself.
    """

    status: int
    violations: tuple[Violation, ...]

    @property
    def others(self) -> list[Violation]:
        """The violations other than the problem's own one."""
        own = (self.type, self.subject, self.title)
        return [v for v in self.violations if (v.type, v.subject, v.title) != own]

    @classmethod
    def read(cls, status: int, body: bytes, reason: str) -> Problem:
        """Read a problem document, or make one of any other body."""
        with contextlib.suppress(orjson.JSONDecodeError):
            source = orjson.loads(body)
            if isinstance(source, dict) and "title" in source:
                return cls._of(status, source)
        text = body.decode(errors="replace").strip()
        title = f"The answer was {status} {reason}."
        return cls._of(status, {"title": title, "detail": text[:_LONGEST_TEXT]})

    @classmethod
    def _of(cls, status: int, source: Mapping[str, Any]) -> Problem:
        own = Violation.parse(source)
        found = source.get("violations")
        listed = [
            Violation.parse(item)
            for item in (found if isinstance(found, list) else ())
            if isinstance(item, dict)
        ]
        return cls(
            status=status,
            title=own.title,
            type=own.type,
            subject=own.subject,
            detail=own.detail,
            violations=tuple(listed) or (own,),
        )
