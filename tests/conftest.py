"""What every test may rely on: a clean environment, and a database of its own."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gc
import itertools
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import hypothesis
import pytest
import structlog

if TYPE_CHECKING:
    from tests.brokers.kafka import KafkaBroker

DATABASE_VARIABLE = "CONCORD_TEST_DATABASE_URL"
KEY_VARIABLE = "CONCORD_ENCRYPTION_KEY"
CONTAINER_IMAGE = "postgres:18"
# The folders whose tests start processes, in the order in which workers take them.
SLOW = ("e2e", "spark", "faults", "confluent", "sinks", "hostile")
_ALLOCATIONS_BEFORE_COLLECTION = 20_000
_RECURSION_LIMIT = sys.getrecursionlimit()

# For the servers of all workers, whose logs are kept small.
_LEAST_MEMORY = 4 * 2**30
_FORGETFUL = ("fsync", "synchronous_commit", "full_page_writes")
_numbers = itertools.count()

# How long anything takes depends on the machine, so it decides no test.
_UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", derandomize=True, **_UNTIMED)
hypothesis.settings.register_profile("dev", max_examples=500, **_UNTIMED)


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()
    # Before any module is imported: what a developer has set must not decide a test.
    for name in [name for name in os.environ if name.startswith("CONCORD_")]:
        # These name the servers of tests.
        if not name.startswith("CONCORD_TEST_"):
            del os.environ[name]
    # Hundreds of processes import the same modules, which only the first one compiles.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # No test makes a key in the developer's own data directory.
    os.environ[KEY_VARIABLE] = base64.b64encode(secrets.token_bytes(32)).decode()
    # The plug-in's own --hypothesis-profile wins over this.
    if not config.getoption("--hypothesis-profile", default=None):
        hypothesis.settings.load_profile("ci")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts processes or Spark, and begin with it.

    All workers end at the same time if short tests are left for the end.
    """
    for item in items:
        if _folder(item) in SLOW:
            item.add_marker(pytest.mark.slow)
    items.sort(key=_place)
    _put_in_order(items)


def pytest_collection_finish() -> None:
    """Keep the garbage collector from walking thousands of collected tests again and again."""
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BEFORE_COLLECTION)
    gc.enable()


def _put_in_order(items: list[pytest.Item]) -> None:
    """Give files marked `in_order` the order in which their tests are written.

    Their tests follow one node through what happens to it.
    """
    begin = 0
    for _, found in itertools.groupby(items[:], key=lambda item: item.path):
        tests = [*found]
        if tests[0].get_closest_marker("in_order") is not None:
            tests.sort(key=lambda item: (item.location[1] or 0, item.name))
            items[begin : begin + len(tests)] = tests
        begin += len(tests)


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(Path(__file__).parent).parts[0]


def _place(item: pytest.Item) -> tuple[int, float]:
    """The place of a test among the others: one that may take longest begins first."""
    folder, timeout = _folder(item), item.get_closest_marker("timeout")
    return (
        SLOW.index(folder) if folder in SLOW else len(SLOW),
        -timeout.args[0] if timeout else 0,
    )


