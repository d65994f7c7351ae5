"""Reads objects from JSON and YAML files, and writes YAML: the subset that JSON can express."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import orjson

LARGEST_BYTES = 64 * 1024 * 1024
DEEPEST = 64
STDIN = Path("-")
_BRACE = re.compile(rb"\s*\{")
_YAML = (".yaml", ".yml")
_LARGEST_INTEGER = 2**63
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
    """A file that cannot be used. `hint` says how to correct it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class NotParsable(Exception):
    """Text that is not JSON or YAML, or that would cost too much to read."""


def read_object_file(path: Path) -> dict[str, Any]:
    """Read the object in a file, which is YAML if its name says so, else JSON.

    Args:
        path: the file, or `-` for the standard input, which is JSON if it begins with a brace.

    Raises:
        SourceFileError: it cannot be read, is larger than 64 MiB or deeper than 64 levels,
            or is no object.
    """
    text = _read_stdin() if path == STDIN else _read(path)
    is_yaml = path.suffix.lower() in _YAML or (path == STDIN and not _BRACE.match(text))
    try:
        source = parse_yaml(text) if is_yaml else parse_json(text)
    except NotParsable as error:
        format, hint = ("YAML", "") if is_yaml else ("JSON", "A YAML file's name ends in .yaml.")
        raise SourceFileError(f"{path} is not valid {format}: {error}.", hint) from error
    if not isinstance(source, dict):
        raise SourceFileError(f"{path} is not an xRegistry document: it is no object.")
    return source


def _read_stdin() -> bytes:
    text = sys.stdin.buffer.read(LARGEST_BYTES + 1)
    if len(text) > LARGEST_BYTES:
        raise SourceFileError(
            f"The standard input is larger than {LARGEST_BYTES >> 20} MiB.", "Use several files."
        )
    return text


def _read(path: Path) -> bytes:
    try:
        if path.is_file() and path.stat().st_size > LARGEST_BYTES:
            raise SourceFileError(
                f"{path} is larger than {LARGEST_BYTES >> 20} MiB.", "Split it into several files."
            )
        return path.read_bytes()
    except OSError as error:
        raise SourceFileError(f"{path} cannot be read: {error.strerror}.") from error


def parse_json(text: bytes, deepest: int = DEEPEST) -> Any:
    """Parse JSON of bounded depth.

    Raises:
        NotParsable: it is not JSON in UTF-8, or nested too deep.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise NotParsable(str(error)) from error
    level = [value]
    for _ in range(deepest + 1):
        level = [item for outer in level for item in _inside(outer)]
        if not level:
            return value
    raise NotParsable(f"it is nested deeper than {deepest} levels")


def _inside(outer: Any) -> Iterator[Any]:
    values = outer.values() if isinstance(outer, dict) else outer
    if isinstance(outer, dict | list):
        yield from (value for value in values if isinstance(value, dict | list))


def parse_yaml(text: bytes, deepest: int = DEEPEST) -> Any:
    """Parse one YAML document by the rules of YAML 1.2 for JSON: times and `no` stay text.

    Raises:
        NotParsable: it is not YAML, nested too deep, or uses aliases, which could make a
            short text huge, or tags.
    """
    import yaml

    try:
        _check_events(text, deepest)
        return yaml.load(text, _loader())
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise NotParsable(" ".join(str(error).split())) from error


def _check_events(text: bytes, deepest: int) -> None:
    """Check the events of a text before objects are built from it."""
    import yaml

    depth = 0
    for event in yaml.parse(text, yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise NotParsable("it has an alias (*), which JSON has no form for")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > deepest:
            raise NotParsable(f"it is nested deeper than {deepest} levels")


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.CSafeLoader):
        """Reads keys as the text that they are written as, and the numbers of JSON."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.constructor.ConstructorError(
                        None, None, "a key is no text", key.start_mark
                    )
            return {key.value: self.construct_object(value, deep) for key, value in node.value}

        def construct_integer(self, node: Any) -> int | float:
            value = int(node.value)
            return value if -_LARGEST_INTEGER <= value < 2 * _LARGEST_INTEGER else float(value)

        def refuse(self, node: Any) -> None:
            self.construct_undefined(node)

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
        """Writes a shared object at each of its places, so that there are no aliases."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    for name, (pattern, first) in _PLAIN.items():
        Dumper.add_implicit_resolver(f"tag:yaml.org,2002:{name}", pattern, first)
    return Dumper
