"""The tokens and secrets of commands, from options, the environment, files or standard input."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from catalog.commands.console import CommandError, fail

TOKEN_VARIABLE = "CONCORD_TOKEN"
FILE_VARIABLE = "CONCORD_TOKENS_FILE"
_OTHERS = 0o077
_given: list[str] = []
TokensOf = Callable[[Sequence[str]], dict[str, str]]
_STDIN = "-"
_LARGEST = 256 * 1024
SOURCE = "an environment variable, a file, or - for standard input"
# A text with "=" only at the end is a token with padding, not NAME=VALUE.
_PADDED = re.compile(r"[^=]*=*")


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
    """The text of a file; the command ends if the file cannot be read or exceeds 256 KiB."""
    try:
        return bytes_of(file, _LARGEST).decode()
    except UnicodeDecodeError:
        fail(f"{file} is not a text file.")


def secret_object(text: str, source: str, example: str) -> dict[str, Any]:
    """The object of a text in JSON; for another text, the command ends without quoting the text."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        fail(f"{source} is not a credential in JSON.", f"Write it like {example}.")
    return found


def bytes_of(file: str, most: int) -> bytes:
    """The content of a file, or of the standard input for `-`.

    The command ends if the file cannot be read, or has more than `most` bytes.
    """
    try:
        if file == _STDIN:
            content = sys.stdin.buffer.read(most + 1)
        else:
            with Path(file).open("rb") as opened:
                content = opened.read(most + 1)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    if len(content) > most:
        fail(f"{file} is larger than {most} bytes.")
    return content


def catalog_tokens(
    token: Annotated[
        list[str] | None,
        typer.Option(
            "--token",
            help="The token for a catalog or, without a name, for all. Others on the machine see "
            "it.",
            metavar="[NAME=]TOKEN",
        ),
    ] = None,
    token_from: Annotated[
        list[str] | None,
        typer.Option(
            "--token-from",
            help=f"The token for a catalog or, without a name, for all: {SOURCE}.",
            metavar="[NAME=]SOURCE",
        ),
    ] = None,
    tokens: Annotated[
        Path | None,
        typer.Option(
            "--tokens",
            help="A file with the URL of a catalog and its token in each line, which only you may "
            "be able to read. Else ~/.config/concord/tokens, or that of CONCORD_TOKENS_FILE.",
            metavar="FILE",
        ),
    ] = None,
) -> TokensOf:
    """The function that finds the tokens of catalogs in the form `NAME=URL`, by name.

    In order of precedence: a token for the name (`--token-from` before `--token`), a token for the
    URL in the file, a token for all catalogs, and a token for the URL in the user's own file.
    """
    return partial(_tokens_of, token, token_from, tokens)


def _tokens_of(
    given: Sequence[str] | None,
    sources: Sequence[str] | None,
    file: Path | None,
    catalogs: Sequence[str],
) -> dict[str, str]:
    urls = {name: url for name, _, url in (each.partition("=") for each in catalogs)}
    named = _by_name(sources or (), urls)
    found = {name: secret_from(source) for name, source in named.items()}
    found = _by_name(given or (), urls) | found
    shared = found.pop("", None)
    try:
        known = {} if file is None else read_tokens(file)
        for name in urls.keys() - found.keys():
            url = urls[name].rstrip("/")
            token = known.get(url) or shared or token_for(url, is_own=False)
            if token:
                found[name] = token
    except CommandError as error:
        fail(error.message, error.hint)
    return found


def _by_name(texts: Sequence[str], urls: Mapping[str, str]) -> dict[str, str]:
    """The values of `NAME=VALUE` by name; a value without a name has the empty name."""
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = text.partition("=")
        if name in urls:
            found[name] = value
        elif _PADDED.fullmatch(text):
            found[""] = text
        else:
            # The message quotes the name only, since the value may be the token.
            fail(f"No catalog is called {name!r}, for which there is a token.", "See --catalog.")
    return found
