"""The tokens that commands send: that of the option or the environment, or that of a file."""

from __future__ import annotations

import os
from pathlib import Path

from catalog.commands.console import CommandError

TOKEN_VARIABLE = "CONCORD_TOKEN"
FILE_VARIABLE = "CONCORD_TOKENS_FILE"
_OTHERS = 0o077
_given: list[str] = []


def give_token(token: str | None) -> None:
    """Send a token to the node that a command talks to, and to no other one."""
    _given[:] = [] if token is None else [token]


def token_for(url: str, *, is_own: bool = True) -> str | None:
    """The token for the node at a URL.

    Args:
        is_own: whether the user has named this node, and not another node or a document. Only then
            the token that is given is meant for it.

    Raises:
        CommandError: the file of tokens is malformed, or others may read it.
    """
    own = _given[0] if _given else os.environ.get(TOKEN_VARIABLE)
    if is_own and own:
        return own
    file = _file()
    return read_tokens(file).get(url.rstrip("/")) if file.is_file() else None


def read_tokens(file: Path) -> dict[str, str]:
    """The tokens in a file with a URL and its token in each line, by URL.

    Raises:
        CommandError: it cannot be read, is malformed, or others may read it.
    """
    try:
        if file.stat().st_mode & _OTHERS:
            raise CommandError(
                f"Others may read the tokens in {file}.", f"Keep them from it: chmod 600 {file}"
            )
        return _tokens(file, file.read_text())
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{file} is not a text file.") from None


def _file() -> Path:
    if named := os.environ.get(FILE_VARIABLE):
        return Path(named).expanduser()
    home = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    # A relative path is invalid, and ignored (XDG Base Directory, "Basics").
    base = home if home.is_absolute() else Path.home() / ".config"
    return base / "concord" / "tokens"


def _tokens(file: Path, text: str) -> dict[str, str]:
    found = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        if len(parts) != 2:
            # The line is not repeated, since it may have a token.
            raise CommandError(f"Line {number} of {file} is not a URL and a token.")
        found[parts[0].rstrip("/")] = parts[1]
    return found
