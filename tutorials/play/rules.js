// The rules of decoding/acceptance.py and decoding/proof/mistakes.py, in the same few lines and by
// the same names.
//
//   drafted  k faces (tokens)
//   q        k rows: q[i] is the distribution that drafted[i] was drawn from, or is said to be
//   p        k + 1 rows: the target's distribution at the same positions, and after them
//
// A rule returns n, how many drafted faces are kept; the one face that follows them; and u, the
// numbers that it has drawn, if any.

import { argmax, sum } from "./numbers.js";
import { are_below, draw, is_at_most, is_below, uniform } from "./random.js";

export function accept_greedy(drafted, q, p) {
  const choice = p.map(argmax);
  const n = leading(drafted.map((x, i) => x === choice[i]));
  return { n, token: choice[n] };
}

export function accept_sampled(drafted, q, p, generator) {
  const u = uniform(drafted.length, generator);
  const n = leading(are_below(u, ratios(drafted, q, p)));
  return { n, token: draw(residual(p[n], pad(q, p)[n]), generator), u };
}

export function redraw_from_p(drafted, q, p, generator) {
  const u = uniform(drafted.length, generator);
  const n = leading(are_below(u, ratios(drafted, q, p)));
  return { n, token: draw(p[n], generator), u };
}

export function softmax_residual(drafted, q, p, generator) {
  const u = uniform(drafted.length, generator);
  const n = leading(are_below(u, ratios(drafted, q, p)));
  const left = softmax(p[n].map((px, x) => Math.max(0, px - pad(q, p)[n][x])));
  return { n, token: draw(n === drafted.length ? p[n] : left, generator), u };
}

export function one_uniform_for_all(drafted, q, p, generator) {
  const u = uniform(1, generator);
  const n = leading(ratios(drafted, q, p).map((ratio) => is_below(u[0], ratio)));
  return { n, token: draw(residual(p[n], pad(q, p)[n]), generator), u };
}

export function less_or_equal(drafted, q, p, generator) {
  const u = uniform(drafted.length, generator);
  const n = leading(ratios(drafted, q, p).map((ratio, i) => is_at_most(u[i], ratio)));
  return { n, token: draw(residual(p[n], pad(q, p)[n]), generator), u };
}

// max(0, p - q), normalised; p itself where nothing is left.
export function residual(p, q) {
  const left = p.map((px, x) => Math.max(0, px - q[x]));
  const total = sum(left);
  return total > 0 ? left.map((value) => value / total) : p;
}

// How many tests were passed before the first failure.
export function leading(passed) {
  const failure = passed.indexOf(false);
  return failure === -1 ? passed.length : failure;
}

export function ratios(drafted, q, p) {
  return drafted.map((x, i) => p[i][x] / q[i][x]);
}

// After the last drafted face q = 0: there the residual is p.
export function pad(q, p) {
  return [...q, p[0].map(() => 0)];
}

export function softmax(row) {
  const weights = row.map(Math.exp);
  return weights.map((weight) => weight / sum(weights));
}

// The draft's favourite, always: a one-hot distribution.
export function greedy(row) {
  const best = argmax(row);
  return row.map((_, x) => (x === best ? 1 : 0));
}
