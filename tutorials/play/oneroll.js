// One roll, slowly enough to see: the draft, each test, the third die.

import { NAMES } from "./bars.js";
import { testBar } from "./cards.js";
import { roll, RULES } from "./dice.js";
import { byId, element, shown } from "./dom.js";
import { greedy, ratios } from "./rules.js";

const PAUSE = 1100; // milliseconds between two steps

export class OneRoll {
  steps = []; // functions, the first of which is next

  // Begin a roll, or go to the next step of this one at once. done: called at its end.
  next(state, generator, done) {
    if (this.steps.length === 0) this.begin(state, generator, done);
    this.advance();
  }

  begin({ rule, p, q }, generator, done) {
    this.clear();
    const { rounds } = roll(RULES[rule], p, q, generator);
    const die = RULES[rule].drawn === greedy ? "the draft’s favourite, always" : "drawn from q";
    this.steps = rounds.flatMap((round) => stepsOf(round, p, q, die));
    this.steps.push(done);
  }

  advance() {
    clearTimeout(this.timer);
    this.steps.shift()();
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (this.steps.length > 0) this.timer = setTimeout(() => this.advance(), quick ? 0 : PAUSE);
  }

  clear() {
    byId("die-roll").replaceChildren();
    unmark();
  }

  stop() {
    clearTimeout(this.timer);
    this.steps = [];
    this.clear();
  }
}

// The steps of a round. die: the words for where its faces came from.
function stepsOf({ drafted, n, token, u }, p, q, die) {
  const chances = ratios(drafted, Array(drafted.length).fill(q), Array(drafted.length).fill(p));
  const tests = drafted.slice(0, n + 1).map((x, i) => () => {
    const number = u[Math.min(i, u.length - 1)];
    const verdict = i < n ? element("b", { class: "good" }, "✓ kept")
      : element("b", { class: "q" }, "✗ ", element("s", {}, NAMES[x]), " rejected");
    say(`${NAMES[x]}: u = ${number.toFixed(3)}, p/q = ${shown(p[x])} / ${shown(q[x])} = `
      + `${shown(chances[i])}. `, verdict, testBar(number, chances[i]));
  });
  const rejected = n < drafted.length;
  return [
    () => {
      mark("die-in", drafted);
      say("drafted ", element("b", { class: "q" }, drafted.map((x) => NAMES[x]).join(", then ")),
        ` (${die})`);
    },
    ...tests,
    () => {
      if (rejected) say("third die: ", element("b", { class: "p" }, NAMES[token]));
      mark("die-out", [rejected ? token : drafted.at(-1)]);
    },
  ];
}

function say(...words) {
  byId("die-roll").append(element("li", {}, ...words));
}

function mark(chart, faces) {
  unmark();
  for (const x of faces) byId(chart).children[x].classList.add("now");
}

function unmark() {
  for (const face of document.querySelectorAll("#die .now")) face.classList.remove("now");
}
