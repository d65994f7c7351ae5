"""Checks Protobuf files with the protoc of grpcio-tools."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile

import grpc_tools
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from grpc_tools import protoc

from catalog.formats import protobuf_message
from catalog.formats.documenttext import MAX_REASONS, MalformedDocument, unquoted
from catalog.formats.protobuf_evolution import obstacle

# The only files that can be imported, such as google/protobuf/timestamp.proto.
WELL_KNOWN = Path(grpc_tools.__file__).parent / "_proto"
FILE = "document.proto"
COMPLAINT = re.compile(rf"\S*{re.escape(FILE)}:(\d+:\d+: .*)")


def validate(format: str, document: bytes) -> str:
    """Compile the file, and compare the syntax with the syntax of the format.

    A file without a syntax statement has syntax 2, so an empty document is a valid Protobuf/2
    file without declarations, and no Protobuf/3 file.
    """
    _compile(format, document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Apply Protobuf's rules for the binary encoding; see `protobuf_evolution`."""
    return obstacle(_compile(format, older), _compile(format, newer), direction)


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Read the payload by the JSON mapping if the media type is JSON, else in binary.

    `part` names the message, with or without the package; by default the first message of the
    file.
    """
    message = protobuf_message.empty(_compile_all(format, schema), part)
    return protobuf_message.fault_in(message, payload, contenttype)


def _compile(format: str, document: bytes) -> FileDescriptorProto:
    return _compile_all(format, document)[-1]


def _compile_all(format: str, document: bytes) -> Sequence[FileDescriptorProto]:
    """The compiled file, after the imported files."""
    # A folder for the check alone, so that no other document can be imported.
    with TemporaryDirectory(dir=".") as folder:
        (Path(folder) / FILE).write_bytes(unquoted(document))
        compiled = Path(f"{folder}.compiled")
        complaints = _run_protoc(folder, compiled)
        if complaints:
            raise MalformedDocument(complaints)
        files = FileDescriptorSet.FromString(compiled.read_bytes()).file
        compiled.unlink()
    _check_syntax(files[-1], format)
    return files


def _run_protoc(folder: str, compiled: Path) -> str:
    paths = [f"-I{folder}", f"-I{WELL_KNOWN}", f"--descriptor_set_out={compiled}"]
    arguments = ["protoc", *paths, "--include_imports"]
    with TemporaryFile() as output:
        # protoc writes to the file descriptor of standard error, which Python cannot redirect.
        standard_error = os.dup(2)
        os.dup2(output.fileno(), 2)
        try:
            failed = protoc.main([*arguments, FILE])
        finally:
            os.dup2(standard_error, 2)
            os.close(standard_error)
        output.seek(0)
        complaints = output.read().decode(errors="replace").splitlines()
    return _summary(complaints) if failed else ""


def _summary(complaints: list[str]) -> str:
    found = (COMPLAINT.match(line) for line in complaints)
    reasons = [match[1] for match in found if match]
    return "; ".join(reasons[:MAX_REASONS]) or "protoc cannot compile it"


def _check_syntax(file: FileDescriptorProto, format: str) -> None:
    syntax = file.syntax or "proto2"
    wanted = "proto" + format.removeprefix("protobuf/")[0]
    if syntax != wanted:
        raise MalformedDocument(f"its syntax is {syntax}, not {wanted}")