@pytest.fixture(scope="session", autouse=True)
def _passable_root(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Let the account of the embedded server pass through where root runs the tests."""
    kept = Path(tempfile.gettempdir()).resolve()
    directory = tmp_path_factory.getbasetemp()
    while os.geteuid() == 0 and directory not in (kept, *kept.parents):
        directory.chmod(directory.stat().st_mode | 0o011)
        directory = directory.parent


@pytest.fixture(autouse=True)
def _recursion_limit() -> None:
    """Have the limit of a node, which jsonata, of the tests of Kafka's clients, has raised."""
    sys.setrecursionlimit(_RECURSION_LIMIT)


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    """The directory of a test: others can enter it, but not list it."""
    tmp_path.chmod(0o711)
    return tmp_path


@pytest.fixture(autouse=True)
def _plain_logs() -> None:
    """A command that ran in a test before has sent the logs to a stream that ended with it.

    Without configuration, tracebacks show all locals, which takes seconds on a busy machine.
    """
    structlog.reset_defaults()
    plain = structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    structlog.configure(
        processors=[structlog.processors.add_log_level, plain],
        # The standard output is that of commands. A test may replace both.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A PostgreSQL server: the one that the environment names, else one in a container where
    a Docker engine answers, else an embedded one.

    Each worker has a container or an embedded server of its own, so that no other test's open
    transactions hold back what a log shows. Both forget everything in a power cut.
    """
    if url := os.environ.get(DATABASE_VARIABLE):
        yield url
        return
    with _container() as contained:
        if contained is not None:
            yield contained
            return
    yield from _embedded()


@contextlib.contextmanager
def _container() -> Iterator[str | None]:
    """The URL of a server in a container; `None` where no engine answers or has the image."""
    if not has_engine():
        yield None
        return
    # Imported here, as it looks for an engine at once.
    from docker.errors import DockerException
    from testcontainers.community.postgres import PostgresContainer

    server = PostgresContainer(CONTAINER_IMAGE, driver=None)
    try:
        server.start()
    except DockerException:
        yield None
        return
    try:
        url = server.get_connection_url()
        asyncio.run(forget_durability(url))
        yield url
    finally:
        server.stop()


def has_engine() -> bool:
    """Whether a Docker engine answers. (The client leaks its socket where none does.)"""
    host = urlsplit(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    if host.scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(host.path) == 0


def _embedded() -> Iterator[str]:
    from catalog.store.embeddedpostgres import start_embedded

    directory = _quickest_directory() / f"concord-test-{secrets.token_hex(8)}"
    server = asyncio.run(start_embedded(directory))
    try:
        asyncio.run(forget_durability(server.dsn))
        asyncio.run(_run(server.dsn, "ALTER SYSTEM SET max_wal_size = '256MB'"))
        asyncio.run(_run(server.dsn, "SELECT pg_reload_conf()"))
        yield server.dsn
    finally:
        asyncio.run(server.stop())
        if not (directory / "data" / "postmaster.pid").exists():
            shutil.rmtree(directory, ignore_errors=True)


def _quickest_directory() -> Path:
    """Memory where there is enough: to create the files of a database takes far less there."""
    memory = Path("/dev/shm")
    has_room = memory.is_dir() and shutil.disk_usage(memory).free >= _LEAST_MEMORY
    return memory if has_room else Path(tempfile.gettempdir())


@pytest.fixture(scope="session")
def template(postgres_url: str, worker_id: str) -> Iterator[str]:
    """The name of a database with the newest schema and nothing in it."""
    name = f"concord_template_{worker_id}_{secrets.token_hex(4)}"
    asyncio.run(_run(postgres_url, f'CREATE DATABASE "{name}"'))
    asyncio.run(_migrate(_with_database(postgres_url, name)))
    yield name
    asyncio.run(_drop(postgres_url, name))


@pytest.fixture
async def database_url(postgres_url: str, template: str) -> AsyncIterator[str]:
    """A database that only this test has, with the newest schema and nothing in it."""
    name = template.replace("template", "test") + f"_{next(_numbers)}"
    await _run(postgres_url, copying(template, name))
    yield _with_database(postgres_url, name)
    await _drop(postgres_url, name)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """A broker of Kafka, without which its tests are skipped."""
    # Imported here, as Kafka's client is optional.
    from tests.brokers.kafka import NoKafka, running_kafka

    try:
        with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except NoKafka as why:
        pytest.skip(str(why))


def copying(template: str, name: str) -> str:
    """The statement that copies a database.

    It copies files; to write all of them to the log, as is the default, takes twice as long.
    """
    return f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY file_copy'


def _with_database(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


async def _drop(url: str, name: str) -> None:
    await _run(url, f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


async def forget_durability(url: str) -> None:
    await _run(url, *(f"ALTER SYSTEM SET {name} = off" for name in _FORGETFUL))
    await _run(url, "SELECT pg_reload_conf()")


async def _run(url: str, *statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def _migrate(url: str) -> None:
    # Imported here, so that tests without a database run without the store.
    from catalog.store.schemamigration import migrate

    connection = await asyncpg.connect(url)
    try:
        await migrate(connection)
    finally:
        await connection.close()
