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


@dataclass(slots=True)
class LockFile:
    """The pins of the runs of one repository.

    Args:
        path: the file, which need not exist.
        generator: the generator of code and its version; empty in a new file.
        runs: the pins by the paths of a run, with blanks between.
    """

    path: Path
    generator: str = ""
    runs: dict[str, dict[str, Pin]] = field(default_factory=dict)

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
            runs = {
                str(paths): {
                    str(xid): Pin(str(pin["version"]), str(pin["sha256"]))
                    for xid, pin in pins.items()
                }
                for paths, pins in source["runs"].items()
            }
            return cls(path, str(source["generator"]), runs)
        except OSError as error:
            raise LockUnusable(f"{path} cannot be read: {error.strerror}.") from error
        except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError) as error:
            raise LockUnusable(
                f"{path} is no lock file.", "Restore it, or name another one with --lock."
            ) from error

    def pins_of(self, paths: Sequence[str]) -> Pins | None:
        """The pins of a run; `None` before the first one."""
        return self.runs.get(_key(paths))

    def write(self, paths: Sequence[str], pins: Pins, generator: str) -> None:
        """Replace the pins of a run.

        Raises:
            LockUnusable
        """
        self.generator = generator
        self.runs[_key(paths)] = dict(pins)
        document = {
            "lockversion": _VERSION,
            "generator": generator,
            "runs": {
                key: {xid: pin.as_json() for xid, pin in sorted(run.items())}
                for key, run in sorted(self.runs.items())
            },
        }
        try:
            self.path.write_bytes(orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
        except OSError as error:
            raise LockUnusable(f"{self.path} cannot be written: {error.strerror}.") from error


def _key(paths: Sequence[str]) -> str:
    return " ".join(sorted(paths))
