"""The process that checks documents: reads requests, and writes a reply to each request."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, BinaryIO

import orjson

from catalog.formats.documenttext import MalformedDocument, Mismatch
from catalog.formats.families import is_confluent, module_of

MAX_ANSWER_CHARACTERS = 4000
MAX_FILE_BYTES = 64 * 1024 * 1024
CONFORM = "conform"
FORBIDDEN = (
    *("ftplib", "http", "socket", "subprocess", "urllib"),
    *("os.exec", "os.fork", "os.posix_spawn", "os.system"),
)


def main(memory: int, seconds: float) -> None:
    """Answer requests until the server closes the pipe, or a check has run out of memory.

    Args:
        memory: the limit of the process, in bytes.
        seconds: the time of the processor after which a check ends the process. Loading a library
            does not count.
    """
    answers = _take_standard_output()
    confine(memory)
    questions = sys.stdin.buffer
    while header := questions.readline():
        question = orjson.loads(header)
        documents = [questions.read(size) for size in question["sizes"]]
        _module_of(question["format"])
        signal.setitimer(signal.ITIMER_PROF, seconds)
        reply = _answer(question["format"], question["direction"], documents)
        signal.setitimer(signal.ITIMER_PROF, 0)
        answers.write(orjson.dumps(reply, option=orjson.OPT_APPEND_NEWLINE))
        answers.flush()
        if reply["last"]:
            return


def check(format: str, direction: str, documents: Sequence[bytes]) -> str:
    """Validate a document, compare an older and a newer document, or check a payload.

    Returns the problem, or "".

    Raises:
        MalformedDocument: a document, or the schema of a payload, breaks the rules of the format.
        Mismatch: a payload does not conform.
    """
    module = _module_of(format)
    if is_confluent(format):
        return str(module.answer(format, direction, *documents))
    if direction == CONFORM:
        schema, payload, contenttype, part = documents
        return str(module.conform(format, schema, payload, contenttype.decode(), part.decode()))
    if direction:
        return str(module.compare(format, *documents, direction))
    return str(module.validate(format, *documents))


def _module_of(format: str) -> Any:
    """Load the module that checks a format; the libraries of other formats stay unloaded."""
    return import_module(f"catalog.formats.{module_of(format)}")


def _answer(format: str, direction: str, documents: Sequence[bytes]) -> dict[str, Any]:
    try:
        answer = check(format, direction, documents)
        # Results are JSON, which would be spoilt by a cut.
        return _reply(answer, most=len(answer) if is_confluent(format) else MAX_ANSWER_CHARACTERS)
    except Mismatch as error:
        return _reply(str(error))
    except MalformedDocument as error:
        return _reply(str(error), unusable=direction == CONFORM)
    except RecursionError:
        return _reply("the document is nested too deeply to be checked")
    except MemoryError:
        # A process may be unable to recover from a lack of memory: a new process takes over.
        return _reply("the check needs more memory than it may use", last=True)
    except Exception as error:
        # Libraries fail in many ways at unexpected documents.
        return _reply(f"the check ended with {type(error).__name__}: {error}")


def _reply(
    answer: str, *, most: int = MAX_ANSWER_CHARACTERS, last: bool = False, unusable: bool = False
) -> dict[str, Any]:
    printable = answer.encode(errors="replace").decode()
    return {"answer": printable[:most], "last": last, "unusable": unusable}


def _take_standard_output() -> BinaryIO:
    """Replace the standard output, so that the output of a library is not taken for a reply."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return answers


def confine(memory: int) -> None:
    """Limit the memory of the process in bytes, and forbid the network and other programs.

    The libraries are configured not to fetch the references of documents. The limits are a second
    barrier, in case a library fetches a reference nevertheless.
    """
    _limit(resource.RLIMIT_AS, memory)
    _limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    _limit(resource.RLIMIT_CORE, 0)
    sys.addaudithook(_refuse)


def _limit(kind: int, most: int) -> None:
    # macOS refuses to limit the address space.
    with suppress(ValueError, OSError):
        resource.setrlimit(kind, (most, most))


def _refuse(event: str, details: tuple[object, ...]) -> None:
    if event == "urllib.Request" and str(details[0]).startswith("file:"):
        # xmlschema reads the schemas of its own package by URL.
        return
    if event.startswith(FORBIDDEN):
        raise PermissionError(f"a check may not do this: {event}")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
