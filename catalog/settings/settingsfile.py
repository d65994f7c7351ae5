"""The file with the settings at the last start of a node, for `concord doctor`."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import orjson

from catalog.settings.settings import Settings

_FILE = "settings.json"
# The text in place of a secret.
_HIDDEN = "*" * 10


def record_settings(settings: Settings) -> None:
    """Write the explicit settings, without the values of secrets.

    A node without a writable data directory has no file with settings.
    """
    directory = settings.data_dir.expanduser()
    given = {name: getattr(settings, name) for name in settings.model_fields_set}
    paths = {n: str(v.expanduser().absolute()) for n, v in given.items() if isinstance(v, Path)}
    shown = settings.model_dump(mode="json", include={*given}) | paths
    temporary = directory / f".{_FILE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        # The mode is restricted before the content is written: other users must never read it.
        temporary.touch(mode=0o600)
        temporary.write_bytes(orjson.dumps(shown, option=orjson.OPT_INDENT_2))
        temporary.replace(directory / _FILE)


def recorded_settings(directory: Path) -> tuple[dict[str, Any], frozenset[str]]:
    """The settings at the last start of a node, and the names of the secrets among the settings.

    Args:
        directory: the data directory.

    Returns:
        empty settings and names if the file is missing or cannot be read.
    """
    try:
        found = orjson.loads((directory.expanduser() / _FILE).read_bytes())
    except (OSError, ValueError):
        return {}, frozenset()
    known = {name: value for name, value in found.items() if name in Settings.model_fields}
    secret = {name for name, value in known.items() if value == _HIDDEN}
    return {n: v for n, v in known.items() if n not in secret}, frozenset(secret)
