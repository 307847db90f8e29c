"""Files of a repository on the hub, in a folder of the cache that is named after their commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from vlbench.adapter_kit.weights import hub_obstacle
from vlbench.errors import UnknownNameError, WeightsError


def hub_file(repository: str, file: str, revision: str, instead: str) -> Path:
    """Return one file, downloaded where the cache lacks it.

    Raises UnknownNameError for a repository, a revision or a file that the hub does not have, and
    WeightsError where it cannot be asked, with `instead`, the option that takes a local copy.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - reads HF_HUB_OFFLINE on import

    obstacle = hub_obstacle()
    options: dict[str, Any] = {"revision": revision, "local_files_only": bool(obstacle)}
    try:
        return Path(hf_hub_download(repository, file, **options))
    except (OSError, ValueError) as error:
        raise _refusal(error, obstacle, f"{repository}, revision {revision},", instead) from error


def hub_folder(repository: str, patterns: Sequence[str], revision: str, instead: str) -> Path:
    """Return the folder of all files that fit some patterns, downloaded where the cache lacks them.

    Raises as `hub_file` does.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - reads HF_HUB_OFFLINE on import

    obstacle = hub_obstacle()
    options: dict[str, Any] = {"revision": revision, "local_files_only": bool(obstacle)}
    try:
        return Path(snapshot_download(repository, allow_patterns=[*patterns], **options))
    except (OSError, ValueError) as error:
        raise _refusal(error, obstacle, f"{repository}, revision {revision},", instead) from error


def _refusal(
    error: Exception, obstacle: str, what: str, instead: str
) -> UnknownNameError | WeightsError:
    """Return the error for what cannot be had: the user's name for it is wrong, or it is away."""
    from huggingface_hub import errors  # noqa: PLC0415 - as above

    local = f"give a local copy with {instead}"
    if isinstance(error, errors.HFValidationError):
        return UnknownNameError(f"{what} has no name that the hub knows: {error}")
    if isinstance(error, errors.GatedRepoError):
        page = "accept its terms on its page of the hub and set HF_TOKEN"
        return WeightsError(f"{what} is gated: {page}; or {local}")
    if isinstance(error, errors.RepositoryNotFoundError):
        why = "the hub has none of this name, or it is private and HF_TOKEN does not open it"
        return UnknownNameError(f"{what} is not there: {why}")
    if isinstance(error, errors.RevisionNotFoundError | errors.RemoteEntryNotFoundError):
        return UnknownNameError(f"{what} is not there: {str(error).strip().splitlines()[-1]}")
    return WeightsError(f"{what} cannot be downloaded from the hub: {obstacle or error}; {local}")
