"""Finds the types and extensions that the names in a Protobuf file mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from catalog.formats.confluent.protobufdescriptor import built_in_files
from catalog.formats.confluent.protobufelements import (
    ProtoEnum,
    ProtoExtend,
    ProtoFile,
    ProtoMessage,
    ProtoOption,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredType:
    """A message or an enum, and the package of its file, "" for none."""

    package: str
    is_local: bool
    declaration: ProtoMessage | ProtoEnum

    @property
    def map_type(self) -> str | None:
        """The type of the map of which the type is an entry."""
        one = self.declaration
        return one.map_type if isinstance(one, ProtoMessage) else None


class KnownTypes:
    """The declarations of a file, of its references, and of the built-in files, by full name."""

    def __init__(self, file: ProtoFile, references: Iterable[ProtoFile]) -> None:
        self.package = file.package or ""
        self.types: dict[str, DeclaredType] = {}
        self.repeated: dict[str, bool] = {}
        """Whether an extension is repeated."""
        for one in (*built_in_files().values(), *references):
            self._collect(one, is_local=False)
        self._collect(file, is_local=True)

    def resolve(self, type: str, scope: str) -> str | None:
        """The full name of a type that the declaration `scope` uses, or None."""
        return _resolve(type, scope, self.types)

    def resolve_extension(self, name: str, scope: str) -> str | None:
        return _resolve(name, scope, self.repeated)

    def has_option(self, option: ProtoOption) -> bool:
        """Whether an option of the file itself is no custom option, or has an extension."""
        return not option.is_custom or bool(self.resolve_extension(option.name, self.package))

    def _collect(self, file: ProtoFile, *, is_local: bool) -> None:
        package = file.package or ""
        self._collect_extensions(file.extends, package)
        pending = [(package, one) for one in file.types]
        while pending:
            scope, declaration = pending.pop()
            name = joined(scope, declaration.name)
            self.types[name] = DeclaredType(
                package=package, is_local=is_local, declaration=declaration
            )
            if isinstance(declaration, ProtoMessage):
                self._collect_extensions(declaration.extends, name)
                pending += [(name, one) for one in declaration.types]

    def _collect_extensions(self, extends: Sequence[ProtoExtend], scope: str) -> None:
        for extend in extends:
            for field in extend.fields:
                self.repeated[joined(scope, field.name)] = field.label == "repeated"


def joined(scope: str, name: str) -> str:
    """The full name of a declaration inside of another, or of a package."""
    return f"{scope}.{name}" if scope else name


def _resolve(name: str, scope: str, known: Mapping[str, object]) -> str | None:
    if name.startswith("."):
        return name[1:] if name[1:] in known else None
    while scope:
        if (full := f"{scope}.{name}") in known:
            return full
        scope = scope.rpartition(".")[0]
    return name if name in known else None
