"""The file in which a node keeps the settings that it was started with, for `concord doctor`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import orjson

from catalog.config.settings import Settings

_FILE = "settings.json"
# What is written in place of a secret.
_HIDDEN = "*" * 10


def record_settings(settings: Settings) -> None:
    """Write the settings that are not defaults, without the values of secrets.

    A node without a data directory, or with one that it cannot write, has no such file.
    """
    directory = settings.data_dir.expanduser()
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    paths = {n: str(v.expanduser().absolute()) for n, v in given.items() if isinstance(v, Path)}
    shown = settings.model_dump(mode="json", include={*given}) | paths
    temporary = directory / f".{_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        temporary.touch(mode=0o600)
        temporary.write_bytes(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        temporary.replace(directory / _FILE)


def recorded_settings(directory: Path) -> tuple[dict[str, Any], frozenset[str]]:
    """The settings that a node was last started with, and the names of secrets among them.

    Args:
        directory: the data directory.

    Returns:
        Nothing where there is no file that can be read.
    """
    try:
        found = orjson.loads((directory.expanduser() / _FILE).read_bytes())
    except (OSError, ValueError):
        return {}, frozenset()
    known = {name: value for name, value in found.items() if name in Settings.model_fields}
    secret = {name for name, value in known.items() if value == _HIDDEN}
    return {n: v for n, v in known.items() if n not in secret}, frozenset(secret)
