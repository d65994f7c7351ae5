"""The options of commands for deliveries to a sink: protocol, settings and credential."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from catalog.commands.console import fail
from catalog.model.sinkterms import SignatureScheme

SECRET_VARIABLE = "CONCORD_SINK_SECRET"
_LARGEST_CREDENTIAL = 64 * 1024
_CREDENTIAL = '{"credentialtype": "PLAIN", "identifier": "bob", "secret": "…"}'

Protocol = Annotated[
    str | None,
    typer.Option(
        help="The delivery protocol, such as HTTP or KAFKA; `concord subscription protocols` lists "
        "them. Without it, the scheme of the sink's URL decides: kafka:// is KAFKA, mqtt:// MQTT5.",
        metavar="NAME",
    ),
]
ProtocolSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--setting",
        help="A setting of the protocol, such as topicname=events. Repeatable. A value that is "
        "JSON counts as JSON, so a text of digits needs quotes: 'topicname=\"2026\"'.",
        metavar="NAME=VALUE",
    ),
]
Signature = Annotated[
    SignatureScheme | None,
    typer.Option(
        help="Sign every request over HTTP, as Standard Webhooks say, with a key that the node "
        "makes. It is printed for the receiver, who checks requests with it: the public key for "
        "ed25519, the shared secret, this once, for hmac-sha256.",
    ),
]
User = Annotated[
    str | None,
    typer.Option(
        "--user",
        help=f"The user that the node proves to be, with the password that {SECRET_VARIABLE} "
        "has: a command line can be read by others on the machine.",
        metavar="NAME",
    ),
]
CredentialFile = Annotated[
    str | None,
    typer.Option(
        "--credential",
        help=f"A file with the sinkcredential in JSON, such as {_CREDENTIAL}; - is standard input.",
        metavar="FILE",
    ),
]


def settings_of(texts: list[str], signature: SignatureScheme | None) -> dict[str, Any]:
    """The protocol settings of `NAME=VALUE` texts, with the signature."""
    given = dict(map(_setting, texts))
    if signature is None:
        return given
    if "signature" in given:
        fail("--signature and --setting signature=… exclude each other.")
    return {**given, "signature": signature}


def _setting(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        # The message does not quote the text, which may be a secret.
        fail("A setting needs a name and a value.", "Write it like --setting topicname=events.")
    try:
        return name, orjson.loads(value)
    except orjson.JSONDecodeError:
        return name, value


def credential_of(user: str | None, file: str | None) -> dict[str, Any] | None:
    """The credential of a user with a password, or of a file; `None` without either."""
    if user is not None and file is not None:
        fail("--user and --credential exclude each other.")
    if user is not None:
        return _password_of(user)
    return None if file is None else _read_credential(file)


def _password_of(user: str) -> dict[str, Any]:
    secret = os.environ.get(SECRET_VARIABLE)
    if not secret:
        fail(
            f"The variable {SECRET_VARIABLE} has no password for {user}.",
            f"Set it for this command: read -rs {SECRET_VARIABLE}; export {SECRET_VARIABLE}",
        )
    return {"credentialtype": "PLAIN", "identifier": user, "secret": secret}


def _read_credential(file: str) -> dict[str, Any]:
    try:
        if file == "-":
            text = sys.stdin.buffer.read(_LARGEST_CREDENTIAL)
        else:
            with Path(file).open("rb") as opened:
                text = opened.read(_LARGEST_CREDENTIAL)
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.")
    try:
        credential = orjson.loads(text)
    except orjson.JSONDecodeError:
        credential = None
    if not isinstance(credential, dict):
        # The message does not quote the content, which may be the secret.
        fail(f"{file} is not a credential in JSON.", f"Write it like {_CREDENTIAL}.")
    return credential


def protocol_of(sink: str) -> str:
    """The delivery protocol for the scheme of a sink's URL; HTTP for an unknown scheme."""
    from catalog.subscriptions.sinks.protocols import PROTOCOLS

    scheme = sink.partition(":")[0].lower()
    speaking = (name for name, each in PROTOCOLS.items() if scheme in each.schemes[name])
    return next(speaking, "HTTP")
