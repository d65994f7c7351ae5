"""The command `delete`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catalog.commands.authorities import Follow, client_at, url_of
from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    Yes,
    cell,
    confirm,
    err,
    fail,
    on_node,
    out,
    print_json,
)
from catalog.model.xid import Xid

if TYPE_CHECKING:
    from catalog.client import Client

app = typer.Typer()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTarget:
    """The state of a target before it is deleted.

    Args:
        wanted: the epoch that the target must have, if any.
        epoch: the current epoch; of a resource, the epoch of the meta.
        holds: the number of direct children by plural.
        is_only_version: the target is the only version of a resource, and the resource is deleted
            along with the version.
        authority: the authority of a replica; otherwise empty.
        origin: the xid of a replica at the authority.
    """

    xid: Xid
    wanted: int | None
    epoch: int | None
    holds: Mapping[str, int]
    is_only_version: bool
    authority: str
    origin: str

    def as_json(self, *, is_deleted: bool) -> dict[str, Any]:
        return {
            "xid": str(self.xid),
            "kind": self.xid.kind,
            "epoch": self.epoch,
            "holds": dict(self.holds),
            "deleted": is_deleted,
        }

    def __str__(self) -> str:
        """The target with the epoch and the entities that are deleted along with the target."""
        below = ", ".join(f"{count} {plural}" for plural, count in self.holds.items() if count)
        text = f"{self.xid} (epoch {self.epoch})" + (f" with {below}" if below else "")
        if self.is_only_version:
            text += " and its resource, which has no other version"
        return text + (f", a replica of {self.authority}" if self.authority else "")


@app.command()
def delete(
    xids: Annotated[
        list[str],
        typer.Argument(
            metavar="XID[=EPOCH]",
            help="Groups, resources or versions, each with the epoch that it must have, if any.",
        ),
    ],
    yes: Yes = False,
    follow: Follow = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Delete entities with their descendants, entity by entity.

    The command reads all targets first, and shows the epoch (of a resource, the epoch of the meta)
    and the children of each target. Then the user confirms the deletion; without a terminal, --yes
    is needed. A replica is deleted at its authority, with --follow only. The first refusal ends
    the command, which lists the entities that were deleted before.

    Example: concord delete /messagegroups/weather

    Example: concord delete --yes /endpoints/alerts=3 /schemagroups/weather/schemas/alert

    Exit codes: 0 all deleted; 1 the node refuses, an entity does not exist, or you say no; 2 the
    command could not do its work.
    """
    targets = _parse_all(xids)
    on_node(
        url,
        lambda client: _delete_all(client, targets, is_agreed=yes, follows=follow, as_json=as_json),
    )


def _parse_all(texts: Sequence[str]) -> dict[Xid, int | None]:
    """The xids of texts such as XID=EPOCH, each with the epoch that the entity must have."""
    targets = [_parse(text) for text in texts]
    for (one, _), (other, _) in combinations(targets, 2):
        if f"{other}/".startswith(f"{one}/") or f"{one}/".startswith(f"{other}/"):
            fail(f"{one} and {other} overlap.", "Name each entity only once.")
    return dict(targets)


def _parse(text: str) -> tuple[Xid, int | None]:
    path, equals, number = text.partition("=")
    try:
        xid = Xid.parse(path)
    except ValueError:
        xid = Xid()
    if not xid.gid:
        fail(f"{text} is no group, resource or version.", "An xid is like /messagegroups/weather.")
    if equals and not (number.isascii() and number.isdecimal()):
        fail(f"{text} has no epoch after the =.", "An epoch is a number.")
    return xid, int(number) if equals else None


async def _delete_all(
    client: Client,
    targets: Mapping[Xid, int | None],
    *,
    is_agreed: bool,
    follows: bool,
    as_json: bool,
) -> None:
    found = [await _find(client, xid, epoch) for xid, epoch in targets.items()]
    if not is_agreed:
        for each in found:
            err.print(cell(str(each)))
        confirm("Delete?", yes=False)
    deleted: list[FoundTarget] = []
    try:
        for each in found:
            await _delete(client, each, follows=follows)
            deleted.append(each)
            if not as_json:
                out.print(f"Deleted {cell(str(each))}.")
    finally:
        # A refusal does not undo the earlier deletions, so the command reports them also then.
        if as_json:
            print_json([each.as_json(is_deleted=each in deleted) for each in found])
        elif deleted and len(deleted) < len(found):
            left = ", ".join(str(each.xid) for each in found[len(deleted) :])
            err.print(f"Not deleted: {cell(left)}.")


async def _find(client: Client, xid: Xid, wanted: int | None) -> FoundTarget:
    is_resource = xid.kind == "resource"
    shown = await client.entity(str(xid), inline=["meta"] if is_resource else [])
    resource = await client.entity(str(xid.resource)) if xid.vid else {}
    authority = str(shown.get("authority", ""))
    return FoundTarget(
        xid=xid,
        wanted=wanted,
        epoch=(shown["meta"] if is_resource else shown).get("epoch"),
        holds={
            name.removesuffix("count"): count
            for name, count in shown.items()
            if name.endswith("count") and f"{name.removesuffix('count')}url" in shown
        },
        is_only_version=resource.get("versionscount") == 1,
        authority=authority,
        origin=str(shown.get("origin", "")).removeprefix(authority),
    )


async def _delete(client: Client, found: FoundTarget, *, follows: bool) -> None:
    from catalog.client import Refused

    try:
        await client.delete(str(found.xid), epoch=found.wanted)
    except Refused as refused:
        if refused.problem.name != "readonly" or not found.authority:
            raise
        # The URL of the original, if the node knows one, ends with the xid at the authority.
        there = str(refused.problem.args.get("url", ""))
        if follows and there.endswith(found.origin):
            await _delete_at(there.removesuffix(found.origin), found)
            return
        url = await url_of(client, found.authority)
        command = f": concord delete {found.origin} --url {url}" if url else "."
        hint = f"{found.authority} is its authority. Delete it there{command}"
        fail(refused.message, hint, code=NO)


async def _delete_at(url: str, found: FoundTarget) -> None:
    """Delete a replica's original."""
    async with client_at(url) as authority:
        await authority.delete(found.origin, epoch=found.wanted)
