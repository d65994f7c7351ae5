"""The plugin of pytest: options that name the server, and the fixture that the cases are run on."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from xregistry_conformance.cases import LEVELS, Case
from xregistry_conformance.harness import TIMEOUT_SECONDS, Server
from xregistry_conformance.profiles import PROFILES, belongs, entry_of, wipes
from xregistry_conformance.receiver import Receiver
from xregistry_conformance.report import Report


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("xregistry", "conformance of an xRegistry server")
    group.addoption("--xregistry", metavar="URL", help="root of the registry to be tested")
    group.addoption(
        "--xregistry-wipe",
        action="store_true",
        help="I know that everything in the registry will be deleted",
    )
    group.addoption(
        "--xregistry-level", choices=LEVELS, default="MAY", help="weakest level to test"
    )
    group.addoption(
        "--xregistry-profile",
        choices=PROFILES,
        default="all",
        help="; ".join(f"{name}: {text}" for name, text in PROFILES.items()),
    )
    group.addoption(
        "--xregistry-wait",
        type=float,
        default=0,
        metavar="SECONDS",
        help="wait so long for the server to answer its first request",
    )
    group.addoption(
        "--xregistry-timeout",
        type=float,
        default=TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="the longest time that the server may take for an answer",
    )
    group.addoption(
        "--xregistry-receiver",
        metavar="URL",
        help="where the server reaches this machine, to deliver events; by default the address "
        "by which this machine reaches the server, and a free port",
    )
    group.addoption(
        "--xregistry-handshake",
        action="store_true",
        help="the server asks a receiver at this address for its consent (http-webhook.md, 4)",
    )
    group.addoption(
        "--xregistry-json", type=Path, metavar="FILE", help="write the results as JSON to a file"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--xregistry") is None:
        return
    if wipes(config.getoption("--xregistry-profile")) and not config.getoption("--xregistry-wipe"):
        raise pytest.UsageError(
            "the suite deletes every group of the registry, and replaces its model; say so with "
            "--wipe (--xregistry-wipe for pytest), or only read with --profile read-only"
        )
    if config.getoption("numprocesses", default=None):
        raise pytest.UsageError("cases share the server, so they cannot run on several workers")
    config.pluginmanager.register(Report(config.getoption("--xregistry")), "xregistry-report")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the cases of the profile and the level, and tell their reports the sections."""
    strongest = LEVELS[: LEVELS.index(config.getoption("--xregistry-level")) + 1]
    left_out = []
    for item in items:
        if (case := _case_of(item)) is None:
            continue
        item.user_properties += [("section", case.section), ("level", case.level)]
        is_in = belongs(case, config.getoption("--xregistry-profile"))
        if not is_in or case.level not in strongest:
            left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in {*left_out}]


def _case_of(item: pytest.Item) -> Case | None:
    callspec = getattr(item, "callspec", None)
    case = None if callspec is None else callspec.params.get("case")
    return case if isinstance(case, Case) else None


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """The server to be tested, which has its own model and capabilities again at the end."""
    option = request.config.getoption
    if (url := option("--xregistry")) is None:
        pytest.skip("no server is named: say --xregistry URL")
    profile = option("--xregistry-profile")
    server = Server(
        url,
        timeout=option("--xregistry-timeout"),
        wait=option("--xregistry-wait"),
        entry=entry_of(profile),
        handshake=option("--xregistry-handshake"),
    )
    yield server
    if wipes(profile):
        server.restore()


@pytest.fixture(scope="session")
def receiver(request: pytest.FixtureRequest, server: Server) -> Iterator[Receiver]:
    """Takes what the server delivers."""
    url = request.config.getoption("--xregistry-receiver") or f"http://{_own_address(server.url)}"
    with Receiver.open(url) as receiver:
        yield receiver


def _own_address(url: str) -> str:
    """The address of this machine on the way to the host of a URL, as in a URL."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with socket.create_connection((parts.hostname, port), timeout=10) as connection:
        address: str = connection.getsockname()[0]
    return f"[{address}]" if ":" in address else address
