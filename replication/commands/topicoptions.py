"""The options that name a topic of Kafka, as a URL."""

from __future__ import annotations

from catalog.commands.console import fail

_SCHEMES = ("kafka://", "kafkas://")


def topic_url(topic: str | None, brokers: str | None, *, publish: bool) -> str | None:
    """The URL of the topic of a link, which may be given as a whole; `None` without a topic.

    Without brokers, it is a topic of the cluster that the settings of the node name.
    """
    if topic is None:
        if brokers is not None or publish:
            fail("The topic is missing.", "Name it by --kafka TOPIC or --event-topic TOPIC.")
        return None
    if topic.startswith(_SCHEMES):
        if brokers is not None:
            fail("The topic is a URL, which names the brokers already.", "Leave --brokers out.")
        return topic
    if brokers is None:
        return f"{_SCHEMES[0]}/{topic}"
    scheme = next((each for each in _SCHEMES if brokers.startswith(each)), _SCHEMES[0])
    return f"{scheme}{brokers.removeprefix(scheme)}/{topic}"
