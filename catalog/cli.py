"""The `concord` command: reads the settings, builds the node, and runs the node.

The composition root: the only module of `catalog` that imports `replication`. A command imports
dependencies at run time, so that `concord --help` is quick.
"""

from __future__ import annotations

import errno
import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import gettempdir
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from catalog import DISTRIBUTION, install_command
from catalog.commands import (
    access,
    audit,
    delete,
    events,
    export,
    find,
    history,
    keys,
    mcp,
    model,
    node,
    subscriptions,
    tokens,
    validate,
)
from catalog.commands.apply.command import app as apply_app
from catalog.commands.backup.command import app as backup_app
from catalog.commands.console import cell, err, fail, out
from catalog.commands.discover.command import app as discover_app
from catalog.commands.generate.command import app as generate_app
from catalog.commands.import_.command import app as import_app
from catalog.commands.lint.command import app as lint_app
from catalog.commands.nodedatabase import read_settings
from catalog.commands.rootgroup import Help, RootGroup, Token, warn_of_misspelt_variables
from replication.commands import (
    comparisons,
    definelinks,
    federation,
    handover,
    links,
    reconcile,
    recover,
    signing,
    snapshot,
    watch,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from catalog.monitoring.diagnosis import Check
    from catalog.node.noderuntime import ProcessMember
    from catalog.settings import Settings

_DEMO_REPORT = Path(gettempdir()) / "concord-demo-report"

app = typer.Typer(
    name="concord",
    no_args_is_help=True,
    cls=RootGroup,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help=(
        "Concord: a replicating catalog of endpoints, messages and schemas. "
        "`concord serve` runs a node, `concord demo` a federation of four. The other commands are "
        "clients of a node: the one at --url or CONCORD_URL."
    ),
)


def _peer_checks() -> Sequence[Check]:
    from replication.peers.peerchecks import PEER_CHECKS

    return PEER_CHECKS


for single in (
    *(discover_app, import_app, apply_app, export.app, find.app, delete.app, history.app),
    *(events.app, lint_app, validate.app, generate_app, mcp.app),
    *(node.app, node.with_checks(_peer_checks), backup_app, tokens.single, audit.app),
    *(snapshot.app, watch.app, federation.app),
):
    app.add_typer(single)
links.app.add_typer(definelinks.app)
reconcile.app.add_typer(comparisons.app)
for name, group, short_help in (
    ("link", links.app, "Follow other catalogs, push to them, or accept what they push."),
    ("reconcile", reconcile.app, "Compare catalogs, and name every difference."),
    ("recover", recover.app, "Take a node's own entities back from its replicas."),
    ("handover", handover.app, "Hand a group over to another authority."),
    ("signing", signing.app, "Sign what a node publishes."),
    ("trust", signing.trust_app, "Take only what other authorities have signed."),
    ("model", model.model_app, "Replace a model."),
    ("capabilities", model.capabilities_app, "Change what a node can do."),
    ("subscription", subscriptions.app, "Send changes as events."),
    ("revisions", history.revisions_app, "Show the former contents of entities, and purge them."),
    ("token", tokens.app, "Let machines and people into a node."),
    ("access", access.app, "Give roles in groups."),
    ("encryption", keys.app, "Encrypt the secrets in a database."),
):
    app.add_typer(group, name=name, short_help=short_help)


def main() -> None:
    """Run the command that the process was started with."""
    app()


def _print_version(wanted: bool) -> None:
    if wanted:
        out.print(f"concord {version(DISTRIBUTION)}")
        raise typer.Exit


@app.callback()
def concord(
    _: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    token: Token = None,
    help: Help = False,
) -> None:
    warn_of_misspelt_variables()


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="The address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(help="The port to listen on; any free one if 0.")
    ] = None,
    data_dir: Annotated[
        Path | None, typer.Option(help="The directory of the embedded PostgreSQL.")
    ] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A PostgreSQL server to use instead of an embedded one.")
    ] = None,
    public_url: Annotated[
        str | None,
        typer.Option(
            help="The URL at which others reach this node; the authority of a fresh node."
        ),
    ] = None,
    authority: Annotated[
        str | None,
        typer.Option(
            help="The authority of a fresh node, if it is not its URL: that of a lost node, whose "
            "entities it takes back with `concord recover`.",
            metavar="URI",
        ),
    ] = None,
    await_recovery: Annotated[
        bool | None,
        typer.Option(
            "--await-recovery",
            help="Let a fresh node take no writes until `concord recover` has ended.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            help="How many processes answer requests; with several, another one delivers events "
            "and runs links."
        ),
    ] = None,
) -> None:
    """Run a node until Ctrl-C. It needs no configuration.

    Without a database URL, the node starts an embedded PostgreSQL in the data directory. All
    settings are environment variables, too: `concord settings` lists them.

    Example: concord serve --port 8081 --data-dir ./second
    """
    settings = read_settings(locals())
    _serve(settings)


