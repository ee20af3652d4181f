// Why a rule is right or wrong, said with the numbers that stand on the page.

import { shown } from "./dom.js";
import { sum } from "./rules.js";

// Return a few sentences about the face that the rule treats worst.
export function explain({ rule, p, q }, exact, names) {
  const errors = exact.out.map((value, x) => value - p[x]);
  const most = errors.indexOf(Math.max(...errors));
  const least = errors.indexOf(Math.min(...errors));
  return REASONS[rule]({
    p, q, exact, most, least, names,
    right: Math.abs(errors[most]) < 1e-9,
    rejected: 1 - sum(p.map((px, x) => Math.min(px, q[x]))),
  });
}

const REASONS = {
  right({ p, q, exact, names, rejected }) {
    const x = indexOfLargest(p.map((px, i) => px - q[i]));
    if (rejected < 1e-9) return "p and q are equal: all is kept, no third die is rolled.";
    return `Kept is min(p, q). Rejected, in total, is ${shown(rejected)}: as much as is missing. `
      + `The third die shows just what is missing, max(0, p − q). So ${names[x]} gets `
      + `${shown(exact.kept[x])} + ${shown(exact.third[x])} = p(${names[x]}).`;
  },
  redraw({ p, exact, names, rejected, right, most, least }) {
    if (rejected < 1e-9) return "Nothing is rejected here, so nothing is redrawn. Drag a bar.";
    if (right) {
      return "The error is 0 here by luck: what is kept stands in the ratios of p already. "
        + "Drag a bar.";
    }
    return `${names[most]} was drafted often enough: kept with ${shown(exact.kept[most])}`
      + `${exact.kept[most] > p[most] - 1e-9 ? `, it has all of p(${names[most]}) already` : ""}. `
      + `Yet each redraw from p gives it a second chance: ${shown(rejected)} · ${shown(p[most])} = `
      + `${shown(exact.third[most])} on top. ${names[least]} lacks `
      + `${shown(p[least] - exact.kept[least])} and gets only ${shown(exact.third[least])}. The `
      + "third die must show what is missing, max(0, p − q), and nothing else.";
  },
  softmax({ exact, names, right, most }) {
    if (right) return "Nothing is rejected here, so the third die is never rolled. Drag a bar.";
    return "A softmax gives every face a share, also one of which nothing is missing: "
      + `e to the 0 is 1. ${names[most]} gets ${shown(exact.third[most])} from the third die, `
      + "more than it lacks. To sum to one, divide by the sum.";
  },
  greedy({ p, q, names, right }) {
    const x = indexOfLargest(q);
    if (right && q[x] > 1 - 1e-9) {
      return `q is sure of ${names[x]}: its favourite is all that it draws, and nothing is wrong. `
        + "Drag a bar.";
    }
    if (right) return "The error is 0 here by luck, with this p and q. Drag a bar.";
    return `The draft always proposes ${names[x]}, its favourite: that die shows ${names[x]} with `
      + `probability 1. But the test divides by ${shown(q[x])}, the q of its softmax, and keeps it `
      + `with ${shown(Math.min(1, p[x] / q[x]))}. Divided by 1, it would be kept with `
      + `p(${names[x]}) = ${shown(p[x])}. The ratio needs the very q that was drawn from.`;
  },
  "one-u"({ right }) {
    const words = "Two dice are drafted, and the charts show the second. Whatever passed the first "
      + "test had a small u. The same u tests the second, which is then kept too often: ";
    return right ? `${words}but not with this p and q.` : `${words}its distribution is pulled towards q.`;
  },
  leq({ p, q, names }) {
    const x = p.findIndex((px, i) => px === 0 && q[i] > 0);
    const words = "u ≤ p/q in place of u < p/q: it matters only where u = p/q exactly, which has "
      + "probability 0. But a computer’s u is a multiple of 2 to the −24 or −53, so it is 0 "
      + "now and then, and then ";
    return x === -1 ? `${words}a face with p = 0 is kept. Drag a p down to 0.`
      : `${words}${names[x]} is kept. Ten thousand rolls will not show it.`;
  },
};

function indexOfLargest(row) {
  return row.indexOf(Math.max(...row));
}
