// Why a rule is right or wrong, said with the numbers that stand on the page.

import { fine, shown } from "./dom.js";
import { argmax, sum } from "./numbers.js";

// Return a few sentences about the face that the rule treats worst.
export function explain({ rule, p, q }, exact, names) {
  const errors = exact.out.map((value, x) => value - p[x]);
  const most = argmax(errors);
  const least = argmax(errors.map((error) => -error));
  return REASONS[rule]({
    p, q, exact, most, least, names,
    right: Math.abs(errors[most]) < 1e-9,
    rejected: 1 - sum(p.map((px, x) => Math.min(px, q[x]))),
  });
}

const REASONS = {
  right({ p, q, exact, names, rejected }) {
    if (rejected < 1e-9) return "p and q are equal: all is kept, no third die is rolled.";
    const x = argmax(p.map((px, i) => px - q[i]));
    const y = argmax(q.map((qy, i) => qy - p[i]));
    return `${names[y]} is drafted with ${shown(q[y])} and kept with p/q = ${shown(p[y] / q[y])}, `
      + `together p(${names[y]}) = ${shown(p[y])}. ${names[x]} is always kept, yet `
      + `${shown(exact.third[x])} of p(${names[x]}) is missing. p and q both sum to one, so in `
      + `total as much is missing as is rejected: ${shown(rejected)}. The third die shows just `
      + `that, max(0, p − q): ${names[x]} gets ${shown(exact.kept[x])} + ${shown(exact.third[x])} = `
      + `p(${names[x]}).`;
  },
  redraw({ p, exact, names, rejected, right, most, least }) {
    if (rejected < 1e-9) return "Nothing is rejected here, so nothing is redrawn. Drag a bar.";
    if (right) {
      return "The error is 0 here by luck: what is missing stands in the ratios of p. "
        + "Drag a bar.";
    }
    const lacks = p[most] - exact.kept[most];
    return `${names[most]}, kept with ${shown(exact.kept[most])}, `
      + (lacks < 1e-9 ? `has all of p(${names[most]}) already. ` : `lacks only ${shown(lacks)}. `)
      + `Yet each redraw from p gives it a second chance: ${shown(rejected)} · ${shown(p[most])} = `
      + `${shown(exact.third[most])} on top. ${names[least]} lacks `
      + `${fine(p[least] - exact.kept[least])} and gets only ${fine(exact.third[least])}. The `
      + "third die must show what is missing, max(0, p − q), and nothing else.";
  },
  softmax({ exact, names, right, most }) {
    if (right) return "Nothing is rejected here, so the third die is never rolled. Drag a bar.";
    return "Here the third die is a softmax of max(0, p − q): e to the power of each, divided by "
      + "their sum. That gives every face a share, also one of which nothing is missing: e to the "
      + `0 is 1. ${names[most]} gets ${shown(exact.third[most])}, more than it lacks. Right is `
      + "max(0, p − q) itself, divided by its sum.";
  },
  greedy({ p, q, exact, names, right, least }) {
    const x = argmax(q);
    if (right && q[x] > 1 - 1e-9) {
      return `q is sure of ${names[x]}: its favourite is all that it draws, and nothing is wrong. `
        + "Drag a bar.";
    }
    if (right) return "The error is 0 here by luck, with this p and q. Drag a bar.";
    return `Greedy: the draft always proposes ${names[x]}, its favourite, as if with probability `
      + `1. Yet the rule is told the q of the chart: it divides by ${shown(q[x])}, and keeps `
      + `${names[x]} with ${shown(Math.min(1, p[x] / q[x]))}. Divided by 1, that would be `
      + `p(${names[x]}) = ${shown(p[x])}. ${names[least]} is never drafted, and the third die `
      + `gives it ${shown(exact.third[least])}, not ${shown(p[least])}. `
      + "The ratio needs the very q that was drawn from.";
  },
  "one-u"({ right }) {
    const words = "Two faces are drafted in a round; what comes out and is counted here is the "
      + "second. If the first is rejected, the next round drafts the second anew, with a new u. If "
      + "it is kept, its u was small. The same u tests the second, which is then kept too often: ";
    return words
      + (right ? "but not with this p and q." : "its distribution is pulled towards q.");
  },
  leq({ p, q, names }) {
    const x = p.findIndex((px, i) => px === 0 && q[i] > 0);
    const words = "u ≤ p/q in place of u < p/q: it matters only where u = p/q exactly. Of all "
      + "numbers from 0 to 1 one has probability 0. But a computer makes u of 24 or 53 random "
      + "bits. Now and then all are 0, so that u = 0, and then ";
    return x === -1 ? `${words}a face with p = 0 is kept. Drag a p down to 0.`
      : `${words}${names[x]} is kept. Ten thousand rolls will not show it.`;
  },
};
