"""Files of the Hugging Face hub are read as local files are, from where the hub says that they lie."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import huggingface_hub
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastresume as fr
from support.hub_server import TOKEN, Hub, serving_hub

NAME = "owner/name"


@pytest.fixture
def hub(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for variable in ("HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    with serving_hub() as hub:
        hub.put_tree(NAME, tree, "data/")
        yield hub


def _ids(dataset: fr.ParquetDataset) -> list[list[int]]:
    return [batch["id"].tolist() for batch in dataset]


def _opened(hub: Hub, address: str = f"hf://datasets/{NAME}/data", **how: object) -> fr.ParquetDataset:
    how = {"storage_options": hub.options, **how}
    return fr.ParquetDataset(address, batch_size=64, **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("large_bytes", [0, 1 << 30], ids=["elsewhere", "on the hub"])
@pytest.mark.parametrize("shuffle", [False, True])
def test_a_tree_on_the_hub_is_the_local_one(hub: Hub, tree: Path, shuffle: bool, large_bytes: int) -> None:
    hub.large_bytes = large_bytes
    local = fr.ParquetDataset(tree, batch_size=64, shuffle=shuffle)
    remote = _opened(hub, shuffle=shuffle)
    assert remote.fingerprint == local.fingerprint
    assert _ids(remote) == _ids(local)
    resolved = sum(kind == "resolve" for kind, _ in hub.asked)
    if large_bytes == 0:
        assert resolved == len(local.files), "an address that is good is asked for once"
        assert sum(kind == "content" for kind, _ in hub.asked) > resolved
    assert hub.leaks == 0


@pytest.mark.parametrize(
    "pattern", ["/", "/day=*", "/day=*/", "/day=0/*.parquet", "/**/*.parquet", "/day=[1]"]
)
def test_a_pattern_means_what_it_means_on_a_disk(hub: Hub, tree: Path, pattern: str) -> None:
    local = fr.ParquetDataset(str(tree) + pattern, batch_size=64)
    remote = _opened(hub, f"hf://datasets/{NAME}/data{pattern}")
    assert [Path(name).name for name in remote.files] == [Path(name).name for name in local.files]
    assert remote.fingerprint == local.fingerprint


def test_a_list_of_files_is_found_by_the_trees_of_their_directories(hub: Hub, tree: Path) -> None:
    names = sorted(path.relative_to(tree) for path in tree.glob("day=*/*.parquet"))
    remote = _opened(hub, [f"hf://datasets/{NAME}/data/{name}" for name in names])  # type: ignore[arg-type]
    assert remote.fingerprint == fr.ParquetDataset(tree, batch_size=64).fingerprint
    listed = {path for kind, path in hub.asked if kind == "tree"}
    assert listed == {"data/day=0", "data/day=1"}
    # Three files and notes are two answers of one directory; three files are one.
    assert sum(kind == "tree" for kind, _ in hub.asked) == 3


@pytest.mark.parametrize(
    "named", ["v1", "refs/convert/parquet", "refs%2Fconvert%2Fparquet", "~parquet", "a%2Fb"]
)
def test_a_revision_is_named_behind_an_at(hub: Hub, tree: Path, named: str) -> None:
    revision = {"v1": "v1", "a%2Fb": "a/b"}.get(named, "refs/convert/parquet")
    hub.put_tree("owner/other", tree / "day=0", revision=revision)
    local = fr.ParquetDataset(tree / "day=0", batch_size=64)
    for path in ("", "/", "/*.parquet"):
        remote = _opened(hub, f"hf://datasets/owner/other@{named}{path}")
        assert remote.fingerprint == local.fingerprint
    assert _ids(remote) == _ids(local)


def test_the_hub_s_own_client_finds_the_same_files_on_this_server(hub: Hub) -> None:
    client = huggingface_hub.HfApi(endpoint=hub.endpoint, token=TOKEN)
    found = client.list_repo_tree(NAME, "data", repo_type="dataset", recursive=True)
    paths = {f"hf://datasets/{NAME}/{entry.path}" for entry in found}
    files = _opened(hub).files
    assert len(files) == 6
    assert paths > set(files)


def test_a_mirror_that_links_to_the_hub_is_asked_itself(hub: Hub, tree: Path) -> None:
    hub.links_to = "https://hub.example"
    assert _opened(hub).fingerprint == fr.ParquetDataset(tree, batch_size=64).fingerprint


def test_an_address_that_expires_is_asked_for_again(hub: Hub, tree: Path) -> None:
    hub.expires_after = 1
    assert _ids(_opened(hub)) == _ids(fr.ParquetDataset(tree, batch_size=64))
    assert sum(kind == "resolve" for kind, _ in hub.asked) > 6


def test_a_hub_that_is_busy_is_asked_again(hub: Hub, tree: Path) -> None:
    hub.faults = [429, 503, 500, 504]
    dataset = _opened(hub)
    assert _ids(dataset) == _ids(fr.ParquetDataset(tree, batch_size=64))
    assert dataset._spec.manifest.stores.counts().retries == 4


@pytest.mark.parametrize("tells_tags", [True, False])
def test_a_file_that_changed_since_it_was_listed_is_named(hub: Hub, tmp_path: Path, tells_tags: bool) -> None:
    hub.tells_tags = tells_tags

    def put(first: int) -> int:
        table = pa.table({"id": pa.array(range(first, first + 640))})
        path = tmp_path / "a.parquet"
        pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
        hub.put_tree("owner/changing", tmp_path)
        return path.stat().st_size

    size = put(1_000)
    dataset = _opened(hub, "hf://datasets/owner/changing")
    assert put(2_000) == size
    # What was led to before is there no more, so that the hub is asked again.
    with pytest.raises(
        fr.SourceError, match=r"the object was changed .*hf://datasets/owner/changing/a\.parquet"
    ):
        _ids(dataset)


def test_a_private_repository_takes_a_token(hub: Hub, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.is_private = True
    expected = _ids(fr.ParquetDataset(tree, batch_size=64))
    endpoint = {"endpoint": hub.endpoint}
    with pytest.raises(fr.SourceError, match=r"401, RepoNotFound.*storage_options=.*token.* or HF_TOKEN"):
        _opened(hub, storage_options=endpoint)
    with pytest.raises(fr.SourceError, match="401") as raised:
        _opened(hub, storage_options={**endpoint, "token": "hf_hunter2"})
    assert "hunter2" not in str(raised.value)
    assert _ids(_opened(hub)) == expected
    asked = []

    def credentials() -> dict[str, str]:
        asked.append(1)
        return {"token": TOKEN}

    assert _ids(_opened(hub, storage_options=endpoint, credentials=credentials)) == expected
    assert asked
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setenv("HF_ENDPOINT", hub.endpoint)
    assert _ids(_opened(hub, storage_options=None)) == expected
    assert hub.leaks == 0, "the token goes to the hub alone"


def test_no_message_and_no_state_has_a_signature_or_a_token(hub: Hub) -> None:
    dataset = _opened(hub)
    got = next(iter(dataset))
    hub.repositories.clear()
    hub.expires_after = 0
    with pytest.raises(fr.SourceError, match=r"data/day=0/part-\d\.parquet") as raised:
        _ids(_dropped(dataset))
    for text in (str(raised.value), repr(dataset), repr(dataset._spec), str(got.state_dict())):
        assert "signature" not in text
        assert TOKEN not in text


def _dropped(dataset: fr.ParquetDataset) -> fr.ParquetDataset:
    """The same from its first batch on, with nothing that was read before."""
    dataset.load_state_dict(fr.ParquetDataset._of_spec(dataset._spec).state_dict())
    return dataset


def test_a_cache_keeps_files_of_the_hub(hub: Hub, tree: Path, tmp_path: Path) -> None:
    expected = _ids(fr.ParquetDataset(tree, batch_size=64))
    assert _ids(_opened(hub, cache=fr.Cache(data=tmp_path))) == expected
    hub.asked.clear()
    assert _ids(_opened(hub, cache=fr.Cache(data=tmp_path))) == expected
    assert {kind for kind, _ in hub.asked} == {"tree"}


def test_a_forked_child_and_workers_read_from_the_hub(hub: Hub, tree: Path) -> None:
    dataset = _opened(hub)
    expected = _ids(dataset)
    child = os.fork()
    if child == 0:
        is_right = False
        try:
            is_right = _ids(dataset) == expected
        finally:
            os._exit(0 if is_right else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    local = fr.ParquetDataset(tree, batch_size=64)
    with fr.Loader(_opened(hub), num_workers=2) as there, fr.Loader(local, num_workers=2) as here:
        assert [batch["id"].tolist() for batch in there] == [batch["id"].tolist() for batch in here]


def test_what_is_wrong_about_an_address_of_the_hub_is_said(hub: Hub) -> None:
    expected = r"expected as hf://datasets/owner/name, hf://datasets/owner/name@revision/path"
    for wrong in ("hf://owner/name/a.parquet", "hf://datasets/name", "hf://models/owner/name/x"):
        with pytest.raises(ValueError, match=f"names no dataset: {expected}"):
            _opened(hub, wrong)
    with pytest.raises(fr.SourceError, match=r"no object .*hf://datasets/owner/name/nothing"):
        _opened(hub, f"hf://datasets/{NAME}/nothing")
    with pytest.raises(fr.SourceError, match=r"hf://datasets/owner/none.*404, RevisionNotFound"):
        _opened(hub, "hf://datasets/owner/none")
    with pytest.raises(ValueError, match=r"has no option 'region'; it has 'token' and 'endpoint'"):
        _opened(hub, storage_options={"region": "here"})
    with pytest.raises(ValueError, match="the endpoint of the Hugging Face hub must be as"):
        _opened(hub, storage_options={"endpoint": "hub"})


def test_a_table_on_the_hub_is_refused(hub: Hub) -> None:
    files = hub.repositories[NAME, "main"]
    hub.repositories["owner/table", "main"] = {
        "tables/a/part.parquet": files["data/day=0/part-0.parquet"],
        "tables/_delta_log/00000000000000000000.json": b"{}",
    }
    for named in ("", "/tables", "/tables/a"):
        with pytest.raises(fr.DataError, match=r"ParquetDataset\('delta://hf://datasets/owner/table/tables'"):
            _opened(hub, f"hf://datasets/owner/table{named}")
    with pytest.raises(ValueError, match="not read from the hub: copy it with huggingface_hub"):
        _opened(hub, "delta://hf://datasets/owner/table/tables")
