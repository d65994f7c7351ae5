"""Reads objects from JSON and YAML files, and writes YAML: the subset that JSON can express."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jiter
import orjson

LARGEST_BYTES = 64 * 1024 * 1024
DEEPEST = 64
STDIN = Path("-")
_BRACE = re.compile(rb"\s*\{")
_YAML = (".yaml", ".yml")
_LARGE = 256 * 1024
_LARGEST_INTEGER = 2**63
# The most values that the aliases of a YAML document may stand for in total.
_MOST_REPEATED = 100_000
_PLAIN = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), [*"~nN", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), [*"tTfF"]),
    "int": (re.compile(r"[-+]?[0-9]+\Z"), [*"-+0123456789"]),
    "float": (
        re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"),
        [*"-+.0123456789"],
    ),
}


class SourceFileError(Exception):
    """A file that cannot be used. `hint` says how to correct the file."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotParsable(Exception):
    """Text that is neither JSON nor YAML, or is too expensive to read."""


def read_object_file(path: Path) -> dict[str, Any]:
    """Read the object in a YAML file (by the suffix of the name) or else a JSON file.

    The text is in UTF-8, or in UTF-16 with a byte order mark.

    Args:
        path: the file, or `-` for the standard input, which is JSON if the text begins with a
            brace.

    Raises:
        SourceFileError: the file cannot be read, is larger than 64 MiB or deeper than 64 levels,
            or holds no object.
    """
    text = _in_utf8(path, _read(path))
    is_yaml = path.suffix.lower() in _YAML or (path == STDIN and not _BRACE.match(text))
    try:
        source = parse_yaml(text) if is_yaml else parse_json(text)
    except NotParsable as error:
        format, hint = ("YAML", "") if is_yaml else ("JSON", "A YAML file's name ends in .yaml.")
        raise SourceFileError(f"{path} is not valid {format}: {error}.", hint) from error
    if not isinstance(source, dict):
        raise SourceFileError(f"{path} is not an xRegistry document: it holds no object.")
    return source


def _in_utf8(path: Path, text: bytes) -> bytes:
    """A text in UTF-8 without a byte order mark."""
    is_utf16 = text.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return text.decode("utf-16" if is_utf16 else "utf-8-sig").encode()
    except UnicodeDecodeError as error:
        message = f"{path} is in neither UTF-8 nor UTF-16."
        raise SourceFileError(message, "Save it in UTF-8.") from error


def _read(path: Path) -> bytes:
    is_stdin = path == STDIN
    try:
        with nullcontext(sys.stdin.buffer) if is_stdin else path.open("rb") as file:
            text = file.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise SourceFileError(f"{path} cannot be read: {error.strerror}.") from error
    if len(text) > LARGEST_BYTES:
        name = "The standard input" if is_stdin else path
        message = f"{name} is larger than {LARGEST_BYTES >> 20} MiB."
        raise SourceFileError(message, "Split it into several files.")
    return text


def parse_json(text: bytes, deepest: int = DEEPEST) -> Any:
    """Parse JSON of bounded depth.

    Raises:
        NotParsable: the text is not JSON in UTF-8 or is nested too deep, or an object has a key
            twice with different values.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotParsable(str(error)) from error
    # A text with fewer brackets than allowed levels needs no walk through the value.
    if text.count(b"{") + text.count(b"[") > deepest and _is_deeper(value, deepest):
        raise NotParsable(f"it is nested deeper than {deepest} levels")
    # orjson keeps the last of two values of a key; jiter finds repeated keys as quickly. But jiter
    # holds the interpreter's lock, so that a large text would stop every request of the process.
    if len(text) > _LARGE or _has_repeated_keys(text):
        try:
            json.loads(text, object_pairs_hook=_without_repeats)
        except ValueError as error:
            raise NotParsable(str(error)) from error
    return value


def _has_repeated_keys(text: bytes) -> bool:
    try:
        jiter.from_json(text, catch_duplicate_keys=True, cache_mode="keys")
    except ValueError:
        return True
    return False


def _without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse an object that has a key twice with different values: a parser drops one value."""
    found: dict[str, Any] = {}
    for key, value in pairs:
        # 1 and true are equal in Python.
        if key in found and repr(found[key]) != repr(value):
            raise ValueError(f"the key {key[:100]!r} is there twice with different values")
        found[key] = value
    return found


