"""Where a topic is, and how to log in there: secrets stay in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote

from fastresume.options.checks import quoted

_FORM = "kafka://broker:9092/topic?security.protocol=SASL_SSL"

_SECRETS = ("password", "secret", "token", "jaas", "key.pem", "sasl.oauthbearer.config", "keystore")
"""Parts of the names of settings whose values are secret."""

_OURS = {
    "enable.auto.commit": "nothing is committed: the state is in the checkpoint",
    "auto.offset.reset": "start= and on_gap=",
    "isolation.level": "isolation=",
    "enable.partition.eof": "nothing",
}


NO_GROUP = (
    "no group is joined: start='committed:group' reads offsets of one, and commit='after save' writes "
    "those of config={'group.id': 'group'}"
)


class Settings:
    """The brokers, the topics, and librdkafka's settings. Its `repr` and pickles of errors show no secret.

    Args:
        address: "kafka://broker:9092/topic?name=value"; None if `topic` and `config` say it.
        topic: a topic, or several.
        config: settings as librdkafka names them; "oauth_cb" is a function that returns a token.

    Raises:
        TypeError, ValueError: if the brokers or the topics are missing, or a setting is this reader's own.
    """

    def __init__(self, address: object, topic: str | Sequence[str] | None, config: object) -> None:
        if config is not None and not isinstance(config, Mapping):
            raise TypeError(
                f"config must be a mapping of librdkafka's settings, found {type(config).__name__}"
            )
        found: dict[str, Any] = {}
        topics: list[Any] = []
        if address is not None:
            brokers, topics, found = _parsed(address)
            found["bootstrap.servers"] = brokers
        found.update(config or {})
        if topic is not None:
            topics += [topic] if isinstance(topic, str) else list(topic)
        if not topics or not all(isinstance(one, str) and one for one in topics):
            raise TypeError(f"name a topic: write {_FORM!r}, or topic='clicks'")
        if len(set(topics)) < len(topics):
            raise ValueError(f"a topic is named twice: {quoted(topics)}")
        if not found.get("bootstrap.servers"):
            raise TypeError(f"name the brokers: write {_FORM!r}, or config={{'bootstrap.servers': ...}}")
        self.group: str | None = found.pop("group.id", None)
        for name in sorted(_OURS.keys() & found.keys()):
            raise TypeError(f"the setting {name!r} is this reader's own; instead of it: {_OURS[name]}")
        self.topics: tuple[str, ...] = tuple(topics)
        self.config: dict[str, Any] = found

    @property
    def name(self) -> str:
        """The address, without settings."""
        return f"kafka://{self.config['bootstrap.servers']}/{','.join(self.topics)}"

    def without_secrets(self, problem: object) -> str:
        """What went wrong, in words without a secret."""
        text = str(problem)
        for name, value in self.config.items():
            if isinstance(value, str) and len(value) > 2 and any(part in name for part in _SECRETS):
                text = text.replace(value, "***")
        return text

    def __repr__(self) -> str:
        return f"Settings({self.name!r})"


def _parsed(address: object) -> tuple[str, list[str], dict[str, Any]]:
    if isinstance(address, list | tuple):
        raise TypeError(
            f"the address must be one text, found {len(address)} in a {type(address).__name__}: write topics "
            "of one cluster as topic=['a', 'b']"
        )
    if not isinstance(address, str) or not address.startswith("kafka://"):
        # It may hold a secret.
        raise ValueError(f"the address must begin with kafka://: write {_FORM!r}")
    where, _, query = address.removeprefix("kafka://").partition("?")
    brokers, _, topics = where.partition("/")
    if "@" in brokers:
        raise ValueError(
            "the address has a user before '@': write them as settings, in "
            "config={'sasl.mechanism': 'PLAIN', 'sasl.username': ..., 'sasl.password': ...}"
        )
    each = [unquote(topic) for topic in topics.strip("/").split(",") if topic]
    return unquote(brokers), each, dict(parse_qsl(query, keep_blank_values=True))


Token = Callable[[str], tuple[str, float]]
"""What returns a token of OAUTHBEARER, and when it expires, in seconds since 1970."""
