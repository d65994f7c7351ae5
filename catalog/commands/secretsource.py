"""The sources of secrets for commands: places hidden from other users of the machine."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from catalog.commands.console import fail

_STDIN = "-"
_LARGEST = 64 * 1024

SOURCE = "an environment variable, a file, or - for standard input"


def secret_from(source: str) -> str:
    """The text of an environment variable or else of a file, without surrounding white space.

    The command ends if neither the variable nor the file exists.
    """
    if source != _STDIN and source in os.environ:
        return os.environ[source].strip()
    if source != _STDIN and not Path(source).exists():
        fail(f"There is no environment variable {source!r}, and no such file.", f"Name {SOURCE}.")
    return text_of(source).strip()


def text_of(file: str) -> str:
    """The text of a file; the command ends if the file cannot be read or exceeds 64 KiB."""
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LARGEST + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    if len(content) > _LARGEST:
        fail(f"{file} is larger than {_LARGEST} bytes.")
    try:
        return content.decode()
    except UnicodeDecodeError:
        fail(f"{file} is not a text file.")
