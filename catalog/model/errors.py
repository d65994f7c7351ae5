"""The errors that answer requests, as a tree of classes.

    XRegistryError            every error of core/spec.md and core/http.md, "Error Processing"
    ├── one class per error   its name, HTTP status and title template
    └── ...

An error has a subject (an xid or a request path) and the arguments of the title. Only
`catalog/http/problems.py` turns errors into responses.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import ClassVar, Self

_SPEC = "https://github.com/xregistry/spec/blob/main/core/spec.md#"
_HTTP = "https://github.com/xregistry/spec/blob/main/core/http.md#"
MOST_VIOLATIONS = 1000
_LONGEST_TEXT = 2000
_PLACEHOLDER = re.compile(r"<([a-z][a-z0-9_]*)>")


class XRegistryError(Exception):
    """A refused request. Subclasses set `name`, `status`, `template`, and `home`, a URI's start.

    The boundary sets `request_path`.

    Args:
        subject: xid of the entity, or path of the request, that the error is about.
        detail: a sentence about a remedy for the user.
        violations: every error of the request, if several errors were found.
        allow: the supported methods, for the header Allow.
        args: the values of the title's placeholders, and further facts for programs.

    Raises:
        TypeError: a placeholder has no value.
    """

    name: ClassVar[str] = ""
    status: ClassVar[int] = 400
    template: ClassVar[str]
    home: ClassVar[str] = _SPEC
    is_about_request: ClassVar[bool] = False
    headers: Mapping[str, str] = MappingProxyType({})

    def __init_subclass__(cls, *, name: str = "", status: int = 0, home: str = "") -> None:
        cls.name, cls.status, cls.home = name or cls.name, status or cls.status, home or cls.home

    def __init__(
        self,
        subject: str = "",
        *,
        detail: str = "",
        violations: Sequence[XRegistryError] = (),
        allow: Sequence[str] | None = None,
        **args: str,
    ) -> None:
        self.subject = shortened(subject)
        self.detail = shortened(detail)
        self.violations = tuple(violations)
        self.arguments = {name: shortened(value) for name, value in args.items()}
        missing = {*_PLACEHOLDER.findall(self.template)} - {"subject", *args}
        if missing:
            raise TypeError(f"{type(self).__name__} needs {', '.join(sorted(missing))}")
        self.request_path = ""
        if allow is not None:
            self.headers = {"Allow": ", ".join(allow)}
        super().__init__()

    def __str__(self) -> str:
        # The title is made on demand: of many violations, only the first are ever shown.
        return self.title

    @property
    def type(self) -> str:
        """The URI of the error's definition."""
        return self.home + self.name

    @property
    def title(self) -> str:
        """The template with its placeholders replaced."""
        return self.title_about(self.subject)

    def title_about(self, subject: str) -> str:
        """The title with a different subject."""
        values = {"subject": subject, **self.arguments}
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.template)


def shortened(text: str) -> str:
    """A text of an error, cut if the text repeats a very long part of the request."""
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}…"


class FirstViolations(list[XRegistryError]):
    """The first violations, for the answer to a request, and the number of `further` violations."""

    def __init__(self, violations: Iterable[XRegistryError] = ()) -> None:
        super().__init__()
        self.further = 0
        self.extend(violations)

    def append(self, violation: XRegistryError) -> None:
        if len(self) < MOST_VIOLATIONS:
            super().append(violation)
        else:
            self.further += 1

    def extend(self, violations: Iterable[XRegistryError]) -> None:
        for violation in violations:
            self.append(violation)
        if isinstance(violations, FirstViolations):
            self.further += violations.further

    @contextmanager
    def collecting(self, *, except_for: type[XRegistryError] | None = None) -> Iterator[None]:
        """Add an error of the block, and continue after the block."""
        try:
            yield
        except XRegistryError as violation:
            if except_for is not None and isinstance(violation, except_for):
                raise
            self.append(violation)

    def __iadd__(self, violations: Iterable[XRegistryError]) -> Self:  # type: ignore[misc,override]
        self.extend(violations)
        return self


def with_violations(violations: Sequence[XRegistryError]) -> XRegistryError:
    """The first of several errors, with the list of errors attached."""
    first = violations[0]
    first.violations = tuple(violations)
    if isinstance(violations, FirstViolations) and violations.further:
        more = f"The request has the listed violations, and {violations.further} more."
        first.detail = f"{first.detail} {more}".lstrip()
    return first


class RequestError(XRegistryError):
    """An error about the path or the URL of a request, and not about an entity.

    `subject` may name the place of the error.
    """

    is_about_request = True


