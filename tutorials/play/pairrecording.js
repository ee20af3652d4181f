// A run of the pair as decoding/recording.py writes one, but for the times, for the panel that
// shows such runs.

import { verdictOf } from "./pairwords.js";
import { residual } from "./rules.js";

const SHOWN = 6; // tokens of a residual

export function recordingOf({ prompt, rounds, state: { gamma, temperature, seed, coupling } }) {
  return { recording: 2, prompt, gamma, rounds, settings: {
    target: "tales-large", draft: "tales-small", temperature, seed, coupling: coupling || null } };
}

export function recordedRound(round, way, tokenizer) {
  const { drafted, accepted, extra, kind, q, p, u, caches: [target_cache, draft_cache] } = round;
  const token = (id) => recordedToken(id, tokenizer);
  const rejected = kind === "correction" && u !== undefined;
  return {
    drafted: drafted.map((id, i) => ({ ...token(id), q: way.chance(q[i], id),
      p: way.chance(p[i], id), u: u?.[i] ?? null, verdict: verdictOf(round, i) })),
    parents: null, block: false, kind,
    extra: extra === null ? null : token(extra),
    residual: rejected ? likeliest(residual(p[accepted], q[accepted]), token) : [],
    target_cache, draft_cache,
  };
}

export function recordedToken(id, tokenizer) {
  return { id, text: tokenizer.decode([id]) };
}

function likeliest(row, token) {
  const order = [...row.keys()].filter((x) => row[x] > 0).sort((a, b) => row[b] - row[a]);
  return order.slice(0, SHOWN).map((x) => ({ ...token(x), p: row[x] }));
}
