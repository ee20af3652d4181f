"""What must hold for every run, whatever the models, the rule and the options."""
from collections import Counter


def check_counts(g):
    """The identities that tie the numbers of a Generation together."""
    kinds = Counter(r.kind for r in g.rounds)
    assert (g.corrections, g.bonuses, g.cut) == (kinds["correction"], kinds["bonus"], kinds["none"])
    assert g.tokens == [token for r in g.rounds for token in r.emitted]
    assert g.new_tokens == len(g.tokens) == g.accepted + g.corrections + g.bonuses
    assert len(g.rounds) == g.corrections + g.bonuses + g.cut
    assert g.tested == g.accepted + g.corrections
    assert g.accepted <= g.tested <= g.drafted <= g.gamma * len(g.rounds)
    assert len(g.histogram) == g.gamma + 1 and sum(g.histogram) == len(g.rounds)
    assert sum(i * n for i, n in enumerate(g.histogram)) == g.accepted
    if g.gamma == 0:
        assert len(g.rounds) == g.bonuses == g.new_tokens and g.drafted == 0
    for r in g.rounds:
        assert r.emitted == r.drafted[: r.accepted] + ([] if r.kind == "none" else [r.extra])
        assert (r.kind == "bonus") == (r.accepted == len(r.drafted) and r.extra is not None)
        assert (r.kind == "none") == (r.extra is None)
        assert (r.finish_reason is not None) == (r is g.rounds[-1])
    assert g.cut == 0 or (g.cut == 1 and g.rounds[-1].kind == "none"
                          and g.finish_reason in ("eos", "stop"))


def check_caches(g, prompt, caches=(True, True), draft_ctx=10**9):
    """The rewind rule, round by round: what each cache held before and after."""
    L, draft_held = len(prompt), len(prompt) - 1 if len(prompt) <= draft_ctx else 0
    for r in g.rounds:
        k, target_read = len(r.drafted), L + len(r.drafted)
        if k:
            draft_held = L + k - 1  # the token drafted last is never fed
        L += len(r.emitted)
        assert r.target_cache == ((target_read, L - 1) if caches[0] else (0, 0))
        before, draft_held = draft_held, min(draft_held, L - 1)
        drafts = g.gamma > 0
        assert r.draft_cache == (((before, draft_held) if caches[1] else (0, 0)) if drafts
                                 else None)
        if k and r.kind == "bonus":
            assert draft_held == L - 2  # it catches up in its next call


def check_run(g, prompt, **cache_options):
    check_counts(g)
    check_caches(g, prompt, **cache_options)
    return g
