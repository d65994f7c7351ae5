"""The commands that define links: `link add`, `link accept` and `link set`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catalog.commands.console import (
    DEFAULT_URL,
    AsJson,
    Url,
    call_node,
    cell,
    fail,
    object_in,
    on_node,
    out,
    print_answer,
    print_json,
    wanted,
)
from catalog.commands.optionsets import with_options
from catalog.model.linkterms import names_in_context
from catalog.model.masking import counted
from replication.commands.linkoptions import PAIRED, LinkId, credential_in, labels_in, selection_in
from replication.commands.links import DryRun, print_dry_run

if TYPE_CHECKING:
    from catalog.operations.links import FoundCatalog, LinkAnswer

_SCHEMES = ("kafka://", "kafkas://")
# The verb for a link by its mode, as infinitive and in the present: "to follow", "follows".
_FOLLOWS = ("follow", "follows")
_VERBS = {
    "push": ("push to", "pushes to"),
    "publish": ("publish to", "publishes to"),
    "write": ("write to", "writes to"),
}

app = typer.Typer()


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
            "(--publish): a URL, as kafka://HOST:PORT,HOST:PORT/TOPIC (kafkas:// is TLS), or the "
            "name of a topic of the node's CONCORD_KAFKA_URL.",
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
    context: Annotated[
        str | None,
        typer.Option(
            help="With --dialect confluent: the context here of what is in the registry's default "
            "context; its other contexts have the name before theirs.  [default: the host of the "
            "source]",
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
    pushes by `concord link accept`. Push links suit networks that allow only outgoing connections.

    With --write, the link writes to a server of other software, by the standard API of xRegistry or
    by an older API, and deletes only entities that the link has written.

    With --kafka, a topic is between the two catalogs, which need no path to each other: the source
    publishes to the topic, and any number of catalogs follow.

    Example: concord link add http://127.0.0.1:8080 --url http://127.0.0.1:8081

    From a file: concord link add -f eu.yaml
    """
    definition = {} if file is None else object_in(file)
    if kafka is not None and event_topic is not None:
        fail("A link leads to one topic.", "Give --kafka or --event-topic.")
    named = _topic_url(kafka or event_topic, publish=publish)
    topic = named if event_topic is None else None
    ends: list[tuple[str | None, dict[str, str | None]]] = [
        (source, {"source": source, "mode": mode or ("walk" if dialect else None)}),
        (push, {"target": push, "mode": "push"}),
        (write, {"target": write, "mode": "write"}),
        (
            topic,
            {"target": topic, "mode": "publish"} if publish else {"source": topic, "mode": "kafka"},
        ),
    ]
    chosen = [members for url, members in ends if url is not None]
    if len(chosen) > 1 or not (chosen or definition):
        fail(
            "Name the catalog to follow, the one to push to, the server to write to, or a topic.",
            "A file with --file may do so, too. See `concord link add --help`.",
        )
    if context is not None:
        if dialect != "confluent":
            fail("Registries of the Confluent API have contexts.", "Give --dialect confluent, too.")
        prefix, names = names_in_context(context.removeprefix("."))
        selection = {"prefix": prefix, "map": names} | selection
    from catalog.operations.links import TRY_LINK, NewLink, NewLinkQuery

    given = {
        **(chosen[0] if chosen else ends[0][1]),
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
        print_dry_run(
            call_node(url, TRY_LINK, new, query=NewLinkQuery(dryrun=True)), as_json=as_json
        )
        return
    link = on_node(url, lambda client: client.add_link(new, force=force))
    if as_json:
        print_json(link)
        return
    _print_added(link, force=force)


def _print_added(link: LinkAnswer, *, force: bool) -> None:
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


def _print_walked(found: FoundCatalog) -> None:
    shown = f"It is a server of {found.software}, and is read as a whole again and again."
    out.print(cell(f"{shown} Its entities are of the authority {found.authority}."))
    if found.left:
        out.print(
            cell(f"The model here has no types for, so they are left out: {', '.join(found.left)}.")
        )


def _topic_url(topic: str | None, *, publish: bool) -> str | None:
    """The URL of a topic, from a URL or from a name; `None` without a topic.

    A name is of the cluster in the settings of the node.
    """
    if topic is None:
        if publish:
            fail("The topic is missing.", "Name it by --kafka TOPIC.")
        return None
    return topic if topic.startswith(_SCHEMES) else f"{_SCHEMES[0]}/{topic}"


@app.command()
@with_options(selection=selection_in)
def accept(
    authority: Annotated[
        str, typer.Argument(metavar="URI", help="The authority of the catalog that pushes.")
    ],
    id: Annotated[str | None, typer.Option("--id", help="A name for what is accepted.")] = None,
    *,
    selection: dict[str, Any],
    relay: Annotated[
        list[str] | None,
        typer.Option(
            help="Accept the entities of this authority, too; * stands for all. Repeatable.",
            metavar="URI",
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Accept pushes of a catalog: its own entities, unless --relay names more authorities.

    At the pushing catalog, `concord link add --push` starts the pushes. The stated authority of a
    sender is not proven: anyone who reaches the node can push in the name of the authority.

    Example: concord link accept https://eu.example.com --scope /messagegroups/eu
    """
    from catalog.operations.links import NewLink

    relays = relay or []
    authorities = relays if relays in ([], ["*"]) else [authority, *relays]
    link = wanted(
        NewLink, id=id, mode="accept", authority=authority, authorities=authorities, **selection
    )
    accepted = on_node(url, lambda client: client.add_link(link))
    print_answer(
        accepted,
        f"Pushes of {cell(authority)} are accepted, as [bold]{cell(accepted.id)}[/].",
        f"There, run: concord link add --push {cell(url)}",
        as_json=as_json,
    )


@app.command("set")
@with_options(selection=selection_in, labels=labels_in, shown=credential_in)
def set_(
    id: LinkId,
    selection: dict[str, Any],
    labels: dict[str, Any],
    shown: dict[str, Any],
    no_credential: Annotated[
        bool, typer.Option("--no-credential", help="Let the link show nothing.")
    ] = False,
    pin: Annotated[
        str | None,
        typer.Option(help="The authority that the source of the link speaks for.", metavar="URI"),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The URL that the catalog of the link has moved to.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Do not ask --source whether it is the same catalog.")
    ] = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Change the selection and the names of a link; options that are not given stay.

    Each option replaces the former values of the link, but --map and --address add pairs; an empty
    value (--type '') removes all values. Entities that are no longer selected leave. Only missing
    entities are fetched. Groups with a new name are renamed, and endpoints get their new addresses
    in place.

    A link shows a token, the tokens that an OAuth client fetches, or a user with a password, and
    may have a client certificate besides. A new credential replaces the whole former one, and the
    link continues at once from its cursor. The node encrypts the credential at rest, and never
    shows its secrets again.

    --source is for a catalog with a new URL (for a link that pushes, the target): if the same node
    answers there, the link continues from its cursor.

    --pin sets a new authority of the source, and copies the entities of the new authority. The
    replicas of the former authority stay; `concord link reset --drop` drops replicas.

    Example: concord link set eu --type messagegroups --prefix eu-

    Example: concord link set eu --token-from EU_TOKEN
    """
    if shown and no_credential:
        fail("--no-credential and a credential exclude each other.")
    if no_credential:
        shown = {"credential": {}}
    selection |= labels
    if not (selection or source or pin or shown):
        fail("Nothing is to be changed.", "See `concord link set --help`.")
    from catalog.operations.links import LinkChanges, LinkSelection

    # The API replaces a map as a whole, while the options add to it.
    before = on_node(url, lambda client: client.link(id))
    for name in PAIRED:
        if selection.get(name):
            selection[name] = {**getattr(before, name), **selection[name]}
    if source:
        selection["target" if before.target else "source"] = source
    changes = wanted(LinkChanges, **selection, **shown, authority=pin)
    link = on_node(url, lambda client: client.change_link(id, changes, force=force))
    members = LinkSelection.model_fields
    told = ", ".join(f"{name}: {cell(getattr(link, name) or None)}" for name in members)
    out.print(f"Link [bold]{cell(id)}[/] is changed. {told}.")
    if shown:
        out.print(
            "It shows no credential any more." if no_credential else "It shows another credential."
        )
    if pin:
        out.print(f"It is pinned to {cell(link.authority)}.")
    if source:
        out.print(f"It goes on at {cell(source)}.")
