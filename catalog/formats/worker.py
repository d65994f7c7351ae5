"""The process that checks documents: it reads questions, and writes an answer to each."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, BinaryIO

import orjson

from catalog.formats.confinement import confine
from catalog.formats.documenttext import MalformedDocument, Mismatch
from catalog.formats.families import family_of

MAX_ANSWER_CHARACTERS = 1000
CONFORM = "conform"


def main(memory: int, seconds: int) -> None:
    """Serve until the server closes the pipe, or memory ran out once.

    `seconds` ends a check that outlives the server, which would have ended it.
    """
    answers = _take_standard_output()
    confine(memory)
    questions = sys.stdin.buffer
    while header := questions.readline():
        question = orjson.loads(header)
        documents = [questions.read(size) for size in question["sizes"]]
        signal.alarm(seconds)
        reply = _answer(question["format"], question["direction"], documents)
        signal.alarm(0)
        answers.write(orjson.dumps(reply, option=orjson.OPT_APPEND_NEWLINE))
        answers.flush()
        if reply["last"]:
            return


def check(format: str, direction: str, documents: Sequence[bytes]) -> str:
    """Find what is wrong with a document, between an older and a newer one, or with a payload.

    Raises:
        Malformed: a document, or the schema of a payload, breaks the rules of its format.
        Mismatch: a payload does not conform.
    """
    family = family_of(format)
    assert family is not None
    # The libraries behind the modules are large; a process loads those that it needs.
    module = import_module(f"catalog.formats.{family.module}")
    if direction == CONFORM:
        schema, payload, contenttype, part = documents
        return str(module.conform(format, schema, payload, contenttype.decode(), part.decode()))
    if direction:
        return str(module.compare(format, *documents, direction))
    return str(module.validate(format, *documents))


def _answer(format: str, direction: str, documents: Sequence[bytes]) -> dict[str, Any]:
    try:
        return _reply(check(format, direction, documents))
    except Mismatch as error:
        return _reply(str(error))
    except MalformedDocument as error:
        return _reply(str(error), unusable=direction == CONFORM)
    except RecursionError:
        return _reply("the document is nested too deeply to be checked")
    except MemoryError:
        return _reply("the check needs more memory than it may use", last=True)
    except Exception as error:
        # A library may fail in any way at what it was not made for.
        return _reply(f"the check ended with {type(error).__name__}: {error}")


def _reply(answer: str, *, last: bool = False, unusable: bool = False) -> dict[str, Any]:
    text = _printable(answer)[:MAX_ANSWER_CHARACTERS]
    return {"answer": text, "last": last, "unusable": unusable}


def _printable(text: str) -> str:
    return text.encode(errors="replace").decode()


def _take_standard_output() -> BinaryIO:
    """Libraries print; what they print must not be taken for an answer."""
    answers = os.fdopen(os.dup(1), "wb")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return answers


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
