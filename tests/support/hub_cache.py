"""Repositories in a cache of the hub, written as huggingface_hub keeps them."""

from pathlib import Path

import huggingface_hub

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def empty_cache(monkeypatch, folder):
    """Let the hub's libraries read a folder as their cache, and nothing from the hub."""
    import transformers

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(transformers.utils.hub.constants, "HF_HUB_CACHE", str(folder))
    return folder


def damaged(cache, repository):
    """Write a file that is not what its name, a digest, says to a cache, and return it."""
    blob = Path(cache, repository, "blobs", "0" * 64)
    blob.parent.mkdir(parents=True)
    blob.write_bytes(b"changed")
    return blob


def cached(cache, repository, source, commit=COMMIT, branch="main"):
    """Copy a folder's files into a cache, as a commit of a repository that a branch is at."""
    place = Path(cache, f"models--{repository.replace('/', '--')}")
    (place / "refs").mkdir(parents=True, exist_ok=True)
    (place / "refs" / branch).write_text(commit)
    snapshot = place / "snapshots" / commit
    snapshot.mkdir(parents=True)
    for file in Path(source).iterdir():
        (snapshot / file.name).write_bytes(file.read_bytes())
    return snapshot
