"""The commands `link pause`, `resume`, `run`, `allow` and `adopt`."""

from __future__ import annotations

from typing import Annotated

import typer

from catalog.commands.console import DEFAULT_URL, AsJson, Url, cell, on_node, out, print_json
from catalog.model.masking import counted
from replication.commands.dryrunresult import DryRun, print_dry_run

app = typer.Typer()

LinkId = Annotated[
    str, typer.Argument(metavar="ID", help="The link's id, as `concord link list` shows it.")
]


@app.command()
def pause(
    id: LinkId,
    reason: Annotated[
        str | None, typer.Option(help="Why, for others who look at it.", metavar="TEXT")
    ] = None,
    url: Url = DEFAULT_URL,
) -> None:
    """Bring nothing until the link is resumed. Cursor and replicas of the link stay.

    After a pause longer than the source keeps its log, the link compares digests.

    Example: concord link pause eu --reason "the source is being moved"
    """
    on_node(url, lambda client: client.pause_link(id, reason))
    out.print(f"Link [bold]{cell(id)}[/] is paused.")


@app.command()
def resume(id: LinkId, url: Url = DEFAULT_URL) -> None:
    """Continue from the cursor at which the link was paused.

    Example: concord link resume eu
    """
    on_node(url, lambda client: client.resume_link(id))
    out.print(f"Link [bold]{cell(id)}[/] runs.")


@app.command()
def run(
    id: LinkId,
    dry_run: DryRun = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Read the source now, even if the link waits after a failure or has stopped.

    With --dry-run, nothing is written: digests are compared, or the other catalog is read.

    Example: concord link run eu
    """
    if dry_run:
        print_dry_run(on_node(url, lambda client: client.try_run(id)), as_json=as_json)
        return
    on_node(url, lambda client: client.run_link(id))
    out.print(f"Link [bold]{cell(id)}[/] reads its source.")


@app.command()
def allow(
    id: LinkId,
    digest: Annotated[
        str,
        typer.Argument(metavar="DIGEST", help="The question's, as `concord link show` shows it."),
    ],
    url: Url = DEFAULT_URL,
) -> None:
    """Let a link delete the entities of its question.

    A link whose source lost a large part of its entities is "asking": the link deletes none of the
    lost entities without permission. `concord link show` lists the entities and the digest of the
    question. The link then follows the present state of the source; for another loss, the link asks
    again.

    Example: concord link allow eu 3f2a9c51d07be684
    """
    link = on_node(url, lambda client: client.allow_link(id, digest))
    out.print(f"Link [bold]{cell(id)}[/] may delete {counted(link.allowed or 0, 'entities')}.")


@app.command()
def adopt(
    id: LinkId,
    default: Annotated[
        bool,
        typer.Option(
            "--default",
            help="Let the default context of a schema registry be the default context here.",
        ),
    ] = False,
    as_json: AsJson = False,
    url: Url = DEFAULT_URL,
) -> None:
    """Make what a paused link has brought from a server of other software this node's own.

    Let the server take no more writes, run the link a last time, and pause it. Then clients write
    here, and the link can be removed. Between nodes, `concord handover` does more.

    Example: concord link adopt old-registry --default
    """
    adopted = on_node(url, lambda client: client.adopt_link(id, default=default))
    if as_json:
        print_json(adopted)
        return
    number = counted(adopted.entities, "entities")
    out.print(f"{number} are this node's own now: {cell(', '.join(adopted.groups) or 'nothing')}.")
