"""Loads the SQL files of a store: every statement is a named block of a file in `sql/`.

JSON is text in parameters and rows.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

import orjson

_BLOCK = re.compile(r"^-- name: (\w+)\n((?:-- .*\n)+)", re.MULTILINE)


class Queries:
    """The statements of a file, as attributes: `Queries("entities").load`.

    Args:
        file: the name of the file, without `.sql`.
        package: the store whose `sql/` has the file.

    Raises:
        AttributeError: the file has no statement of the name.
    """

    def __init__(self, file: str, package: str = "catalog.store") -> None:
        text = (files(package) / "sql" / f"{file}.sql").read_text()
        parts = _BLOCK.split(text)
        self._file = file
        self._statements = {
            name: sql.strip() for name, sql in zip(parts[1::3], parts[3::3], strict=True)
        }

    def __getattr__(self, name: str) -> str:
        try:
            return self._statements[name]
        except KeyError:
            raise AttributeError(f"sql/{self._file}.sql has no statement {name!r}") from None

    def names(self) -> frozenset[str]:
        return frozenset(self._statements)


def to_json(value: Any) -> str | None:
    """A value as a parameter of type JSON; `None` is NULL."""
    return None if value is None else orjson.dumps(value).decode()


def from_json(text: str | None) -> Any:
    """The value of a column of type JSON; `None` for NULL."""
    return None if text is None else orjson.loads(text)