class ActionNotSupported(RequestError, name="action_not_supported", status=405):
    template = '<subject> does not offer the action "<action>".'


class AncestorCircularReference(XRegistryError, name="ancestor_circular_reference"):
    template = 'The ancestors of "<subject>" would form a circle: <list>.'


class BadDefaultVersionId(RequestError, name="bad_defaultversionid"):
    template = '"<value>" cannot be the "defaultversionid" of "<subject>": <error_detail>.'


class BadDetails(RequestError, name="bad_details"):
    template = '"$details" has no meaning for <subject>.'


class BadFilter(RequestError, name="bad_filter"):
    template = '"<value>" is no "filter" value for "<subject>": <error_detail>.'


class BadFlag(RequestError, name="bad_flag"):
    template = 'The flag "<flag>" has no meaning for <subject>.'


class BadIgnore(RequestError, name="bad_ignore"):
    template = '"<value>" is no "ignore" value for "<subject>": <error_detail>.'


class BadInline(RequestError, name="bad_inline"):
    template = '"<value>" is no "inline" value for "<subject>": <error_detail>.'


class BadRequest(RequestError, name="bad_request"):
    template = "<error_detail>."


class BadSort(RequestError, name="bad_sort"):
    template = '"<value>" is no "sort" value for "<subject>": <error_detail>.'


class CannotDocXref(XRegistryError, name="cannot_doc_xref"):
    template = '"<subject>" is a cross reference, so it has no versions in document view.'


class CapabilityError(XRegistryError, name="capability_error"):
    template = "The capabilities cannot be as requested: <error_detail>."


class CapabilityMissingValue(XRegistryError, name="capability_missing_value"):
    template = 'The capability "<name>" must keep "<value>".'


class CapabilityUnknown(XRegistryError, name="capability_unknown"):
    template = 'There is no capability "<field>".'


class CapabilityValue(XRegistryError, name="capability_value"):
    template = '"<value>" is no value of the capability "<field>"; these are: <list>.'


class CapabilityWildcard(XRegistryError, name="capability_wildcard"):
    template = 'A "*" in the capability "<field>" must stand alone.'


class CompatibilityUnknown(XRegistryError, name="compatibility_unknown"):
    template = (
        'The compatibility "<compat>" of "<subject>" cannot be checked for the format "<format>".'
    )


class CompatibilityViolation(XRegistryError, name="compatibility_violation"):
    template = 'Some versions of "<subject>" would break its compatibility rule, "<compat>".'


class ConstraintFailure(XRegistryError, name="constraint_failure"):
    template = (
        'Some versions of "<subject>" would break the "<kind>" constraint of its group on "<path>".'
    )


class DataRetrievalError(RequestError, name="data_retrieval_error", status=500):
    template = "Some of the data that was asked for could not be read."


class DefaultVersionIdRequest(XRegistryError, name="defaultversionid_request"):
    template = '"<subject>" got no new version, so its "defaultversionid" cannot be "request".'


class ExtraXrefAttribute(XRegistryError, name="extra_xref_attribute"):
    template = 'The <singular> "<subject>" has an "xref", so it cannot have "<name>" too.'


class FormatExternal(XRegistryError, name="format_external"):
    template = 'The document of "<subject>" is stored elsewhere, so its format cannot be checked.'


class FormatUnknown(XRegistryError, name="format_unknown"):
    template = 'The format "<format>" of "<subject>" cannot be checked here.'


class FormatViolation(XRegistryError, name="format_violation"):
    template = '"<subject>" does not follow its format, "<format>".'


class GroupsOnly(RequestError, name="groups_only"):
    template = '<subject> takes group types only, and "<name>" is none.'


class HasDocumentViolation(XRegistryError, name="hasdocument_violation"):
    template = '"<subject>" has a document, which the model no longer allows for <plural>.'


class InlineNoninlineable(RequestError, name="inline_noninlineable"):
    template = '"<name>" of <subject> cannot be inlined.'


class InvalidAttribute(XRegistryError, name="invalid_attribute"):
    template = '"<subject>" has an invalid "<name>": <error_detail>.'


class MalformedId(RequestError, name="malformed_id"):
    template = '"<id>" is no valid id for "<subject>": <error_detail>.'


class MalformedXid(RequestError, name="malformed_xid"):
    template = '"<xid>" is no valid xid for "<subject>": <error_detail>.'


class MalformedXref(RequestError, name="malformed_xref"):
    template = '"<xref>" is no valid xref for "<subject>": <error_detail>.'


class MismatchedEpoch(XRegistryError, name="mismatched_epoch"):
    template = '"<subject>" is at epoch <epoch>, but the request expects <bad_epoch>.'


