"""The commands `subscription keys` and `subscription verify`: signatures of deliveries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    fail,
    on_node,
    out,
    print_answer,
    print_json,
)
from catalog.commands.deliveries import SubscriptionId
from catalog.commands.secretsources import bytes_of, text_of

if TYPE_CHECKING:
    from catalog.operations.subscriptions import SigningKeyAnswer

keys_app = typer.Typer(
    no_args_is_help=True,
    help="The keys that sign what a subscription sends.",
)

_CHECKS_WITH = {
    "ed25519": "The receiver checks signatures with this public key:",
    "hmac-sha256": "The receiver checks signatures with this secret, which is not shown again:",
}
KEY_VARIABLE = "CONCORD_SIGNATURE_KEY"
_LARGEST_BODY = 64 * 1024 * 1024


def key_lines(key: SigningKeyAnswer) -> tuple[str, str]:
    """The part of a new key that a receiver needs to check signatures, as lines."""
    return _CHECKS_WITH[key.signature], cell(key.secret or key.publickey)


@keys_app.command()
def rotate(
    id: SubscriptionId,
    overlap: Annotated[
        int | None,
        typer.Option(
            help="So long the old key signs beside the new one; with 0, it ends at once."
            " Without the option, a day.",
            metavar="SECONDS",
            min=0,
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make a new key; the old key also signs until the receivers have the new key.

    Example: concord subscription keys rotate 8f2c --overlap 3600
    """
    key = on_node(url, lambda client: client.exchange_signing_key(id, overlap))
    told = f"Subscription [bold]{cell(id)}[/] signs with the new key {cell(key.id)}."
    print_answer(key, told, *key_lines(key), as_json=as_json)


@keys_app.command()
def remove(
    id: SubscriptionId,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Its id, as `concord subscription show` shows it."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """End the signing with an old key; the current key can only be rotated.

    Example: concord subscription keys remove 8f2c 6d1a
    """
    on_node(url, lambda client: client.end_signing_key(id, key))
    out.print(f"Key [bold]{cell(key)}[/] signs no more.")


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
    from catalog.client import KeyUnusable, SignatureInvalid
    from catalog.client import verify as verify_signature

    content = bytes_of(body, _LARGEST_BODY)
    lines = text_of(str(headers)).splitlines() if headers is not None else []
    named = _headers([*(header or ()), *lines])
    text = os.environ.get(KEY_VARIABLE, "") if key is None else text_of(str(key))
    if not text.strip():
        fail("There is no key.", f"Name a file with --key, or set {KEY_VARIABLE}.")
    try:
        verify_signature(named, content, text, tolerance=timedelta(seconds=tolerance))
    except KeyUnusable as error:
        fail(error.message, error.hint)
    except SignatureInvalid as error:
        if as_json:
            print_json({"valid": False, "reason": error.message})
            raise typer.Exit(NO) from None
        fail(error.message, error.hint, code=NO)
    id = named["webhook-id"]
    told = f"The signature of [bold]{cell(id)}[/] is valid."
    print_answer({"valid": True, "id": id}, told, as_json=as_json)


def _headers(lines: Sequence[str]) -> dict[str, str]:
    """The headers of Standard Webhooks by lower-case name; every other line is ignored."""
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if not colon or not name.startswith("webhook-"):
            continue
        if name in found:
            fail(f"The header {name} is there twice.", "Give those of one request.")
        found[name] = value.strip()
    return found
