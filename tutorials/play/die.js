// Panel 1: two dice one can drag, a rule one can change, and what comes out.

import { declare } from "./address.js";
import { Bars, FEW, NAMES } from "./bars.js";
import { codeOf } from "./code.js";
import { count, outcome, RULES, total_variation } from "./dice.js";
import { byId, clamp, element, percent, shown, unbroken } from "./dom.js";
import { sum } from "./numbers.js";
import { OneRoll } from "./oneroll.js";
import { Mulberry } from "./random.js";
import { explain } from "./why.js";

const MANY = 10000;
const MOST_ROLLS = 1e6;

declare({ rule: "right", p: [0.4, 0.3, 0.2, 0.1], q: [0.2, 0.5, 0.1, 0.2], rolls: 0, dieseed: 1 });

export class Die {
  title = "1 The die";
  keys = "← → rule, space rolls one";
  bars = new Bars((name, x, wanted) => this.setBar(name, x, wanted));
  oneRoll = new OneRoll();

  constructor(change) {
    this.change = change; // change({ field: value, .. }) alters the state, and draws anew
    this.makeRules();
    byId("die-one").addEventListener("click", () => this.space());
    byId("die-many").addEventListener("click", () => this.rollMany());
    byId("die-reset").addEventListener("click", () => this.clear());
    byId("die-faces").addEventListener("change", (event) => this.setFaces(event.target.value));
  }

  makeRules() {
    for (const [value, { title }] of Object.entries(RULES)) {
      const input = element("input", { type: "radio", name: "rule", value });
      input.addEventListener("change", () => this.setRule(value));
      byId("die-rules").append(element("label", {}, input, title));
    }
  }

  // What the address says, made fit: as many faces in q as in p, 3 to 8, both summing to one.
  prepare(state) {
    if (!Object.hasOwn(RULES, state.rule)) state.rule = "right";
    const faces = clamp(Math.min(state.p.length, state.q.length), 3, NAMES.length);
    for (const name of ["p", "q"]) state[name] = normalised(state[name], faces);
    state.rolls = clamp(Math.floor(state.rolls), 0, MOST_ROLLS);
  }

  draw(state) {
    this.state = state;
    this.exact = outcome(state.rule, state.p, state.q);
    byId("die-rules").querySelector(`[value="${state.rule}"]`).checked = true;
    byId("die-faces").value = state.p.length;
    for (const name of ["one", "many"]) byId(`die-${name}`).disabled = state.rolls === MOST_ROLLS;
    byId("die-code").replaceChildren(...codeOf(state.rule).map((line) => element("div", {}, line)));
    this.countRolls();
    this.bars.draw(state, this.exact, this.counted);
    this.drawWords();
  }

  // The counts of all rolls so far follow from a seed, so that an address shows them again.
  countRolls() {
    const { rule, p, q, dieseed, rolls } = this.state;
    const key = `${rule} ${p} ${q} ${dieseed}`;
    if (this.counted?.key !== key || this.counted.rolls > rolls) {
      this.oneRoll.stop();
      const generator = new Mulberry(dieseed);
      this.counted = { key, rolls: 0, counts: p.map(() => 0), generator };
    }
    const news = count(rule, p, q, this.counted.generator, rolls - this.counted.rolls);
    this.counted.counts = this.counted.counts.map((n, x) => n + news[x]);
    this.counted.rolls = rolls;
  }

  // One face gets this probability; the others share the rest as they did before.
  setBar(name, x, wanted) {
    const value = clamp(Math.round(100 * wanted) / 100, 0, 1);
    const row = this.state[name];
    const others = 1 - row[x];
    const rest = row.map((old) => (others > 1e-9 ? old / others : 1 / (row.length - 1)));
    const changed = rest.map((share, y) => (y === x ? value : share * (1 - value)));
    this.change({ [name]: changed.map((share) => Number(share.toFixed(4))), rolls: 0 });
  }

  setFaces(text) {
    const n = clamp(Math.round(Number(text)) || 4, 3, NAMES.length);
    const resized = (row) => {
      const longer = [...row, ...Array(NAMES.length).fill(0.5 / n)].slice(0, n);
      return longer.map((value) => Number((value / (sum(longer) || 1)).toFixed(4)));
    };
    this.change({ p: resized(this.state.p), q: resized(this.state.q), rolls: 0 });
  }

  setRule(rule) {
    this.change({ rule, rolls: 0 });
  }

  rollMany() {
    this.oneRoll.stop();
    this.change({ rolls: this.state.rolls + MANY });
  }

  clear() {
    this.change({ rolls: 0, dieseed: this.state.dieseed + 1 });
  }

  drawWords() {
    const { state, exact, counted } = this;
    const error = total_variation(exact.out, state.p);
    const forbidden = state.p.findIndex((px, x) => px === 0 && exact.possible[x]);
    byId("die-verdict").textContent = forbidden !== -1 && error < 1e-9
      ? `✗ p forbids ${NAMES[forbidden]}, yet it can come out: where u is 0. The exact error, 0, `
        + "does not show that."
      : error < 1e-9 ? "✓ The exact error is 0: what comes out is p."
      : `✗ Not p. The exact error is ${error.toPrecision(3)}: at least ${percent(error)} of all `
        + "rolls would have to show another face.";
    byId("die-why").textContent = unbroken(explain(state, exact, NAMES));
    byId("die-count").textContent = counted.rolls === 0
      ? (error < 1e-9 ? agreement(state) : summed(exact.out, state.p))
      : counted.rolls < FEW
        ? `rolled: ${counted.counts.map((n, x) => `${NAMES[x]} ${n}`).join(", ")}`
        : describe(counted, state.p, exact.out);
  }

  arrow(direction) {
    const names = Object.keys(RULES);
    const next = names.indexOf(this.state.rule) + direction;
    this.setRule(names[(next + names.length) % names.length]);
  }

  space() {
    if (this.state.rolls === MOST_ROLLS) return;
    const next = new Mulberry(this.counted.generator.state); // the roll that is counted next
    this.oneRoll.next(this.state, next, () => this.change({ rolls: this.state.rolls + 1 }));
  }
}

function describe({ rolls, counts }, p, out) {
  const rolled = counts.map((n) => n / rolls);
  return `Frequencies of ${rolls.toLocaleString("en")} rolls: `
    + `${total_variation(rolled, p).toFixed(4)} from p (half the sum of all differences), `
    + `${total_variation(rolled, out).toFixed(4)} from what this rule gives.`;
}

function agreement({ p, q }) {
  return `α = Σ min(p, q) = ${shown(sum(p.map((px, x) => Math.min(px, q[x]))))} is the part of all `
    + "drafted faces that the right rule keeps.";
}

// How the error comes about.
function summed(out, p) {
  const parts = out.map((value, x) => shown(Math.abs(value - p[x])));
  return `The error is half the sum of all differences from p: (${parts.join(" + ")}) / 2.`;
}

function normalised(row, n) {
  const cut = [...row, ...Array(n).fill(0)].slice(0, n);
  const total = sum(cut);
  return total > 0 ? cut.map((value) => value / total) : cut.map(() => 1 / n);
}
