"""The models that a command line can name: where they are, and which draft goes with which target.

Imports no torch.
"""
from weights.errors import WeightsError
from weights.hub import find_in_cache
from weights.registry import BUNDLED, DRAFT_OF, OFFICIAL, OFFICIAL_BYTES, WEIGHTS

LOOKUP = "lookup"  # the name of a draft that is no model


def usual_draft(target: str) -> str:
    """Return the draft of a target of a known name. Raises WeightsError where there is none."""
    if target not in DRAFT_OF:
        raise WeightsError(f"no draft is known for {target}; name one with --draft, "
                           "or use --mode baseline")
    return DRAFT_OF[target]


def list_models() -> str:
    """Return a line for each known name: where its weights are, how large, and its usual draft."""
    found = {name: ("bundled", (folder / WEIGHTS).stat().st_size)
             for name, folder in BUNDLED.items()}
    for name, repository in OFFICIAL.items():
        cached = find_in_cache(repository, WEIGHTS) is not None
        found[name] = ("in the cache" if cached else "to download", OFFICIAL_BYTES[name])
    drafts = {name: f"draft: {draft}" for name, draft in DRAFT_OF.items()}
    return "\n".join(f"{name:14}{where:14}{size / 1e6:>8,.0f} MB  {drafts.get(name, '')}".rstrip()
                     for name, (where, size) in found.items())
