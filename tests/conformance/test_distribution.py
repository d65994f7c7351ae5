"""The suite is a distribution of its own, whose command tests any server without Concord."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from xml.etree import ElementTree

import orjson
import pytest

from tests.conformance.conftest import own_node, run
from xregistry_conformance.harness import Server


@pytest.fixture(scope="module")
def node_url(postgres_url: str, template: str) -> Iterator[str]:
    """A node of its own, as the command wipes it."""
    with own_node(postgres_url, template) as url:
        yield url


def test_a_run_reports_by_section_and_writes_junit_and_json(
    installed: Path, node_url: str, tmp_path: Path
) -> None:
    junit, json = tmp_path / "junit.xml", tmp_path / "results.json"
    outputs = ("--junit", str(junit), "--json", str(json))
    done = run(installed, node_url, "--wipe", "--only", "http-registry or domain-schemas",
               "--profile", "core", "--wait", "5", *outputs)  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "core/http.md, GET /" in done.stdout
    assert done.stdout.endswith("imported:\n")
    told = orjson.loads(json.read_bytes())
    assert told["server"] == node_url
    assert told["counts"]["passed"] > 10
    assert told["sections"]["core/http.md, GET /"]["passed"] >= 1
    assert "schema/spec.md, Document Store" not in told["sections"]
    [suite] = ElementTree.parse(junit).getroot()
    assert int(suite.attrib["tests"]) == sum(told["counts"].values())


class Bare(BaseHTTPRequestHandler):
    """A server that shows a registry, but knows no capability and no error of the standard."""

    def do_GET(self) -> None:
        body = orjson.dumps({"self": f"http://{self.headers['Host']}/", "specversion": "1.0-rc4"})
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_a_server_that_does_not_conform_fails_with_the_section(
    installed: Path, tmp_path: Path
) -> None:
    json = tmp_path / "results.json"
    with ThreadingHTTPServer(("127.0.0.1", 0), Bare) as bare:
        threading.Thread(target=bare.serve_forever).start()
        url = f"http://127.0.0.1:{bare.server_port}"
        done = run(installed, url, "--profile", "read-only", "--json", str(json))
        bare.shutdown()
    assert done.returncode == 1, done.stdout
    failed = [
        case for case in orjson.loads(json.read_bytes())["cases"] if case["outcome"] == "failed"
    ]
    assert "core/spec.md, Registry Capabilities" in {case["section"] for case in failed}
    assert all(case["section"].partition(",")[0] in case["reason"] for case in failed)


def test_a_registry_is_read_without_being_wiped(installed: Path, node_url: str) -> None:
    registry = Server(node_url)
    registry.request("PUT", "/", body=b'{"name": "kept"}')
    done = run(installed, node_url, "--profile", "read-only")
    assert done.returncode == 0, done.stdout
    assert registry.request("GET", "/").json["name"] == "kept"


def test_a_run_leaves_the_server_with_the_model_that_it_had(installed: Path, node_url: str) -> None:
    registry = Server(node_url)
    registry.request("PUT", "/schemagroups/wiped", body=b"{}")
    done = run(installed, node_url, "--wipe", "--only", "model-change")
    assert done.returncode == 0, done.stdout
    after = Server(node_url)
    assert after.modelsource == registry.modelsource
    assert after.capabilities == registry.capabilities
    assert registry.request("GET", "/schemagroups/wiped").status == 404


def test_nothing_is_wiped_unless_it_is_said(installed: Path, node_url: str) -> None:
    done = run(installed, node_url)
    assert done.returncode == 4
    assert "--wipe" in done.stderr


def test_a_server_that_is_not_there_is_named(installed: Path) -> None:
    done = run(installed, "http://127.0.0.1:9", "--profile", "read-only", "--only", "capabilities")
    assert done.returncode == 1
    assert "does not show a registry: ConnectionRefusedError" in done.stdout
