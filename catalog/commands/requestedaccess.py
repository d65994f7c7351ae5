"""The commands `access request`, `requests`, `grant`, `decline`, `withdraw` and `holders`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catalog.commands.access import ask_or_work
from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    cell,
    fail,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.commands.nodedatabase import BY_COMMAND, DatabaseUrl, DataDir, NodeUrl
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.operations.access import AccessDecision, AccessRequest
    from catalog.store.database import Connection

_MOST_LISTED = 10_000

app = typer.Typer()

RequestId = Annotated[
    str, typer.Argument(help="The id of the request, as `concord access requests` has it.")
]
Note = Annotated[str, typer.Option(help="What the caller who asked is told.", metavar="TEXT")]


@app.command()
def request(
    role: Annotated[
        str, typer.Argument(help="reader, writer, replicator or admin.", metavar="ROLE")
    ],
    group: Annotated[
        str, typer.Argument(help="The group, such as /messagegroups/orders.", metavar="PATH")
    ],
    reason: Annotated[
        str, typer.Option(help="Why, for those who decide.", metavar="TEXT", prompt=True)
    ],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Ask for a role in a group. Callers who may grant the role in the group decide.

    The node needs to know who asks: CONCORD_TOKEN or --token. A caller may have 20 open requests.

    Example: concord access request writer /messagegroups/orders --reason "We own the shop."
    """
    from catalog.operations.access import NewAccessRequest

    asked = wanted(NewAccessRequest, role=role, path=group, reason=reason)
    made = on_node(url, lambda client: client.request_access(asked))
    if as_json:
        print_json(made)
        return
    out.print(f"Request [bold]{cell(made.id)}[/] waits for those who decide about {made.path}.")
    out.print("`concord access requests` tells what becomes of it.")


@app.command()
def requests(
    state: Annotated[
        str | None, typer.Option(help="Only those that are open, granted or declined.")
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """List requests for access: your own, and those that you may decide.

    Example: concord access requests --state open
    """
    from catalog.operations.access import AccessRequestsQuery

    query = wanted(AccessRequestsQuery, state=state)
    place = ("requests", url, data_dir, database_url)
    found = ask_or_work(
        place,
        lambda client: client.access_requests(query),
        lambda connection, _: _list(connection, query.state),
    )
    if as_json:
        print_json(found)
        return
    shown = table("id", "state", "role", "group", "who", "reason", "since", "note")
    for each in found:
        who = each.name or ("you" if each.isown else "")
        texts = (each.id, each.state, each.role, each.path, who, each.reason)
        shown.add_row(*map(cell, (*texts, format_time(each.createdat), each.note or "")))
    out.print(shown if found else "There are no requests.")


@app.command()
def grant(
    id: RequestId,
    note: Note = "",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Grant a request: a rule gives the role to the caller who asked.

    Example: concord access grant 5be21f09aa --url http://127.0.0.1:8080
    """
    from catalog.operations.access import AccessDecision

    decision = wanted(AccessDecision, note=note)
    place = ("grant", url, data_dir, database_url)
    done = ask_or_work(
        place,
        lambda client: client.grant_request(id, decision),
        lambda connection, operator: _decide(connection, operator, id, decision, "granted"),
    )
    if as_json:
        print_json(done)
        return
    out.print(
        f"{cell(done.name or 'The caller')} is {done.role} in {cell(done.path)} by rule "
        f"[bold]{cell(done.rule or '')}[/]."
    )


@app.command()
def decline(
    id: RequestId,
    note: Note = "",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Decline a request.

    Example: concord access decline 5be21f09aa --note "Ask for reader."
    """
    from catalog.operations.access import AccessDecision

    decision = wanted(AccessDecision, note=note)
    place = ("decline", url, data_dir, database_url)
    done = ask_or_work(
        place,
        lambda client: client.decline_request(id, decision),
        lambda connection, operator: _decide(connection, operator, id, decision, "declined"),
    )
    if as_json:
        print_json(done)
        return
    out.print(f"Request [bold]{cell(done.id)}[/] is declined.")


@app.command()
def withdraw(id: RequestId, url: Url = DEFAULT_URL) -> None:
    """Take back a request of your own. A rule that was granted stays.

    Example: concord access withdraw 5be21f09aa
    """
    on_node(url, lambda client: client.withdraw_request(id))
    out.print(f"Request [bold]{cell(id)}[/] is gone.")


@app.command()
def holders(
    group: Annotated[
        str, typer.Argument(help="The group, such as /messagegroups/orders.", metavar="PATH")
    ],
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Show who may read and write a group: names to its admins, numbers to others.

    Example: concord access holders /messagegroups/orders
    """
    found = on_node(url, lambda client: client.holders(group))
    if as_json:
        print_json(found)
        return
    if found.open:
        out.print("This node is open: everybody may do everything.")
    if found.authority:
        out.print(f"A copy, which is written at its owner: {cell(found.authority)}")
    out.print(f"Your roles there: {', '.join(found.yours) or 'none'}")
    if found.holders is None:
        numbers = ", ".join(f"{number} {role}" for role, number in found.numbers.items())
        out.print(f"Roles are given {numbers or 'to nobody'}; its admins see to whom.")
        return
    shown = table("role", "who", "name", "by", "at")
    for each in found.holders:
        by = f"rule {each.rule}" if each.rule else each.by
        shown.add_row(*map(cell, (each.role, each.who, each.name or "", by, each.path)))
    out.print(shown)


async def _list(connection: Connection, state: str | None) -> list[AccessRequest]:
    from catalog.access.requestedroles import request_of
    from catalog.store.accessrules import list_requests

    found = await list_requests(
        connection, who="", within=None, state=state, path=None, after="", limit=_MOST_LISTED
    )
    return [request_of(each, is_own=False, is_decidable=True) for each in found]


async def _decide(
    connection: Connection,
    operator: Author,
    id: str,
    decision: AccessDecision,
    state: Literal["granted", "declined"],
) -> AccessRequest:
    from catalog.access.requestedroles import check_open, decide, request_of
    from catalog.store.accessrules import find_request

    found = await find_request(connection, id, locks=True)
    if found is None:
        fail(f"There is no request {id!r}.", "See `concord access requests`.", code=NO)
    check_open(found)
    operator.name_target(f"/access/requests/{id}")
    decided = await decide(connection, found, decision, state, by=BY_COMMAND)
    return request_of(decided, is_own=False, is_decidable=True)
