"""The command group `link`, with the commands `add`, `list`, `show`, `reset`, `remove`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    cell,
    fail,
    fields,
    json_of,
    on_node,
    out,
    print_json,
    table,
    wanted,
)
from catalog.commands.optionsets import with_options
from catalog.model.linkterms import names_in_context
from catalog.model.masking import counted
from catalog.model.timestamps import format_time
from replication.commands import linkcontrol, linkcredential, linkfigures, linkselection
from replication.commands.dryrunresult import DryRun, print_dry_run
from replication.commands.linkcontrol import LinkId
from replication.commands.linkcredential import credential_in
from replication.commands.linkselection import labels_in, selection_in

if TYPE_CHECKING:
    from catalog.operations.links import FoundCatalog, LinkAnswer, LinkQuestion


app = typer.Typer(
    no_args_is_help=True,
    help="Follow other catalogs: their entities become read-only replicas.",
)

app.add_typer(linkcontrol.app)
app.add_typer(linkselection.app)
app.add_typer(linkcredential.app)
app.add_typer(linkfigures.app)


_MOST_ADVICE = 5
_SCHEMES = ("kafka://", "kafkas://")


# The verb for a link by its mode, as infinitive and in the present: "to follow", "follows".
_FOLLOWS = ("follow", "follows")
_VERBS = {
    "push": ("push to", "pushes to"),
    "publish": ("publish to", "publishes to"),
    "write": ("write to", "writes to"),
}


@app.command()
@with_options(selection=selection_in, labels=labels_in, credential=credential_in)
def add(
    source: Annotated[
        str | None, typer.Argument(help="URL of the catalog to follow.", show_default=False)
    ] = None,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file",
            "-f",
            help="A file with the definition of the link in YAML or JSON, as `link show` names its "
            "members; - is standard input. Other options replace members.",
            metavar="FILE",
        ),
    ] = None,
    mode: Annotated[
        Literal["events", "pull", "walk"] | None,
        typer.Option(
            help="Fetch changes at each event of the source, or periodically (pull), or read all "
            "of a server of any software again and again (walk).  [default: events, or walk]",
            show_default=False,
        ),
    ] = None,
    push: Annotated[
        str | None,
        typer.Option(
            help="Push to the catalog at this URL, instead of following one.", metavar="URL"
        ),
    ] = None,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="Follow what another catalog publishes to this topic of Kafka, or publish to it "
            "(--publish).",
            metavar="TOPIC",
        ),
    ] = None,
    event_topic: Annotated[
        str | None,
        typer.Option(
            help="Fetch changes when this topic of Kafka has an event of the source, which cannot "
            "reach this node.",
            metavar="TOPIC",
        ),
    ] = None,
    brokers: Annotated[
        str | None,
        typer.Option(
            help="Brokers of the Kafka cluster, with commas between; kafkas:// before them is TLS. "
            "Else those of the node's CONCORD_KAFKA_URL.",
            metavar="HOST:PORT",
        ),
    ] = None,
    publish: Annotated[
        bool, typer.Option("--publish", help="Publish this node's entities to the topic.")
    ] = False,
    write: Annotated[
        str | None,
        typer.Option(
            help="Write to the server at this URL, of any software, by its own API.", metavar="URL"
        ),
    ] = None,
    dialect: Annotated[
        Literal["xregistry", "messagecatalog", "discovery", "registry04", "confluent"] | None,
        typer.Option(help="The API of the server to walk or write to; found out unless given."),
    ] = None,
    confluent: Annotated[
        bool,
        typer.Option(
            "--confluent",
            help="Walk a schema registry for Kafka by the Confluent API; short for --dialect "
            "confluent.",
        ),
    ] = False,
    context: Annotated[
        str | None,
        typer.Option(
            help="The context here of what such a registry has in its default context; its other "
            "contexts have the name before theirs.  [default: the host of the source]",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    id: Annotated[str | None, typer.Option("--id", help="A name for the link.")] = None,
    pin: Annotated[
        str | None,
        typer.Option(
            help="The authority that the source speaks for; else the one that it names first.",
            metavar="URI",
        ),
    ] = None,
    relay: Annotated[
        bool,
        typer.Option("--relay", help="Bring all that the source has: believe it about everybody."),
    ] = False,
    authority: Annotated[
        list[str] | None,
        typer.Option(
            help="Bring the entities of this authority instead of the source's own. Repeatable.",
            metavar="URI",
        ),
    ] = None,
    *,
    selection: dict[str, Any],
    labels: dict[str, Any],
    credential: dict[str, Any],
    trust: Annotated[
        list[str] | None,
        typer.Option(
            help="Take only what this key of the authority has signed; `first` stands for the keys "
            "that the source shows at the first contact. Repeatable.",
            metavar="KEY",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Add the link without asking the source who it is.")
    ] = False,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Follow a catalog: copy its entities, then every change. Or push entities to a catalog.

    The node asks the source for its identity, and refuses a source that cannot be followed. From
    then on the source is pinned to its authority: only `concord link set --pin` changes the
    authority. An xRegistry server of other software is walked; the URL of the server is the
    authority, unless --pin names an authority.

    With --push, this node sends its entities to the other catalog, whose operator has to accept the
    pushes by `concord accept add`. Push links suit networks that allow only outgoing connections.

    With --write, the link writes to a server of other software, by the standard API of xRegistry or
    by an older API, and deletes only entities that the link has written.

    With --kafka, a topic is between the two catalogs, which need no path to each other: the source
    publishes to the topic, and any number of catalogs follow.

    Example: concord link add http://127.0.0.1:8080 --url http://127.0.0.1:8081

    From a file: concord link add -f eu.yaml
    """
    definition = {} if file is None else _read_definition(file)
    if kafka is not None and event_topic is not None:
        fail("A link leads to one topic.", "Give --kafka or --event-topic.")
    named = _topic_url(kafka or event_topic, brokers, publish=publish)
    topic = named if event_topic is None else None
    ends = sum(each is not None for each in (source, push, write, topic))
    if ends > 1 or not (ends or definition):
        fail(
            "Name the catalog to follow, the one to push to, the server to write to, or a topic.",
            "A file with --file may do so, too. See `concord link add --help`.",
        )
    if confluent and dialect not in (None, "confluent"):
        fail("A server is read by one API.", "Give --confluent or --dialect.")
    if confluent:
        dialect = "confluent"
    if context is not None:
        if dialect != "confluent":
            fail("Registries of the Confluent API have contexts.", "Give --confluent, too.")
        prefix, names = names_in_context(context.removeprefix("."))
        selection = {"prefix": prefix, "map": names} | selection
    from catalog.operations.links import NewLink

    given = {
        **_ends(source, mode or ("walk" if dialect else None), push, write, topic, publish=publish),
        **selection,
        **labels,
        **credential,
        "id": id,
        "authority": pin,
        "authorities": ["*"] if relay else authority,
        "dialect": dialect,
        "trust": trust,
        "eventtopic": named if event_topic is not None else None,
    }
    given = {name: value for name, value in given.items() if value is not None}
    new = wanted(NewLink, **definition | given)
    if dry_run:
        print_dry_run(on_node(url, lambda client: client.try_link(new)), as_json=as_json)
        return
    link = on_node(url, lambda client: client.add_link(new, force=force))
    if as_json:
        print_json(link)
        return
    shown, found = f"Link [bold]{cell(link.id)}[/]", link.found
    peer, (verb, verbs) = link.source or link.target, _VERBS.get(link.mode, _FOLLOWS)
    if found is None and (force or link.mode != "publish"):
        out.print(f"{shown} is added to {verb} {cell(peer)}, which was not asked who it is.")
        return
    if link.mode == "write" and found is not None:
        out.print(f"{shown} writes to {cell(found.authority)} ({cell(found.software)}).")
        return
    out.print(f"{shown} {verbs} {cell(peer)}.")
    if found is None:
        return
    held = "" if found.entities is None else f", {counted(found.entities, 'entities')}"
    if link.mode == "walk":
        _print_walked(found)
        return
    versions = f"{found.software}, digests of version {found.digestversion}"
    out.print(cell(f"It is the authority {found.authority} ({versions}{held})."))
    for other in () if link.mode == "push" else found.followedby:
        out.print(cell(f"Note: link {other} follows this authority already."))