def _serve(settings: Settings) -> None:
    import uvloop

    from catalog.access.callercheck import ways_in
    from catalog.node.processes import run_processes
    from catalog.telemetry.logs import configure_logs

    def ready(url: str) -> None:
        where = "a PostgreSQL server" if settings.database_url else str(settings.data_dir.resolve())
        err.print(f"[green]Concord serves[/] [bold]{url}[/] (Ctrl-C stops it)")
        err.print(f"A browser shows it at [bold]{url}/console[/]. It is kept in {cell(where)}.")
        if settings.public_url is None:
            err.print(
                "It has no public URL: before other catalogs follow it, set one with --public-url, "
                "or they may not reach the URLs that it gives them."
            )
        for line in ways_in(settings):
            err.print(cell(line))

    configure_logs(settings.log_level, settings.log_format)
    is_alone = settings.processes == 1
    try:
        uvloop.run(
            _node(settings, ready) if is_alone else run_processes(settings, _run_member, ready)
        )
    except Exception as error:  # An unexpected error is raised again.
        _explain(error, settings)
    err.print("Stopped cleanly.")


def _run_member(settings: Settings, member: ProcessMember) -> None:
    """Run a process of a node with several processes."""
    import uvloop

    from catalog.node.processes import say_ready
    from catalog.telemetry.logs import configure_logs

    configure_logs(settings.log_level, settings.log_format)
    try:
        uvloop.run(_node(settings, lambda _: say_ready(member), member))
    except Exception as error:  # An unexpected error is raised again.
        try:
            _explain(error, settings)
        except typer.Exit as end:
            sys.exit(end.exit_code)


def _node(
    settings: Settings, ready: Callable[[str], None], member: ProcessMember | None = None
) -> Coroutine[Any, Any, None]:
    """A node with all routes and loops, or only the part that a member runs."""
    from catalog import dialects
    from catalog.agents.mcproute import routes as agent_routes
    from catalog.console import routes as console_routes
    from catalog.dialects.confluent.nativeversions import run_native_versions
    from catalog.monitoring.health import routes as monitoring_routes
    from catalog.monitoring.health import run_loop_delay
    from catalog.node.noderuntime import run_node
    from catalog.subscriptions.delivery.dispatcher import run_deliveries
    from catalog.subscriptions.delivery.retention import run_delivery_retention, run_log_retention
    from catalog.subscriptions.delivery.tokenrefresh import run_token_refresh
    from replication.routes import routes as replication_routes
    from replication.scheduler import run_links
    from replication.signing.signing import run_signing

    work = [
        run_deliveries,
        run_token_refresh,
        run_log_retention,
        run_delivery_retention,
        run_links,
        run_signing,
        run_native_versions,
    ]
    only_answers = member is not None and member.listening.sockets
    return run_node(
        settings,
        routes=[
            *dialects.routes,
            *monitoring_routes,
            *replication_routes,
            *console_routes,
            *agent_routes,
        ],
        event_dialects=dialects.event_dialects,
        schema_dialect=dialects.schema_dialect,
        loops=[run_loop_delay] if only_answers else [*work, run_loop_delay],
        ready=ready,
        member=member,
    )


