"""Reads an object from a JSON or YAML file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson


class SourceFileError(Exception):
    """A file that holds no object. `hint` says what to do about it."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def read_object_file(path: Path) -> dict[str, Any]:
    """The object in a file, which is YAML if its name says so, else JSON.

    Raises:
        SourceFileError: it cannot be read, or is no object.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        raise SourceFileError(f"{path} cannot be read: {error.strerror}.") from error
    source = _parsed(path, text)
    if not isinstance(source, dict):
        raise SourceFileError(f"{path} is not an xRegistry document: it is no object.")
    return source


def _parsed(path: Path, text: bytes) -> Any:
    if path.suffix.lower() in (".yaml", ".yml"):
        return _parsed_yaml(path, text)
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise SourceFileError(
            f"{path} is not valid JSON: {error}.", "A YAML file needs a name that ends in .yaml."
        ) from error


def _parsed_yaml(path: Path, text: bytes) -> Any:
    import yaml

    # YAML as JSON knows it: what looks like a time stays text.
    rules = {
        first: [(tag, rule) for tag, rule in found if not tag.endswith(":timestamp")]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": rules})
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as error:
        raise SourceFileError(f"{path} is not valid YAML: {error}.") from error
