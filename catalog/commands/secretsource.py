"""The sources of secrets for commands: places that other users of the machine do not see."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from catalog.commands.console import fail

_STDIN = "-"
_LARGEST = 64 * 1024

SOURCE = "an environment variable, a file, or - for standard input"


def secret_from(source: str) -> str:
    """The text in an environment variable, or else in a file, without white space around it.

    The command ends if there is neither.
    """
    if source != _STDIN and source in os.environ:
        return os.environ[source].strip()
    if source != _STDIN and not Path(source).exists():
        fail(f"There is no environment variable {source!r}, and no such file.", f"Name {SOURCE}.")
    return text_of(source).strip()


def text_of(file: str) -> str:
    """The text of a file; the command ends if it cannot be read."""
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(_LARGEST + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(_LARGEST + 1)
        text = content.decode()
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    except UnicodeDecodeError:
        fail(f"{file} is not a text file.")
    if len(content) > _LARGEST:
        fail(f"{file} is larger than {_LARGEST} bytes.")
    return text
