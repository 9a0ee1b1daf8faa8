"""What an Iceberg catalog says about the stores of its tables: the properties of PyIceberg's FileIO."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

NAMES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "s3": {
        "aws_access_key_id": ("s3.access-key-id", "client.access-key-id"),
        "aws_secret_access_key": ("s3.secret-access-key", "client.secret-access-key"),
        "aws_session_token": ("s3.session-token", "client.session-token"),
        "aws_region": ("s3.region", "client.region"),
        "aws_endpoint_url": ("s3.endpoint",),
        "proxy_url": ("s3.proxy-uri",),
    },
    "gs": {
        "google_bearer_token": ("gcs.oauth2.token",),
        "google_base_url": ("gcs.service.host",),
    },
    "az": {
        "azure_storage_account_name": ("adls.account-name",),
        "azure_storage_account_key": ("adls.account-key",),
        "azure_storage_sas_token": ("adls.sas-token",),
        "azure_storage_client_id": ("adls.client-id",),
        "azure_storage_client_secret": ("adls.client-secret",),
        "azure_storage_tenant_id": ("adls.tenant-id",),
        "azure_storage_token": ("adls.token",),
    },
    "hf": {"token": ("hf.token",), "endpoint": ("hf.endpoint",)},
}
"""Of each kind of store our names, and the properties that tell their values, the first one first."""

FLAGS: Mapping[str, Mapping[str, str]] = {
    "s3": {
        "aws_skip_signature": "s3.anonymous",
        "aws_virtual_hosted_style_request": "s3.force-virtual-addressing",
    },
    "az": {"azure_skip_signature": "adls.anon"},
}
"""The same of what is true or false."""

SECONDS = {"connect_timeout": "s3.connect-timeout", "read_timeout": "s3.request-timeout"}
"""The same of times, of S3."""

KINDS = {"s3": ("s3.", "client."), "gs": ("gcs.",), "az": ("adls.",), "hf": ("hf.",)}
"""How the properties of each kind begin."""

SCHEMES = {"abfs": "az", "abfss": "az", "wasb": "az", "wasbs": "az", "gcs": "gs", "s3a": "s3", "s3n": "s3"}

CONNECTION = {
    "accountname": "azure_storage_account_name",
    "accountkey": "azure_storage_account_key",
    "sharedaccesssignature": "azure_storage_sas_token",
    "blobendpoint": "azure_storage_endpoint",
}
"""The parts of a connection string of Azure that say how objects are read."""

SILENT = frozenset(
    {
        "adls.dfs-storage-authority",
        "adls.dfs-storage-scheme",
        "gcs.access",
        "gcs.cache-timeout",
        "gcs.consistency",
        "gcs.default-bucket-location",
        "gcs.oauth2.token-expires-at",
        "gcs.project-id",
        "gcs.version-aware",
        "s3.resolve-region",
        "s3.retry-strategy-impl",
        "s3.server-side-encryption",
        "s3.sse-kms-key-id",
        "s3.signer.endpoint",
        "s3.signer.uri",
    }
)
"""Properties that say nothing of how objects are read, or something of others that do."""


class Reached(NamedTuple):
    """How the stores of a table's files are reached.

    Args:
        options: in the names of `storage_options`.
        unused: the names of properties that say how, and that nothing here has a name for.
    """

    options: dict[str, str]
    unused: list[str]


def reached(properties: Mapping[str, Any], files: Iterable[str]) -> Reached:
    """What properties tell of the stores of files; those of other stores tell nothing.

    Examples:
        >>> reached({"client.region": "eu", "s3.profile-name": "me", "gcs.project-id": 1}, ["s3://b/a.parquet"])
        Reached(options={'aws_region': 'eu'}, unused=['s3.profile-name'])
    """
    texts = {name: str(value) for name, value in properties.items() if value not in (None, "")}
    schemes = dict.fromkeys(file.partition("://")[0] for file in files if "://" in file)
    options: dict[str, str] = {}
    unused: list[str] = []
    for kind in dict.fromkeys(SCHEMES.get(scheme, scheme) for scheme in schemes):
        if kind not in KINDS:
            continue
        of_kind = {name: value for name, value in texts.items() if name.startswith(KINDS[kind])}
        found, used = _of_kind(kind, of_kind)
        options |= found
        unused += [name for name in of_kind if name not in used and name not in SILENT]
    return Reached(options, unused)


def _of_kind(kind: str, texts: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """The options that properties tell, and their names."""
    options: dict[str, str] = {}
    used: set[str] = set()
    if "adls.connection-string" in texts:
        parts = (part.partition("=") for part in texts["adls.connection-string"].split(";"))
        named = {CONNECTION.get(name.strip().lower()): value.strip() for name, _, value in parts}
        options |= {name: value for name, value in named.items() if name is not None}
        used.add("adls.connection-string")
    for ours, theirs in NAMES[kind].items():
        found = [texts[name] for name in theirs if name in texts]
        if found:
            options[ours] = found[0]
        used.update(theirs)
    for ours, name in FLAGS.get(kind, {}).items():
        if name in texts:
            options[ours] = str(texts[name].strip().lower() in ("true", "1", "t", "yes", "y", "on")).lower()
            used.add(name)
    if kind == "s3":
        for ours, name in SECONDS.items():
            if name in texts:
                options[ours] = f"{round(float(texts[name]) * 1000)}ms"
                used.add(name)
    if kind == "az":
        _add_azure(texts, options, used)
    return options, used


def _add_azure(texts: Mapping[str, str], options: dict[str, str], used: set[str]) -> None:
    """Adds tokens that are named for an account each, and where its server is."""
    prefix = "adls.sas-token."
    for name in (name for name in texts if name.startswith(prefix)):
        options.setdefault("azure_storage_account_name", name.removeprefix(prefix).partition(".")[0])
        options.setdefault("azure_storage_sas_token", texts[name])
        used.add(name)
    host = texts.get("adls.blob-storage-authority") or texts.get("adls.account-host")
    if host is not None:
        scheme = texts.get("adls.blob-storage-scheme", "https")
        # A server of one's own has accounts as paths.
        account = options.get("azure_storage_account_name", "")
        place = f"{host}/{account}" if host[:1].isdigit() else _host(account, host)
        options["azure_storage_endpoint"] = f"{scheme}://{place}"
    used.update({"adls.blob-storage-authority", "adls.account-host", "adls.blob-storage-scheme"})


def _host(account: str, authority: str) -> str:
    """The host of an account: an authority that begins with a dot is that of all accounts."""
    return f"{account}{authority}" if authority.startswith(".") else authority
