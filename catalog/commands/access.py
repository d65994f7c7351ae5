"""The commands `access`: roles in groups, given by rules, and requests for roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    NO,
    AsJson,
    Url,
    call_node,
    cell,
    fail,
    out,
    print_answer,
    print_json,
    print_rows,
    table,
    wanted,
)
from catalog.commands.nodedatabase import BY_COMMAND, NodePlace, node_place
from catalog.commands.optionsets import with_options
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.model.caller import Author
    from catalog.operations.access import AccessDecision, AccessRequest, GrantingRule, NewRule
    from catalog.store.database import Connection

_LISTED_AT_ONCE = 1000
_PATHS_LISTED = 10
_MOST_REQUESTS_LISTED = 10_000

app = typer.Typer(
    no_args_is_help=True,
    help=(
        "Roles in groups: rules say who has which role in which groups. A caller without a role "
        "for the whole catalog sees the groups of its rules, and nothing else. On the node's "
        "machine, the commands use its database, whether it runs or not; with --url or "
        "CONCORD_URL, they ask the node: an admin manages all rules, an admin of some groups those "
        "that are for these only."
    ),
)

RequestState = Literal["open", "granted", "declined", "all"]
RuleId = Annotated[str, typer.Argument(help="The id of the rule, as `concord access list` has it.")]


@app.command("list")
@with_options(place=node_place)
def list_(
    place: NodePlace,
    requests: Annotated[
        RequestState | None,
        typer.Option(
            help="List requests instead of rules, in this state: your own, and those that you may "
            "decide."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the access rules, or requests. Of many groups of a rule, only the first are shown.

    Example: concord access list

    Example: concord access list --requests open
    """
    if requests is not None:
        _print_requests(place, requests, as_json=as_json)
        return
    from catalog.operations.access import LIST_RULES

    rules = place.list_or_work(LIST_RULES, lambda page: page.rules, _list)
    print_rows(
        rules,
        ("id", "role", "who", "groups", "since", "granted by"),
        lambda rule: (
            *(rule.id, rule.role, rule.who, _listed(rule)),
            *(format_time(rule.createdat), rule.createdby),
        ),
        nothing="There are no rules; make one with `concord access add`.",
        as_json=as_json,
    )


def _print_requests(place: NodePlace, state: RequestState, *, as_json: bool) -> None:
    from catalog.operations.access import LIST_REQUESTS, AccessRequestsQuery

    query = wanted(AccessRequestsQuery, state=None if state == "all" else state)
    found = place.list_or_work(
        LIST_REQUESTS,
        lambda page: page.requests,
        lambda connection, _: _list_requests(connection, query.state),
        query=query,
    )
    print_rows(
        found,
        ("id", "state", "role", "group", "who", "reason", "since", "note"),
        lambda each: (
            *(each.id, each.state, each.role, each.path),
            *(each.name or ("you" if each.isown else ""), each.reason),
            *(format_time(each.createdat), each.note or ""),
        ),
        nothing="There are no such requests.",
        as_json=as_json,
    )


def _listed(rule: GrantingRule) -> str:
    more = rule.pathscount - len(rule.paths)
    return ", ".join(rule.paths) + (f" and {more} more" if more else "")


@app.command()
@with_options(place=node_place)
def show(
    of: Annotated[
        str,
        typer.Argument(
            metavar="RULE|GROUP",
            help="The id of a rule, as `concord access list` has it, or a group, such as "
            "/messagegroups/orders.",
        ),
    ],
    place: NodePlace,
    as_json: AsJson = False,
) -> None:
    """Show a rule with all its groups, or who may read and write a group.

    The admins of a group see who has a role there; others see how many.

    Example: concord access show 5be21f09aa

    Example: concord access show /messagegroups/orders --url http://127.0.0.1:8080
    """
    if of.startswith("/"):
        _show_holders(place.url or DEFAULT_URL, of, as_json=as_json)
        return
    rule = _rule(place, of)
    told = cell(f"{rule.who} is {rule.role}, by {rule.createdby}, in")
    print_answer(rule, told, *map(cell, rule.paths), as_json=as_json)


