"""Prints the figures of a run as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks.figure import Aim, Figure


def print_facts(console: Console, facts: Mapping[str, str]) -> None:
    for name, fact in facts.items():
        console.print(f"[dim]{name:>24}[/]  {fact}", highlight=False)


def print_figures(console: Console, figures: Sequence[Figure]) -> None:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for name in ("Concord", "baseline", "", "ratio", "aim", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for figure in figures:
        table.add_row(*_cells(figure))
    console.print(table)
    for figure in figures:
        if figure.note:
            console.print(f"[dim]{figure.name}: {figure.note}[/]", highlight=False)


def print_left_out(name: str, why: str) -> None:
    Console().print(f"[yellow]{name} is left out:[/] {escape(why)}", highlight=False)


def _cells(figure: Figure) -> tuple[str, ...]:
    return (
        figure.name,
        _amount(figure.value),
        _amount(figure.baseline) if figure.baseline is not None else "",
        figure.unit,
        f"{figure.ratio:.2f}" if figure.ratio is not None else "",
        _shown(figure.aim) if figure.aim else "",
        ("[green]met[/]" if figure.aim.is_met(figure) else "[red]missed[/]") if figure.aim else "",
    )


def _shown(aim: Aim) -> str:
    sign = "≤" if aim.is_most else "≥"
    return f"{sign} {aim.bound:g} ratio" if aim.of_ratio else f"{sign} {aim.bound:,.0f}"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