def _read_definition(file: Path) -> dict[str, Any]:
    from catalog.documents.serialization import SourceFileError, read_object_file

    try:
        return read_object_file(file)
    except SourceFileError as error:
        fail(error.message, error.hint)


def _ends(
    source: str | None,
    mode: str | None,
    push: str | None,
    write: str | None,
    topic: str | None,
    *,
    publish: bool,
) -> dict[str, str | None]:
    """The members of a definition for the source, the target and the mode of a link."""
    if topic is not None and publish:
        return {"target": topic, "mode": "publish"}
    if topic is not None:
        return {"source": topic, "mode": "kafka"}
    if push is not None:
        return {"target": push, "mode": "push"}
    if write is not None:
        return {"target": write, "mode": "write"}
    return {"source": source, "mode": mode}


def _print_walked(found: FoundCatalog) -> None:
    shown = f"It is a server of {found.software}, and is read as a whole again and again."
    out.print(cell(f"{shown} Its entities are of the authority {found.authority}."))
    if found.left:
        out.print(
            cell(f"The model here has no types for, so they are left out: {', '.join(found.left)}.")
        )


@app.command("list")
def list_(as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """List the links of a node with their state.

    The lag is the age in seconds of the oldest change that the link may not have brought yet. The
    lag is 0 if the source had no new change at the last request, "confirmed" seconds ago. "behind"
    is the number of changes that are left. During a complete copy, the state shows the progress.

    Example: concord link list
    """
    links = on_node(url, lambda client: client.links())
    if as_json:
        print_json(links)
        return
    names = ("state", "behind", "lag", "confirmed", "applied", "rate", "conflicts", "error")
    units = {"lag": " (s)", "confirmed": " (s)", "rate": " (/s)"}
    columns = (f"{name}{units.get(name, '')}" for name in names)
    known = on_node(url, lambda client: client.authorities()) if links else []
    cards = {each.authority: each.card for each in known}
    shown = table("id", "other catalog", "direction", *columns)
    for link in links:
        told = {**vars(link), "state": _state_of(link)}
        peer = link.source or link.target or link.authority
        card = cards.get(link.authority or "")
        first = (link.id, f"{peer} ({card.name})" if card and card.name else peer)
        direction = f"{link.direction}, {link.mode}"
        shown.add_row(*map(cell, (*first, direction, *map(told.get, names))))
    out.print(shown if links else "This node has no links; add one with `concord link add`.")


def _state_of(link: LinkAnswer) -> str:
    """The state of a link, with the progress of a running complete copy."""
    progress = link.progress
    if progress is None or not progress.of:
        return link.state
    left = "" if progress.seconds is None else f", {progress.seconds:.0f} s left"
    return f"{link.state} {progress.copies / progress.of:.0%}{left}"


@app.command()
def show(id: LinkId, as_json: AsJson = False, url: Url = DEFAULT_URL) -> None:
    """Show one link, and the copies that the link could not apply.

    Example: concord link show eu
    """
    link = on_node(url, lambda client: client.link(id))
    conflicts = on_node(url, lambda client: client.conflicts(id))
    if as_json:
        print_json({**json_of(link), "conflicting": conflicts})
        return
    apart = ("question", "history")
    out.print(fields({n: v for n, v in json_of(link).items() if n not in apart}, _NAMES))
    if link.history:
        shown = table("at", "event", "detail", title="History")
        for event in link.history:
            shown.add_row(*map(cell, (format_time(event.at), event.event, event.detail)))
        out.print(shown)
    if link.question:
        _print_question(link.question)
    if conflicts:
        shown = table("xid", "authority", "epoch", "verdict", "detail", title="Not applied")
        for each in conflicts:
            members = (each.xid, each.authority, each.epoch, each.verdict, each.detail)
            shown.add_row(*map(cell, members))
        out.print(shown)
        told = dict.fromkeys(each.advice for each in conflicts if each.advice)
        for advice in [*told][:_MOST_ADVICE]:
            out.print(cell(advice))


_NAMES = {
    "eventtopic": "event topic",
    "lag": "lag (seconds)",
    "behind": "behind (changes)",
    "confirmed": "confirmed (seconds ago)",
    "currentat": "current at",
    "applied": "copies applied",
    "differing": "differing entities",
    "comparedat": "digests compared at",
    "appliedat": "last applied at",
    "succeededat": "last succeeded at",
    "rate": "copies per second",
    "bytes": "bytes in all",
    "failures": "failures in a row",
    "errors": "errors in all",
    "nextattemptat": "next attempt at",
}


def _print_question(question: LinkQuestion) -> None:
    number, first = question.deletions, question.first
    told = f"{number:,} of {counted(question.of, 'entities')}, digest {question.digest}"
    shown = table("origin", "authority", title=f"No longer at the source: {told}")
    for each in first:
        shown.add_row(cell(each.origin), cell(each.authority))
    out.print(shown)
    if number > len(first):
        out.print(cell(f"and {number - len(first):,} more"))


@app.command()
def reset(
    id: LinkId,
    drop: Annotated[
        bool,
        typer.Option("--drop", help="Drop the replicas of all authorities that it brings first."),
    ] = False,
    authority: Annotated[
        list[str] | None,
        typer.Option(help="Drop only the replicas of this authority. Repeatable.", metavar="URI"),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Copy everything again, without comparing first.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Compare all entities of a link with its source, and bring the differing entities again.

    The own entities of the source replace every copy of its authority in this catalog, whatever the
    epochs. Dropping also removes the copies of a relay. Catalogs that follow this node do not learn
    of the reset: reset their links, too.

    Example: concord link reset hub --drop
    """
    from catalog.operations.links import LinkReset

    extent = wanted(LinkReset, drop=drop, authorities=authority or [], full=full)
    on_node(url, lambda client: client.reset_link(id, extent))
    first = "drops its replicas and " if drop else ""
    then = "copies everything" if full or drop else "brings what differs"
    out.print(f"Link [bold]{cell(id)}[/] {first}{then} again.")


@app.command()
def remove(
    id: LinkId,
    drop: Annotated[
        bool, typer.Option("--drop", help="Drop the replicas that the link may bring first.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Stop following a catalog. The replicas of the link stay, unless dropped.

    Example: concord link remove eu
    """
    on_node(url, lambda client: client.remove_link(id, drop=drop))
    when = "as soon as its replicas are dropped" if drop else ""
    out.print(f"Link [bold]{cell(id)}[/] is removed {when}".rstrip() + ".")


def _topic_url(topic: str | None, brokers: str | None, *, publish: bool) -> str | None:
    """The URL of a topic, from a URL or from a name and brokers; `None` without a topic.

    Without brokers, the URL stands for the cluster in the settings of the node.
    """
    if topic is None:
        if brokers is not None or publish:
            fail("The topic is missing.", "Name it by --kafka TOPIC or --event-topic TOPIC.")
        return None
    if topic.startswith(_SCHEMES):
        if brokers is not None:
            fail("The topic is a URL, which names the brokers already.", "Leave --brokers out.")
        return topic
    if brokers is None:
        return f"{_SCHEMES[0]}/{topic}"
    scheme = next((each for each in _SCHEMES if brokers.startswith(each)), _SCHEMES[0])
    return f"{scheme}{brokers.removeprefix(scheme)}/{topic}"
