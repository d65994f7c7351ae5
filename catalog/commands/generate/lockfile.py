"""The lock file: the pins of each run, which a team keeps in its repository."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from catalog.commands.console import CommandError
from catalog.commands.generate.pins import Pin, Pins

_VERSION = 1
_LARGEST_BYTES = 16 * 1024 * 1024


class LockUnusable(CommandError):
    """The lock file cannot be read or written, or is no lock file."""


@dataclass(frozen=True, slots=True)
class LockedRun:
    """The generator of a run, with the version of the generator, and the pins."""

    generator: str
    pins: Pins

    def as_json(self) -> dict[str, Any]:
        pins = {xid: pin.as_json() for xid, pin in sorted(self.pins.items())}
        return {"generator": self.generator, "definitions": pins}


@dataclass(slots=True)
class LockFile:
    """The runs of one repository.

    Args:
        path: the file, which need not exist.
        runs: the runs by their paths, with blanks between.
    """

    path: Path
    runs: dict[str, LockedRun] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> LockFile:
        """The lock file at a path; an empty one if there is no file.

        Raises:
            LockUnusable
        """
        try:
            if not path.exists():
                return cls(path)
            if path.stat().st_size > _LARGEST_BYTES:
                raise LockUnusable(f"{path} is too large for a lock file.")
            source: Any = orjson.loads(path.read_bytes())
            if source["lockversion"] != _VERSION:
                raise LockUnusable(f"{path} was written by another version of Concord.")
            return cls(path, {str(paths): _run(run) for paths, run in source["runs"].items()})
        except OSError as error:
            raise LockUnusable(f"{path} cannot be read: {error.strerror}.") from error
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise LockUnusable(
                f"{path} is no lock file.", "Restore it, or name another one with --lock."
            ) from error

    def run_of(self, paths: Sequence[str]) -> LockedRun | None:
        """The locked run of paths; `None` before the first one."""
        return self.runs.get(_key(paths))

    def write(self, paths: Sequence[str], run: LockedRun) -> None:
        """Replace the run of paths.

        Raises:
            LockUnusable
        """
        self.runs[_key(paths)] = run
        runs = {key: each.as_json() for key, each in sorted(self.runs.items())}
        document = {"lockversion": _VERSION, "runs": runs}
        try:
            self.path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise LockUnusable(f"{self.path} cannot be written: {error.strerror}.") from error


def _run(source: Any) -> LockedRun:
    pins = {
        str(xid): Pin(str(pin["version"]), str(pin["sha256"]))
        for xid, pin in source["definitions"].items()
    }
    return LockedRun(str(source["generator"]), pins)


def _key(paths: Sequence[str]) -> str:
    return " ".join(sorted(paths))
