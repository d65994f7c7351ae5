"""The command `reconcile`: compares catalogs, shows differences, and has replicas repaired."""

from __future__ import annotations

import re
import time
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from catalog import install_command
from catalog.commands.console import (
    NO,
    AsJson,
    Yes,
    cell,
    err,
    fail,
    out,
    print_json,
    show_error,
    table,
)
from catalog.commands.optionsets import with_options
from catalog.commands.secretsources import TokensOf, catalog_tokens
from catalog.model.confluentattribute import CONFLICTS_ADVICE
from catalog.model.masking import counted
from catalog.model.timestamps import format_time, time_of

if TYPE_CHECKING:
    from replication.reconcile.repairplan import RepairOutcome
    from replication.reconcile.report import ReconcileSummary

# The exit codes besides 0 and 1.
_UNREAD, _FAILED = 2, 3
_SHOWN = 3
_TABLES = {"catalogs": "catalog", "token_from": "token_from"}
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

app = typer.Typer(
    invoke_without_command=True,
    help=(
        "Compare catalogs, and name every difference.\n\n"
        "Example: concord reconcile --catalog eu=http://127.0.0.1:8080 "
        "--catalog us=http://127.0.0.1:8081\n\n"
        "Up to a million entities are compared in memory, more by Spark, in this process or at "
        "--master.\n\n"
        "On a cluster: spark-submit replication/reconcile/__main__.py --catalog …\n\n"
        "A catalog that is empty, or has less than half of the entities that it had the last "
        "time, counts as a difference, and no repair reads from it, until --allow-smaller accepts "
        "it.\n\n"
        "Exit codes: 0 equal; 1 different, even if repaired; 2 equal, but a catalog could not be "
        "read; 3 the comparison failed. With --every, the code of the last comparison."
    ),
)


def _configure(context: typer.Context, file: Path | None) -> None:
    """Let a TOML file give the options that the command line does not give."""
    if file is None:
        return
    try:
        given = tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{file} cannot be read: {error}.") from None
    options = {name.replace("-", "_"): value for name, value in given.items()}
    for name, option in _TABLES.items():
        named = options.pop(name, {})
        if not isinstance(named, dict):
            raise typer.BadParameter(f"{name} in {file} is no table of names and values.")
        options[option] = [f"{key}={value}" for key, value in named.items()]
    known = {each.name for each in context.command.params}
    if unknown := sorted(options.keys() - known):
        raise typer.BadParameter(f"{file} has unknown options: {', '.join(unknown)}.")
    context.default_map = options


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smhd])", text)
    if found is None:
        raise typer.BadParameter("It is a number with a unit, as 30s, 15m, 1h or 1d.")
    return int(found[1]) * _UNITS[found[2]]


def _period(text: str) -> float:
    if not (seconds := _seconds(text)):
        raise typer.BadParameter("It is longer than nothing.")
    return seconds


