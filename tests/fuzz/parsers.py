"""Fuzzes parsers, guided by coverage: `python -m tests.fuzz.parsers [TARGET …] [--seconds 60]`.

Each target runs in a process of its own, since the fuzzer ends its process. Input that makes a
parser fail is written to the directory `--findings`, and can be tried again by naming the file
with `--input`.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from tests.fuzz.targets import TARGETS, seeds

_LARGEST_INPUT = 20_000


def main(
    targets: Annotated[list[str] | None, typer.Argument(help="Those to fuzz; all of them")] = None,
    seconds: Annotated[int, typer.Option(help="Time for each target")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the fuzzer")] = 1,
    findings: Annotated[Path, typer.Option(help="Directory for input that fails")] = Path(
        "fuzz-findings"
    ),
    input: Annotated[Path | None, typer.Option(help="Try this file with the one target")] = None,
) -> None:
    """Fuzz the parsers of what strangers send."""
    chosen = targets or list(TARGETS)
    if unknown := set(chosen) - TARGETS.keys():
        raise typer.BadParameter(f"{', '.join(sorted(unknown))}: choose of {', '.join(TARGETS)}")
    if input is not None:
        TARGETS[chosen[0]](input.read_bytes())
        return
    findings.mkdir(parents=True, exist_ok=True)
    failed = [name for name in chosen if not _fuzz(name, seconds, seed, findings)]
    if failed:
        print(f"failed: {', '.join(failed)}; see {findings}/", file=sys.stderr)
        raise SystemExit(1)


def _fuzz(name: str, seconds: int, seed: int, findings: Path) -> bool:
    print(f"{name}: {seconds} seconds", flush=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, text in enumerate(seeds()[name]):
            (Path(corpus) / str(number)).write_bytes(text)
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "tests.fuzz.atherisrun", name, corpus),
                *(f"-max_total_time={seconds}", f"-max_len={_LARGEST_INPUT}", f"-seed={seed}"),
                *(f"-artifact_prefix={findings}/{name}-", "-timeout=10", "-rss_limit_mb=2048"),
                "-verbosity=0",
                "-print_final_stats=1",
            ],
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    told = [line for line in ended.stderr.splitlines() if "number_of_executed_units" in line]
    print(f"  {''.join(told) or ended.stderr[-3000:]}", flush=True)
    return ended.returncode == 0


if __name__ == "__main__":
    typer.run(main)
