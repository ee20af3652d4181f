// The plain loop and the speculative one: decoding/baseline.py and decoding/speculative.py.

import { TorchGenerator } from "./mersenne.js";
import { argmax } from "./numbers.js";
import { draw } from "./random.js";
import { accept_greedy, accept_sampled } from "./rules.js";

// The ways to choose a token. Each makes a row of the logits about a position, chooses from it, and
// has the rule for drafted tokens that were chosen in this way. chance: of being chosen.
export class Greedy {
  row(logits) {
    return logits;
  }

  choose(row) {
    return argmax(row);
  }

  chance(row, x) {
    return this.choose(row) === x ? 1 : 0;
  }

  rule(drafted, q, p) {
    return accept_greedy(drafted, q, p);
  }
}

export class Sampled {
  constructor(temperature, seed) {
    this.temperature = temperature;
    this.generator = new TorchGenerator(seed);
  }

  row(logits) {
    return probabilities(logits, this.temperature);
  }

  choose(row) {
    return draw(row, this.generator);
  }

  chance(row, x) {
    return row[x];
  }

  rule(drafted, q, p) {
    return accept_sampled(drafted, q, p, this.generator);
  }
}

// Gumbel noise that belongs to a position in the text: decoding/coupling.py. The largest of
// log p + noise is a draw from p, and where draft and target see the same noise they often agree.
export class SharedNoise extends Greedy {
  noise = []; // of each position, counted from the text's first

  constructor(temperature, seed) {
    super();
    this.sampled = new Sampled(temperature, seed);
  }

  row(logits, position) {
    const p = this.sampled.row(logits);
    const sum = this.noiseOf(position, p.length).slice();
    for (let x = 0; x < p.length; x += 1) sum[x] += Math.log(p[x]);
    return sum;
  }

  // Each position has a seed, drawn in order, and its noise is made from that.
  noiseOf(position, n_vocab) {
    while (this.noise.length <= position) {
      const generator = new TorchGenerator(this.sampled.generator.seed());
      const noise = new Float64Array(n_vocab);
      for (let x = 0; x < n_vocab; x += 1) noise[x] = -Math.log(-Math.log(generator.number()));
      this.noise.push(noise);
    }
    return this.noise[position];
  }
}

// The softmax of logits / temperature.
function probabilities(logits, temperature) {
  let best = -Infinity;
  for (let x = 0; x < logits.length; x += 1) best = Math.max(best, logits[x]);
  const probs = new Float32Array(logits.length);
  let total = 0;
  for (let x = 0; x < logits.length; x += 1) {
    probs[x] = Math.exp((logits[x] - best) / temperature);
    total += probs[x];
  }
  for (let x = 0; x < logits.length; x += 1) probs[x] /= total;
  return probs;
}

// One token in each round. Prompt and text have at most `end` tokens; `eos` ends the text.
export function* autoregressive(target, way, prompt, end, eos) {
  const tokens = [...prompt];
  prefill(target, prompt);
  do {
    const start = performance.now();
    const extra = way.choose(...feed(target, way, tokens, 1));
    tokens.push(extra);
    const time = performance.now() - start;
    yield { drafted: [], accepted: 0, extra, kind: "bonus", time };
  } while (tokens.length < end && tokens.at(-1) !== eos);
}

// Up to gamma + 1 tokens in each round, which comes with its rows, and what the caches held.
export function* speculative(target, draft, way, prompt, end, eos, gamma) {
  const tokens = [...prompt];
  prefill(target, prompt);
  prefill(draft, prompt);
  do {
    const start = performance.now();
    const k = Math.min(gamma, end - tokens.length - 1); // the last token is the target's
    // draft
    const drafted = [];
    const q = [];
    for (let i = 0; i < k; i += 1) {
      q.push(...feed(draft, way, [...tokens, ...drafted], 1));
      drafted.push(way.choose(q[i]));
    }
    const draftTime = performance.now() - start;
    // verify: one pass
    const p = feed(target, way, [...tokens, ...drafted], k + 1);
    // accept, and emit
    const { n, token, u } = way.rule(drafted, q, p);
    const round = settle(drafted, n, token, eos);
    tokens.push(...emitted(round));
    // rewind: no cache keeps a rejected token
    const caches = [target, draft].map((model) => model.truncate(tokens.length - 1));
    const time = performance.now() - start;
    yield { ...round, q, p, u, caches, time, draftTime };
  } while (tokens.length < end && tokens.at(-1) !== eos);
}

// An end-of-text among the accepted ends the text: what the rule said about later ones is void.
function settle(drafted, n, token, eos) {
  const last = drafted.slice(0, n).indexOf(eos);
  if (last !== -1) return { drafted, accepted: last + 1, extra: null, kind: "none" };
  const kind = n === drafted.length ? "bonus" : "correction";
  return { drafted, accepted: n, extra: token, kind };
}

export function emitted({ drafted, accepted, extra }) {
  return [...drafted.slice(0, accepted), ...(extra === null ? [] : [extra])];
}

// Read a new prompt but its last token, which the first round feeds.
function prefill(model, prompt) {
  model.truncate(0);
  model.forward(prompt.slice(0, -1), 0);
}

// Read what the model has not read yet. Returns the last rows; one is about the token after it.
function feed(model, way, tokens, last) {
  return model.forward(tokens.slice(model.length), last)
    .map((logits, i) => way.row(logits, tokens.length - last + 1 + i));
}
