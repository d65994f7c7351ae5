"""The options for what a link brings, how it names the copies, and the credential that it shows."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from catalog.commands.console import fail
from catalog.commands.secretsources import SOURCE, secret_from, secret_object, text_of

_CREDENTIAL_PANEL = "Credential that the link shows the other catalog"
_OAUTH = '{"oauth": {"tokenurl": "https://…", "clientid": "eu", "clientsecret": "…"}}'
_PAIRS = {
    "map": "--map messagegroups/shop=messagegroups/eu-shop",
    "addresses": "--address amqp://broker.a:5672=amqp://bridge.b:5673",
}
PAIRED = frozenset(_PAIRS)
"""The members of a selection whose options give pairs."""

LinkId = Annotated[
    str, typer.Argument(metavar="ID", help="The link's id, as `concord link list` shows it.")
]


def labels_in(
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            help="Bring only groups with this label, and resources whose default version has it. "
            "Repeatable: all labels have to be there.",
            metavar="NAME[=VALUE]",
        ),
    ] = None,
) -> dict[str, Any]:
    """The member of a link's definition for `--label`; an empty text removes all labels."""
    return {} if label is None else {"labels": [each for each in label if each]}


def selection_in(
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help="Bring only the entities at or below this xid at their authority. Repeatable.",
            metavar="XID",
        ),
    ] = None,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            help="Bring only groups of this type, as endpoints, or resources of this type with "
            "their groups, as messagegroups/messages. Repeatable.",
            metavar="TYPE",
        ),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option(help="Put this before the id of each group here.", metavar="TEXT"),
    ] = None,
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            help="Call one group otherwise here, as messagegroups/shop=messagegroups/eu-shop. "
            "Repeatable.",
            metavar="THERE=HERE",
        ),
    ] = None,
    addresses: Annotated[
        list[str] | None,
        typer.Option(
            "--address",
            help="Show this beginning of endpoints' addresses otherwise here, as "
            "amqp://broker.a:5672=amqp://bridge.b:5673. Repeatable.",
            metavar="THERE=HERE",
        ),
    ] = None,
) -> dict[str, Any]:
    """The members of a link's definition for the given options.

    An empty text removes the former values of an option.
    """
    given: dict[str, Any] = {"scope": scope, "types": types, "prefix": prefix}
    given |= {"map": names, "addresses": addresses}
    selection = {name: value for name, value in given.items() if value is not None}
    for name in selection.keys() - {"prefix"}:
        selection[name] = [each for each in selection[name] if each]
    for name in selection.keys() & PAIRED:
        selection[name] = dict(_pair(each, _PAIRS[name]) for each in selection[name])
    return selection


def _pair(text: str, example: str) -> tuple[str, str]:
    there, _, here = text.partition("=")
    if not here:
        fail(f'"{text}" is no pair.', f"Write {example}.")
    return there, here


def credential_in(
    token_from: Annotated[
        str | None,
        typer.Option(
            help=f"The token that it shows: {SOURCE}.",
            metavar="SOURCE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            help="The user that it shows by HTTP's Basic authentication.",
            metavar="NAME",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    password_from: Annotated[
        str | None,
        typer.Option(
            help=f"The user's password: {SOURCE}.",
            metavar="SOURCE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    client_cert: Annotated[
        str | None,
        typer.Option(
            "--client-cert",
            help="A client certificate in PEM, with those that lead to its authority.",
            metavar="FILE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    client_key: Annotated[
        str | None,
        typer.Option(
            "--client-key",
            help="Its key in PEM, without a passphrase.",
            metavar="FILE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    ca_cert: Annotated[
        str | None,
        typer.Option(
            "--ca-cert",
            help="The authority of the other catalog's certificate in PEM, if it is a private one.",
            metavar="FILE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
    credential_from: Annotated[
        str | None,
        typer.Option(
            help=f"A credential in JSON, as the API takes it, such as {_OAUTH} for the tokens of "
            f"an OAuth 2.0 token endpoint: {SOURCE}. Other options replace its members.",
            metavar="SOURCE",
            rich_help_panel=_CREDENTIAL_PANEL,
        ),
    ] = None,
) -> dict[str, Any]:
    """The member of a link's definition for the given options; empty if no option is given."""
    credential: dict[str, Any] = {}
    if credential_from is not None:
        credential = secret_object(secret_from(credential_from), credential_from, _OAUTH)
    if token_from:
        credential["token"] = secret_from(token_from)
    named = {"user": user, "password": password_from and secret_from(password_from)}
    if basic := {name: value for name, value in named.items() if value is not None}:
        credential["basic"] = basic
    parts = {"chain": client_cert, "key": client_key}
    if certificate := {name: text_of(file) for name, file in parts.items() if file is not None}:
        credential["certificate"] = certificate
    if ca_cert is not None:
        credential["cacertificate"] = text_of(ca_cert)
    return {"credential": credential} if credential else {}