def _is_deeper(value: Any, deepest: int) -> bool:
    level = [value]
    for _ in range(deepest):
        level = [item for outer in level for item in _inside(outer)]
        if not level:
            return False
    return True


def _inside(outer: Any) -> Iterator[Any]:
    values = outer.values() if isinstance(outer, dict) else outer
    if isinstance(outer, dict | list):
        yield from (value for value in values if isinstance(value, dict | list))


def parse_yaml(text: bytes, deepest: int = DEEPEST) -> Any:
    """Parse one YAML document by the rules of YAML 1.2 for JSON: times and `no` stay text.

    Raises:
        NotParsable: the text is not YAML, is nested too deep, has a key twice with different
            values, uses tags, or has aliases that stand for too many values.
    """
    import yaml

    try:
        has_aliases = _check_events(text, deepest)
        value = yaml.load(text, _loader())
        # A copy for each alias, as in JSON: a change of a shared value would show at both places.
        return orjson.loads(orjson.dumps(value)) if has_aliases else value
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise NotParsable(" ".join(str(error).split())) from error


@dataclass(slots=True)
class _Extent:
    """The number of values in a node, the node and inner nodes included, and the nesting levels."""

    anchor: str | None
    values: int = 1
    levels: int = 0

    def add(self, inner: _Extent) -> None:
        self.values += inner.values
        self.levels = max(self.levels, inner.levels + 1)


def _check_events(text: bytes, deepest: int) -> bool:
    """Check the events of a text before objects are built from the text.

    Returns:
        Whether the text has aliases.

    Raises:
        NotParsable: the text is nested too deep, or has aliases that stand for too many values.
    """
    import yaml

    anchored: dict[str, _Extent] = {}
    outer: list[_Extent] = []
    repeated = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            outer.append(_Extent(event.anchor))
            found = outer[-1]
        elif isinstance(event, yaml.AliasEvent):
            if event.anchor not in anchored:
                raise NotParsable(f"the alias *{event.anchor} stands for what it is in")
            found = anchored[event.anchor]
            # Aliases of aliases multiply: a short text could stand for billions of values.
            repeated += found.values
            if repeated > _MOST_REPEATED:
                raise NotParsable(f"its aliases stand for more than {_MOST_REPEATED} values")
        elif isinstance(event, yaml.ScalarEvent):
            found = _Extent(event.anchor)
        elif isinstance(event, yaml.CollectionEndEvent):
            found = outer.pop()
        else:
            continue
        is_begun = isinstance(event, yaml.CollectionStartEvent)
        if len(outer) + found.levels > deepest:
            raise NotParsable(f"it is nested deeper than {deepest} levels")
        if not is_begun and outer:
            outer[-1].add(found)
        # An anchor is known once the node is complete: an alias inside of the node is refused.
        if not is_begun and found.anchor is not None and not isinstance(event, yaml.AliasEvent):
            anchored[found.anchor] = found
    return repeated > 0


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.CSafeLoader):
        """Reads keys as text, unresolved, and numbers as JSON does."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is no text", key.start_mark
                    )
            return _without_repeats(
                (key.value, self.construct_object(value, deep=True)) for key, value in node.value
            )

        def construct_integer(self, node: Any) -> int | float:
            value = int(node.value)
            # orjson reads integers of more than 64 bits as floats, too.
            return value if -_LARGEST_INTEGER <= value < 2 * _LARGEST_INTEGER else float(value)

        def refuse(self, node: Any) -> None:
            self.construct_undefined(node)

    # The resolvers of YAML 1.1 would read `no` as false, and make times of texts.
    Loader.yaml_implicit_resolvers = {}
    for name, (pattern, first) in _PLAIN.items():
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", pattern, first)
    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_integer)
    Loader.add_constructor("tag:yaml.org,2002:float", lambda _, node: float(node.value))
    for name in ("binary", "omap", "pairs", "set", "timestamp"):
        Loader.add_constructor(f"tag:yaml.org,2002:{name}", Loader.refuse)
    return Loader


def to_yaml(value: Any) -> bytes:
    """Write YAML that `parse_yaml` and readers of YAML 1.1 read as the same value."""
    import yaml

    text = yaml.dump(
        value, Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=100, encoding="utf-8"
    )
    assert isinstance(text, bytes), "an encoding makes bytes"
    return text


@cache
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.CSafeDumper):
        """Writes a shared object in full at every place, so that the text has no aliases."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    for name, (pattern, first) in _PLAIN.items():
        Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{name}", pattern, first)
    return Dumper
