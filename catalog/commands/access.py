"""The commands `access list`, `show`, `add` and `remove`: roles in groups."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from catalog.commands.console import (
    NO,
    AsJson,
    CommandError,
    cell,
    fail,
    on_node,
    out,
    print_json,
    run,
    table,
    wanted,
)
from catalog.commands.nodedatabase import (
    BY_COMMAND,
    DatabaseUrl,
    DataDir,
    NodeUrl,
    in_audited_transaction,
    settings_of,
)
from catalog.model.timestamps import format_time

if TYPE_CHECKING:
    from catalog.client import Client
    from catalog.model.caller import Author
    from catalog.operations.access import GrantingRule, NewRule
    from catalog.store.database import Connection

T = TypeVar("T")

_LISTED_AT_ONCE = 1000
_PATHS_LISTED = 10

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

RuleId = Annotated[str, typer.Argument(help="The id of the rule, as `concord access list` has it.")]
_GROUP_HELP = (
    "A group, as /schemagroups/contoso, with * for any characters: /schemagroups/contoso.* or "
    "/*/contoso.*. Repeatable."
)


@app.command("list")
def list_(
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """List the access rules: holder, role and groups. Of many groups, only the first are shown.

    Example: concord access list
    """
    place = ("list", url, data_dir, database_url)
    rules = ask_or_work(
        place, lambda client: client.rules(), lambda connection, _: _list(connection)
    )
    if as_json:
        print_json(rules)
        return
    shown = table("id", "role", "who", "groups", "since", "granted by")
    for rule in rules:
        listed = ", ".join(rule.paths)
        more = rule.pathscount - len(rule.paths)
        groups = f"{listed} and {more} more" if more else listed
        values = (rule.id, rule.role, rule.who, groups)
        shown.add_row(*map(cell, (*values, format_time(rule.createdat), rule.createdby)))
    out.print(shown if rules else "There are no rules; make one with `concord access add`.")


@app.command()
def show(
    id: RuleId,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Show a rule with every group of the rule.

    Example: concord access show 5be21f09aa
    """
    place = ("show", url, data_dir, database_url)
    rule = ask_or_work(
        place, lambda client: client.rule(id), lambda connection, _: _show(connection, id)
    )
    if as_json:
        print_json(rule)
        return
    out.print(cell(f"{rule.who} is {rule.role}, by {rule.createdby}, in"))
    for path in rule.paths:
        out.print(cell(path))


@app.command()
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
    group: Annotated[list[str], typer.Option(help=_GROUP_HELP, metavar="PATH")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
    url: NodeUrl = None,
) -> None:
    """Grant a role in groups, also future groups. The rule takes effect within two seconds.

    Example: concord access add writer --to token=3f0c9d51aa --group '/schemagroups/contoso.*'

    Example: concord access add reader --to anonymous --group '/*/public.*'
    """
    from catalog.operations.access import NewRule

    rule = wanted(NewRule, who=to, role=role, paths=group)
    place = ("add", url, data_dir, database_url)
    made = ask_or_work(
        place,
        lambda client: client.grant(rule),
        lambda connection, operator: _grant(connection, operator, rule),
    )
    if as_json:
        print_json(made)
        return
    out.print(
        f"Rule [bold]{cell(made.id)}[/]: {cell(made.who)} is {cell(made.role)} in "
        f"{cell(', '.join(made.paths))}."
    )


@app.command()
def remove(
    id: RuleId,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Take only this one of its groups from the rule. Repeatable."),
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: NodeUrl = None,
) -> None:
    """Revoke a rule within two seconds, completely or for named groups.

    Example: concord access remove 5be21f09aa

    Example: concord access remove 5be21f09aa --group /schemagroups/contoso.old
    """
    from catalog.operations.access import RuleChanges

    place = ("remove", url, data_dir, database_url)
    rule = ask_or_work(
        place, lambda client: client.rule(id), lambda connection, _: _show(connection, id)
    )
    left = _without(rule.paths, group) if group else []
    if left:
        changes = wanted(RuleChanges, paths=left)
        ask_or_work(
            place,
            lambda client: client.change_rule(id, changes),
            lambda connection, _: _change(connection, id, left),
        )
        out.print(f"Rule [bold]{cell(id)}[/] is for {len(left)} groups or patterns of groups now.")
        return
    ask_or_work(
        place, lambda client: client.remove_rule(id), lambda connection, _: _remove(connection, id)
    )
    out.print(f"Rule [bold]{cell(id)}[/] is gone.")


def _without(paths: list[str], taken: list[str]) -> list[str]:
    unwanted = {path.lower() for path in taken}
    if missing := unwanted - {*paths}:
        fail(f"The rule is not for {sorted(missing)[0]}.", "See `concord access show`.", code=NO)
    return [path for path in paths if path not in unwanted]


def ask_or_work(
    place: tuple[str, str | None, Path | None, str | None],
    ask: Callable[[Client], Awaitable[T]],
    work: Callable[[Connection, Author], Awaitable[T]],
) -> T:
    """Ask the node at a URL, or work on the database of a node.

    Args:
        place: the name of the command, the URL of the node, the data directory of the node, and
            the URL of the database. Without a URL of the node, the command uses the database.
    """
    command, url, data_dir, database_url = place
    if url is not None:
        return on_node(url, ask)
    settings = settings_of(data_dir, database_url)

    async def attempt(connection: Connection, operator: Author) -> T:
        from catalog.model.errors import XRegistryError

        try:
            return await work(connection, operator)
        except XRegistryError as error:
            raise CommandError(error.title, error.detail) from error

    return run(lambda: in_audited_transaction(settings, f"concord access {command}", attempt))


async def _list(connection: Connection) -> list[GrantingRule]:
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
    from catalog.access.rules import grant as keep

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
