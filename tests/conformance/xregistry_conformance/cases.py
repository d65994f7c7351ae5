"""Reads case files, and refuses what the format does not define."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml

from xregistry_conformance.matching import CaseError

HERE = Path(__file__).parent
LEVELS = ("MUST", "SHOULD", "MAY")

_FILE = {"defaults", "cases"}
_CASE = {"name", "section", "level", "needs", "model", "before", "steps"}
_STEP = {"method", "path", "headers", "body", "text", "base64", "expect"}
_RECEIVER = {"answers", "consent", "received", "absent"}
_DELIVERY = {"method", "query", "headers", "body", "text", "seconds", "after"}
_EXPECT = {
    *("status", "headers", "body", "text", "base64", "error"),
    *("lines", "rows", "copies", "buckets"),
}
_NEEDS = {
    *("available", "mutable", "flags", "ignores", "formats", "versionmodes"),
    *("compatibilities", "pagination", "shortself", "groups", "answers", "handshake"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case, the `number`-th of its file: `steps` begin with those that prepare it."""

    file: str
    number: int
    name: str
    section: str
    level: str
    needs: Mapping[str, Any]
    model: Any
    steps: tuple[Mapping[str, Any], ...]

    @property
    def id(self) -> str:
        return f"{self.file} {self.number}: {self.name}"

    @property
    def is_draft(self) -> bool:
        """Whether it is about an older draft, whose servers need not be xRegistry servers."""
        return self.section.startswith("drafts/")

    @property
    def receives(self) -> bool:
        """Whether it needs a receiver of deliveries."""
        return any(step.keys() & _RECEIVER for step in self.steps)


def read_cases(folder: Path = HERE / "cases") -> list[Case]:
    """The cases of all files, whose names without folders differ."""
    return [case for path in sorted(folder.glob("**/*.yaml")) for case in read_file(path)]


def read_file(path: Path) -> list[Case]:
    content = yaml.load(path.read_bytes(), Loader=_Loader)
    return parse_cases(path.stem, content)


def parse_cases(file: str, content: Any) -> list[Case]:
    """The cases of a file's content. Raises `CaseError` for what the format does not define."""
    _only(content, _FILE, file)
    defaults = content.get("defaults", {})
    _only(defaults, _CASE - {"name", "steps"}, f"defaults of {file}")
    cases = [
        _parse_case(file, number, defaults, case) for number, case in enumerate(content["cases"], 1)
    ]
    names = [case.name for case in cases]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise CaseError(f"{file} has several cases with the name {repeated}")
    return cases


def _parse_case(file: str, number: int, defaults: Mapping[str, Any], case: Any) -> Case:
    where = f"a case of {file}, {case.get('name')!r},"
    _only(case, _CASE, where)
    merged = {"level": "MUST", "model": None, "before": [], **defaults, **case}
    needs = {**defaults.get("needs", {}), **case.get("needs", {})}
    _only(needs, _NEEDS, f"what {where} needs")
    if missing := {"name", "section", "steps"} - merged.keys():
        raise CaseError(f"{where} lacks {missing}")
    if merged["level"] not in LEVELS:
        raise CaseError(f"{where} has the level {merged['level']!r}")
    steps = (*merged["before"], *merged["steps"])
    for step in steps:
        _check_step(step, where)
    return Case(
        file=file,
        number=number,
        name=merged["name"],
        section=merged["section"],
        level=merged["level"],
        needs=needs,
        model=merged["model"],
        steps=steps,
    )


def _check_step(step: Any, where: str) -> None:
    if isinstance(step, Mapping) and step.keys() & _RECEIVER:
        _only(step, _RECEIVER, f"a step of {where}")
        for name in step.keys() & {"received", "absent"}:
            _only(step[name], _DELIVERY, f"what a step of {where} receives")
        return
    _only(step, _STEP, f"a step of {where}")
    if {"method", "path"} - step.keys():
        raise CaseError(f"a step of {where} lacks its method or its path")
    if len({"body", "text", "base64"} & step.keys()) > 1:
        raise CaseError(f"a step of {where} has several bodies")
    expect = step.get("expect", {})
    _only(expect, _EXPECT, f"what a step of {where} expects")
    for error in errors_of(expect):
        if error.get("name") not in read_errors():
            raise CaseError(f"a step of {where} expects an unknown error, {error}")


def errors_of(expect: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The errors of which one is expected; none if that is no error."""
    error = expect.get("error", [])
    found = [
        {"name": one} if isinstance(one, str) else one
        for one in (error if isinstance(error, list) else [error])
    ]
    for one in found:
        _only(one, {"name", "subject", "args"}, "an expected error")
    return found


def _only(value: Any, known: set[str], where: str) -> None:
    if not isinstance(value, Mapping):
        raise CaseError(f"{where} is no map")
    if unknown := value.keys() - known:
        raise CaseError(f"{where} has unknown members: {unknown}")


@cache
def read_errors() -> Mapping[str, Mapping[str, Any]]:
    """What the specification says about each error."""
    errors: Mapping[str, Mapping[str, Any]] = yaml.safe_load((HERE / "errors.yaml").read_bytes())
    return errors


def read_model(model: Any) -> Any:
    """A model's source: the file of this name, or what the case itself says."""
    if not isinstance(model, str):
        return model
    return orjson.loads((HERE / "models" / f"{model}.json").read_bytes())


# The parser of libyaml, where there is one, takes a third of the time.
class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML 1.2's core schema, so that all parsers agree: no dates, no `yes`; no doubled keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if len({*keys}) < len(keys):
            raise CaseError(f"a map has a key twice: {keys}{node.start_mark}")
        if not all(isinstance(key, str) for key in keys):
            raise CaseError(f"a key is no string: {keys}{node.start_mark}")
        return super().construct_mapping(node, deep)


_RESOLVERS = {
    "tag:yaml.org,2002:bool": ("true|false", "tf"),
    "tag:yaml.org,2002:int": ("-?[0-9]+", "-0123456789"),
    "tag:yaml.org,2002:float": (r"-?[0-9]+\.[0-9]+([eE][-+]?[0-9]+)?", "-0123456789"),
    "tag:yaml.org,2002:null": ("null|~|", ["n", "~", ""]),
}

_Loader.yaml_implicit_resolvers = {}
for _tag, (_pattern, _first) in _RESOLVERS.items():
    _Loader.add_implicit_resolver(_tag, re.compile(f"(?:{_pattern})$"), [*_first])
