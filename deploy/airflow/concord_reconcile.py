"""Compares catalogs of Concord with Spark every hour; a run fails with what differs, and alarms.

Put this file into the folder of DAGs. It needs the `concord` command, with Spark, on the workers:
in an environment of its own, since Airflow pins many of the same libraries.

Variables of Airflow:

    concord_catalogs   a list of names, as ["hub", "eu"]; two or more
    concord_program    the path of the command; `concord` unless given
    concord_options    more options, as ["--repair"]
    concord_reports    a directory for the report; without it, none is written

Connections of Airflow:

    concord_NAME       for each catalog: its URL as host, and as password a token with the role
                       `replicator`
    concord_alarm      optional: as password the URL of a web hook that takes {"text": "…"}
"""

from __future__ import annotations

import json
import logging
import os
import subprocess
import urllib.request
from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Connection, Variable, dag, task
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
)

ALARM_SECONDS = 10
_EQUAL, _DIFFERENT = 0, 1

log = logging.getLogger(__name__)


def sound_alarm(context: dict[str, Any]) -> None:
    """Tell the web hook, if there is one, why a run failed."""
    try:
        url = Connection.get("concord_alarm").password
    except AirflowNotFoundException:
        return
    text = f"{context['ti'].dag_id}, {context['run_id']}: {context.get('exception')}"
    request = urllib.request.Request(
        url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=ALARM_SECONDS).close()


def url_of(connection: Connection) -> str:
    """The URL of a catalog, which is the host, or is made of scheme, host and port."""
    host = connection.host or ""
    if "://" in host:
        return host
    port = f":{connection.port}" if connection.port else ""
    return f"{connection.schema or 'https'}://{host}{port}"


def command_of(names: list[str]) -> tuple[list[str], dict[str, str]]:
    """The command that compares catalogs, and the variables with their tokens.

    Everybody on a machine may see a command; only its user sees its variables.
    """
    command = [Variable.get("concord_program", default="concord"), "reconcile", "--json"]
    tokens = {}
    for number, name in enumerate(names):
        connection = Connection.get(f"concord_{name}")
        command.append(f"--catalog={name}={url_of(connection)}")
        if connection.password:
            variable = f"CATALOG_TOKEN_{number}"
            tokens[variable] = connection.password
            command.append(f"--token-from={name}={variable}")
    if reports := Variable.get("concord_reports", default=""):
        command.append(f"--report={reports}")
    return command + Variable.get("concord_options", default=[], deserialize_json=True), tokens


def told(counts: dict[str, dict[str, int]]) -> str:
    """The differences, and where they are: `2 missing at eu, 1 stale at hub`."""
    return ", ".join(
        f"{count} {finding} at {catalog}"
        for finding, found in counts.items()
        for catalog, count in found.items()
        if count
    )


@dag(
    schedule="17 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    default_args={"on_failure_callback": sound_alarm},
    tags=["concord"],
    doc_md=__doc__,
)
def concord_reconcile() -> None:
    @task(retries=2, retry_delay=timedelta(minutes=5), execution_timeout=timedelta(hours=1))
    def compare() -> dict[str, Any]:
        """Compare once; what could not be compared is tried again, what differs is not."""
        names = Variable.get("concord_catalogs", deserialize_json=True)
        command, tokens = command_of(names)
        log.info("Running %s", command)
        # Airflow's own secrets are none of its business. It tells its progress in the log.
        kept = {name: text for name, text in os.environ.items() if "AIRFLOW" not in name}
        done = subprocess.run(command, env=kept | tokens, stdout=subprocess.PIPE, check=False)
        if done.returncode not in (_EQUAL, _DIFFERENT) or not done.stdout.startswith(b"{"):
            raise AirflowException("The catalogs could not be compared: the log says why.")
        summary = json.loads(done.stdout)
        log.info("Summary: %s", summary)
        if done.returncode == _DIFFERENT:
            raise AirflowFailException(f"The catalogs differ: {told(summary['counts'])}.")
        return {"origins": summary["origins"], "uncompared": len(summary["uncompared"])}

    compare()


concord_reconcile()
