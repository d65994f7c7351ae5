"""The results by section of the standard: a table for readers, and JSON for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

OUTCOMES = ("passed", "failed", "skipped")


class Report:
    """A plugin of pytest that collects the outcome of each case.

    Args:
        url: the root of the tested registry.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._results: list[dict[str, str]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the outcome of a case: of its call, or of a phase before it that ended the case."""
        told = dict(report.user_properties)
        if "section" not in told or (report.when != "call" and report.passed):
            return
        reason = report.longrepr
        if isinstance(reason, tuple):
            reason = str(reason[2]).removeprefix("Skipped: ")
        elif report.failed:
            reason = _message(report)
        self._results.append(
            {
                "case": report.nodeid.partition("[")[2].removesuffix("]"),
                **{name: str(value) for name, value in told.items()},
                "outcome": report.outcome,
                "reason": str(reason or ""),
            }
        )

    def pytest_terminal_summary(self, terminalreporter: Any, config: pytest.Config) -> None:
        """Print the table of sections, and write the JSON where it is asked for."""
        sections = _by_section(self._results)
        width = max((len(section) for section in sections), default=0)
        terminalreporter.section("results by section")
        for section, counts in sections.items():
            told = ", ".join(
                f"{counts[outcome]} {outcome}" for outcome in OUTCOMES if counts[outcome]
            )
            terminalreporter.write_line(
                f"{section:{width}}  {told}",
                red=bool(counts["failed"]),
                bold=bool(counts["failed"]),
            )
        if path := config.getoption("--xregistry-json"):
            path.write_bytes(orjson.dumps(self.as_json(), option=orjson.OPT_INDENT_2))
            terminalreporter.write_line(f"The results are in {path}.")

    def as_json(self) -> Mapping[str, Any]:
        """The counts in all and by section, and every case with its outcome and reason."""
        return {
            "server": self._url,
            "counts": Counter(result["outcome"] for result in self._results),
            "sections": _by_section(self._results),
            "cases": self._results,
        }


def _by_section(results: list[dict[str, str]]) -> dict[str, Counter[str]]:
    found: dict[str, Counter[str]] = {}
    for result in sorted(results, key=lambda each: each["section"]):
        found.setdefault(result["section"], Counter())[result["outcome"]] += 1
    return found


def _message(report: pytest.TestReport) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(getattr(crash, "message", report.longrepr))
