"""Errors that the standard does not define."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from catalog.model.errors import RequestError, ServerBusy, XRegistryError

CONCORD = "urn:concord:error:"


class RequestTooLarge(XRegistryError, name="request_too_large", status=413, home=CONCORD):
    template = "The body sent to <subject> is larger than <limit> bytes, the most accepted here."


class RequestTimeout(XRegistryError, name="request_timeout", status=408, home=CONCORD):
    template = "The body sent to <subject> did not arrive within <seconds> seconds."


class LimitExceeded(RequestError, name="limit_exceeded", status=413, home=CONCORD):
    """A request exceeds a limit per request; `setting` names the setting of the limit."""

    template = "The request has more than <limit> <things>, the most accepted here (<setting>)."


class TooManyAtOnce(RequestError, name="too_many_at_once", status=429, home=CONCORD):
    """A client has too much work under way; `setting` names the setting of the limit."""

    template = "There are <limit> <things> under way, the most at a time (<setting>)."
    headers = MappingProxyType({"Retry-After": "1"})


class RetryLater(RequestError, status=429):
    """A client has to wait for a number of seconds before the next request."""

    def __init__(self, subject: str, *, seconds: int, **args: Any) -> None:
        super().__init__(subject, seconds=str(seconds), **args)
        self.headers = {"Retry-After": str(seconds)}


class TooManyAttempts(RetryLater, name="too_many_attempts", home=CONCORD):
    """A client repeats a request that needs a secret too often."""

    template = "There were too many requests of this kind; the next may come in <seconds> seconds."


class RateExceeded(RetryLater, name="too_many_requests", home=CONCORD):
    """A caller sends too many requests; `setting` names the setting of the limit."""

    template = (
        "<whose> may send <limit> requests in a second, on average (<setting>); the next may come "
        "in <seconds> seconds."
    )


class ReadTooSlowly(ServerBusy, name="read_too_slowly", home=CONCORD):
    """A stream is cut because of a slow reader, which can no longer receive the error."""

    template = "The stream of <subject> was not read at <rate> bytes per second (<setting>)."


class UnknownPosition(RequestError, name="unknown_position", home=CONCORD):
    """A read waits for a position that the node never reaches."""

    template = "<subject> cannot be read as of <position>: <error_detail>."


class PositionNotReached(RequestError, name="position_not_reached", status=503, home=CONCORD):
    """A read waited in vain; `reached` is the position of the link after a first full copy."""

    template = (
        'After <seconds> seconds, the link "<link>" has not brought the changes of <source> up to '
        "<position>; it is <state>."
    )
    headers = MappingProxyType({"Retry-After": "1"})


class LimitReached(RequestError, name="limit_reached", status=409, home=CONCORD):
    """A node has reached a limit; `setting` names the setting of the limit."""

    template = "This node has <limit> <things>, the most that it may have (<setting>)."


class SearchTooCostly(RequestError, name="search_too_costly", home=CONCORD):
    """A search exceeds the time limit of searches in the database."""

    template = "The search that <subject> asks for takes longer than <seconds> seconds."


class DefinitionUnknown(RequestError, name="definition_unknown", status=404, home=CONCORD):
    """A message is to be checked, and no definition that the caller sees has its type."""

    template = 'There is no message definition with the type "<type>".'


class UnsupportedMediaType(XRegistryError, name="unsupported_media_type", status=415, home=CONCORD):
    template = "<subject> takes JSON here, not <contenttype>."


class UnknownHost(RequestError, name="unknown_host", status=421, home=CONCORD):
    template = '"<host>" is not a name of this node.'


class OriginRefused(RequestError, name="origin_refused", status=403, home=CONCORD):
    template = "Pages of <origin> may not change this catalog."


class Unauthenticated(RequestError, name="unauthenticated", status=401, home=CONCORD):
    """A request lacks a valid credential; `challenge` names accepted schemes (RFC 9110, 11.6.1)."""

    template = "The request to <subject> is not of a caller known here: <error_detail>."

    def __init__(self, subject: str, *, fault: str, challenge: str, detail: str = "") -> None:
        super().__init__(subject, detail=detail, error_detail=fault)
        self.headers = {"WWW-Authenticate": challenge}


class Forbidden(RequestError, name="forbidden", status=403, home=CONCORD):
    """The caller is known and lacks a role."""

    template = '"<identity>" may not <action> here: that needs the role <roles>.'
    headers = MappingProxyType(
        {"WWW-Authenticate": 'Bearer realm="concord", error="insufficient_scope"'}
    )


class IssuerAway(ServerBusy, name="issuer_away", home=CONCORD):
    """A token cannot be verified, since the keys of the issuer are not known yet."""

    template = "The keys of the issuer <issuer> cannot be read at the moment; try again soon."


class UnsupportedContentCoding(
    XRegistryError, name="unsupported_content_coding", status=415, home=CONCORD
):
    template = "The body sent to <subject> is coded as <coding>; gzip and deflate are accepted."
    headers = MappingProxyType({"Accept-Encoding": "gzip, deflate"})


class ExpectationFailed(RequestError, name="expectation_failed", status=417, home=CONCORD):
    template = "No expectation but 100-continue is met here."


class UnresolvedConflict(XRegistryError, name="conflict", status=409, home=CONCORD):
    template = '"<subject>" stays as it is: <error_detail>.'


class AlreadyExists(XRegistryError, name="already_exists", status=409, home=CONCORD):
    template = 'There is an entity at "<subject>" already.'


class IncompatibleVersion(XRegistryError, name="incompatible_version", status=409, home=CONCORD):
    template = 'The version would break the compatibility rule of "<subject>", "<compat>".'


class ServiceNameTaken(XRegistryError, name="service_name_taken", status=409, home=CONCORD):
    template = 'There is a service "<name>" already, in this or in another case.'


class SourceUnusable(XRegistryError, name="source_unusable", home=CONCORD):
    template = "The catalog at <source> cannot be followed: <error_detail>."


class TargetUnusable(XRegistryError, name="target_unusable", home=CONCORD):
    template = "Nothing can be pushed to the catalog at <target>: <error_detail>."


class ReplicaUnusable(XRegistryError, name="replica_unusable", home=CONCORD):
    template = "Nothing can be recovered from <source>: <error_detail>."


class PushNotAccepted(XRegistryError, name="push_not_accepted", status=403, home=CONCORD):
    template = "This catalog accepts no pushes of <authority>."


class PushOutOfStep(XRegistryError, name="push_out_of_step", status=409, home=CONCORD):
    """The copies would leave a gap after the copies received before."""

    template = "These copies do not follow what came before: <error_detail>."


class PushStopped(XRegistryError, name="push_stopped", status=409, home=CONCORD):
    """An operator has to decide before further copies are accepted."""

    template = "Pushes of <authority> are stopped: <error_detail>."


class PushAwaitsAnswer(XRegistryError, name="push_awaits_answer", status=409, home=CONCORD):
    """An operator has to answer the question of a link before further copies are accepted."""

    template = "Pushes of <authority> are stopped until an operator decides: <error_detail>."


class RequestInterrupted(XRegistryError, name="request_interrupted", status=406, home=CONCORD):
    template = "The request at <subject> was interrupted and changed nothing."


class PreconditionFailed(XRegistryError, name="precondition_failed", status=412, home=CONCORD):
    template = "<subject> is not in the state that the request is conditional on."


class CatalogRecovering(RequestError, name="catalog_recovering", status=503, home=CONCORD):
    """The node recovers its own entities from replicas: a write meanwhile could be lost."""

    template = (
        "This catalog is taking its own entities back from its replicas. Until that is done, it "
        "can be read, and takes no writes."
    )
    headers = MappingProxyType({"Retry-After": "10"})


class HandoverUnderWay(RequestError, name="handover_under_way", status=503, home=CONCORD):
    """An authority hands a group over to the node, which refuses writes to the group meanwhile."""

    template = (
        "<authority> is about to hand <group> over to this catalog, which takes no writes to it "
        "before it has come."
    )
    headers = MappingProxyType({"Retry-After": "2"})


class HandoverRefused(XRegistryError, name="handover_refused", status=409, home=CONCORD):
    template = "<group> cannot be handed over: <error_detail>."


class DatabaseUnavailable(ServerBusy, name="database_unavailable", home=CONCORD):
    template = "The database of this catalog cannot be reached at the moment; try again soon."


class StorageFull(ServerBusy, name="storage_full", home=CONCORD):
    """The disk of the database has no space left. Nothing was written."""

    template = (
        "The disk of this catalog's database is full, so nothing was written. Its operator has to "
        "free space."
    )
    headers = MappingProxyType({"Retry-After": "30"})


class OutcomeUnknown(DatabaseUnavailable, name="outcome_unknown"):
    """The database was lost during a commit, which may have succeeded."""

    template = (
        "The connection to the database was lost. The request may have been applied: "
        "read <subject> before it is repeated."
    )
