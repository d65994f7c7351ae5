"""Remembers what entities look like until the next write.

An answer is kept with the generation of the log that it was read at or before, and is
good only while that is the current one: every write of this process ends the generation
before it is answered, so a client never reads what its own write has changed. Writes of
other processes end it when they are heard of.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from aiohttp import web

from catalog.store.database import Signal

_MOST_ANSWERS = 10_000
_LARGEST_BODY = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    body: bytes
    headers: Mapping[str, str]


class AnswerCache:
    """Answers by request, the most recently used ones, all of one generation."""

    def __init__(self, signal: Signal) -> None:
        self._signal = signal
        self._generation = signal.generation
        self._answers: OrderedDict[tuple[str, str], Answer] = OrderedDict()

    @property
    def generation(self) -> int:
        """Take it before reading what an answer will be made of."""
        return self._signal.generation

    def get(self, base: str, path: str) -> Answer | None:
        if self._generation != self._signal.generation:
            self._answers.clear()
            self._generation = self._signal.generation
            return None
        answer = self._answers.get((base, path))
        if answer is not None:
            self._answers.move_to_end((base, path))
        return answer

    def put(self, base: str, path: str, answer: Answer, generation: int) -> None:
        """Keep an answer, unless something was written since `generation`."""
        if generation != self._signal.generation or len(answer.body) > _LARGEST_BODY:
            return
        self._answers[base, path] = answer
        if len(self._answers) > _MOST_ANSWERS:
            self._answers.popitem(last=False)


ANSWERS: web.AppKey[AnswerCache] = web.AppKey("answers", AnswerCache)
