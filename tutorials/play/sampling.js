// From logits to probabilities, as in decoding/sampling.py: temperature, then top-k, then top-p.

import { sum } from "./numbers.js";

const STORED = 200; // the most likely tokens of each model that store.py keeps, KEPT there

// logits: of the tokens that are stored. rest: the mass of all others at this temperature. Returns
// the stored tokens' probabilities and what is left of the rest.
// top_k = 0 and top_p = 1 cut nothing.
export function to_probs(logits, rest, temperature, top_k, top_p) {
  const best = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp((logit - best) / temperature));
  const total = sum(weights) / (1 - rest);
  let probs = weights.map((weight) => weight / total);
  if (top_k > 0) [probs, rest] = keep_top_k(probs, top_k);
  if (top_p < 1) [probs, rest] = keep_top_p(probs, rest, top_p);
  return { probs, rest };
}

// Keep exactly the k most likely tokens, renormalised. k is at most the number that is stored.
function keep_top_k(probs, k) {
  return [keep(probs, mostLikely(probs).slice(0, k)), 0];
}

// Keep the fewest most likely tokens whose mass reaches p. Where the stored ones do not reach it,
// nothing is cut, which the page says.
function keep_top_p(probs, rest, p) {
  const order = mostLikely(probs).slice(0, STORED);
  let mass = 0;
  let count = 0;
  while (mass < p && count < order.length) {
    mass += probs[order[count]];
    count += 1;
  }
  return mass < p ? [probs, rest] : [keep(probs, order.slice(0, count)), 0];
}

function keep(probs, chosen) {
  const kept = new Set(chosen);
  const total = sum(chosen.map((x) => probs[x]));
  return probs.map((value, x) => (kept.has(x) ? value / total : 0));
}

// Of equally likely tokens the lower ids come first.
function mostLikely(probs) {
  return [...probs.keys()].sort((a, b) => probs[b] - probs[a] || a - b);
}