@app.command()
@with_options(place=node_place)
def add(
    role: Annotated[
        str,
        typer.Argument(
            help="reader, writer (reads, too), replicator (follows, and pushes) or admin (writes, "
            "and grants in these groups what it has).",
            metavar="ROLE",
        ),
    ],
    to: Annotated[
        str,
        typer.Option(
            help="Whom: token=ID; the claims of a JWT, as "
            "'iss=https://id.example&groups=editors'; names of a certificate, as 'cn=eu.example'; "
            "or anonymous, for all who show no credential.",
            metavar="WHO",
        ),
    ],
    group: Annotated[
        list[str],
        typer.Option(
            help="A group, as /schemagroups/contoso, with * for any characters: "
            "/schemagroups/contoso.* or /*/contoso.*. Repeatable.",
            metavar="PATH",
        ),
    ],
    place: NodePlace,
    as_json: AsJson = False,
) -> None:
    """Grant a role in groups, also future groups. The rule takes effect within two seconds.

    Example: concord access add writer --to token=3f0c9d51aa --group '/schemagroups/contoso.*'

    Example: concord access add reader --to anonymous --group '/*/public.*'
    """
    from catalog.operations.access import CREATE_RULE, NewRule

    rule = wanted(NewRule, who=to, role=role, paths=group)
    made = place.call_or_work(
        CREATE_RULE, rule, work=lambda connection, operator: _grant(connection, operator, rule)
    )
    print_answer(
        made,
        f"Rule [bold]{cell(made.id)}[/]: {cell(made.who)} is {cell(made.role)} in "
        f"{cell(', '.join(made.paths))}.",
        as_json=as_json,
    )


@app.command()
@with_options(place=node_place)
def remove(
    id: RuleId,
    place: NodePlace,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Take only this one of its groups from the rule. Repeatable."),
    ] = None,
) -> None:
    """Revoke a rule within two seconds, completely or for named groups.

    Example: concord access remove 5be21f09aa

    Example: concord access remove 5be21f09aa --group /schemagroups/contoso.old
    """
    from catalog.operations.access import CHANGE_RULE, DELETE_RULE, RuleChanges

    rule = _rule(place, id)
    left = _without(rule.paths, group) if group else []
    if left:
        changes = wanted(RuleChanges, paths=left)
        place.call_or_work(
            CHANGE_RULE, changes, id=id, work=lambda connection, _: _change(connection, id, left)
        )
        out.print(f"Rule [bold]{cell(id)}[/] is for {len(left)} groups or patterns of groups now.")
        return
    place.call_or_work(DELETE_RULE, id=id, work=lambda connection, _: _remove(connection, id))
    out.print(f"Rule [bold]{cell(id)}[/] is gone.")


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
    from catalog.operations.access import REQUEST_ACCESS, NewAccessRequest

    asked = wanted(NewAccessRequest, role=role, path=group, reason=reason)
    made = call_node(url, REQUEST_ACCESS, asked)
    print_answer(
        made,
        f"Request [bold]{cell(made.id)}[/] waits for those who decide about {made.path}.",
        "`concord access list --requests all` tells what becomes of it.",
        as_json=as_json,
    )