@app.callback()
@with_options(tokens_of=catalog_tokens)
def reconcile(
    context: typer.Context,
    catalog: Annotated[
        list[str] | None,
        typer.Option(
            help="The name and address of a catalog; give two or more. The address is the URL of a "
            "node, of its database (postgresql://…), or a snapshot (a path, or s3://…).",
            metavar="NAME=ADDRESS",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            callback=_configure,
            is_eager=True,
            help="A TOML file with these options, and tables catalogs (name = address) and "
            "token-from (name = source). Options of the command line come before it.",
            metavar="FILE",
        ),
    ] = None,
    *,
    tokens_of: TokensOf,
    report: Annotated[
        Path | None,
        typer.Option(help="Write Parquet, summary.json and report.html to this directory."),
    ] = None,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Have catalogs fetch again entities that are missing, stale or diverged.",
        ),
    ] = False,
    fast: Annotated[
        bool,
        typer.Option(
            "--fast", help="Compare stored digests, only in buckets whose fingerprints differ."
        ),
    ] = False,
    verify_signatures: Annotated[
        bool,
        typer.Option(
            "--verify-signatures",
            help="Verify the signatures of all copies, too; reads all digests.",
        ),
    ] = False,
    deep: Annotated[
        bool,
        typer.Option(
            "--deep",
            help="Name the differing attributes, with both values, of the first 20 differences of "
            "each finding.",
        ),
    ] = False,
    settle: Annotated[
        float,
        typer.Option(
            help="Wait so long before differences are read a second time.",
            metavar="SECONDS",
            min=0,
        ),
    ] = 5.0,
    master: Annotated[
        str,
        typer.Option(help="Compare on the Spark of this master, however few entities there are."),
    ] = "",
    every: Annotated[
        float | None,
        typer.Option(
            help="Compare again and again, so long after each comparison, until Ctrl-C.",
            metavar="30s|15m|1h",
            parser=_period,
        ),
    ] = None,
    allow_smaller: Annotated[
        list[str] | None,
        typer.Option(
            help="Accept that a catalog has far fewer entities than before. Repeatable.",
            metavar="NAME",
        ),
    ] = None,
    lag: Annotated[
        float | None,
        typer.Option(
            help="How long a change may take to a replica that was read from a snapshot; else 60s.",
            metavar="30s|15m|1h",
            parser=_seconds,
        ),
    ] = None,
    notify: Annotated[
        str | None,
        typer.Option(
            help="Send a CloudEvent to this web hook when a comparison has found differences.",
            metavar="URL",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    if context.invoked_subcommand is not None:
        return
    if not catalog:
        fail("Name the catalogs with --catalog.", "See `concord reconcile --help`.", code=_FAILED)
    if find_spec("pyspark") is None:
        spark = f"Install it with: {install_command('spark')}"
        fail("Spark is not installed.", spark, code=_FAILED)
    from replication.reconcile.errors import ReconcileError
    from replication.reconcile.inputs.input import parse_inputs
    from replication.reconcile.job import LAG_SECONDS, ReconcileJob
    from replication.reconcile.results import notify as send_event

    try:
        known = tokens_of(catalog)
        inputs = parse_inputs(catalog, known)
    except ReconcileError as error:
        fail(error.message, error.hint, code=_FAILED)
    except typer.Exit:
        # The code of `fail`, 2, would tell of a catalog that could not be read.
        raise typer.Exit(_FAILED) from None

    job = ReconcileJob(
        inputs=inputs,
        report=report,
        repair=repair,
        master=master,
        verify=not fast,
        signatures=verify_signatures,
        settle_seconds=settle,
        progress=lambda line: err.print(f"[dim]{cell(line)}[/]"),
        smaller=frozenset(allow_smaller or ()),
        lag_seconds=LAG_SECONDS if lag is None else lag,
        deep=deep,
    )

    def compare() -> int:
        """Compare once; return the exit code."""
        try:
            summary = job.run()
        except ReconcileError as error:
            show_error(error.message, error.hint)
            return _FAILED
        if as_json:
            out.print_json(dumps(summary.to_document(), default=str))
        else:
            _show(summary)
        if notify is not None and not summary.is_equal:
            try:
                send_event(notify, summary)
            except ReconcileError as error:
                show_error(error.message, error.hint)
        return NO if not summary.is_equal else _UNREAD if summary.unread else 0

    code = compare()
    while every is not None:
        again = datetime.now(UTC) + timedelta(seconds=every)
        err.print(f"[dim]the next comparison begins at {format_time(again)}[/]")
        try:
            time.sleep(every)
        except KeyboardInterrupt:
            break
        code = compare()
    raise typer.Exit(code)


@app.command("repair")
@with_options(tokens_of=catalog_tokens)
def repair_by_plan(
    directory: Annotated[
        Path, typer.Argument(help="The directory that `concord reconcile --report` has written.")
    ],
    only: Annotated[
        list[str] | None,
        typer.Option(help="Repair this finding only, such as missing. Repeatable."),
    ] = None,
    rate: Annotated[
        int, typer.Option(min=1, max=100_000, help="Ask for so many entities in a second.")
    ] = 1000,
    yes: Yes = False,
    *,
    tokens_of: TokensOf,
    as_json: AsJson = False,
) -> None:
    """Have catalogs fetch again what a comparison has planned, after a look at the plan.

    The plan is plan.parquet in the directory of the report. A catalog takes a copy only if its
    epoch says so, so an old plan does no harm, and a plan can be executed twice. An execution that
    was interrupted goes on where it ended.

    Example: concord reconcile repair ./report --only missing --rate 200
    """
    from catalog.operations.reconciliations import REPAIRABLE
    from replication.reconcile.errors import ReconcileError
    from replication.reconcile.inputs.nodeinput import NodeInput
    from replication.reconcile.repairplan import StoredPlan

    if unknown := sorted({*(only or ())} - REPAIRABLE):
        fail(f"No repair settles {', '.join(unknown)}.", f"Name some of {sorted(REPAIRABLE)}.")
    wanted = [finding for finding in REPAIRABLE if finding in (only or ())]
    plan = StoredPlan(directory=directory, only=wanted)
    try:
        counts = Counter((each.catalog, each.url, each.finding) for each in plan.left())
        shown = table("catalog", "finding", "fetches")
        for (name, _, finding), number in sorted(counts.items()):
            shown.add_row(cell(name), finding, f"{number:,}")
        err.print(shown if counts else "Nothing is left to repair.")
        if counts and not yes and not typer.confirm("Have them fetched again?", err=True):
            raise typer.Exit(NO)
        named = sorted({f"{name}={url}" for name, url, _ in counts})
        known = tokens_of(named)
        nodes = {
            name: NodeInput(name=name, url=url, token=known.get(name)) for name, url, _ in counts
        }
        outcomes = plan.execute(
            nodes, per_second=rate, progress=lambda line: err.print(f"[dim]{cell(line)}[/]")
        )
    except ReconcileError as error:
        fail(error.message, error.hint)
    if as_json:
        print_json([asdict(each) for each in outcomes])
        return
    _show_repair(outcomes)


def _show(summary: ReconcileSummary) -> None:
    names = [one.name for one in summary.catalogs]
    shown = table("finding", *names, "in all")
    for finding, counts, total in summary.matrix():
        shown.add_row(finding, *map(_count, counts), _count(total))
    out.print(shown)
    for finding, samples in summary.samples.items():
        for sample in samples[:_SHOWN]:
            detail = f" ({sample.detail})" if sample.detail else ""
            if changedat := sample.reference_changedat or sample.changedat:
                detail += f", changed at {format_time(time_of(changedat))}"
            out.print(f"  {finding} at {sample.catalog}: {cell(sample.origin)}{detail}")
            for one in summary.attributes.get(sample.key, ()):
                values = f"{one.here or 'nothing'} instead of {one.there or 'nothing'}"
                out.print(f"    [bold]{cell(one.name)}[/]: {cell(values)}")
        if (more := summary.total(finding) - len(samples[:_SHOWN])) > 0:
            where = f", see {cell(str(summary.paths[0]))}" if summary.paths else ": use --report"
            out.print(f"    and {more:,} more {finding}{where}")
        for command in summary.commands.get(finding, ()):
            out.print(f"    {cell(command)}")
    for cause in summary.causes:
        number = counted(cause.differences, "differences")
        out.print(f"  {number} at {cause.catalog}: [yellow]{cell(cause.text)}[/]")
        out.print(f"    {cell(cause.command)}")
    for name, conflicts in summary.schemaids.items():
        for conflict in conflicts[:_SHOWN]:
            out.print(f"  at {name}: [bold red]{cell(conflict.text)}[/]")
        if more := len(conflicts[_SHOWN:]):
            out.print(f"    and {counted(more, 'more such ids')}: use --json")
    if summary.schemaids:
        out.print(f"    {CONFLICTS_ADVICE}")
    for signed in summary.signatures or ():
        keys = f"keys {signed.keys}" if signed.keys else "no keys are known"
        wrong = f"{signed.unsigned} unsigned, {signed.forged} forged"
        numbers = f"{signed.verified} verified, {wrong}, {signed.unchecked} not checked"
        out.print(f"  {cell(signed.authority)}: {numbers}; {cell(keys)}")
    for shrunk in summary.shrunk:
        out.print(f"  [bold red]{cell(shrunk.text)}[/] {cell(shrunk.advice)}")
    if summary.in_flight:
        later = counted(summary.in_flight, "differences")
        out.print(f"  in flight: {later} by changes later than the rows of a catalog")
    for left in summary.uncompared:
        count = "entities" if left.entities is None else counted(left.entities, "entities")
        whose = cell(left.authority or "several authorities")
        out.print(f"  not compared at {left.catalog}: {count} of {whose}: {cell(left.reason)}")
        out.print(f"    {cell(left.advice)}")
    for unread in summary.unread:
        out.print(f"  [yellow]{cell(unread.reason)}[/] {cell(unread.advice)}")
    colour = "green" if summary.is_equal and not summary.unread else "yellow"
    out.print(f"[{colour}]{cell(summary.verdict())}[/]")
    _show_repair(summary.repair or ())
    for path in summary.paths:
        out.print(f"  wrote {cell(str(path))}")


def _show_repair(outcomes: Iterable[RepairOutcome]) -> None:
    for outcome in outcomes:
        verdicts = ", ".join(f"{count} {name}" for name, count in outcome.verdicts.items())
        out.print(
            f"  {outcome.catalog} fetched {counted(outcome.requested, 'origins')} again: {verdicts}"
        )
        for origin in outcome.unresolved:
            out.print(f"    [red]not repaired:[/] {cell(origin)}")
        if outcome.withheld:
            out.print(f"    {outcome.withheld} are unsound at a source, and stay")
        for reset in outcome.resets:
            out.print(f"    link {cell(reset)}")


def _count(count: int) -> str:
    return f"[bold red]{count}[/]" if count else "[dim]0[/]"
