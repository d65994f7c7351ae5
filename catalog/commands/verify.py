"""The command `subscription verify`."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer

from catalog.commands.console import (
    NO,
    AsJson,
    CommandError,
    cell,
    fail,
    out,
    print_json,
    run,
)

KEY_VARIABLE = "CONCORD_SIGNATURE_KEY"
_LARGEST_BODY = 64 * 1024 * 1024
_LARGEST_TEXT = 256 * 1024
_STDIN = "-"

app = typer.Typer()


@app.command()
def verify(
    body: Annotated[
        str,
        typer.Argument(
            metavar="BODY",
            help="A file with the body byte for byte as it came, gzip undone; - for standard "
            "input.",
        ),
    ],
    header: Annotated[
        list[str] | None,
        typer.Option(
            "--header",
            "-H",
            metavar="'NAME: VALUE'",
            help="A header of the request. Repeatable; those that begin with webhook- matter.",
        ),
    ] = None,
    headers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the request's headers, one in a line."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the key, whsec_… or whpk_…; several while keys are exchanged. "
            f"Without it, {KEY_VARIABLE} has the key itself.",
        ),
    ] = None,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=0,
            max=10 * 365 * 86400,
            help="How far the time of the request may be from now.",
        ),
    ] = 300.0,
    as_json: AsJson = False,
) -> None:
    """Check the sender of a delivery, and that the content was not changed on the way.

    The command needs no node, only the request as received and the key of the subscription.

    Example: concord subscription verify event.json --headers headers.txt --key signing.key
    """

    async def check() -> None:
        _check(body, header or [], headers, key, timedelta(seconds=tolerance), as_json=as_json)

    run(check)


def _check(
    body: str,
    given: Sequence[str],
    headers: Path | None,
    key: Path | None,
    tolerance: timedelta,
    *,
    as_json: bool,
) -> None:
    from catalog.client import KeyUnusable, SignatureInvalid
    from catalog.client import verify as verify_signature

    content = _read(body, _LARGEST_BODY)
    lines = [*given, *(_text(headers).splitlines() if headers is not None else ())]
    named = _headers(lines)
    text = os.environ.get(KEY_VARIABLE, "") if key is None else _text(key)
    if not text.strip():
        raise CommandError("There is no key.", f"Name a file with --key, or set {KEY_VARIABLE}.")
    try:
        verify_signature(named, content, text, tolerance=tolerance)
    except KeyUnusable as error:
        raise CommandError(error.message, error.hint) from None
    except SignatureInvalid as error:
        if as_json:
            print_json({"valid": False, "reason": error.message})
            raise typer.Exit(NO) from None
        fail(error.message, error.hint, code=NO)
    id = named["webhook-id"]
    if as_json:
        print_json({"valid": True, "id": id})
    else:
        out.print(f"The signature of [bold]{cell(id)}[/] is valid.")


def _headers(lines: Sequence[str]) -> dict[str, str]:
    """The headers of Standard Webhooks by lower-case name; every other line is ignored."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if not colon or not name.startswith("webhook-"):
            continue
        if name in found:
            raise CommandError(f"The header {name} is there twice.", "Give those of one request.")
        found[name] = value.strip()
    return found


def _text(path: Path) -> str:
    try:
        return _read(str(path), _LARGEST_TEXT).decode()
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not a text file.") from None


def _read(name: str, most: int) -> bytes:
    try:
        if name == _STDIN:
            content = sys.stdin.buffer.read(most + 1)
        else:
            with Path(name).open("rb") as file:
                content = file.read(most + 1)
    except OSError as error:
        raise CommandError(f"{name} cannot be read: {error.strerror}.") from None
    if len(content) > most:
        raise CommandError(f"{name} is larger than {most} bytes.")
    return content
