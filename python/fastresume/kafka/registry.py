"""A registry of schemas, which messages of Avro name by numbers."""

from __future__ import annotations

import base64
import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, NamedTuple

import fastresume._core as _core
from fastresume.options.checks import quoted
from fastresume.sources.patience import Patience

_ANSWER_SECONDS = 10.0
_FORM = "https://registry:8081"


class Written(NamedTuple):
    """A schema as a registry has it: its number, its JSON, and the schemas that it refers to, those first."""

    id: int
    text: str
    references: tuple[str, ...]


class Registry:
    """A schema registry with Confluent's addresses. Its `repr` and errors show no secret.

    Args:
        address: "https://registry:8081"; a user and a password may be before the host, as "user:password@".
        auth: a user and a password, if the address has none.

    Raises:
        TypeError, ValueError: if the address is none of http or https.
    """

    def __init__(self, address: object, auth: Any = None) -> None:
        # The address may hold a secret: no error shows it.
        if not isinstance(address, str):
            raise TypeError(f"registry must be an address as {_FORM!r}, found {type(address).__name__}")
        scheme, _, rest = address.partition("://")
        host, slash, path = rest.partition("/")
        login, _, host = host.rpartition("@")
        if scheme not in ("http", "https") or not host or "?" in rest or "#" in rest:
            raise ValueError(f"the address of a registry must be as {_FORM!r}")
        if auth is not None:
            if not isinstance(auth, tuple) or list(map(type, auth)) != [str, str]:
                raise TypeError("auth must be a user and a password: write auth=('user', 'password')")
            if login:
                raise TypeError(
                    "the address of the registry has a user, and auth= has one, too: leave one out"
                )
            login = ":".join(auth)
        elif login:
            login = urllib.parse.unquote(login)
        self.address = f"{scheme}://{host}{slash}{path}".rstrip("/")
        self._login = login
        self._has_answered = False

    def schema(self, number: int) -> Written:
        """The schema of a number.

        Raises:
            DataError: if there is none.
            SourceError: if the registry refuses, or does not answer.
        """
        found = self._asked(f"schemas/ids/{number}", f"schema {number}")
        return self._written(number, found)

    def latest(self, subject: str) -> Written:
        """The latest schema of a subject.

        Raises:
            DataError: if there is no such subject.
            SourceError: if the registry refuses, or does not answer.
        """
        found = self._version(subject, "latest")
        return self._written(int(found["id"]), found)

    def _version(self, subject: str, version: object) -> dict[str, Any]:
        path = f"subjects/{urllib.parse.quote(subject, safe='')}/versions/{version}"
        return self._asked(path, f"subject {quoted(subject)}")

    def _written(self, number: int, found: dict[str, Any]) -> Written:
        kind = found.get("schemaType") or "AVRO"
        if kind != "AVRO":
            raise _core.DataError(f"schema {number} of {self} is one of {quoted(kind)}, and not of Avro")
        return Written(number, found["schema"], tuple(self._references(found, ())))

    def _references(self, found: dict[str, Any], above: tuple[object, ...]) -> list[str]:
        texts: list[str] = []
        for each in found.get("references") or ():
            place = (each["subject"], each["version"])
            if place in above:
                raise _core.DataError(f"a schema of {self} refers to itself: {quoted(place)}")
            other = self._version(*place)
            texts += [*self._references(other, (*above, place)), other["schema"]]
        return list(dict.fromkeys(texts))

    def _asked(self, path: str, what: str) -> dict[str, Any]:
        patience = Patience()
        while True:
            try:
                found = self._answer(path)
                self._has_answered = True
                return found
            except urllib.error.HTTPError as error:
                problem: object = f"HTTP {error.code} {error.reason}"
                error.close()
                if error.code == 404:
                    raise _core.DataError(f"{self} has no {what}") from None
                if error.code < 500 and error.code not in (408, 429):
                    raise _core.SourceError(
                        f"{self} refuses {what}: {problem}. Write registry='https://user:password@...', "
                        "or auth=('user', 'password')"
                    ) from None
            except (OSError, http.client.HTTPException) as error:
                problem = getattr(error, "reason", error)
            except ValueError:
                raise _core.SourceError(
                    f"{self} answers for {what} with what is no JSON of a registry"
                ) from None
            # One that has never answered may be a wrong address: that seldom gets better.
            if not patience.waits(OSError() if self._has_answered else None):
                raise _core.SourceError(f"{self} does not answer for {what}: {problem}")

    def _answer(self, path: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.address}/{path}")  # noqa: S310  (http or https)
        request.add_header("Accept", "application/vnd.schemaregistry.v1+json, application/json")
        if self._login:  # which a redirection to another host must not get
            coded = base64.b64encode(self._login.encode()).decode()
            request.add_unredirected_header("Authorization", f"Basic {coded}")
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310
            found = json.loads(answer.read())
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise ValueError("no schema")
        return found

    def __repr__(self) -> str:
        return f"the registry {self.address}"
