"""`delete`: groups, resources and versions, after a look at what goes with them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    err,
    fail,
    out,
    print_json,
    run,
)
from catalog.model.xid import Xid

if TYPE_CHECKING:
    from catalog.client import Client

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionTarget:
    """An entity to delete; `epoch` is the one that it must have, if that is given."""

    xid: Xid
    epoch: int | None

    def covers(self, other: DeletionTarget) -> bool:
        return f"{other.xid}/".startswith(f"{self.xid}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTarget:
    """A target as it is now.

    `holds` is how many entities of each kind lie right below it. `authority` is empty unless it
    is a replica; `origin` is its xid there.
    """

    target: DeletionTarget
    epoch: int | None
    holds: Mapping[str, int]
    is_only_version: bool
    authority: str
    origin: str

    def as_json(self, *, is_deleted: bool) -> dict[str, Any]:
        return {
            "xid": str(self.target.xid),
            "kind": self.target.xid.kind,
            "epoch": self.epoch,
            "holds": dict(self.holds),
            "deleted": is_deleted,
        }


@app.command()
def delete(
    xids: Annotated[
        list[str],
        typer.Argument(
            metavar="XID[=EPOCH]...",
            help="Groups, resources or versions, each with the epoch that it must have, if any.",
        ),
    ],
    epoch: Annotated[
        int | None,
        typer.Option(help="The epoch that the one XID must have.", metavar="N", min=0),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete entities with all that lies below them, one after the other.

    All of them are looked at first. What goes with them is shown, and the epoch that each has (a
    resource's is that of its meta). Without a terminal to ask at, --yes is needed. What the node
    refuses ends the command; what was deleted until then is told.

    Example: concord delete /messagegroups/weather

    Example: concord delete --yes /endpoints/alerts=3 /schemagroups/weather/schemas/alert

    Exit codes: 0 all deleted; 1 the node refuses, there is no such thing, or you say no; 2 it
    could not be done.
    """
    targets = _parse_all(xids, epoch)
    if not yes and not sys.stdin.isatty():
        fail("There is no terminal to ask at; nothing was deleted.", "Add --yes.")
    run(lambda: _delete_all(targets, url, is_agreed=yes, as_json=as_json))


def _parse_all(texts: Sequence[str], epoch: int | None) -> list[DeletionTarget]:
    targets = [_parse(text) for text in texts]
    if epoch is not None:
        if len(targets) > 1 or targets[0].epoch is not None:
            fail("--epoch goes with one XID.", "Give each its own like this: XID=EPOCH.")
        return [DeletionTarget(xid=targets[0].xid, epoch=epoch)]
    for place, one in enumerate(targets):
        for other in targets[place + 1 :]:
            if one.covers(other) or other.covers(one):
                fail(f"{one.xid} and {other.xid} overlap.", "Name what is to go only once.")
    return targets


def _parse(text: str) -> DeletionTarget:
    path, equals, number = text.partition("=")
    try:
        xid = Xid.parse(path)
    except ValueError:
        xid = Xid()
    if not xid.gid:
        fail(f"{text} is no group, resource or version.", "An xid is like /messagegroups/weather.")
    if equals and not (number.isascii() and number.isdecimal()):
        fail(f"{text} has no epoch after the =.", "An epoch is a number.")
    return DeletionTarget(xid=xid, epoch=int(number) if equals else None)


async def _delete_all(
    targets: Sequence[DeletionTarget], url: str, *, is_agreed: bool, as_json: bool
) -> None:
    from catalog.client import Client

    async with Client.open(url) as client:
        found = [await _look(client, target) for target in targets]
        if not is_agreed:
            for each in found:
                err.print(_described(each))
            if not typer.confirm("Delete?", err=True):
                err.print("Nothing was deleted.")
                raise typer.Exit(NO)
        done: list[FoundTarget] = []
        try:
            for each in found:
                await _delete(client, each)
                done.append(each)
                if not as_json:
                    out.print(f"Deleted {_described(each)}.")
        finally:
            if as_json:
                print_json([each.as_json(is_deleted=each in done) for each in found])
            elif done and len(done) < len(found):
                left = ", ".join(str(each.target.xid) for each in found[len(done) :])
                err.print(f"Not deleted: {cell(left)}.")


async def _look(client: Client, target: DeletionTarget) -> FoundTarget:
    """The state of a target.

    Raises:
        Refused: nothing.
    """
    xid = target.xid
    is_resource = xid.kind == "resource"
    shown = await client.entity(str(xid), inline=["meta"] if is_resource else [])
    siblings = await client.entity(str(xid.resource)) if xid.vid else {}
    authority = str(shown.get("authority", ""))
    return FoundTarget(
        target=target,
        epoch=(shown["meta"] if is_resource else shown).get("epoch"),
        holds={
            name.removesuffix("count"): count
            for name, count in shown.items()
            if name.endswith("count") and f"{name.removesuffix('count')}url" in shown
        },
        is_only_version=siblings.get("versionscount") == 1,
        authority=authority,
        origin=str(shown.get("origin", "")).removeprefix(authority),
    )


async def _delete(client: Client, found: FoundTarget) -> None:
    from catalog.client import Refused

    try:
        await client.delete(str(found.target.xid), epoch=found.target.epoch)
    except Refused as refused:
        if refused.problem.name != "readonly" or not found.authority:
            raise
        url = await client.url_of(found.authority)
        where = f": concord delete {found.origin} --url {url}" if url else "."
        hint = f"{found.authority} is its authority. Delete it there{where}"
        fail(refused.message, hint, code=NO)


def _described(found: FoundTarget) -> str:
    """A target, its epoch, and what goes with it."""
    below = ", ".join(f"{count} {plural}" for plural, count in found.holds.items() if count)
    text = f"{found.target.xid} (epoch {found.epoch})" + (f" with {below}" if below else "")
    if found.is_only_version:
        text += " and its resource, which has no other version"
    return cell(text + (f", a replica of {found.authority}" if found.authority else ""))
