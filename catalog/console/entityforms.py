"""Forms that create, change and delete entities, made from what the model says of their types.

Attributes with one value have a field each; the others are JSON. A change is made to the epoch that
was read: a change by somebody else in between is shown beside what was typed.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import orjson
from multidict import MultiDict

from catalog.client.errors import BadAnswer, Refused
from catalog.console.actions import ActionQuestion, ActionResult, Form, FormFault, action, sentence
from catalog.console.entitytypes import EntityType, type_of
from catalog.console.page import ConsolePage, entity_url, json_text
from catalog.model.errors import NotFound
from catalog.model.masking import counted
from catalog.model.roles import Permission
from catalog.model.xid import Xid, is_valid_id

_LARGEST_FORM = 4 * 1024 * 1024
_LARGEST_DOCUMENT = 256 * 1024
_MOST_CONFLICTS = 100
_TEMPLATE = "entityform.html"
# What a form calls an attribute, apart from its own fields.
_PREFIX = "a."
# The node says these of each entity, or other forms change them.
_GIVEN = frozenset(
    {"self", "shortself", "xid", "epoch", "createdat", "modifiedat", "authority", "origin"}
    | {"isdefault", "versionid", "ancestorid", "meta", "metaurl"}
    | {"versions", "versionsurl", "versionscount", "*"}
)
_NUMBERS = frozenset({"integer", "uinteger", "decimal"})
_TEXTS = frozenset({"string", "timestamp", "uri", "url", "urireference", "urlreference"})
_OTHER_TEXTS = frozenset({"uritemplate", "xid", "xidtype", "urlabsolute", "uriabsolute"})
_SCALARS = _NUMBERS | _TEXTS | _OTHER_TEXTS | {"boolean"}
_WHOLE = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,18}(\.\d{1,18})?", re.ASCII)
_LONG = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class TypedField:
    """A field of a form for an attribute.

    Args:
        options: the values to choose from; empty for a text.
        value: the present value, as a text; of `several` values, with spaces between.
    """

    name: str
    kind: Literal["text", "area", "choice", "several"]
    type: str
    description: str
    is_required: bool
    options: Sequence[str]
    value: str

    @property
    def field(self) -> str:
        """The name of the field in the form."""
        return _PREFIX + self.name

    def typed_in(self, form: Form, was: Any) -> Any:
        """The value that a form has; a text that is no value of the type stays as it is.

        Args:
            was: the value with which the form was filled.
        """
        if self.kind == "several":
            return [each for each in form.getall(self.field, []) if each] or None
        text = form.get(self.field, "")
        # A browser ends lines in its own way, which changes nothing.
        if text == _text_of(was).replace("\r\n", "\n"):
            return was
        text = text.strip()
        if not text:
            return None
        if self.type == "boolean":
            return {"true": True, "false": False}.get(text, text)
        pattern = _DECIMAL if self.type == "decimal" else _WHOLE
        return orjson.loads(text) if self.type in _NUMBERS and pattern.fullmatch(text) else text


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityForm:
    """A form for an entity of a type.

    Args:
        entity: the attributes at present; of a new version, those of the version before; empty for
            another new entity.
        document: the document at present, as a text; `None` without a document that is a text.
        is_new: whether the form makes an entity, and so sends what it was filled with.
    """

    kind: EntityType
    entity: Mapping[str, Any]
    document: str | None = None
    is_new: bool = False

    @property
    def fields(self) -> list[TypedField]:
        """The fields for attributes with one value, or with several of a fixed set."""
        hidden = self._hidden
        found = []
        for name, about in self.kind.attributes.items():
            if name in hidden or about.get("readonly"):
                continue
            field = _field_for(name, about, self.entity.get(name))
            if field is not None:
                found.append(field)
        return found

    @property
    def rest(self) -> dict[str, Any]:
        """The attributes that have no field."""
        hidden = self._hidden | {each.name for each in self.fields}
        attributes = self.kind.attributes
        return {
            name: value
            for name, value in self.entity.items()
            if name not in hidden and not attributes.get(name, {}).get("readonly")
        }

    @property
    def further(self) -> list[tuple[str, str]]:
        """The attributes without a field that the model has, with what they mean."""
        hidden = self._hidden | {each.name for each in self.fields}
        return [
            (name, str(about.get("description", "")))
            for name, about in self.kind.attributes.items()
            if name not in hidden and not about.get("readonly")
        ]

    @property
    def _hidden(self) -> frozenset[str]:
        singular = self.kind.singular
        own = {f"{singular}id", singular, f"{singular}base64", f"{singular}url"}
        for plural in self.kind.children:
            own |= {plural, f"{plural}url", f"{plural}count"}
        return _GIVEN | own if self.kind.has_document else _GIVEN | (own - {singular})

    @property
    def was(self) -> str:
        """The attributes with which the form is filled, as JSON."""
        return "{}" if self.is_new else orjson.dumps(self._shown).decode()

    @property
    def document_was(self) -> str:
        """The digest of the document with which the form is filled."""
        return _digest_of("" if self.is_new else self.document or "")

    @property
    def _shown(self) -> dict[str, Any]:
        return {**{each.name: self.entity.get(each.name) for each in self.fields}, **self.rest}

    def changes_in(self, form: Form) -> dict[str, Any]:
        """What a form changes, as JSON; an attribute without a value is removed.

        Raises:
            FormFault: the JSON of the form is no object.
        """
        was, typed = _object_in(form, "was"), self._typed_in(form)
        names = dict.fromkeys([*was, *typed])
        changed = {n: typed.get(n) for n in names if typed.get(n) != was.get(n)}
        document = form.get("document")
        if document is not None and _digest_of(document) != form.get("document_was"):
            encoded = base64.b64encode(document.encode()).decode()
            changed[f"{self.kind.singular}base64"] = encoded
        return changed

    def _typed_in(self, form: Form) -> dict[str, Any]:
        was = _object_in(form, "was")
        typed = {each.name: each.typed_in(form, was.get(each.name)) for each in self.fields}
        return {**typed, **_object_in(form, "rest")}

    def renewed(self, form: Form) -> tuple[Form, list[tuple[str, str, str]]]:
        """A form on the present state of the entity, which keeps what was typed.

        Returns:
            the form, and what differs although both sides changed it: attribute, present value,
            typed value.
        """
        was, changed, present = _object_in(form, "was"), self.changes_in(form), self._shown
        document = changed.pop(f"{self.kind.singular}base64", None)
        rest = {**self.rest, **{n: changed[n] for n in changed if n not in self._field_names}}
        fields = MultiDict({"rest": json_text({n: v for n, v in rest.items() if v is not None})})
        for each in self.fields:
            if each.name in changed:
                fields.extend((each.field, text) for text in form.getall(each.field, []))
        differing = [
            (name, _told(present.get(name)), _told(value))
            for name, value in changed.items()
            if present.get(name) not in (was.get(name), value)
        ]
        if document is not None:
            typed = form.get("document", "")
            fields["document"] = typed
            if self.document_was != form.get("document_was"):
                differing.append(("the document", self.document or "", typed))
        return fields, differing[:_MOST_CONFLICTS]

    @property
    def _field_names(self) -> frozenset[str]:
        return frozenset(each.name for each in self.fields)


def _digest_of(document: str) -> str:
    return hashlib.sha256(document.encode()).hexdigest()


def _field_for(name: str, about: Mapping[str, Any], value: Any) -> TypedField | None:
    type, item = str(about.get("type", "")), about.get("item")
    options = [str(each) for each in about.get("enum", ())] if about.get("strict", True) else []
    is_list = type == "array" and options and isinstance(item, Mapping)
    if not (type in _SCALARS or is_list) or (isinstance(value, dict | list) and not is_list):
        return None
    if type == "boolean":
        options = ["true", "false"]
    text = _text_of(value)
    is_long = name == "description" or len(text) > _LONG or "\n" in text
    return TypedField(
        name=name,
        kind="several" if is_list else "choice" if options else "area" if is_long else "text",
        type=type,
        description=str(about.get("description", "")),
        is_required=bool(about.get("required")),
        options=options,
        value=text,
    )


def _text_of(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case list():
            return " ".join(map(str, value))
        case _:
            return str(value)


def _told(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _object_in(form: Form, field: str) -> dict[str, Any]:
    text = form.get(field, "").strip()
    try:
        found = orjson.loads(text) if text else {}
    except orjson.JSONDecodeError as error:
        raise FormFault("The further attributes are no JSON.", rest=f"{error}.") from None
    if not isinstance(found, dict):
        raise FormFault("The further attributes are no object.", rest="It needs an object.")
    return found


async def _form_at(page: ConsolePage) -> tuple[Xid, EntityForm]:
    """The form for the entity at the path of a page."""
    xid = _xid_in(f"/{page.request.match_info['path']}")
    kind = type_of(await page.node.get("/model"), xid)
    entity = await page.node.get(kind.address_of(xid))
    document = await _document_of(page, str(xid)) if kind.has_document and xid.rid else None
    return xid, EntityForm(kind=kind, entity=entity, document=document)


def _xid_in(path: str) -> Xid:
    try:
        xid = Xid.parse(path)
    except ValueError:
        raise NotFound(path) from None
    if not xid.gid:
        raise NotFound(path)
    return xid


async def _document_of(page: ConsolePage, path: str) -> str | None:
    """The document of an entity, if it is here, is a text, and fits into a form."""
    try:
        document = (await page.node.request("GET", path, largest=_LARGEST_DOCUMENT)).body
        text = document.decode()
    except (BadAnswer, Refused, UnicodeDecodeError):
        return None
    return None if "\0" in text or "\r" in text else text


async def _ask_change(page: ConsolePage, form: Form) -> ActionQuestion:
    xid, found = await _form_at(page)
    epoch, renewed, conflicts = str(found.entity.get("epoch", "")), None, None
    if form.get("epoch", epoch) != epoch:
        # JSON that cannot be read is told of first.
        with contextlib.suppress(FormFault):
            renewed, conflicts = found.renewed(form)
    is_copy = "authority" in found.entity
    return ActionQuestion(
        title=sentence("Edit {}", xid.vid or xid.rid or xid.gid),
        button="Save",
        back=entity_url(str(xid)),
        effects=("This is a copy: it is edited at its owner.",) if is_copy else (),
        can_act=not is_copy,
        template=_TEMPLATE,
        values={"entity": found, "epoch": epoch, "conflicts": conflicts, "parent": ""},
        form=renewed,
    )


@action("/console/edit/{path:.*}", "Edit", Permission.WRITE, _ask_change, largest=_LARGEST_FORM)
async def edit(page: ConsolePage, form: Form) -> ActionResult:
    xid, found = await _form_at(page)
    epoch, changed = _epoch_in(form), found.changes_in(form)
    if not changed:
        return ActionResult(says="Nothing has changed.", page=entity_url(str(xid)))
    body = {**changed, "epoch": epoch}
    await page.node.request("PATCH", found.kind.address_of(xid), body=body)
    return ActionResult(says="The change is saved.", page=entity_url(str(xid)))


def _epoch_in(form: Form) -> int:
    text = form.get("epoch", "")
    if not _WHOLE.fullmatch(text):
        raise FormFault("The form does not say which state of the entity it changes: try again.")
    return int(text)


async def _new_form(page: ConsolePage, form: Form) -> tuple[str, EntityForm]:
    """The collection that a form names, and the form for an entity of it."""
    parent = form.get("in", "").rstrip("/")
    steps = parent.split("/")[1:]
    if len(steps) not in (1, 3, 5):
        raise NotFound(parent or "/")
    xid = _xid_in(f"{parent}/new")
    kind = type_of(await page.node.get("/model"), xid)
    entity, document = {}, "" if kind.has_document and xid.rid else None
    if xid.vid:
        entity = await page.node.get(kind.address_of(xid.resource))
        if kind.has_document:
            document = await _document_of(page, str(xid.resource))
    return parent, EntityForm(kind=kind, entity=entity, document=document, is_new=True)


async def _ask_creation(page: ConsolePage, form: Form) -> ActionQuestion:
    parent, found = await _new_form(page, form)
    return ActionQuestion(
        title=sentence("New {} in {}", _noun_of(parent, found.kind), parent),
        button="Create",
        back=entity_url(parent),
        template=_TEMPLATE,
        values={"entity": found, "epoch": "", "conflicts": None, "parent": parent},
    )


def _noun_of(parent: str, kind: EntityType) -> str:
    return f"version of a {kind.singular}" if parent.count("/") > 4 else kind.singular


@action("/console/new/entity", "New", Permission.WRITE, _ask_creation, largest=_LARGEST_FORM)
async def create(page: ConsolePage, form: Form) -> ActionResult:
    parent, found = await _new_form(page, form)
    id = form.get("id", "").strip()
    if not is_valid_id(id):
        fault = "It needs to be 1 to 128 letters, digits and any of - . _ ~ : @"
        raise FormFault("The id is not valid.", id=fault)
    body = {name: value for name, value in found.changes_in(form).items() if value is not None}
    path = f"{parent}/{id}"
    unused = {"If-None-Match": "*"}
    try:
        await page.node.request("PUT", found.kind.address_of(path), body=body, headers=unused)
    except Refused as error:
        if error.problem.status != 412:
            raise
        raise FormFault("Something else has this id.", id="Choose another id.") from error
    return ActionResult(says=f"{path} is created.", page=entity_url(path))


async def _ask_deletion(page: ConsolePage, _: Form) -> ActionQuestion:
    xid, found = await _form_at(page)
    owner = await page.node.get(f"{xid}/meta") if xid.kind == "resource" else found.entity
    counts = [
        counted(found.entity.get(f"{plural}count", 0), plural) for plural in found.kind.children
    ]
    effects = [f"With it goes everything in it: {', '.join(counts)}."] if counts else []
    if xid.kind == "resource":
        versions = counted(found.entity.get("versionscount", 1), "versions")
        effects.append(f"With it goes each of its {versions}.")
    effects.append("What refers to it refers to nothing then.")
    return ActionQuestion(
        title=sentence("Delete {}?", xid),
        button="Delete",
        back=entity_url(str(xid)),
        effects=effects,
        is_harmful=True,
        can_act="authority" not in found.entity,
        template="entitydeletion.html",
        values={"epoch": owner.get("epoch", "")},
    )


@action("/console/delete/{path:.*}", "Delete", Permission.WRITE, _ask_deletion)
async def delete(page: ConsolePage, form: Form) -> ActionResult:
    path = str(_xid_in(f"/{page.request.match_info['path']}"))
    await page.node.request("DELETE", path, params={"epoch": str(_epoch_in(form))})
    return ActionResult(says=f"{path} is deleted.", page=entity_url(path.rpartition("/")[0]))


NEW_VERSION = replace(create, name="New version")
