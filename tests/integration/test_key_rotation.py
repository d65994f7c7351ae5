"""Keys are changed while a node runs, and a lost key makes subscriptions wait, nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import uuid
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import asyncpg
import orjson
import pytest
from pydantic import SecretStr

from catalog.keys.keyring import EncryptionKey, KeyRing
from catalog.model.caller import node_caller
from catalog.model.credentials import PlainCredential
from catalog.settings import Settings
from catalog.settings.keyfile import KEY_FILE, KeyFile, key_ring
from catalog.store.database import Database
from catalog.store.leadership import take_over
from catalog.store.queries import Queries
from catalog.store.secrets import RotationUnderWay, count_secrets, encrypt_anew
from catalog.store.signingkeys import load_keys, open_key, save_key
from catalog.subscriptions.delivery.dispatcher import run_deliveries
from catalog.subscriptions.sinks.webhooksignature import make_key
from catalog.subscriptions.stored.sinkcredentials import (
    load_credentials,
    open_credential,
    save_credential,
)
from catalog.subscriptions.stored.subscriptions import SubscriptionDefinition, create
from tests.integration.conftest import Node, start_node
from tests.integration.tokenendpoint import TokenServer, until

SECRETS = 700


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    async with Database.open(database_url, node_caller(), modelsource={}) as database:
        yield database


@pytest.fixture
def data_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data directory of a node whose key no setting names."""
    monkeypatch.delenv("CONCORD_ENCRYPTION_KEY")
    return tmp_path / "node"


def ring(*keys: EncryptionKey) -> KeyRing:
    return KeyRing(lambda: keys)


async def store(database: Database, keys: KeyRing, id: str) -> None:
    async with database.transaction() as connection:
        await create(connection, id, SubscriptionDefinition(sink="https://sink.example"))
        credential = PlainCredential(identifier="me", secret=f"s3cret of {id}")
        await save_credential(connection, keys, id, credential)


async def opened(database: Database, keys: KeyRing) -> int:
    """How many secrets there are, each of which opens as what was stored."""
    async with database.acquire() as connection:
        ids = [row["id"] for row in await connection.fetch("SELECT id FROM subscriptions")]
        found = await load_credentials(connection, ids)
    for id, stored in found.items():
        credential = open_credential(keys, stored)
        assert isinstance(credential, PlainCredential)
        assert credential.secret == f"s3cret of {id}"
    return len(found)


