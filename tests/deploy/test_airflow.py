"""The DAG, run by the real Airflow: it compares, and tells people what differs."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from typer.main import get_command

from catalog.cli import app
from tests.deploy.scheduler import airflow_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

TOKEN = "concord_token_of_hub"
DIFFERENT = {"counts": {"missing": {"eu": 2, "hub": 0}, "stale": {"hub": 1}}}
EQUAL = {"counts": {}, "origins": 7, "uncompared": []}
# Stands for `concord`: the first time catalogs differ, then they agree, then there is no answer.
PROGRAM = f"""#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >>arguments
env >>variables
case $(wc -l <arguments) in
    1) echo '{json.dumps(DIFFERENT)}'; exit 1 ;;
    2) echo '{json.dumps(EQUAL)}' ;;
    *) echo "Nobody answers." >&2; exit 2 ;;
esac
"""


@contextmanager
def web_hook() -> Iterator[tuple[str, list[str]]]:
    """The URL of a web hook, and what it was told."""
    told: list[str] = []

    class Told(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            told.append(json.loads(body)["text"])
            self.send_response(204)
            self.end_headers()

    server = HTTPServer(("127.0.0.1", 0), Told)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/", told
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_run_fails_and_alarms_if_catalogs_differ(tmp_path: Path) -> None:
    airflow = airflow_in(tmp_path)
    program = tmp_path / "program" / "concord"
    program.parent.mkdir()
    program.write_text(PROGRAM)
    program.chmod(0o755)
    with web_hook() as (url, told):
        [different, equal, failed], log = airflow.run(
            3,
            {
                "concord_catalogs": '["hub", "eu"]',
                "concord_program": str(program),
                "concord_reports": "/reports",
                "concord_options": '["--fast"]',
            },
            {
                "concord_hub": {"host": "https://hub.example", "password": TOKEN},
                "concord_eu": {"host": "eu.example", "schema": "http", "port": 8080},
                "concord_alarm": {"password": url},
            },
        )
    assert different == {"run": "failed", "task": "failed", "value": None}
    assert equal == {"run": "success", "task": "success", "value": {"origins": 7, "uncompared": 0}}
    assert failed == different
    first, second = told
    assert first.endswith(": The catalogs differ: 2 missing at eu, 1 stale at hub.")
    assert second.endswith(": The catalogs could not be compared: the log says why.")

    command, *others = (program.parent / "arguments").read_text().splitlines()
    assert others == [command, command]
    assert command.split() == [
        *("reconcile", "--json", "--catalog=hub=https://hub.example"),
        *("--token-from=hub=CATALOG_TOKEN_0", "--catalog=eu=http://eu.example:8080"),
        *("--report=/reports", "--fast"),
    ]
    options = {name for each in get_command(app).commands["reconcile"].params for name in each.opts}
    assert {each.partition("=")[0] for each in command.split()[1:]} <= options
    given = (program.parent / "variables").read_text()
    assert f"CATALOG_TOKEN_0={TOKEN}" in given
    assert "AIRFLOW" not in given, "secrets of Airflow"
    assert TOKEN not in log
