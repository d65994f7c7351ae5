"""The options of `reconcile` for the tokens of several catalogs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from catalog.commands.console import CommandError, fail
from catalog.commands.nodetokens import read_tokens, token_for
from catalog.commands.secretsource import SOURCE, secret_from

Token = Annotated[
    list[str] | None,
    typer.Option(
        "--token",
        help="The token for a catalog or, without a name, for all. Others on the machine see it.",
        metavar="[NAME=]TOKEN",
    ),
]
TokenFrom = Annotated[
    list[str] | None,
    typer.Option(
        "--token-from",
        help=f"The token for a catalog or, without a name, for all: {SOURCE}.",
        metavar="[NAME=]SOURCE",
    ),
]
TokensFile = Annotated[
    Path | None,
    typer.Option(
        "--tokens",
        help="A file with the URL of a catalog and its token in each line, which only you may be "
        "able to read. Else ~/.config/concord/tokens, or that of CONCORD_TOKENS_FILE.",
        metavar="FILE",
    ),
]

# A text with "=" only at the end is a token with padding, not NAME=VALUE.
_PADDED = re.compile(r"[^=]*=*")


def tokens_of(
    catalogs: Sequence[str],
    given: Sequence[str] | None,
    sources: Sequence[str] | None,
    file: Path | None,
) -> dict[str, str]:
    """The tokens of catalogs in the form `NAME=URL`, by name.

    In order of precedence: a token for the name (`sources` before `given`), a token for the URL in
    `file`, a token for all catalogs, and a token for the URL in the user's own file of tokens.
    """
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
