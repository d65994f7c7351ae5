"""The options for the credential of a link, and `link credential`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import typer

from catalog.commands.console import DEFAULT_URL, Url, cell, fail, on_node, out, wanted
from catalog.commands.optionsets import with_options
from catalog.commands.secretsource import SOURCE, secret_from, text_of
from replication.commands.linkcontrol import LinkId

app = typer.Typer()

_PANEL = "Credential that the link shows the other catalog"

TokenFrom = Annotated[
    str | None,
    typer.Option(
        help=f"The token that it shows: {SOURCE}.",
        metavar="SOURCE",
        rich_help_panel=_PANEL,
    ),
]
OAuthTokenUrl = Annotated[
    str | None,
    typer.Option(
        "--oauth-token-url",
        help="It shows tokens of this OAuth 2.0 token endpoint, as the client that the next "
        "options name.",
        metavar="URL",
        rich_help_panel=_PANEL,
    ),
]
OAuthClientId = Annotated[
    str | None,
    typer.Option("--oauth-client-id", help="The client.", metavar="ID", rich_help_panel=_PANEL),
]
OAuthClientSecretFrom = Annotated[
    str | None,
    typer.Option(
        "--oauth-client-secret-from",
        help=f"The client's secret: {SOURCE}.",
        metavar="SOURCE",
        rich_help_panel=_PANEL,
    ),
]
OAuthScope = Annotated[
    str | None,
    typer.Option(
        "--oauth-scope",
        help="The scope of the tokens: words with spaces between.",
        metavar="WORDS",
        rich_help_panel=_PANEL,
    ),
]
OAuthResource = Annotated[
    str | None,
    typer.Option(
        "--oauth-resource",
        help="The catalog that the tokens are for, where the endpoint asks for a resource.",
        metavar="URI",
        rich_help_panel=_PANEL,
    ),
]
OAuthAudience = Annotated[
    str | None,
    typer.Option(
        "--oauth-audience",
        help="The same, where the endpoint calls it an audience.",
        metavar="TEXT",
        rich_help_panel=_PANEL,
    ),
]
OAuthAuthentication = Annotated[
    Literal["client_secret_basic", "client_secret_post"] | None,
    typer.Option(
        "--oauth-authentication",
        help="How the secret is sent; client_secret_basic unless given.",
        rich_help_panel=_PANEL,
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        help="The user that it shows by HTTP's Basic authentication.",
        metavar="NAME",
        rich_help_panel=_PANEL,
    ),
]
PasswordFrom = Annotated[
    str | None,
    typer.Option(help=f"The user's password: {SOURCE}.", metavar="SOURCE", rich_help_panel=_PANEL),
]
ClientCert = Annotated[
    str | None,
    typer.Option(
        "--client-cert",
        help="A client certificate in PEM, with those that lead to its authority.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
ClientKey = Annotated[
    str | None,
    typer.Option(
        "--client-key",
        help="Its key in PEM, without a passphrase.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]
CaCert = Annotated[
    str | None,
    typer.Option(
        "--ca-cert",
        help="The authority of the other catalog's certificate in PEM, if it is a private one.",
        metavar="FILE",
        rich_help_panel=_PANEL,
    ),
]


def credential_in(
    token_from: TokenFrom = None,
    oauth_token_url: OAuthTokenUrl = None,
    oauth_client_id: OAuthClientId = None,
    oauth_client_secret_from: OAuthClientSecretFrom = None,
    oauth_scope: OAuthScope = None,
    oauth_resource: OAuthResource = None,
    oauth_audience: OAuthAudience = None,
    oauth_authentication: OAuthAuthentication = None,
    user: User = None,
    password_from: PasswordFrom = None,
    client_cert: ClientCert = None,
    client_key: ClientKey = None,
    ca_cert: CaCert = None,
) -> dict[str, Any]:
    """The member of a definition for the given options; empty if no option is given."""
    credential: dict[str, Any] = {}
    if token_from:
        credential["token"] = secret_from(token_from)
    given = {
        "tokenurl": oauth_token_url,
        "clientid": oauth_client_id,
        "clientsecret": oauth_client_secret_from and secret_from(oauth_client_secret_from),
        "scope": oauth_scope,
        "resource": oauth_resource,
        "audience": oauth_audience,
        "authentication": oauth_authentication,
    }
    if client := {name: value for name, value in given.items() if value is not None}:
        credential["oauth"] = client
    named = {"user": user, "password": password_from and secret_from(password_from)}
    if basic := {name: value for name, value in named.items() if value is not None}:
        credential["basic"] = basic
    parts = {"chain": client_cert, "key": client_key}
    if certificate := {name: text_of(file) for name, file in parts.items() if file is not None}:
        credential["certificate"] = certificate
    if ca_cert is not None:
        credential["cacertificate"] = text_of(ca_cert)
    return {"credential": credential} if credential else {}


@app.command()
@with_options(shown=credential_in)
def credential(
    id: LinkId,
    shown: dict[str, Any],
    none: Annotated[bool, typer.Option("--none", help="Let the link show nothing.")] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Replace the whole credential of a link; the link continues at once from its cursor.

    A link shows a token, the tokens that an OAuth client fetches, or a user with a password, and
    may have a client certificate besides. The node encrypts the credential at rest, and never shows
    its secrets again.

    Example: concord link credential eu --token-from EU_TOKEN
    """
    if bool(shown) == none:
        fail("Say what the link shows, or --none.", "See `concord link credential --help`.")
    from catalog.operations.links import LinkChanges

    changes = wanted(LinkChanges, **(shown or {"credential": {}}))
    on_node(url, lambda client: client.change_link(id, changes))
    out.print(f"Link [bold]{cell(id)}[/] shows another credential." if shown else _NOTHING)


_NOTHING = "The link shows no credential any more."
