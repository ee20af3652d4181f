// The code of a rule, as the page shows it: the rule itself, and below it what it calls.

import { RULES } from "./dice.js";
import { are_below } from "./random.js";
import { greedy, leading, pad, ratios, residual, softmax } from "./rules.js";

const CALLED = [leading, are_below, ratios, residual, softmax, greedy, pad];

// Return its lines. What is drafted is no part of a rule, but may be the mistake.
export function codeOf(name) {
  const { rule, drawn } = RULES[name];
  const drafted = drawn === undefined ? []
    : [`// drafted: draw(${drawn.name}(q), generator)`, "// but the rule is told q"];
  const text = [...drafted, rule.toString()].join("\n");
  const called = CALLED.filter((one) => text.includes(`${one.name}(`));
  return [text, ...called.map((one) => one.toString())].join("\n\n").split("\n");
}
