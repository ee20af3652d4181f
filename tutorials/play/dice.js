// A die of few faces, rolled by a rule: one roll, its exact distribution, and many rolls.

import { distribution_of } from "./enumerate.js";
import { draw } from "./random.js";
import {
  accept_sampled, greedy, less_or_equal, one_uniform_for_all, redraw_from_p, softmax_residual,
} from "./rules.js";

// drawn: the distribution that is really drawn from, where it is not the q that the rule is told.
// dice: how many are drafted in a round; the last one is looked at.
export const RULES = {
  right: { title: "the right rule", rule: accept_sampled },
  redraw: { title: "redraw from p", rule: redraw_from_p },
  softmax: { title: "softmax residual", rule: softmax_residual },
  greedy: { title: "greedy draft, soft q", rule: accept_sampled, drawn: greedy },
  "one-u": { title: "one u for all", rule: one_uniform_for_all, dice: 2 },
  leq: { title: "u ≤ p/q", rule: less_or_equal },
};

// Roll until there are as many faces as dice are drafted, and return the last of them. A round that
// ends early is followed by another one. kept: whether the face is the draft's.
export function roll({ rule, drawn = (row) => row, dice = 1 }, p, q, generator) {
  const tokens = [];
  const rounds = [];
  let kept;
  while (tokens.length < dice) {
    const k = dice - tokens.length;
    const drafted = Array.from({ length: k }, () => draw(drawn(q), generator));
    const { n, token, u } = rule(drafted, Array(k).fill(q), Array(k + 1).fill(p), generator);
    tokens.push(...drafted.slice(0, n), token);
    rounds.push({ drafted, n, token, u });
    kept = n === k;
  }
  return { face: tokens[dice - 1], kept, rounds };
}

// The exact distribution of what comes out, in its two parts: faces that were drafted and kept, and
// faces of the third die. possible: whether a face can come out at all.
export function outcome(name, p, q) {
  const result = { kept: p.map(() => 0), third: p.map(() => 0), possible: p.map(() => false) };
  const paths = distribution_of((generator) => {
    const { face, kept } = roll(RULES[name], p, q, generator);
    return `${face} ${kept ? "kept" : "third"}`;
  });
  for (const [key, probability] of paths) {
    const [face, part] = key.split(" ");
    result[part][face] += probability;
    result.possible[face] = true;
  }
  result.out = result.kept.map((value, x) => value + result.third[x]);
  return result;
}

// How often each face comes out in so many rolls.
export function count(name, p, q, generator, rolls) {
  const counts = p.map(() => 0);
  for (let i = 0; i < rolls; i += 1) counts[roll(RULES[name], p, q, generator).face] += 1;
  return counts;
}

// Half the sum of the absolute differences: the part of all rolls that shows another face.
export function total_variation(a, b) {
  return a.reduce((total, value, x) => total + Math.abs(value - b[x]), 0) / 2;
}
