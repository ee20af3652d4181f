"""The models that a command line can name: where they are, and which draft goes with which target.

Imports no torch.
"""
from weights.errors import WeightsError
from weights.hub import find_in_cache
from weights.registry import (
    BUNDLED,
    DRAFT_OF,
    INDEX,
    OFFICIAL,
    OFFICIAL_BYTES,
    PUBLISHED,
    WEIGHTS,
    Repository,
)

LOOKUP = "lookup"  # the name of a draft that is no model


def usual_draft(target: str) -> str:
    """Return the draft of a target of a known name, at whatever revision.

    Raises WeightsError where there is none.
    """
    name = target.partition("@")[0]
    if name not in DRAFT_OF:
        raise WeightsError(f"no draft is known for {target}; name one with --draft, "
                           "or use --mode baseline")
    return DRAFT_OF[name]


def list_models() -> str:
    """Return a line for each known name: where its weights are, how large, and its usual draft."""
    found = {name: ("bundled", (folder / WEIGHTS).stat().st_size / 1e6)
             for name, folder in BUNDLED.items()}
    for name, repository in OFFICIAL.items():
        found[name] = (where(repository, "to download"), OFFICIAL_BYTES[name] / 1e6)
    for name, (megabytes, revision, how) in PUBLISHED.items():
        found[name] = (where(Repository(name, revision), how), megabytes)
    drafts = {name: f"draft: {draft}" for name, draft in DRAFT_OF.items()}
    width = max(map(len, found))
    return "\n".join(f"{name:{width}}  {place:13}{size:>8,.0f} MB  {drafts.get(name, '')}".rstrip()
                     for name, (place, size) in found.items())


def where(repository: Repository, how: str) -> str:
    """Return whether the weights are in the hub's cache, or else how one comes by them."""
    cached = any(find_in_cache(repository, name) for name in (WEIGHTS, INDEX))
    return "in the cache" if cached else how
