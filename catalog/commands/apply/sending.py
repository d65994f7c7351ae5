"""Sends the requests of an apply in order, and collects the answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from catalog.client import BadAnswer, Client, ClientError, JsonObject, Refused
from catalog.commands.apply.requests import ApplyRequest
from catalog.commands.console import violations_as_json

_ACTIONS = ("created", "updated", "deleted")


@dataclass(slots=True, kw_only=True)
class ApplyResult:
    """The answers to the requests of an apply, in order, until a request failed.

    Args:
        is_dry_run: the node wrote nothing.
        failure: the error of the request `failed`.
        not_sent: the requests after `failed`.
    """

    is_dry_run: bool
    answers: list[JsonObject] = field(default_factory=list)
    failure: ClientError | None = None
    failed: ApplyRequest | None = None
    not_sent: Sequence[ApplyRequest] = ()

    @property
    def changes(self) -> list[JsonObject]:
        """The first change of each entity: a group may be in several requests."""
        first: dict[str, JsonObject] = {}
        for answer in self.answers:
            for change in answer["changes"]:
                first.setdefault(change["xid"], change)
        return [first[xid] for xid in sorted(first, key=lambda xid: xid.split("/"))]

    @property
    def deletions(self) -> list[JsonObject]:
        return [change for change in self.changes if change["action"] == "deleted"]

    @property
    def is_refused(self) -> bool:
        """Whether the node refused the failed request."""
        return isinstance(self.failure, Refused) and self.failure.problem.status < 500

    @property
    def is_in_doubt(self) -> bool:
        """Whether the failed request may have been carried out despite the missing answer."""
        return not self.is_dry_run and self.failure is not None and not self.is_refused

    @property
    def notes(self) -> list[JsonObject]:
        """The rules of the domains that the documents break; a broken rule refuses nothing."""
        return [note for answer in self.answers for note in answer.get("notes", [])]

    def listed(self, name: str) -> list[str]:
        """The distinct xids that the answers list under a name, sorted."""
        return sorted({xid for answer in self.answers for xid in answer[name]})

    def as_json(self) -> JsonObject:
        changes = self.changes
        actions = [change["action"] for change in changes]
        members: JsonObject = {
            "dryrun": self.is_dry_run,
            **{action: actions.count(action) for action in _ACTIONS},
            "changes": changes,
            "leftalone": self.listed("leftalone"),
            "kept": self.listed("kept"),
            "notes": self.notes,
            "interactions": [each["interaction"] for each in self.answers if "interaction" in each],
        }
        if self.failure is not None:
            failure = self.failure
            broken = failure.problem.violations if isinstance(failure, Refused) else ()
            members["error"] = failure.message
            members["violations"] = violations_as_json(broken)
            members["indoubt"] = self.is_in_doubt
            members["notsent"] = len(self.not_sent)
        return members


async def send_all(
    client: Client,
    requests: Sequence[ApplyRequest],
    *,
    dry_run: bool,
    show: Callable[[int, ApplyRequest], None] = lambda *_: None,
) -> ApplyResult:
    """Send requests until a request fails.

    Args:
        dry_run: the node checks the requests and computes the changes, but writes nothing.
        show: a function that is called with position and request before each request.
    """
    result = ApplyResult(is_dry_run=dry_run)
    for place, request in enumerate(requests):
        show(place, request)
        params = request.params + ([("dryrun", "")] if dry_run else [])
        try:
            answer = await client.post("/apply", request.body, params)
            if not isinstance(answer, dict) or "changes" not in answer:
                raise BadAnswer(client.url, "something else than the changes")
        except ClientError as failure:
            result.failure, result.failed = failure, request
            result.not_sent = requests[place + 1 :]
            return result
        result.answers.append(answer)
    return result
