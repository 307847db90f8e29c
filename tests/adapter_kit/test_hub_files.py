import huggingface_hub
import pytest
from hub_cache import COMMIT, cached, empty_cache
from huggingface_hub import errors

from vlbench.adapter_kit import hub_files
from vlbench.adapter_kit.hub_files import hub_file, hub_folder
from vlbench.errors import UnknownNameError, WeightsError

LOCAL = "--model hf:./FOLDER"


@pytest.fixture
def cache(monkeypatch, tmp_path):
    return empty_cache(monkeypatch, tmp_path / "hub")


@pytest.fixture
def repository(cache, tmp_path):
    (tmp_path / "files").mkdir()
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / "files" / name).write_text("{}")
    return cached(cache, "org/name", tmp_path / "files")


def test_a_cached_file_lies_in_the_folder_of_its_commit(repository):
    assert hub_file("org/name", "config.json", "main", LOCAL) == repository / "config.json"
    assert repository.name == COMMIT


def test_a_commit_is_a_revision_too(repository):
    assert hub_file("org/name", "config.json", COMMIT, LOCAL).parent == repository


def test_a_cached_folder_is_found_by_its_revision(repository):
    assert hub_folder("org/name", ["*.json"], "main", LOCAL) == repository


@pytest.mark.usefixtures("cache")
@pytest.mark.parametrize("ask", [hub_file, hub_folder])
def test_offline_the_local_copy_is_named(ask):
    wanted = "config.json" if ask is hub_file else ["*.json"]
    message = (
        r"^org/gone, revision v2, cannot be downloaded from the hub: this run is offline; "
        r"give a local copy with --model hf:\./FOLDER$"
    )
    with pytest.raises(WeightsError, match=message):
        ask("org/gone", wanted, "v2", LOCAL)


@pytest.mark.usefixtures("cache")
def test_a_name_that_no_repository_can_have_is_refused():
    with pytest.raises(UnknownNameError, match="has no name that the hub knows"):
        hub_file("a b/c", "config.json", "main", LOCAL)


REFUSALS = {
    errors.RepositoryNotFoundError: (UnknownNameError, "the hub has none of this name, or it is"),
    errors.RevisionNotFoundError: (UnknownNameError, "is not there: no such thing"),
    errors.RemoteEntryNotFoundError: (UnknownNameError, "is not there: no such thing"),
    errors.GatedRepoError: (
        WeightsError,
        "is gated: accept its terms .* and set HF_TOKEN; or give",
    ),
    ConnectionError: (WeightsError, "cannot be downloaded from the hub: no such thing; give a"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_the_hub_answers_is_said(kind, monkeypatch):
    def refuse(*_, **__):
        # Made without a response of the library that asks, which depends on the version.
        answer = kind.__new__(kind)
        answer.args = ("no such thing",)
        raise answer

    monkeypatch.setattr(hub_files, "hub_obstacle", str)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", refuse)
    error, message = REFUSALS[kind]
    with pytest.raises(error, match=message):
        hub_file("org/name", "config.json", "main", LOCAL)
