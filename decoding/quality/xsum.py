"""The test set of XSum, from the hub: 11,334 articles of the BBC, and a sentence about each.

The data set's own repository holds a script, and its articles in an archive without the splits. The
hub keeps a copy as Parquet files beside it, which is read here, at a pinned commit.
"""
import os
from pathlib import Path
from typing import Any

from decoding.quality.library import library
from weights.errors import DownloadError
from weights.hub import ANSWER_SECONDS

REPOSITORY = "EdinburghNLP/xsum"
REVISION = "5484b3547a597693f9c099954c1cd6a8192a4573"  # of the branch refs/convert/parquet
FILE = "default/xsum-test.parquet"  # 17 MB
TEMPLATE = "{document}\nTL;DR:"


def read_articles() -> list[dict[str, Any]]:
    """Return the articles: "id", "document" and "summary".

    Raises DownloadError if the file is not in the hub's cache and cannot be fetched; ValueError if
    it holds something else.
    """
    parquet = library("pyarrow.parquet")
    path = fetch()
    try:
        return parquet.read_table(path, columns=["id", "document", "summary"]).to_pylist()
    except Exception as error:  # pyarrow's own, of many kinds
        raise ValueError(f"{path} is not the test set of XSum: "
                         f"{str(error).splitlines()[0]}") from error


def fetch() -> Path:
    """Return the path of the file in the hub's cache, downloaded if it is not there."""
    os.environ.setdefault("HF_HUB_DISABLE_XET", "1")  # see weights/hub.py
    from huggingface_hub import constants, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.utils import build_hf_headers, get_session, hf_raise_for_status, logging

    logging.set_verbosity_error()
    where: Any = {"repo_type": "dataset", "revision": REVISION}
    cached = try_to_load_from_cache(REPOSITORY, FILE, **where)
    if isinstance(cached, str):
        return Path(cached)
    try:  # one byte first: hf_hub_download asks a host that does not answer again and again
        headers = {**build_hf_headers(), "Range": "bytes=0-0"}
        hf_raise_for_status(get_session().get(hf_hub_url(REPOSITORY, FILE, **where),
                                              headers=headers, timeout=ANSWER_SECONDS))
        return Path(hf_hub_download(REPOSITORY, FILE, **where))
    except Exception as error:  # of the hub's library, the HTTP library below it, or the disk
        reason = " ".join(str(error).split())[:200].rstrip(".")
        raise DownloadError(
            f"{FILE} of the data set {REPOSITORY} could not be downloaded from "
            f"{constants.ENDPOINT}: {type(error).__name__}: {reason}. Where the network works, run "
            f"`hf download {REPOSITORY} {FILE} --repo-type dataset --revision {REVISION} "
            "--cache-dir hub`; copy the folder hub here, and set HF_HUB_CACHE to its path"
        ) from error
