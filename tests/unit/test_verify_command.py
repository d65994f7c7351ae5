"""`concord subscription verify`: the key from a file or the environment, and its exit codes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.subscriptions.sinks.webhooksignature import Signer, make_key, public_key, shared_secret

BODY = b'{"specversion":"1.0"}'
KEY = make_key("ed25519", datetime.now(UTC))


def run(*arguments: str, stdin: bytes | None = None, **environment: str) -> Result:
    return CliRunner().invoke(
        app,
        ["subscription", "verify", *arguments],
        input=stdin,
        env=environment,
    )


@pytest.fixture
def request_files(tmp_path: Path) -> tuple[str, ...]:
    """Arguments that name a body, its headers and the key that signed them."""
    body, headers, key = (tmp_path / name for name in ("event.json", "headers", "key"))
    body.write_bytes(BODY)
    lines = [
        f"{name}: {value}"
        for name, value in Signer([KEY]).headers("e.1", datetime.now(UTC), BODY).items()
    ]
    headers.write_text("\r\n".join(["POST /events HTTP/1.1", "Host: sink", *lines, ""]))
    key.write_text(f"{public_key(KEY)}\n")
    return (str(body), "--headers", str(headers), "--key", str(key))


def test_a_delivery_that_was_signed_is_valid(request_files: tuple[str, ...]) -> None:
    done = run(*request_files)
    assert done.exit_code == 0, done.output
    assert done.output == "The signature of e.1 is valid.\n"
    assert orjson.loads(run(*request_files, "--json").output) == {"valid": True, "id": "e.1"}


def test_the_key_may_come_from_the_environment_and_the_body_from_standard_input(
    request_files: tuple[str, ...],
) -> None:
    now = datetime.now(UTC)
    key = make_key("hmac-sha256", now)
    headers = [
        f"-H{name}: {value}" for name, value in Signer([key]).headers("e", now, BODY).items()
    ]
    secret = shared_secret(key)
    assert secret is not None
    assert run("-", *headers, stdin=BODY, CONCORD_SIGNATURE_KEY=secret).exit_code == 0
    assert run("-", *headers, stdin=BODY + b"\n", CONCORD_SIGNATURE_KEY=secret).exit_code == 1


def test_a_changed_body_is_not_valid(request_files: tuple[str, ...]) -> None:
    Path(request_files[0]).write_bytes(BODY + b"\n")
    done = run(*request_files)
    assert done.exit_code == 1
    assert "No signature fits" in done.output
    answer = orjson.loads(run(*request_files, "--json").output)
    assert answer["valid"] is False
    assert "No signature fits" in answer["reason"]


def test_an_old_request_is_valid_as_long_as_it_is_tolerated(tmp_path: Path) -> None:
    body = tmp_path / "event.json"
    body.write_bytes(BODY)
    at = datetime.now(UTC) - timedelta(hours=1)
    headers = [f"-H{name}: {value}" for name, value in Signer([KEY]).headers("e", at, BODY).items()]
    key = {"CONCORD_SIGNATURE_KEY": public_key(KEY) or ""}
    done = run(str(body), *headers, **key)
    assert done.exit_code == 1
    assert "seconds old; 300 are tolerated" in done.output
    assert run(str(body), *headers, "--tolerance", "7200", **key).exit_code == 0


@pytest.mark.parametrize("missing", ["body", "headers", "key", "content"])
def test_what_cannot_be_checked_is_no_answer(
    request_files: tuple[str, ...], missing: str, tmp_path: Path
) -> None:
    arguments = list(request_files)
    if missing == "body":
        arguments[0] = str(tmp_path / "nothing")
    elif missing == "headers":
        arguments[2] = str(tmp_path / "nothing")
    elif missing == "key":
        del arguments[3:]
    else:
        Path(arguments[4]).write_text("whsec_c2VjcmV0")
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert "c2VjcmV0" not in done.output


def test_a_header_that_is_there_twice_is_a_mistake(request_files: tuple[str, ...]) -> None:
    done = run(*request_files, "-H", "WEBHOOK-ID: e.2")
    assert done.exit_code == 2
    assert "twice" in done.output