async def concord(*arguments: str, **environment: str) -> tuple[int | None, str]:
    """The exit code and the output of a command that runs as a process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "catalog.cli",
        *arguments,
        env=os.environ | environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def test_an_interrupted_rotation_loses_nothing_and_can_be_repeated(
    database: Database,
) -> None:
    old, new = EncryptionKey.new(), EncryptionKey.new()
    for _ in range(SECRETS):
        await store(database, ring(old), str(uuid.uuid4()))
    keys, interrupted = ring(new, old), 0
    while True:
        try:
            async with database.acquire() as connection:
                await asyncio.wait_for(encrypt_anew(connection, keys), 0.01 * (1 + interrupted))
            break
        except TimeoutError:
            interrupted += 1
            assert await opened(database, keys) == SECRETS
    assert interrupted
    assert await opened(database, ring(new)) == SECRETS


async def test_secrets_that_are_stored_meanwhile_need_no_old_key(database: Database) -> None:
    old, new = EncryptionKey.new(), EncryptionKey.new()
    known = [old]
    keys = KeyRing(lambda: known)
    for _ in range(50):
        await store(database, keys, str(uuid.uuid4()))
    stopped = asyncio.Event()

    async def write() -> None:
        while not stopped.is_set():
            await store(database, keys, str(uuid.uuid4()))

    async with asyncio.TaskGroup() as group:
        for _ in range(3):
            group.create_task(write())
        await until(lambda: keys.current_id == old.id)
        known.insert(0, new)
        async with database.acquire() as connection:
            rotation = await encrypt_anew(connection, keys)
        stopped.set()
    assert rotation.encrypted >= 50
    assert rotation.unreadable == 0
    assert await opened(database, ring(new)) > 50


async def test_a_rotation_waits_for_a_transaction_that_used_the_old_key(
    database: Database,
) -> None:
    old, new = EncryptionKey.new(), EncryptionKey.new()
    known, id = [old], str(uuid.uuid4())
    keys = KeyRing(lambda: known)
    async with database.acquire() as connection:
        async with database.transaction() as storing:
            await create(storing, id, SubscriptionDefinition(sink="https://sink.example"))
            credential = PlainCredential(identifier="me", secret=f"s3cret of {id}")
            await save_credential(storing, keys, id, credential)
            known.insert(0, new)
            rotating = asyncio.create_task(encrypt_anew(connection, keys))
            done, _ = await asyncio.wait([rotating], timeout=0.3)
            assert not done
        assert (await rotating).encrypted == 1
    assert await opened(database, ring(new)) == 1


async def test_keys_that_sign_are_rotated_with_the_rest(database: Database) -> None:
    old, new = EncryptionKey.new(), EncryptionKey.new()
    now = datetime.now(UTC)
    ids = [str(uuid.uuid4()) for _ in range(3)]
    made = {id: [make_key("hmac-sha256", now) for _ in range(3)] for id in ids}
    for id in ids:
        await store(database, ring(old), id)
        async with database.transaction() as connection:
            for key in made[id]:
                await save_key(connection, ring(old), id, key, None)
    async with database.acquire() as connection:
        rotation = await encrypt_anew(connection, ring(new, old))
        assert (rotation.encrypted, rotation.unreadable) == (12, 0)
        assert await count_secrets(connection) == {new.id: 12}
        found = await load_keys(connection, ids, now)
    for id in ids:
        secrets = {open_key(ring(new), each).secret for each in found[id]}
        assert secrets == {key.secret for key in made[id]}


async def test_two_rotations_at_a_time_are_one_too_many(database: Database) -> None:
    async with (
        database.acquire() as first,
        database.acquire() as second,
        take_over(first, "key rotation") as is_alone,
    ):
        assert is_alone
        with pytest.raises(RotationUnderWay):
            await encrypt_anew(second, ring(EncryptionKey.new()))


async def test_every_column_of_secrets_is_rotated(database_url: str) -> None:
    """A column of bytes with secrets is named `sealed`, and is among those that are rotated."""
    connection = await asyncpg.connect(database_url)
    try:
        rows = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "JOIN information_schema.tables USING (table_schema, table_name) "
            "WHERE table_schema = 'public' AND column_name LIKE 'sealed%' "
            "AND table_type = 'BASE TABLE'"
        )
    finally:
        await connection.close()
    assert {row["column_name"] for row in rows} == {"sealed"}
    tables = {row["table_name"] for row in rows}
    queries = Queries("secrets")
    assert {*re.findall(r"FROM (\w+)\n", queries.page)} == tables
    assert {*re.findall(r"UPDATE (\w+)", queries.replace)} == tables


@contextlib.asynccontextmanager
async def delivering(database_url: str, data_dir: Path) -> AsyncIterator[Node]:
    async with start_node(
        database_url,
        data_dir=data_dir,
        allow_private_addresses=True,
        backoff_initial_seconds=0.05,
        backoff_cap_seconds=0.2,
    ) as node:
        task = asyncio.create_task(run_deliveries(node.context))
        try:
            yield node
        finally:
            task.cancel()
            await asyncio.wait([task])


async def subscribe(node: Node, sink: str) -> str:
    body = {
        "sink": sink,
        "protocol": "HTTP",
        "sinkcredential": {
            "credentialtype": "ACCESSTOKEN",
            "accesstoken": "access-s3cret",
            "accesstokenexpiresutc": "9999-12-31T23:59:59Z",
            "accesstokentype": "Bearer",
        },
    }
    answer = await node.send("POST", "/subscriptions", body)
    assert answer.status == 201, answer.body
    assert answer.json["sinkcredential"]["accesstokenexpiresutc"] == "9999-12-31T23:59:59Z"
    return f"/subscriptions/{answer.json['id']}"


async def test_the_file_is_rotated_under_deliveries(database_url: str, data_dir: Path) -> None:
    server = TokenServer()
    server.tokens.append("access-s3cret")
    async with server.serve() as url, delivering(database_url, data_dir) as node:
        path = await subscribe(node, f"{url}/sink")
        before = KeyFile(data_dir / KEY_FILE).read()[0]
        await node.put("/messagegroups/before")
        await until(lambda: "/messagegroups/before" in server.subjects)
        named = ("--data-dir", str(data_dir), "--database-url", database_url)
        code, output = await concord("encryption", "rotate", "--json", *named)
        assert code == 0, output
        [after] = KeyFile(data_dir / KEY_FILE).read()
        assert orjson.loads(output) == {"key": after.id, "encrypted": 1, "unreadable": 0}
        assert after != before
        assert after.text not in output
        # The same process stores and opens secrets under the new key.
        other = await subscribe(node, f"{url}/sink")
        shown = await node.get(path)
        await node.put(path, {**shown, "types": ["io.xregistry.group.created"]})
        await node.put("/messagegroups/after")
        await until(lambda: server.subjects.count("/messagegroups/after") >= 2)
        assert other != path
        async with node.database.acquire() as connection:
            assert await count_secrets(connection) == {after.id: 2}
    async with server.serve() as _, delivering(database_url, data_dir) as node:
        assert (await node.get(path))["status"]["failedattempts"] == 0


async def test_the_setting_is_rotated_by_the_operator(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    old, new = EncryptionKey.new(), EncryptionKey.new()
    await store(database, ring(old), "a")
    named = ("--data-dir", str(tmp_path), "--database-url", database_url)
    both = {"CONCORD_ENCRYPTION_KEY": f"{new.text},{old.text}"}
    code, output = await concord("encryption", "rotate", *named, **both)
    assert code == 0, output
    assert "No secret needs another key" in output
    assert await opened(database, ring(new)) == 1
    assert new.text not in output
    assert not (tmp_path / KEY_FILE).exists()


async def test_secrets_whose_key_is_lost_are_told_and_stay(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    lost, here = EncryptionKey.new(), EncryptionKey.new()
    await store(database, ring(lost), "a")
    await store(database, ring(here), "b")
    named = ("--data-dir", str(tmp_path), "--database-url", database_url)
    setting = {"CONCORD_ENCRYPTION_KEY": here.text}
    code, output = await concord("encryption", "list", "--json", *named, **setting)
    assert code == 0, output
    assert orjson.loads(output) == [
        {"key": here.id, "use": "in use", "secrets": 1},
        {"key": lost.id, "use": "missing", "secrets": 1},
    ]
    code, output = await concord("encryption", "rotate", *named, **setting)
    assert code == 1
    assert "1 secret cannot be decrypted" in output
    assert await opened(database, ring(lost, here)) == 2


async def test_a_directory_without_a_key_is_not_made_by_a_rotation(
    data_dir: Path, database_url: str
) -> None:
    named = ("--data-dir", str(data_dir), "--database-url", database_url)
    code, output = await concord("encryption", "rotate", *named)
    assert code == 2
    assert "There is no key" in output
    assert KEY_FILE not in os.listdir(data_dir.parent)
    assert "node" not in os.listdir(data_dir.parent)


async def test_a_lost_key_makes_its_subscriptions_wait_and_nothing_else(
    database_url: str, data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = TokenServer()
    server.tokens.append("access-s3cret")
    file = data_dir / KEY_FILE
    async with server.serve() as url:
        async with delivering(database_url, data_dir) as node:
            waiting = await subscribe(node, f"{url}/sink")
        file.rename(data_dir / "lost")
        async with delivering(database_url, data_dir) as node:
            other = await subscribe(node, f"{url}/sink")
            await node.put("/messagegroups/a")
            await until(lambda: "/messagegroups/a" in server.subjects)
            status = await failing(node, waiting)
            assert status["error"].startswith("this node does not have the key")
            assert "CONCORD_ENCRYPTION_KEY" in status["error"]
            assert str(data_dir) not in status["error"]
            assert (await node.get(other))["status"]["failures"] == 0
            # A client may store the secret again, without an operator.
            shown = await node.get(waiting)
            stars = await node.send("PUT", waiting, shown)
            assert stars.status == 200, stars.body
        output = capsys.readouterr()
        lost = KeyFile(data_dir / "lost")
        assert lost.read()[0].id in output.out + output.err
        file.unlink()
        (data_dir / "lost").rename(file)
        before = len(server.subjects)
        async with delivering(database_url, data_dir) as node:
            await until(lambda: len(server.subjects) > before)
            assert "does not have the key" in (await failing(node, other))["error"]


async def failing(node: Node, path: str) -> dict[str, Any]:
    """The status of a subscription, once its delivery has failed."""
    async with asyncio.timeout(20):
        while not (status := (await node.get(path))["status"])["failures"]:
            await asyncio.sleep(0.01)  # between two looks at the status
            await node.put(f"/messagegroups/{uuid.uuid4().hex}")
    found: dict[str, Any] = status
    return found


async def test_no_node_starts_with_a_key_that_others_may_read(
    data_dir: Path, database_url: str
) -> None:
    settings = Settings(data_dir=data_dir, database_url=SecretStr(database_url))
    assert key_ring(settings).current_id
    (data_dir / KEY_FILE).chmod(0o644)
    named = ("--data-dir", str(data_dir), "--database-url", database_url)
    code, output = await concord("serve", "--port", "0", *named)
    assert code == 2
    assert f"chmod 600 {data_dir / KEY_FILE}" in output
    assert "Traceback" not in output
