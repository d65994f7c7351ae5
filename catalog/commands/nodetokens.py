"""The tokens that commands send, from an option, the environment or a file."""

from __future__ import annotations

import os
from pathlib import Path

from catalog.commands.console import CommandError

TOKEN_VARIABLE = "CONCORD_TOKEN"
FILE_VARIABLE = "CONCORD_TOKENS_FILE"
_OTHERS = 0o077
_given: list[str] = []


def give_token(token: str | None) -> None:
    """Set the token for the node that the user names; other nodes never receive the token."""
    _given[:] = [] if token is None else [token]


def token_for(url: str, *, is_own: bool = True) -> str | None:
    """The token for the node at a URL.

    Args:
        is_own: the user has named the node. If a document or a further node named the node, only
            the file of tokens is read: the token of the option or the environment is not for it.

    Raises:
        CommandError: the file of tokens cannot be read, is malformed, or is readable by other
            users.
    """
    own = _given[0] if _given else os.environ.get(TOKEN_VARIABLE)
    if is_own and own:
        return own
    file = _file()
    return read_tokens(file).get(url.rstrip("/")) if file.is_file() else None


def read_tokens(file: Path) -> dict[str, str]:
    """The tokens of a file, by URL; each line of the file has a URL and a token.

    Raises:
        CommandError: the file cannot be read, is malformed, or is readable by other users.
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
            # The message does not quote the line, which may have a token.
            raise CommandError(f"Line {number} of {file} is not a URL and a token.")
        found[parts[0].rstrip("/")] = parts[1]
    return found
