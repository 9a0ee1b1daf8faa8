"""Who asks: keys, as the environment, a file or the user has them. They are in no text and no pickle."""

from __future__ import annotations

import json
import multiprocessing.context
import os
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import fastresume._core as _core
from fastresume.maxcompute.package import odps
from fastresume.options.checks import quoted
from fastresume.packages import optional
from fastresume.rebuilt import Rebuilt

_FILE = "ODPS_CONFIG_FILE_PATH"
_OWN_FILE = "~/.odps_config.ini"
_URI = "ALIBABA_CLOUD_CREDENTIALS_URI"
_KEY_ID, _KEY_SECRET = "ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET"
_TOKEN = "ALIBABA_CLOUD_SECURITY_TOKEN"  # noqa: S105  (a name)
_OTHERS = ("ALIBABA_CLOUD_CREDENTIALS_FILE", "ALIBABA_CLOUD_ECS_METADATA")
_ENDPOINT = "ODPS_ENDPOINT"

_FORM = "{'access_id': ..., 'access_key': ..., 'sts_token': ...}"

_EARLY_SECONDS = 300.0
"""Keys that expire so soon are asked for again."""

_ANSWER_SECONDS = 10.0

Credentials = Mapping[str, Any] | Callable[[], Mapping[str, Any]] | None


class Keys(NamedTuple):
    """What requests are signed with.

    Attributes:
        expires: when they expire, in seconds since 1970; None if that is not known.
        endpoint: where the service is, if that comes with them.
    """

    access_id: str
    access_key: str
    token: str | None = None
    expires: float | None = None
    endpoint: str | None = None

    def __repr__(self) -> str:
        return "Keys(***)"


class Account(Rebuilt):
    """The keys of a user, as they are now. Used by several threads at once.

    Args:
        credentials: a mapping, a function that returns one, or None to look into the environment.
        endpoint: where the service is; else the environment or the file tells.
    """

    def __init__(self, credentials: Credentials, endpoint: str | None) -> None:
        if not (credentials is None or callable(credentials) or isinstance(credentials, Mapping)):
            # It may be a secret: its kind says enough.
            raise TypeError(
                f"credentials must be {_FORM}, a function that returns such a dict, or None for those of the "
                f"environment, found {type(credentials).__name__}"
            )
        self._credentials = credentials
        self._endpoint = endpoint
        self._rebuild()

    _REBUILT = ("_lock", "_keys", "_given", "_known")

    def _rebuild(self) -> None:
        self._lock = threading.Lock()
        self._keys: Keys | None = None
        self._given = threading.local()
        self._known: set[str] = set()

    def keys(self) -> Keys:
        """The keys, asked for again a few minutes before they expire.

        Raises:
            ValueError: if there are none; it says what to write.
            SourceError: if who has them doesn't answer.
        """
        with self._lock:
            found = self._keys
            if found is None or (found.expires is not None and found.expires < time.time() + _EARLY_SECONDS):
                found = self._keys = self._found()
                self._known |= {each for each in (found.access_id, found.access_key, found.token) if each}
            self._given.keys = found
            return found

    def forget(self) -> None:
        """Asks for the keys again, since the service refused those that this thread got last.

        Another thread, whose request was refused too, may have done so already: its keys are kept.
        """
        with self._lock:
            if self._keys is getattr(self._given, "keys", None):
                self._keys = None

    @property
    def endpoint(self) -> str:
        """Where the service is.

        Raises:
            ValueError: if nothing tells.
        """
        found = self._endpoint or self.keys().endpoint or os.environ.get(_ENDPOINT)
        if not found:
            raise ValueError(
                f"nothing tells where MaxCompute is: write endpoint='https://service.<region>.maxcompute."
                f"aliyun.com/api', or set {_ENDPOINT}"
            )
        if not found.startswith(("https://", "http://")):
            raise ValueError(f"endpoint must be an address as 'https://host/api', found {quoted(found)}")
        return found

    def without_secrets(self, problem: object) -> str:
        """What went wrong, in a line without a secret."""
        text = " ".join(str(problem).split())
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _found(self) -> Keys:
        if callable(self._credentials):
            try:
                given = self._credentials()
            except Exception as error:  # noqa: BLE001  (a function of the user's may raise anything)
                # What it raises may hold a secret.
                kind = OSError if isinstance(error, OSError) else _core.SourceError
                raise kind(f"credentials() raised {type(error).__name__}") from None
            return _keys_of(given, "credentials() returned")
        if self._credentials is not None:
            return _keys_of(self._credentials, "credentials is")
        return _of_environment()

    def __getstate__(self) -> dict[str, Any]:
        # A worker process that starts needs what the user passed; what is written elsewhere has no keys.
        is_for_worker = multiprocessing.context.get_spawning_popen() is not None or callable(
            self._credentials
        )
        return {**super().__getstate__(), "_credentials": self._credentials if is_for_worker else None}

    def __repr__(self) -> str:
        return "Account(***)"


