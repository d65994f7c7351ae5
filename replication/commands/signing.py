"""The commands `signing` and `trust`: signatures of this node, and the keys of others."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Annotated

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    json_of,
    on_node,
    out,
    print_answer,
    print_json,
    table,
    wanted,
)

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.operations.signing import Finding, SignatureFault, Signing

app = typer.Typer(
    no_args_is_help=True,
    help=("Sign what a node publishes: whoever trusts its key notices what relays have changed."),
)

_FINDINGS: tuple[Finding, ...] = ("verified", "unsigned", "unknown", "false", "damaged")
_MOST_FAULTS = 20
trust_app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Keys of other authorities. Of an authority with a key here, a node takes nothing, by "
        "whatever link or push, that the key or one that it stands for has not signed."
    ),
)
Authority = Annotated[str, typer.Argument(metavar="URI", help="The authority.")]


@app.command("set")
def set_signing(
    on: Annotated[bool, typer.Argument(metavar="on|off", help="Whether the node signs.")],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Sign every new write of the node, then the existing entities; or stop signing.

    The first `on` makes a key. The secret of the key is encrypted in the node's database. After
    `off`, nodes that trust the keys of this node refuse its new copies.

    Example: concord signing set on
    """
    from catalog.operations.signing import SET_SIGNING, SigningSwitch

    state = call_node(url, SET_SIGNING, SigningSwitch(on=on))
    if on:
        _tell(state, "The node signs", as_json=as_json)
    else:
        told = "The node signs nothing more. What it has signed stays valid."
        print_answer(state, told, as_json=as_json)


@app.command()
def rotate(
    revoke: Annotated[
        bool,
        typer.Option(
            "--revoke", help="The old key may be known to others: nothing that it signed is valid."
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Sign with a new key. The old key signs the new key, so catalogs with the old key trust both.

    The secret of the old key is destroyed. Signatures of the old key stay valid, unless the key is
    revoked: then every entity is signed anew.

    Example: concord signing rotate
    """
    from catalog.operations.signing import ROTATE_KEY, KeyRotation

    state = call_node(url, ROTATE_KEY, KeyRotation(revoke=revoke))
    _tell(state, "A new key signs", as_json=as_json)


@app.command()
def show(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show whether a node signs, and its present and former keys.

    Example: concord signing show
    """
    from catalog.operations.signing import GET_SIGNING

    state = call_node(url, GET_SIGNING)
    if as_json:
        print_json(state)
        return
    columns = ("id", "key", "createdat", "retiredat", "revokedat")
    shown = table(*columns)
    for key in map(json_of, state.keys):
        shown.add_row(*(cell(key.get(name)) for name in columns))
    if state.keys:
        out.print(shown)
    if not state.on:
        out.print("The node signs nothing; `concord signing set on` begins with it.")
    elif not state.complete:
        out.print("What was there before is being signed.")


def _tell(state: Signing, what: str, *, as_json: bool) -> None:
    print_answer(
        state,
        f"{what} as {cell(state.authority)} with the key [bold]{cell(state.key)}[/].",
        cell(f"Others trust it by: concord trust add {state.authority} {state.key}"),
        as_json=as_json,
    )


@app.command()
def verify(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Check the signatures and digests of the entities and tombstones of a node.

    The result counts, by authority, entities that are verified, unsigned, signed by an unknown
    key, signed falsely, or damaged. The signatures of an authority without trusted keys are
    checked with the keys that the authority, or a relay, has told.

    Example: concord signing verify

    Exit codes: 0 no faults; 1 an entity is falsely signed or damaged, or is unsigned although keys
    of the authority are trusted; 2 the command could not do its work.
    """
    counts, pinned, faults = on_node(url, _verify)
    wrong = sum(count["false"] + count["damaged"] for count in counts.values())
    wrong += sum(counts[authority]["unsigned"] for authority in pinned if authority in counts)
    if as_json:
        shown = {authority: dict(count) for authority, count in counts.items()}
        print_json({"counts": shown, "pinned": sorted(pinned), "faults": faults})
    else:
        _show(counts, pinned, faults)
    if wrong:
        raise typer.Exit(NO)


async def _verify(
    client: Client,
) -> tuple[dict[str, Counter[Finding]], set[str], list[SignatureFault]]:
    from catalog.operations.signing import CHECK_SIGNATURES, PartQuery

    counts: defaultdict[str, Counter[Finding]] = defaultdict(Counter)
    pinned: set[str] = set()
    faults: list[SignatureFault] = []
    after: str | None = ""
    while after is not None:
        part = await client.call(CHECK_SIGNATURES, query=PartQuery(after=after))
        for authority, count in part.counts.items():
            counts[authority].update(count)
        pinned |= set(part.pinned)
        faults += part.faults[: _MOST_FAULTS - len(faults)]
        after = part.after
    return dict(counts), pinned, faults


def _show(
    counts: dict[str, Counter[Finding]], pinned: set[str], faults: list[SignatureFault]
) -> None:
    shown = table("authority", "keys", *_FINDINGS)
    for authority, count in sorted(counts.items()):
        keys = "trusted" if authority in pinned else "as told"
        shown.add_row(cell(authority), keys, *(cell(count[name]) for name in _FINDINGS))
    out.print(shown if counts else "This node has nothing to verify.")
    for fault in faults:
        out.print(f"  {cell(fault.xid)} of {cell(fault.authority)}: {cell(fault.detail)}")


@trust_app.command()
def add(
    authority: Authority,
    key: Annotated[
        str,
        typer.Argument(metavar="KEY", help="Its key, as `concord signing show` prints it there."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Trust a key of an authority, and refuse unsigned copies of the authority from now on.

    Get the key from the operator of the catalog, by a way that you trust. Existing copies stay;
    `concord signing verify` checks them.

    Example: concord trust add https://eu.example.com ed25519:1:S0mEkEy…
    """
    from catalog.operations.signing import ADD_TRUST, NewTrust

    asked = wanted(NewTrust, authority=authority, key=key)
    trusted = call_node(url, ADD_TRUST, asked)
    ids = ", ".join(each.id for each in trusted.keys if each.revokedat is None)
    out.print(f"Of {cell(authority)}, only what these keys sign is taken: [bold]{cell(ids)}[/].")


@trust_app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the keys that a node trusts, with the reason of each.

    `named`: by `concord trust add` or a link; `first`: the source showed the key at the first
    contact; `endorsed`: another trusted key has signed the key.

    Example: concord trust list
    """
    from catalog.operations.signing import LIST_TRUST

    found = call_node(url, LIST_TRUST).trusted
    if as_json:
        print_json(found)
        return
    shown = table("authority", "key", "reason", "since", "revoked")
    for each in found:
        for key in map(json_of, each.keys):
            values = key["key"], key["reason"], key["trustedat"], key.get("revokedat")
            shown.add_row(cell(each.authority), *map(cell, values))
    out.print(shown if found else "This node trusts no keys, and takes what is not signed.")


@trust_app.command()
def remove(authority: Authority, url: Url = DEFAULT_URL) -> None:
    """Forget the keys of an authority, and accept its unsigned copies again.

    A link that was added with `--trust first` trusts again the next keys that its source shows.

    Example: concord trust remove https://eu.example.com
    """
    from catalog.operations.signing import REMOVE_TRUST, AuthorityQuery

    query = wanted(AuthorityQuery, authority=authority)
    call_node(url, REMOVE_TRUST, query=query)
    out.print(f"Of {cell(authority)}, anything is taken again, signed or not.")
