"""Errors that the standard does not define."""

from __future__ import annotations

from catalog.model.errors import ServerBusy, XRegistryError

CONCORD = "urn:concord:error:"


class RequestTooLarge(XRegistryError):
    name = "request_too_large"
    status = 413
    template = "The body sent to <subject> is larger than <limit> bytes, the most accepted here."
    home = CONCORD


class RequestTimeout(XRegistryError):
    name = "request_timeout"
    status = 408
    template = "The body sent to <subject> did not arrive within <seconds> seconds."
    home = CONCORD


class SearchTooCostly(XRegistryError):
    """A search exceeds the time that it may take in the database."""

    name = "search_too_costly"
    status = 400
    is_about_request = True
    template = "To find what <subject> asks for takes longer than <seconds> seconds."
    home = CONCORD


class UnsupportedMediaType(XRegistryError):
    name = "unsupported_media_type"
    status = 415
    template = "<subject> takes JSON here, not <contenttype>."
    home = CONCORD


class UnresolvedConflict(XRegistryError):
    name = "conflict"
    status = 409
    template = '"<subject>" stays as it is: <error_detail>.'
    home = CONCORD


class AlreadyExists(XRegistryError):
    name = "already_exists"
    status = 409
    template = 'There is an entity at "<subject>" already.'
    home = CONCORD


class IncompatibleVersion(XRegistryError):
    name = "incompatible_version"
    status = 409
    template = 'The version would break the compatibility rule of "<subject>", "<compat>".'
    home = CONCORD


class ServiceNameTaken(XRegistryError):
    name = "service_name_taken"
    status = 409
    template = 'There is a service "<name>" already, in this or in another case.'
    home = CONCORD


class SourceUnusable(XRegistryError):
    name = "source_unusable"
    status = 400
    template = "The catalog at <source> cannot be followed: <error_detail>."
    home = CONCORD


class RequestInterrupted(XRegistryError):
    name = "request_interrupted"
    status = 406
    template = "The request at <subject> was interrupted; nothing of it was done."
    home = CONCORD


class PreconditionFailed(XRegistryError):
    name = "precondition_failed"
    status = 412
    template = "<subject> is not in the state that the request is conditional on."
    home = CONCORD


class DatabaseUnavailable(ServerBusy):
    name = "database_unavailable"
    template = "The database of this catalog cannot be reached at the moment; try again soon."
    home = CONCORD


class OutcomeUnknown(DatabaseUnavailable):
    """The database was lost during a commit, which may have succeeded."""

    name = "outcome_unknown"
    template = (
        "The connection to the database was lost. The request may have been applied: "
        "read <subject> before it is repeated."
    )