class Signer:
    """An account as pyodps signs requests with it.

    Args:
        account: whose keys are taken, as they are then.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._made: tuple[Keys, Any] | None = None

    def sign_request(self, *request: Any, **how: Any) -> None:
        """Signs a request."""
        keys, made = self._account.keys(), self._made
        if made is None or made[0] != keys:
            accounts, pair = odps("odps.accounts"), (keys.access_id, keys.access_key)
            if keys.token:
                made = keys, accounts.StsAccount(*pair, keys.token, expired_hours=None)
            else:
                made = keys, accounts.CloudAccount(*pair)
            self._made = made
        made[1].sign_request(*request, **how)

    def reload(self, _force: bool = False) -> None:
        """Takes new keys for the next request."""
        self._account.forget()


def _keys_of(given: object, what: str) -> Keys:
    """The keys in a mapping, under any of the names that they have.

    Raises:
        TypeError, ValueError: if it has none. It has no value.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"{what} no dict as {_FORM}, but {type(given).__name__}")
    found = {str(name).lower().replace("_", ""): value for name, value in given.items()}

    def named(*names: str) -> str | None:
        return next((str(found[name]) for name in names if found.get(name)), None)

    access_id = named("accessid", "accesskeyid")
    access_key = named("accesskey", "secretaccesskey", "accesskeysecret")
    if not access_id or not access_key:
        raise ValueError(f"{what} without access_id or access_key: write {_FORM}")
    token = named("ststoken", "securitytoken", "token")
    return Keys(access_id, access_key, token, _time(found.get("expiration")), named("endpoint"))


def _time(given: object) -> float | None:
    if isinstance(given, int | float):
        return float(given)
    if isinstance(given, datetime):
        return given.timestamp()
    if isinstance(given, str) and given:
        try:
            found = datetime.fromisoformat(given)
        except ValueError:
            return None
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    return None


def _of_environment() -> Keys:
    """The keys that TorchEasyRec's reader would find, in its order.

    Raises:
        ValueError: if there are none.
    """
    environment = os.environ
    if _FILE in environment:
        return _of_file(Path(environment[_FILE]), f"{_FILE} names")
    if environment.get(_URI):
        return _of_uri(environment[_URI])
    if environment.get(_KEY_ID) and environment.get(_KEY_SECRET):
        return Keys(environment[_KEY_ID], environment[_KEY_SECRET], environment.get(_TOKEN))
    if any(environment.get(name) for name in _OTHERS):
        return _of_client()
    own = Path(_OWN_FILE).expanduser()
    if own.exists():
        return _of_file(own, "the keys are in")
    raise ValueError(
        f"no keys of MaxCompute were found: set {_FILE}, {_URI} or {_KEY_ID} and {_KEY_SECRET}, write "
        f"{_OWN_FILE}, or pass credentials={_FORM}"
    )


def _of_file(path: Path, what: str) -> Keys:
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise ValueError(f"{what} {quoted(str(path))}, which can't be read: {error.strerror}") from None
    found = {
        name.strip(): value.strip()
        for name, is_pair, value in (line.partition("=") for line in lines)
        if is_pair
    }
    if lacking := [name for name in ("access_id", "access_key") if not found.get(name)]:
        raise ValueError(f"{what} {quoted(str(path))}, which has no line '{lacking[0]}=...'")
    return Keys(
        found["access_id"],
        found["access_key"],
        found.get("sts_token"),
        endpoint=found.get("end_point") or found.get("endpoint"),
    )


def _of_uri(uri: str) -> Keys:
    if not uri.startswith(("http://", "https://")):
        raise ValueError(f"{_URI} must begin with http:// or https://")
    try:
        with urllib.request.urlopen(uri, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310  (checked above)
            given = json.loads(answer.read(1 << 20))
    except (OSError, ValueError) as error:
        # The address may hold a secret.
        raise OSError(f"{_URI} does not answer with keys: {type(error).__name__}") from None
    return _keys_of(given, f"{_URI} answers")


def _of_client() -> Keys:
    client = optional("alibabacloud_credentials.client", " or ".join(_OTHERS), "alibabacloud-credentials")
    given = client.Client().get_credential()
    return Keys(
        given.access_key_id, given.access_key_secret, given.security_token, time.time() + 2 * _EARLY_SECONDS
    )
