"""The texts of an entity that a search looks at, and the rows of the index.

The index has a row for each group, each version and each cross reference. Only the row of a default
version is searched: it stands for its resource. The words are weighted by their place: A the id of
the entity, B its texts, C the names of fields in its schema, D the id of its group. Terms stand
beside the words: the words of the id again, the conditions of a search, and references.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from catalog.indexing.references import document_references, own_references
from catalog.indexing.schemafields import field_names, names_in_json
from catalog.indexing.words import words_of
from catalog.model.entity import Entity
from catalog.model.record import record

Place = Literal["id", "name", "description", "documentation", "labels", "type", "fields", "group"]

MOST_WORDS = 1000
"""The number of words of one weight that an entity is found by."""
_LONGEST_TEXT = 16 * 1024
_MOST_LABELS = 200
_MARKS: Mapping[str, str] = {"A": ":1A", "B": ":2B", "C": ":3C", "D": ":4"}
# Terms have a first character that no word has.
_NAME, _TERM, _REFERENCE = ".", "=", "@"
_TEXTS: tuple[Place, ...] = ("name", "description", "documentation")
_WEIGHTS: Mapping[Place, str] = {"id": "A", "fields": "C", "group": "D"}


@record
class Text:
    """A text of an entity, and its place."""

    place: Place
    text: str


@record
class IndexRow:
    """The row of an entity in the index of words.

    Args:
        words: the words of the metadata and the terms of filters, as a `tsvector`.
        fields: the words of the document, as a `tsvector`; `None` if the entity has a document that
            was not given, so that the words of the document stay as they are.
    """

    xid: str
    type: str
    format: str | None
    words: str
    fields: str | None


def index_row(entity: Entity) -> IndexRow | None:
    """The row of an entity; `None` for an entity that is not searched by itself."""
    if not _is_indexed(entity):
        return None
    type, format = type_of(entity.xid), format_of(entity)
    fields: str | None = None
    if entity.document is not None:
        names = words_of("\n".join(field_names(entity.document)))
        keys = [reference.key for reference in document_references(entity)]
        fields = f"{_marked(names, 'C')} {_references(keys)}"
    elif entity.document_sha256 is None:
        fields = ""
    words = " ".join(
        [
            *_words(texts_of(entity)),
            _conditions(type, entity.authority, format),
            _references([reference.key for reference in own_references(entity)]),
        ]
    )
    return IndexRow(xid=entity.xid, type=type, format=format, words=words, fields=fields)


def _is_indexed(entity: Entity) -> bool:
    if entity.kind == "resource":
        return "xref" in entity.attributes
    return entity.kind in ("group", "version")


def type_of(xid: str) -> str:
    """The type of a group or resource as a path of plurals, `messagegroups/messages`."""
    parts = xid.split("/", 4)
    return parts[1] if len(parts) < 4 else f"{parts[1]}/{parts[3]}"


def format_of(entity: Entity) -> str | None:
    """The format of a schema, or the format of the schema inside a message."""
    for name in ("format", "dataschemaformat"):
        if isinstance(found := entity.attributes.get(name), str):
            return found[:_LONGEST_TEXT]
    return None


def texts_of(entity: Entity) -> Iterator[Text]:
    """The texts of an entity without its document."""
    _, _, group, *below = entity.xid.split("/", 5)
    yield Text(place="id", text=below[1] if below else group)
    if below:
        yield Text(place="group", text=group)
    attributes = entity.attributes
    for name in _TEXTS:
        if isinstance(found := attributes.get(name), str):
            yield Text(place=name, text=found[:_LONGEST_TEXT])
    if isinstance(labels := attributes.get("labels"), dict):
        for name, value in list(labels.items())[:_MOST_LABELS]:
            yield Text(place="labels", text=f"{name}={value}"[:_LONGEST_TEXT])
    if found := _event_type(attributes):
        yield Text(place="type", text=found[:_LONGEST_TEXT])
    if "dataschema" in attributes:
        schema = attributes["dataschema"]
        names = field_names(schema.encode()) if isinstance(schema, str) else names_in_json(schema)
        yield from (Text(place="fields", text=name[:_LONGEST_TEXT]) for name in names)


def _event_type(attributes: Mapping[str, Any]) -> str:
    """The type of the CloudEvents that a message defines."""
    value: Any = attributes
    for name in ("envelopemetadata", "type", "value"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _words(texts: Iterable[Text]) -> Iterator[str]:
    """The words of texts with their weights, and the words of the id as terms."""
    joined: dict[str, list[str]] = {}
    for text in texts:
        joined.setdefault(_WEIGHTS.get(text.place, "B"), []).append(text.text)
    for weight, found in joined.items():
        # No run goes beyond the end of a line.
        words = words_of("\n".join(found))
        yield _marked(words, weight)
        if weight == "A":
            yield _terms(words, _NAME)


def _marked(words: Collection[str], weight: str) -> str:
    """Words with a weight in the notation of `tsvector`; no word needs to be quoted."""
    between = f"'{_MARKS[weight]} '"
    return f"'{between.join(_first(words))}{between[:-2]}" if words else ""


def _terms(words: Collection[str], prefix: str) -> str:
    between = f"' '{prefix}"
    return f"'{prefix}{between.join(_first(words))}'" if words else ""


def _first(words: Collection[str]) -> Collection[str]:
    # Sorted, so that every node leaves out the same words.
    return sorted(words)[:MOST_WORDS] if len(words) > MOST_WORDS else words


def _references(keys: Iterable[str]) -> str:
    return " ".join([quoted(reference_term(key)) for key in keys])


@lru_cache(maxsize=1024)
def _conditions(type: str, authority: str, format: str | None) -> str:
    """The terms of the conditions that an entity meets."""
    terms = [type_term(type), authority_term(authority)]
    if format:
        terms.append(format_term(format))
    return " ".join(map(quoted, terms))


def name_term(word: str) -> str:
    """The term of a word in the id of an entity."""
    return _NAME + word


def type_term(type: str) -> str:
    return f"{_TERM}type:{type}"


def authority_term(authority: str) -> str:
    # A word of PostgreSQL has up to 2,046 bytes; the query compares the whole authority, too.
    return f"{_TERM}authority:{authority[:500]}"


def format_term(format: str) -> str:
    """The term of a format without its version, which is compared without regard to case."""
    return f"{_TERM}format:{format.partition('/')[0][:500].lower()}"


def reference_term(key: str) -> str:
    """The term of a reference with a key."""
    return _REFERENCE + key


def quoted(word: str) -> str:
    """A word in the notation of `tsvector` and `tsquery`."""
    return "'" + word.replace("\\", "\\\\").replace("'", "''") + "'"