class MismatchedId(XRegistryError, name="mismatched_id"):
    template = (
        '"<subject>" has the "<singular>id" "<expected_id>", but the request says "<invalid_id>".'
    )


class MismatchedVersionAttribute(XRegistryError, name="mismatched_version_attribute"):
    template = 'All versions of "<subject>" must have the same "<name>".'


class MisplacedEpoch(XRegistryError, name="misplaced_epoch"):
    template = 'The "epoch" of "<subject>" belongs into its "meta".'


class ModelComplianceError(XRegistryError, name="model_compliance_error"):
    template = "Some entities of the registry do not comply with this model."


class ModelError(XRegistryError, name="model_error"):
    template = "The model is not valid: <error_detail>."


class ModelRequiredTrue(XRegistryError, name="model_required_true"):
    template = 'The model gives "<name>" a default value, so it must make it "required".'


class ModelScalarDefault(XRegistryError, name="model_scalar_default"):
    template = 'The model gives "<name>" a default value, which only scalars can have.'


class MultipleRoots(XRegistryError, name="multiple_roots"):
    template = '"<subject>" would have several root versions, and <plural> can have only one.'


class NotAvailable(XRegistryError, name="not_available"):
    template = '"<subject>" is not available on this server.'


class NotFound(XRegistryError, name="not_found", status=404):
    template = "There is nothing at <subject>."


class OneResource(XRegistryError, name="one_resource"):
    template = '<subject> can have only one of "<list>".'


class ParsingData(XRegistryError, name="parsing_data"):
    template = "The data cannot be read: <error_detail>."


class Readonly(XRegistryError, name="readonly"):
    template = "<subject> is read-only here."


class RequiredAttributeMissing(XRegistryError, name="required_attribute_missing"):
    template = '"<subject>" lacks what it must have: <list>.'


class ResourcesOnly(XRegistryError, name="resources_only"):
    template = '<subject> takes resource types only, and "<name>" is none.'


class ServerBusy(RequestError, name="server_busy", status=503):
    template = 'Too much to do for "<subject>" at the moment; try again soon.'
    headers = MappingProxyType({"Retry-After": "1"})


class ServerError(RequestError, name="server_error", status=500):
    template = "Something went wrong inside the server; try again soon."


class SetDefaultVersionStickyFalse(XRegistryError, name="setdefaultversionsticky_false"):
    template = 'The default version of "<subject>" cannot be sticky where "maxversions" is 1.'


class SortNonCollection(RequestError, name="sort_noncollection"):
    template = "<subject> is no collection, so it cannot be sorted."


class TooLarge(RequestError, name="too_large", status=406):
    template = 'The answer for "<subject>" is too large to be sent at once.'


class TooManyVersions(RequestError, name="too_many_versions"):
    template = (
        '"setdefaultversionid=request" needs exactly one version in the request for "<subject>".'
    )


class UnknownAttribute(XRegistryError, name="unknown_attribute"):
    template = '"<subject>" cannot have an attribute "<name>".'


class UnknownGroupType(XRegistryError, name="unknown_group_type"):
    template = '"<name>" in "<subject>" is no group type of this registry.'


class UnknownId(XRegistryError, name="unknown_id"):
    template = (
        '"<subject>" refers to the <singular> with "<singular>id" "<id>", which does not exist.'
    )


class UnknownResourceType(XRegistryError, name="unknown_resource_type"):
    template = '"<name>" is no resource type of "<group>".'


class UnsupportedSpecVersion(RequestError, name="unsupported_specversion"):
    template = 'The specversion "<specversion>" is not supported; these are: <list>.'


class VersionIdNotAllowed(XRegistryError, name="versionid_not_allowed"):
    template = (
        'A new version of "<subject>" came with a "versionid", but the server chooses those of '
        "<plural>."
    )


class ApiNotFound(RequestError, name="api_not_found", status=404, home=_HTTP):
    template = "This server has no API at <subject>."


class DetailsRequired(XRegistryError, name="details_required", status=405, home=_HTTP):
    template = '<subject> can be patched at its "$details" only.'


class ExtraXregistryHeader(RequestError, name="extra_xregistry_header", home=_HTTP):
    template = 'The header "<name>" is out of place for "<subject>": <error_detail>.'


class HeaderError(RequestError, name="header_error", home=_HTTP):
    template = 'The header "<name>" of "<subject>" cannot be used: <error_detail>.'


class MissingBody(RequestError, name="missing_body", home=_HTTP):
    template = '"<subject>" needs a body, be it an empty object: {}.'


class MissingVersions(RequestError, name="missing_versions", home=_HTTP):
    template = '"<subject>" needs at least one version in the request.'
