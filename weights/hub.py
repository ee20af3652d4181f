"""Files of the Hugging Face hub: from its cache without touching the network, else by download."""
import os
from multiprocessing import TimeoutError as MultiprocessingTimeout
from multiprocessing.pool import ThreadPool
from pathlib import Path

from weights.errors import DownloadError, WeightsError
from weights.registry import OFFICIAL, Repository

ANSWER_SECONDS = 8  # the longest a host may take to send the first byte


def fetch(repository: Repository, filename: str) -> Path:
    """Return the path of a file in the hub's cache (see HF_HOME), downloaded if it is not there.

    A file is in the cache only when it is complete. Raises DownloadError if it is not in the cache
    and cannot be downloaded; WeightsError if the hub answers that a repository the user named, or
    the file in it, does not exist.
    """
    # Download by plain HTTP, as _first_byte does; the other way, Xet, retries without end.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    # Imported here because that is slow, and a model that lies on the disk does not need it.
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils import logging

    logging.set_verbosity_error()  # what goes wrong is said once, below
    try:
        cached = find_in_cache(repository, filename)
        if cached is not None:
            return cached
        _wait_for_first_byte(repository, filename)
        return Path(hf_hub_download(repository.id, filename, revision=repository.revision))
    except Exception as error:  # of the hub's library, the HTTP library below it, or the disk
        raise _explain(error, repository, filename) from error


def find_in_cache(repository: Repository, filename: str) -> Path | None:
    """Return the path of a file in the hub's cache, if it is there; the network is not touched."""
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(repository.id, filename, revision=repository.revision)
    return Path(cached) if isinstance(cached, str) else None


def _wait_for_first_byte(repository: Repository, filename: str) -> None:
    """Raise whatever is in the way of a download.

    hf_hub_download itself asks a silent host again and again, for minutes. The byte is asked for in
    a thread, because looking up a host's address has no time limit of its own. The thread is a
    daemon, so no program waits for its end.
    """
    pool = ThreadPool(1)
    try:
        pool.apply_async(_first_byte, (repository, filename)).get(ANSWER_SECONDS)
    except MultiprocessingTimeout:
        raise TimeoutError(f"no answer within {ANSWER_SECONDS} seconds") from None
    finally:
        pool.close()


def _first_byte(repository: Repository, filename: str) -> None:
    """Ask for one byte of the file, along every redirection."""
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = hf_hub_url(repository.id, filename, revision=repository.revision)
    headers = {**build_hf_headers(), "Range": "bytes=0-0"}
    hf_raise_for_status(get_session().get(url, headers=headers, timeout=ANSWER_SECONDS))


def _explain(error: Exception, repository: Repository, filename: str) -> Exception:
    """Return an error that tells the user what failed, why, and how to get the file another way."""
    from huggingface_hub import constants, errors

    official = repository in OFFICIAL.values()
    unknown = isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError))
    no_folder = "" if official else f"there is no folder {repository.id} here, and "
    if unknown and not official and not isinstance(error, errors.GatedRepoError):
        return WeightsError(f"{no_folder}no repository {repository.id} that you may read "
                            f"at {constants.ENDPOINT}")
    answered = getattr(error, "response", None) is not None
    if isinstance(error, errors.EntryNotFoundError) and answered and not official:
        return WeightsError(f"the repository {repository.id} has no {filename}; "
                            "only whole safetensors files are read")
    return DownloadError(
        f"{no_folder}{filename} of {repository.id} could not be downloaded from "
        f"{constants.ENDPOINT} into {constants.HF_HUB_CACHE}: {_reason(error)}. Where the network "
        f"works, run `hf download {repository.id} config.json model.safetensors "
        f"--revision {repository.revision} --cache-dir hub`; copy the folder hub here, and set "
        "HF_HUB_CACHE to its path")


def _reason(error: Exception) -> str:
    """Return why a download failed, in words."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (f"access was refused (HTTP {status}); "
                "check your token (HF_TOKEN, or `hf auth login`)")
    if status is not None:
        return f"the hub answered HTTP {status}"
    return f"{type(error).__name__}: {str(error).rstrip('.')}"
