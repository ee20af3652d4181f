"""Files of the Hugging Face hub: from its cache without touching the network, else by download."""
import os
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from threading import Thread

from weights.errors import DownloadError, WeightsError
from weights.registry import OFFICIAL, Repository

ANSWER_SECONDS = 10  # the longest a host may take to send the first byte


def fetch(repository: Repository, filename: str) -> Path:
    """The file's place in the hub's cache (see HF_HOME), where it is complete or not there at all.

    Raises DownloadError if it is not in the cache and cannot be downloaded; WeightsError if the hub answers that a
    repository the user named, or the file in it, does not exist.
    """
    # One way to download, the plain HTTP that `_first_byte` has tried; the other has retries that nobody can bound.
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")
    from huggingface_hub import hf_hub_download, try_to_load_from_cache  # here, because it is slow and seldom needed

    try:
        cached = try_to_load_from_cache(repository.id, filename, revision=repository.revision)
        if isinstance(cached, str):
            return Path(cached)
        _within(ANSWER_SECONDS, lambda: _first_byte(repository, filename))
        return Path(hf_hub_download(repository.id, filename, revision=repository.revision))
    except Exception as error:  # of the hub's library, the HTTP library below it (they change), or the disk
        raise _explain(error, repository, filename) from error


def _first_byte(repository: Repository, filename: str) -> None:
    """Ask for one byte of the file, along every redirection. Raises what is in the way.

    hf_hub_download itself asks a silent host again and again, for minutes.
    """
    from huggingface_hub import hf_hub_url
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status

    url = hf_hub_url(repository.id, filename, revision=repository.revision)
    headers = {**build_hf_headers(), "Range": "bytes=0-0"}
    hf_raise_for_status(get_session().get(url, headers=headers, timeout=ANSWER_SECONDS))


def _within(seconds: float, work: Callable[[], None]) -> None:
    """Run work(), or raise TimeoutError after so many seconds: looking up a host's address has no time limit of its own.

    What takes longer is left behind in a thread that does not keep the program from ending.
    """
    done: Future = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except Exception as error:
            done.set_exception(error)

    Thread(target=run, daemon=True).start()
    if done.exception(seconds) is not None:
        raise done.exception()


def _explain(error: Exception, repository: Repository, filename: str) -> Exception:
    """The one line for the user: what failed, why, and how to get the file another way."""
    from huggingface_hub import constants
    from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, HFValidationError, RepositoryNotFoundError

    official = repository in OFFICIAL.values()
    no_folder = "" if official else f"there is no folder {repository.id} here, and "
    if not official and isinstance(error, (RepositoryNotFoundError, HFValidationError)) and not isinstance(error, GatedRepoError):
        return WeightsError(f"{no_folder}no repository {repository.id} at {constants.ENDPOINT} (or it is private: set HF_TOKEN)")
    if not official and isinstance(error, EntryNotFoundError):
        return WeightsError(f"the repository {repository.id} has no {filename}; shards and .bin files are not read")
    return DownloadError(
        f"{no_folder}{filename} of {repository.id} could not be downloaded from {constants.ENDPOINT} into "
        f"{constants.HF_HUB_CACHE}: {_reason(error)}. On a machine where it works, run `hf download {repository.id} "
        f"config.json model.safetensors --revision {repository.revision} --local-dir {repository.id.split('/')[1]}`, copy "
        f"the folder here, and give ./{repository.id.split('/')[1]} as the model's name")


def _reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status in (401, 403):
        return f"access was refused (HTTP {status}); check your token (HF_TOKEN, or `hf auth login`)"
    if status is not None:
        return f"the hub answered HTTP {status}"
    return f"{type(error).__name__}: {error}"
