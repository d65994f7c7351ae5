"""Runs the DAG of a file some times, as `airflow dags test` does, and writes what became of it.

The last time, nothing is tried again.

Airflow's own Python runs it: airflowrun.py FILE RESULT TIMES.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from airflow.dag_processing.dagbag import DagBag


def main(file: str, result: str, times: str) -> None:
    bag = DagBag(file)
    assert not bag.import_errors, bag.import_errors
    [dag] = bag.dags.values()
    outcomes = [outcome(dag) for _ in range(int(times) - 1)]
    # Between two tries, the run would wait.
    [task] = dag.tasks
    task.retries = 0
    Path(result).write_text(json.dumps([*outcomes, outcome(dag)]))


def outcome(dag: Any) -> dict[str, Any]:
    run = dag.test()
    [task] = run.get_task_instances()
    return {"run": str(run.state), "task": str(task.state), "value": task.xcom_pull(task.task_id)}


if __name__ == "__main__":
    main(*sys.argv[1:])