def _explain(error: Exception, settings: Settings) -> None:
    """End the command with a sentence for an expected failure, else raise `error`."""
    from catalog.access.callercheck import NoCallerKnown
    from catalog.access.certificates import TlsUnusable
    from catalog.node.noderuntime import AddressInUse
    from catalog.node.processes import MemberFailed
    from catalog.reconfiguration.initialmodel import InitialModelUnusable
    from catalog.settings.keyfile import KeysUnusable
    from catalog.store.connections import DatabaseUnusable, EmbeddedPostgresError

    cause = error
    while isinstance(cause, ExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, AddressInUse):
        reason = os.strerror(getattr(cause.__cause__, "errno", None) or errno.EADDRINUSE)
        fail(
            f"The node cannot listen on {settings.host}:{settings.port}: {reason}.",
            "Choose another address with --port and --host, or CONCORD_PORT and CONCORD_HOST.",
        )
    if isinstance(cause, InitialModelUnusable):
        fail(
            f"The model of a fresh node cannot be used: {cause}",
            "CONCORD_INITIAL_MODEL is `default`, `none`, or a file with a valid model.",
        )
    if isinstance(cause, NoCallerKnown):
        fail(
            f"Nobody could use this node: {cause}, so it asks who sends a request, and it knows "
            "nobody yet.",
            "Make a token with `concord token add --role admin`, on this machine and with the "
            "same data directory or database, and start the node again. Or let it know others: "
            "CONCORD_OIDC_ISSUERS, CONCORD_TLS_CLIENT_CA, CONCORD_ANONYMOUS_ROLE. If really "
            "everybody who reaches it may do everything, set CONCORD_OPEN=true.",
        )
    if isinstance(cause, TlsUnusable):
        fail(f"TLS cannot be served: {cause}.", "They are PEM files, the key without a password.")
    if isinstance(cause, EmbeddedPostgresError | KeysUnusable):
        fail(str(cause))
    if isinstance(cause, MemberFailed):
        raise typer.Exit(2)  # The process has printed the reason.
    if isinstance(cause, DatabaseUnusable):
        fail(f"The database cannot be used: {cause}.", "Check CONCORD_DATABASE_URL.")
    raise error


@app.command()
def demo(
    topology: Annotated[
        Literal["hub", "wide"], typer.Option(help="The federation to run.")
    ] = "hub",
    stay: Annotated[
        bool, typer.Option("--stay", help="Keep the nodes running until Ctrl-C.")
    ] = False,
    report: Annotated[
        Path, typer.Option(help="The directory for the report of Spark's comparison (hub).")
    ] = _DEMO_REPORT,
    kafka: Annotated[
        str | None,
        typer.Option(
            help="A broker of Kafka (wide), as of `docker run -p 9092:9092 apache/kafka`, through "
            "which one of the sources publishes. Without it, that source pushes.",
            metavar="HOST:PORT",
        ),
    ] = None,
) -> None:
    """Run a federation on this machine, in seven steps and a few minutes.

    The topology "hub" has four nodes, whose agreement Spark proves. "wide" has sources that reach
    a hub in different ways, and a consumer.

    Example: concord demo --stay

    Exit codes: 0 every step had the expected result; 1 a step failed.
    """
    from catalog.demo.run import run_demo, run_wide_demo

    if topology == "wide":
        raise typer.Exit(run_wide_demo(kafka=kafka, stay=stay))
    if find_spec("pyspark") is None:
        fail("The demo needs Spark.", f"Install it with: {install_command('spark')}")
    raise typer.Exit(run_demo(report=report.resolve(), stay=stay))


if __name__ == "__main__":
    main()
