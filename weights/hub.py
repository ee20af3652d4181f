"""Files of the Hugging Face hub: from its cache without touching the network, else by download."""
import os
from contextlib import suppress
from multiprocessing import TimeoutError as MultiprocessingTimeout
from multiprocessing.pool import ThreadPool
from pathlib import Path

from weights.errors import DownloadError, WeightsError
from weights.files import reading
from weights.registry import OFFICIAL, PUBLISHED, Repository

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


def find_file(source: Path | Repository, filename: str) -> Path:
    """Return the path of a file in a folder, where it may be missing, or else `fetch` it."""
    return fetch(source, filename) if isinstance(source, Repository) else source / filename


def first_of(source: Path | Repository, *filenames: str) -> str | None:
    """Return which of the files a folder or a repository has, the first if several; or None.

    The hub is asked only if none of them is in its cache. Raises as `fetch` does.
    """
    if isinstance(source, Path):
        with reading(source):
            return next((name for name in filenames if (source / name).exists()), None)
    for is_there in (find_in_cache, is_on_hub):
        for filename in filenames:
            if is_there(source, filename):
                return filename
    return None


def is_on_hub(repository: Repository, filename: str) -> bool:
    """Ask the hub whether there is such a file; its cache remembers that there is none.

    Raises as `fetch` does.
    """
    from huggingface_hub import _CACHED_NO_EXIST, hf_hub_download, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError

    if try_to_load_from_cache(repository.id, filename,
                              revision=repository.revision) is _CACHED_NO_EXIST:
        return False
    try:
        _wait_for_first_byte(repository, filename)
        return True
    except EntryNotFoundError:
        with suppress(EntryNotFoundError):  # which is what it writes into the cache
            hf_hub_download(repository.id, filename, revision=repository.revision)
        return False
    except Exception as error:  # as above
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

    id, revision = repository.id, repository.revision
    known = id in PUBLISHED or repository in OFFICIAL.values()
    no_folder = "" if known else f"there is no folder {id} here, and "
    page, answer = f"{constants.ENDPOINT}/{id}", getattr(error, "response", None)
    if isinstance(error, errors.GatedRepoError):
        return DownloadError(
            f"{id} is given only to those who have accepted its licence (HTTP "
            f"{getattr(answer, 'status_code', 403)}): accept it at {page}, make a token at "
            f"{constants.ENDPOINT}/settings/tokens, and put it into HF_TOKEN, or run "
            "`hf auth login`")
    if isinstance(error, (errors.RepositoryNotFoundError, errors.HFValidationError)) and not known:
        return WeightsError(f"{no_folder}no repository {id} that you may read "
                            f"at {constants.ENDPOINT}")
    if isinstance(error, errors.RevisionNotFoundError):
        return WeightsError(f"the repository {id} has no revision {revision}; see {page}/commits")
    if isinstance(error, errors.EntryNotFoundError) and answer is not None and not known:
        return WeightsError(f"the repository {id} has no {filename}")
    return DownloadError(
        f"{no_folder}{filename} of {id} could not be downloaded from "
        f"{constants.ENDPOINT} into {constants.HF_HUB_CACHE}: {_reason(error, page)}. Where the "
        f"network works, run `hf download {id} \"*.json\" \"*.txt\" \"*.safetensors\" "
        f"--revision {revision} --cache-dir hub` (also \"*.bin\" if it has no *.safetensors); "
        "copy the folder hub here, and set HF_HUB_CACHE to its path")


def _reason(error: Exception, page: str) -> str:
    """Return why a download failed, in words.

    page: the repository's, where its licence can be read.
    """
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return (f"access was refused (HTTP {status}); check your token (HF_TOKEN, or "
                f"`hf auth login`), and whether {page} asks you to accept a licence")
    if status is not None:
        return f"the hub answered HTTP {status}"
    return f"{type(error).__name__}: {str(error).rstrip('.')}"
