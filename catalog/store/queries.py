"""Loads the SQL files of a store: every statement is a named block of a file in `sql/`."""

from __future__ import annotations

import re
from importlib.resources import files

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