@app.command()
@with_options(place=node_place)
def decide(
    id: Annotated[
        str, typer.Argument(help="The id of the request, as `concord access list --requests` has.")
    ],
    decision: Annotated[
        Literal["grant", "decline", "withdraw"],
        typer.Argument(
            help="By a grant, a rule gives the role to the caller who asked. Withdraw takes back "
            "a request of your own; a rule that was granted stays."
        ),
    ],
    place: NodePlace,
    note: Annotated[
        str, typer.Option(help="What the caller who asked is told.", metavar="TEXT")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Grant or decline a request for access, or withdraw your own.

    Example: concord access decide 5be21f09aa grant --url http://127.0.0.1:8080

    Example: concord access decide 5be21f09aa decline --note "Ask for reader."
    """
    from catalog.operations.access import WITHDRAW_REQUEST

    if decision == "withdraw":
        # Only a node knows the caller, whose own requests alone can be withdrawn.
        call_node(place.url or DEFAULT_URL, WITHDRAW_REQUEST, id=id)
        out.print(f"Request [bold]{cell(id)}[/] is gone.")
        return
    done = _decide(place, id, note, grants=decision == "grant")
    if done.rule is None:
        told = f"Request [bold]{cell(done.id)}[/] is declined."
    else:
        who = f"{done.name or 'The caller'} is {done.role} in {done.path}"
        told = f"{cell(who)} by rule [bold]{cell(done.rule)}[/]."
    print_answer(done, told, as_json=as_json)


def _show_holders(url: str, group: str, *, as_json: bool) -> None:
    from catalog.operations.access import LIST_HOLDERS, HoldersQuery

    found = call_node(url, LIST_HOLDERS, query=wanted(HoldersQuery, of=group))
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


def _rule(place: NodePlace, id: str) -> GrantingRule:
    from catalog.operations.access import GET_RULE

    return place.call_or_work(GET_RULE, id=id, work=lambda connection, _: _show(connection, id))


def _without(paths: list[str], taken: list[str]) -> list[str]:
    unwanted = {path.lower() for path in taken}
    if missing := unwanted - {*paths}:
        fail(f"The rule is not for {sorted(missing)[0]}.", "See `concord access show`.", code=NO)
    return [path for path in paths if path not in unwanted]


def _decide(place: NodePlace, id: str, note: str, *, grants: bool) -> AccessRequest:
    from catalog.operations.access import DECLINE_REQUEST, GRANT_REQUEST, AccessDecision

    decision = wanted(AccessDecision, note=note)

    async def work(connection: Connection, operator: Author) -> AccessRequest:
        return await _decided(connection, operator, id, decision, grants=grants)

    operation = GRANT_REQUEST if grants else DECLINE_REQUEST
    return place.call_or_work(operation, decision, id=id, work=work)


async def _list(connection: Connection, _: Author) -> list[GrantingRule]:
    from catalog.access.administration import rule_of
    from catalog.store.accessrules import first_paths, list_rules

    shown: list[GrantingRule] = []
    while True:
        after = shown[-1].id if shown else ""
        rules = await list_rules(connection, after=after, limit=_LISTED_AT_ONCE)
        paths = await first_paths(connection, [rule.id for rule in rules], _PATHS_LISTED)
        shown += [rule_of(rule, paths.get(rule.id, [])) for rule in rules]
        if len(rules) < _LISTED_AT_ONCE:
            return shown


async def _show(connection: Connection, id: str) -> GrantingRule:
    from catalog.access.administration import rule_of
    from catalog.store.accessrules import find_rule, read_paths

    rule = await find_rule(connection, id)
    if rule is None:
        fail(f"There is no rule {id!r}.", "See `concord access list`.", code=NO)
    return rule_of(rule, await read_paths(connection, id))


async def _grant(connection: Connection, operator: Author, rule: NewRule) -> GrantingRule:
    from catalog.access.administration import rule_of
    from catalog.access.rolerules import grant as keep

    made = await keep(connection, rule, by=BY_COMMAND, subject="/access/rules")
    operator.name_target(f"/access/rules/{made.id}")
    return rule_of(made, sorted(rule.paths))


async def _change(connection: Connection, id: str, paths: list[str]) -> GrantingRule:
    from catalog.store.accessrules import replace_paths

    await replace_paths(connection, id, paths)
    return await _show(connection, id)


async def _remove(connection: Connection, id: str) -> None:
    from catalog.store.accessrules import remove_rule

    await remove_rule(connection, id)


async def _list_requests(connection: Connection, state: str | None) -> list[AccessRequest]:
    from catalog.access.requestedroles import request_of
    from catalog.store.accessrules import list_requests

    found = await list_requests(
        connection,
        who="",
        within=None,
        state=state,
        path=None,
        after="",
        limit=_MOST_REQUESTS_LISTED,
    )
    return [request_of(each, is_own=False, is_decidable=True) for each in found]


async def _decided(
    connection: Connection, operator: Author, id: str, decision: AccessDecision, *, grants: bool
) -> AccessRequest:
    from catalog.access.requestedroles import check_open, decide, request_of
    from catalog.store.accessrules import find_request

    found = await find_request(connection, id, locks=True)
    if found is None:
        fail(f"There is no request {id!r}.", "See `concord access list --requests open`.", code=NO)
    check_open(found)
    operator.name_target(f"/access/requests/{id}")
    decided = await decide(
        connection, found, decision, "granted" if grants else "declined", by=BY_COMMAND
    )
    return request_of(decided, is_own=False, is_decidable=True)
