"""The command `watch`: raises findings from the change streams of catalogs within seconds."""

from __future__ import annotations

import signal
from dataclasses import asdict
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated

import typer

from catalog import install_command
from catalog.commands.console import AsJson, cell, err, fail, out, show_error
from catalog.commands.optionsets import with_options
from catalog.commands.secretsources import TokensOf, catalog_tokens

if TYPE_CHECKING:
    from replication.reconcile.streamwatch import StreamFinding

app = typer.Typer()


@app.command()
@with_options(tokens_of=catalog_tokens)
def watch(
    catalog: Annotated[
        list[str],
        typer.Option(
            help="The name and address of a catalog: the URL of a node, or a topic to which a node "
            "publishes (kafka://broker/topic). Repeatable.",
            metavar="NAME=ADDRESS",
        ),
    ],
    report: Annotated[
        Path, typer.Option(help="The directory of the findings, and of the state of the watch.")
    ],
    every: Annotated[
        float, typer.Option(min=0.1, help="Read the streams so often.", metavar="SECONDS")
    ] = 5.0,
    lag: Annotated[
        float,
        typer.Option(
            min=0, help="How long a replica may take to show a change.", metavar="SECONDS"
        ),
    ] = 60.0,
    notify: Annotated[
        str | None,
        typer.Option(help="Send findings to this web hook, as CloudEvents.", metavar="URL"),
    ] = None,
    master: Annotated[str, typer.Option(help="Watch on the Spark of this master.")] = "",
    *,
    tokens_of: TokensOf,
    as_json: AsJson = False,
) -> None:
    """Watch the change streams of catalogs, and raise what is wrong with them within seconds.

    Findings: a gap (a stream does not go on where it was read to), regressed (an epoch went back),
    diverged (the same epoch, another content), late (a replica has not shown a change in --lag
    seconds). The watch sees changes from its start on: `concord reconcile` compares everything.

    Findings are in Parquet files in the directory, each once. A watch that was killed goes on where
    it was, with the same directory. Ctrl-C ends it.

    Example: concord watch --catalog eu=http://127.0.0.1:8080 --catalog us=http://127.0.0.1:8081
    --report ./watch
    """
    if find_spec("pyspark") is None:
        fail("Spark is not installed.", f"Install it with: {install_command('spark')}")
    from replication.reconcile.errors import ReconcileError
    from replication.reconcile.inputs.capturedinputs import TopicInput
    from replication.reconcile.inputs.input import parse_inputs
    from replication.reconcile.inputs.nodeinput import NodeInput
    from replication.reconcile.results import notify_found
    from replication.reconcile.sparksession import open_session, spark_errors
    from replication.reconcile.streamwatch import StreamWatch
    from replication.reconcile.topology import topology_of

    is_over = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_over.set())
    try:
        known = tokens_of(catalog)
        given = parse_inputs(catalog, known)
        inputs = [each for each in given if isinstance(each, NodeInput | TopicInput)]
        if len(inputs) < len(given):
            raise ReconcileError("Only nodes and topics have a stream.", "Leave the others out.")
        names = [each.name for each in inputs]
        if len({*names}) < len(names):
            raise ReconcileError("Two catalogs have the same name.", "Give each its own name.")
        nodes = [each for each in inputs if isinstance(each, NodeInput)]

        def tell(found: list[StreamFinding]) -> None:
            for each in found:
                shown = dumps(asdict(each)) if as_json else None
                out.print(cell(_line(each)) if shown is None else cell(shown), soft_wrap=True)
            if notify is not None:
                try:
                    notify_found(notify, names, [asdict(each) for each in found])
                except ReconcileError as error:
                    show_error(error.message, error.hint)

        stream = StreamWatch(
            inputs=inputs,
            topology=topology_of([each.survey() for each in nodes]),
            directory=report.absolute(),
            every_seconds=every,
            lag_seconds=lag,
            tell=tell,
        )
        with open_session(master, 0) as session, spark_errors():
            query = stream.start(session)
            err.print(f"[dim]watching {cell(', '.join(names))}; Ctrl-C ends the watch[/]")
            # Spark runs the query in its own threads, and tells of a failure only if asked.
            while not is_over.wait(1.0):
                if (failed := query.exception()) is not None:
                    raise failed
            query.stop()
    except ReconcileError as error:
        fail(error.message, error.hint)


def _line(found: StreamFinding) -> str:
    epochs = f", epoch {found.epoch}" if found.epoch is not None else ""
    epochs += f" instead of {found.expected}" if found.expected is not None else ""
    what = found.origin or "its stream"
    return f"{found.finding} at {found.catalog}: {what}{epochs}; {found.detail}"
