// From logits to probabilities, as in decoding/sampling.py: temperature, then top-k, then top-p.

// logits: of the tokens that are stored. rest: the mass of all others at this temperature. Returns
// the stored tokens' probabilities and what is left of the others' mass.
// top_k = 0 and top_p = 1 cut nothing.
export function to_probs(logits, rest, temperature, top_k, top_p) {
  const best = Math.max(...logits);
  const weights = logits.map((logit) => Math.exp((logit - best) / temperature));
  const total = weights.reduce((all, weight) => all + weight, 0) / (1 - rest);
  let probs = weights.map((weight) => weight / total);
  let others = rest;
  if (top_k > 0) [probs, others] = keep_top_k(probs, top_k);
  if (top_p < 1) [probs, others] = keep_top_p(probs, others, top_p);
  return { probs, others };
}

// Keep exactly the k most likely tokens, renormalised. k is at most the number that is stored.
export function keep_top_k(probs, k) {
  return [keep(probs, mostLikely(probs).slice(0, k)), 0];
}

const STORED = 200; // the most likely tokens of each model that store.py keeps, KEPT there

// Keep the fewest most likely tokens whose mass reaches p. Where the stored ones do not reach it,
// nothing is cut, which the page says.
export function keep_top_p(probs, others, p) {
  const order = mostLikely(probs).slice(0, STORED);
  let mass = 0;
  let count = 0;
  while (mass < p && count < order.length) {
    mass += probs[order[count]];
    count += 1;
  }
  return mass < p ? [probs, others] : [keep(probs, order.slice(0, count)), 0];
}

function keep(probs, chosen) {
  const kept = new Set(chosen);
  const total = chosen.reduce((all, x) => all + probs[x], 0);
  return probs.map((value, x) => (kept.has(x) ? value / total : 0));
}

// Of equally likely tokens the lower ids come first.
function mostLikely(probs) {
  return [...probs.keys()].sort((a, b) => probs[b] - probs[a] || a - b);
}
