"""The process that checks documents: it reads questions, and writes an answer to each."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import BinaryIO

import orjson

from catalog.formats.confinement import confine
from catalog.formats.documents import Malformed
from catalog.formats.known import family_of

MAX_ANSWER_CHARACTERS = 1000


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
        answer, is_last = _answer(question["format"], question["direction"], documents)
        signal.alarm(0)
        reply = {"answer": answer[:MAX_ANSWER_CHARACTERS], "last": is_last}
        answers.write(orjson.dumps(reply, option=orjson.OPT_APPEND_NEWLINE))
        answers.flush()
        if is_last:
            return


def check(format: str, direction: str, documents: Sequence[bytes]) -> str:
    """Find what is wrong with a document, or between an older and a newer one."""
    family = family_of(format)
    assert family is not None
    # The libraries behind the modules are large; a process loads those that it needs.
    module = import_module(f"catalog.formats.{family.module}")
    if direction:
        return str(module.compare(format, *documents, direction))
    return str(module.validate(format, *documents))


def _answer(format: str, direction: str, documents: Sequence[bytes]) -> tuple[str, bool]:
    try:
        return _printable(check(format, direction, documents)), False
    except Malformed as error:
        return _printable(str(error)), False
    except RecursionError:
        return "the document is nested too deeply to be checked", False
    except MemoryError:
        return "the check needs more memory than it may use", True
    except Exception as error:
        # A library may fail in any way at what it was not made for.
        return _printable(f"the check ended with {type(error).__name__}: {error}"), False


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
