"""Sends the steps of a case to a server and compares its answers with what is expected."""

from __future__ import annotations

import base64
import csv
import fnmatch
import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

import orjson

from xregistry_conformance.cases import Case, errors_of, read_errors, read_model
from xregistry_conformance.copies import buckets_of, faults_of, read_lines
from xregistry_conformance.matching import MISSING, Saved, as_text, differences, embed, fill
from xregistry_conformance.receiver import Delivery, Receiver

SPEC = "https://github.com/xregistry/spec/blob/main/core/"
JSON = "application/json; charset=utf-8"
TIMEOUT_SECONDS = 60.0
_PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A response; the names of its headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return orjson.loads(self.body)

    def __str__(self) -> str:
        headers = "".join(f"\n    {name}: {value}" for name, value in self.headers.items())
        return f"{self.status}{headers}\n    {self.body[:1500].decode(errors='replace')}"


class Server:
    """A server by its URL: everything that the runner does to it.

    Args:
        url: the root of the registry.
        timeout: the longest time for an answer, in seconds.
        wait: how long to wait for the first answer, in seconds, while the server starts.
        entry: the path that shows that the server is there.
        handshake: whether the server asks a receiver for its consent (http-webhook.md, 4).
    """

    def __init__(
        self,
        url: str,
        *,
        timeout: float = TIMEOUT_SECONDS,
        wait: float = 0,
        entry: str = "/",
        handshake: bool = False,
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self.handshake = handshake
        self._served: dict[str, bool] = {}
        root = self._await_start(entry, wait)
        self.base = str(root["self"] if isinstance(root, dict) and "self" in root else url)
        self.base = self.base.rstrip("/")
        self.capabilities = self._shown("/capabilities")
        self.modelsource = self._shown("/modelsource")
        self.groups = {*self._shown("/model").get("groups", {})}

    def _shown(self, path: str) -> Any:
        """The JSON at a path; an empty object where the server has none."""
        answer = self.request("GET", path)
        return answer.json if answer.status == 200 else {}

    def _await_start(self, entry: str, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        while True:
            try:
                answer = self.request("GET", entry)
            except OSError as error:
                told = f"{type(error).__name__}: {error}"
            else:
                if answer.status == 200:
                    return answer.json
                told = str(answer)
            if time.monotonic() >= deadline:
                raise AssertionError(f"GET {self.url}{entry} does not show a registry: {told}")
            time.sleep(_PAUSE_SECONDS)

    def request(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request with these headers and no others."""
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(parts.netloc, timeout=self.timeout)
        try:
            connection.putrequest(method, parts.path + path, skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            if body is not None or method in {"PUT", "POST", "PATCH"}:
                connection.putheader("Content-Length", str(len(body or b"")))
            connection.putheader("Connection", "close")
            connection.endheaders(body or None)
            with connection.getresponse() as response:
                found: dict[str, str] = {}
                for name, value in response.getheaders():
                    key = name.lower()
                    found[key] = f"{found[key]}, {value}" if key in found else value
                return Answer(status=response.status, headers=found, body=response.read())
        finally:
            connection.close()

    def lacks(self, case: Case) -> str:
        """What the case needs and the server does not have; empty if it has all."""
        needs = dict(case.needs)
        if missing := {*needs.pop("groups", [])} - self.groups:
            return f"groups: {missing}"
        if unserved := [path for path in needs.pop("answers", []) if not self._serves(path)]:
            return f"answers: {unserved}"
        if needs.pop("handshake", False) and not self.handshake:
            return "handshake: say --handshake if the server has it"
        if case.model is not None:
            needs["mutable"] = [*needs.get("mutable", []), "modelsource"]
        return missing_needs(self.capabilities, needs)

    def _serves(self, path: str) -> bool:
        if path not in self._served:
            self._served[path] = self.request("GET", path).status == 200
        return self._served[path]

    def prepare(self, case: Case) -> None:
        """Empty the registry, and install the model that the case needs.

        The cases of drafts clean up for themselves.
        """
        if case.is_draft:
            return
        self._empty()
        if case.model is not None:
            self._do("PUT", "/modelsource", read_model(case.model))
        elif "groups" in case.needs:
            self._restore_model()

    def restore(self) -> None:
        """Empty the registry, and put the capabilities and the model in force that it had at first.

        Raises:
            AssertionError: the server refuses that.
        """
        self._empty()
        self._restore_model()

    def _empty(self) -> None:
        self._restore_capabilities()
        root = self.request("GET", "/").json
        for name, count in root.items():
            if name.endswith("count") and f"{name.removesuffix('count')}url" in root and count:
                self._do("DELETE", f"/{name.removesuffix('count')}")
        self._do("PUT", "/", {})

    def _restore_model(self) -> None:
        answer = self.request("GET", "/modelsource")
        if answer.status == 200 and answer.json != self.modelsource:
            self._do("PUT", "/modelsource", self.modelsource)

    def _restore_capabilities(self) -> None:
        answer = self.request("GET", "/capabilities")
        if answer.status == 200 and answer.json != self.capabilities:
            self._do("PUT", "/capabilities", self.capabilities)

    def _do(self, method: str, path: str, body: Any = None) -> None:
        data = None if body is None else orjson.dumps(body)
        headers = {} if body is None else {"Content-Type": JSON}
        answer = self.request(method, path, headers=headers, body=data)
        assert answer.status in {200, 201, 204}, f"cannot prepare: {method} {path}: {answer}"

    def run(self, case: Case, receiver: Receiver | None = None) -> None:
        """Take all steps. Raises `AssertionError` at the first that does not go as expected.

        Args:
            receiver: takes the deliveries, if the case is about some.
        """
        saved: Saved = {"base": self.base}
        if receiver is not None:
            saved["sink"] = receiver.begin()
        for number, step in enumerate(case.steps, 1):
            if "path" not in step:
                assert receiver is not None
                found, told = self._receive(step, receiver, saved), f"step {number}: {step}"
            else:
                found, told = self._send(number, step, saved)
            if found:
                reasons = "\n  ".join(found)
                raise AssertionError(f"{case.section}\n  {reasons}\n{told}")

    def _send(self, number: int, step: Mapping[str, Any], saved: Saved) -> tuple[list[str], str]:
        """Send the request of a step: where the answer is not as expected, and both in words."""
        method, path = step["method"], self._path(step["path"], saved)
        headers, body = encode(step, saved)
        answer = self.request(method, path, headers=headers, body=body)
        sent = f"step {number}, {method} {path} {headers} {(body or b'')[:500]!r}"
        return check(step.get("expect", {}), answer, saved), f"{sent}\n  {answer}"

    def _receive(self, step: Mapping[str, Any], receiver: Receiver, saved: Saved) -> list[str]:
        """Take a step of the receiver; where it does not go as expected."""
        if "answers" in step:
            receiver.answer(fill(step["answers"], saved))
        if "consent" in step:
            receiver.consent(fill(step["consent"], saved))
        found: list[str] = []
        if (want := step.get("received")) is not None:
            kept: list[Saved] = []

            def faults(delivery: Delivery) -> list[str]:
                trial = dict(saved)
                found = check_delivery(want, delivery, trial)
                kept[:] = [trial]
                return found

            found = receiver.take(faults, want.get("seconds", self.timeout), want.get("after", 0))
            saved.update(*kept)
        if (unwanted := step.get("absent")) is not None:
            found += receiver.absent(
                lambda each: check_delivery(unwanted, each, dict(saved)),
                unwanted.get("seconds", 0),
            )
        return found

    def _path(self, path: str, saved: Saved) -> str:
        """The path below the server's root; URLs that the server gave are taken, too."""
        whole = embed(path, saved)
        return whole.removeprefix(self.base) if whole.startswith(self.base) else whole


def missing_needs(capabilities: Mapping[str, Any], needs: Mapping[str, Any]) -> str:
    """What is needed and missing; empty if nothing is."""
    for name, wanted in needs.items():
        if missing := _missing(capabilities, name, wanted):
            return f"{name}: {missing}"
    return ""


def _missing(capabilities: Mapping[str, Any], name: str, wanted: Any) -> list[Any]:
    """What of a need the capabilities lack."""
    available = capabilities.get("available", {})
    if name == "mutable":
        return [item for item in wanted if not available.get(item, {}).get("mutable")]
    if isinstance(wanted, bool):
        return [] if capabilities.get(name, False) is wanted else [wanted]
    if name == "compatibilities":
        rules = {key.lower(): value for key, value in capabilities.get(name, {}).items()}
        return [
            f"{key}: {rule}"
            for key, items in wanted.items()
            for rule in items
            if rule
            not in [one for have in rules if fnmatch.fnmatch(key, have) for one in rules[have]]
        ]
    offered = [str(item).lower() for item in capabilities.get(name, [])]
    return [
        item for item in wanted if not any(fnmatch.fnmatch(item.lower(), have) for have in offered)
    ]


def encode(step: Mapping[str, Any], saved: Saved) -> tuple[dict[str, str], bytes | None]:
    """The headers and the body of a step's request."""
    headers = {
        name: as_text(fill(value, saved))
        for name, value in step.get("headers", {}).items()
        if value is not None
    }
    given = {name.lower() for name in step.get("headers", {})}
    if "body" in step:
        if "content-type" not in given:
            headers["Content-Type"] = JSON
        return headers, orjson.dumps(fill(step["body"], saved))
    if "text" in step:
        return headers, embed(step["text"], saved).encode()
    return headers, base64.b64decode(step["base64"]) if "base64" in step else None


def check(expect: Mapping[str, Any], answer: Answer, saved: Saved) -> list[str]:
    """Where the answer is not as expected; a step that expects nothing is to succeed."""
    found = _check_status(expect, answer)
    for name, want in expect.get("headers", {}).items():
        have: Any = answer.headers.get(name.lower(), MISSING)
        found += differences(_header(want), _header_value(want, have), saved, f"header {name}")
    if "text" in expect:
        found += differences(
            expect["text"], answer.body.decode(errors="replace"), saved, "the body"
        )
    if "base64" in expect and answer.body != base64.b64decode(expect["base64"]):
        found.append(f"the body is {answer.body[:200]!r}")
    if not found and expect.keys() & {"lines", "rows", "copies"}:
        found += _check_lines(expect, answer, saved)
    if found or not expect.keys() & {"body", "error", "buckets"}:
        return found
    return _check_json(expect, answer, saved)


def check_delivery(want: Mapping[str, Any], delivery: Delivery, saved: Saved) -> list[str]:
    """Where a delivery is not as expected; one of which no method is said is a POST."""
    method = want.get("method", "POST")
    found = [] if delivery.method == method else [f"the method is {delivery.method}, not {method}"]
    if "query" in want:
        found += differences(want["query"], delivery.query, saved, "the query")
    answer = Answer(status=200, headers=delivery.headers, body=delivery.body)
    compared = {name: want[name] for name in ("headers", "text") if name in want}
    found += check(compared, answer, saved)
    if "body" in want and not found:
        try:
            found = differences(want["body"], answer.json, saved, "body")
        except orjson.JSONDecodeError as error:
            found = [f"the body is no JSON: {error}"]
    return found


def _check_lines(expect: Mapping[str, Any], answer: Answer, saved: Saved) -> list[str]:
    """Where lines of JSON, or of CSV below a header, are not as expected."""
    if "rows" in expect:
        rows = [*csv.DictReader(answer.body.decode(errors="replace").splitlines())]
        return differences(expect["rows"], rows, saved, "rows")
    try:
        lines = read_lines(answer.body)
    except orjson.JSONDecodeError as error:
        return [f"a line is no JSON: {error}"]
    found = faults_of(lines) if expect.get("copies") else []
    return found + (
        differences(expect["lines"], lines, saved, "lines") if "lines" in expect else []
    )


def _check_status(expect: Mapping[str, Any], answer: Answer) -> list[str]:
    if "status" in expect:
        status = expect["status"]
        allowed = status if isinstance(status, list) else [status]
    elif "error" in expect:
        allowed = [read_errors()[error["name"]]["status"] for error in errors_of(expect)]
    else:
        allowed = [200, 201, 204]
    return [] if answer.status in allowed else [f"the status is {answer.status}, not {allowed}"]


def _header(want: Any) -> Any:
    return want if isinstance(want, str) else as_text(want)


def _header_value(want: Any, have: Any) -> Any:
    """A header's text as the scalar that a matcher of numbers or booleans looks at."""
    if not isinstance(have, str) or not isinstance(want, str):
        return have
    kind = want.rpartition(":")[2].removeprefix("$") if want.startswith("$") else ""
    if kind in {"uint", "int"} and have.lstrip("-").isdecimal():
        return int(have)
    return have == "true" if kind == "bool" and have in {"true", "false"} else have


def _check_json(expect: Mapping[str, Any], answer: Answer, saved: Saved) -> list[str]:
    kind = answer.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "application/json":
        return [f"the body is {kind or 'of no type'}, not JSON"]
    try:
        document = answer.json
    except orjson.JSONDecodeError as error:
        return [f"the body is no JSON: {error}"]
    found = differences(expect["body"], document, saved, "body") if "body" in expect else []
    if "buckets" in expect and not found:
        *copies, _ = saved[expect["buckets"]]
        wanted = buckets_of(copies, document["bits"])
        if sorted(document["buckets"]) != wanted:
            found.append(f"the buckets are {document['buckets']}, those of the copies {wanted}")
    tries = [_check_error(error, answer, saved) for error in errors_of(expect)]
    return found + min(tries, key=len, default=[])


def _check_error(expected: Mapping[str, Any], answer: Answer, saved: Saved) -> list[str]:
    """Where the answer is not the error of core/http.md, "Error Processing", or not the case's."""
    error = read_errors()[expected["name"]]
    uri = f"{SPEC}{error.get('document', 'spec.md')}#{expected['name']}"
    want: dict[str, Any] = {"type": uri, "title": "$text"}
    if error["subject"]:
        want["subject"] = expected.get("subject", "$match:/.*")
    if error["args"]:
        want["args"] = {**dict.fromkeys(error["args"], "$string"), **expected.get("args", {})}
    found = differences(want, answer.json, saved, "error")
    if answer.status != error["status"]:
        found.append(f"the status is {answer.status}, not {error['status']}")
    missing = [name for name in error.get("headers", []) if name.lower() not in answer.headers]
    return found + [f"there is no header {name}" for name in missing]
