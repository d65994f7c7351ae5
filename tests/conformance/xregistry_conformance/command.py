"""The command `xregistry-conformance`: runs the cases against a server by its URL."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from xregistry_conformance.cases import LEVELS
from xregistry_conformance.harness import TIMEOUT_SECONDS
from xregistry_conformance.profiles import PROFILES

_EXAMPLES = """\
examples:
  xregistry-conformance http://127.0.0.1:8080 --wipe
  xregistry-conformance https://registry.example/v1 --profile read-only
  xregistry-conformance http://127.0.0.1:8080 --wipe --level MUST --junit results.xml
  xregistry-conformance http://127.0.0.1:8080 --wipe --only flag-filter
  xregistry-conformance https://registry.example --wipe --profile subscriptions \\
      --receiver http://203.0.113.7:9000 --handshake

The exit status is 0 if no case failed, 1 if one did, and 2 or more if the cases could not be run.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Returns:
        the exit status.
    """
    given = _parser().parse_args(arguments)
    options = [
        f"--xregistry={given.url}",
        f"--xregistry-level={given.level}",
        f"--xregistry-profile={given.profile}",
        f"--xregistry-wait={given.wait}",
        f"--xregistry-timeout={given.timeout}",
        *(["--xregistry-wipe"] if given.wipe else []),
        *([f"--xregistry-receiver={given.receiver}"] if given.receiver else []),
        *(["--xregistry-handshake"] if given.handshake else []),
        *([f"--xregistry-json={given.json}"] if given.json else []),
        *([f"--junit-xml={given.junit}"] if given.junit else []),
        *(["-k", given.only] if given.only else []),
    ]
    # The settings of pytest in the working directory are those of another project.
    plain = ["-c", "/dev/null", "--rootdir", str(Path(__file__).parent), "-p", "no:cacheprovider"]
    # This command has imported the plugin before pytest could.
    shown = ["--tb=short", "-q", "-rf", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(
        pytest.main([str(Path(__file__).with_name("test_cases.py")), *plain, *shown, *options])
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="xregistry-conformance",
        description="Hold a server to the rules of xRegistry 1.0-rc4 that can be seen over HTTP.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", help="root of the registry")
    parser.add_argument(
        "--wipe", action="store_true", help="I know that everything in the registry will be deleted"
    )
    parser.add_argument("--level", choices=LEVELS, default="MAY", help="weakest level to test")
    parser.add_argument(
        "--profile",
        choices=PROFILES,
        default="all",
        help="; ".join(f"{name}: {text}" for name, text in PROFILES.items()),
    )
    parser.add_argument(
        "--only", metavar="WORDS", help="the cases with these words in their file or name, as `-k`"
    )
    parser.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="wait so long for a slow start"
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="the longest time that the server may take for an answer",
    )
    parser.add_argument(
        "--receiver",
        metavar="URL",
        help="where the server reaches this machine, to deliver events; by default the address by "
        "which this machine reaches the server, and a free port",
    )
    parser.add_argument(
        "--handshake",
        action="store_true",
        help="the server asks a receiver at this address for its consent (http-webhook.md, 4)",
    )
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write the results as JUnit XML")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
