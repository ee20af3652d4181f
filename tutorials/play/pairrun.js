// What the pair is asked to write, and the two loops that do it.

import { autoregressive, Greedy, Sampled, SharedNoise, speculative } from "./loops.js";

export const NEW_TOKENS = 100; // of a run, at most

// The prompt's ids. Throws an Error with one sentence where they are too many.
export function promptIds({ "tales-large": { config: { n_ctx } }, tokenizer }, prompt) {
  const ids = prompt.length > n_ctx * tokenizer.longest ? [] : tokenizer.prompt(prompt);
  if (ids.length > 0 && ids.length <= n_ctx) return ids;
  throw new Error(`The prompt is longer than the models’ context, ${n_ctx} tokens; shorten it.`);
}

// Each loop with its name, and the way in which it chooses tokens.
export function loopsOf(pair, ids, { gamma, temperature, seed, coupling }) {
  const { "tales-large": target, "tales-small": draft, tokenizer: { end: eos } } = pair;
  const end = Math.min(ids.length + NEW_TOKENS, target.config.n_ctx + 1);
  const ways = Array.from({ length: 2 }, () => (temperature === 0 ? new Greedy()
    : coupling === "gumbel" ? new SharedNoise(temperature, seed)
    : new Sampled(temperature, seed)));
  return [
    ["speculative", ways[0], speculative(target, draft, ways[0], ids, end, eos, gamma)],
    ["plain", ways[1], autoregressive(target, ways[1], ids, end, eos)],
  ];
}

// The first passes of a page are slow, until the browser has compiled what it runs.
export async function warmUp({ "tales-large": target, "tales-small": draft }) {
  for (const T of [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]) {
    for (const model of [target, draft]) {
      model.truncate(0);
      model.forward(Array(T).fill(0), T);
    }
    await pause();
  }
}

// Let the browser draw, and hear what is clicked.
export function pause() {
  return new Promise((done) => { setTimeout(done); });
}
