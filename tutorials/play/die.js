// Panel 1: two dice one can drag, a rule one can change, and what comes out.

import { declare } from "./address.js";
import { testBar } from "./cards.js";
import { count, outcome, roll, RULES, total_variation } from "./dice.js";
import { byId, clamp, element, percent, shown } from "./dom.js";
import { SeededGenerator } from "./random.js";
import { greedy, ratios, sum } from "./rules.js";
import { explain } from "./why.js";

const MANY = 10000;
const FEW = 100; // rolls; below that they are listed, not drawn
const MOST_ROLLS = 1e6;
const PAUSE = 1100; // milliseconds between the steps of one roll
const NAMES = "ABCDEFGH";

declare({ rule: "right", p: [0.4, 0.3, 0.2, 0.1], q: [0.2, 0.5, 0.1, 0.2], rolls: 0, seed: 1 });

export class Die {
  title = "1 The die";
  keys = "← → rule, space rolls one";
  steps = []; // of a roll that is being shown: functions, the first of which is next

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
    if (!(state.rule in RULES)) state.rule = "right";
    const faces = clamp(Math.min(state.p.length, state.q.length), 3, NAMES.length);
    for (const name of ["p", "q"]) state[name] = normalised(state[name], faces);
    state.rolls = clamp(Math.floor(state.rolls), 0, MOST_ROLLS);
  }

  draw(state) {
    this.state = state;
    const faces = state.p.length;
    if (this.faces?.length !== faces) this.makeFaces(faces);
    if (!this.dragging) this.top = Math.max(...state.p, ...state.q) > 0.55 ? 1 : 0.6;
    this.exact = outcome(state.rule, state.p, state.q);
    byId("die-rules").querySelector(`[value="${state.rule}"]`).checked = true;
    byId("die-faces").value = faces;
    byId("die-code").textContent = RULES[state.rule].rule.toString();
    this.countRolls();
    this.faces.forEach((face, x) => this.drawFace(face, x));
    this.drawWords();
  }

  // The counts of all rolls so far follow from the seed, so that an address shows them again.
  countRolls() {
    const { rule, p, q, seed, rolls } = this.state;
    const key = `${rule} ${p} ${q} ${seed}`;
    if (this.counted?.key !== key || this.counted.rolls > rolls) {
      this.counted = { key, rolls: 0, counts: p.map(() => 0), generator: new SeededGenerator(seed) };
    }
    const news = count(rule, p, q, this.counted.generator, rolls - this.counted.rolls);
    this.counted.counts = this.counted.counts.map((n, x) => n + news[x]);
    this.counted.rolls = rolls;
  }

  makeFaces(n) {
    this.faces = Array.from({ length: n }, (_, x) => ({
      q: this.makeBar("q", x), p: this.makeBar("p", x),
      out: { box: element("div", { class: "bar" }), kept: element("div", { class: "kept" }),
        third: element("div", { class: "third" }), line: element("div", { class: "line" }),
        dot: element("div", { class: "dot" }), value: element("div", { class: "value" }) },
    }));
    const columns = (boxes) => boxes.map((box, x) =>
      element("div", { class: "face" }, ...box, element("div", { class: "name" }, NAMES[x])));
    byId("die-in").replaceChildren(...columns(this.faces.map(({ q, p }) => [q.box, p.box])));
    for (const { out } of this.faces) out.box.append(out.kept, out.third, out.line, out.dot, out.value);
    byId("die-out").replaceChildren(...columns(this.faces.map(({ out }) => [out.box])));
  }

  makeBar(name, x) {
    const box = element("div", { class: `bar ${name}bar`, role: "slider", tabindex: 0,
      "aria-valuemin": 0, "aria-valuemax": 1, "aria-label": `${name} of face ${NAMES[x]}`,
      "aria-orientation": "vertical" });
    const bar = { box, kept: element("div", { class: "kept" }),
      rest: element("div", { class: name === "q" ? "thrown" : "third" }),
      value: element("div", { class: "value" }) };
    box.append(bar.kept, bar.rest, bar.value);
    box.addEventListener("pointerdown", (event) => this.startDrag(event, name, x));
    box.addEventListener("pointermove", (event) => this.drag(event, name, x));
    box.addEventListener("pointerup", () => this.endDrag());
    box.addEventListener("pointercancel", () => this.endDrag());
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 0.01, ArrowDown: -0.01, PageUp: 0.1, PageDown: -0.1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.setBar(name, x, this.state[name][x] + step);
    });
    return bar;
  }

  startDrag(event, name, x) {
    this.dragging = true;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.drag(event, name, x);
  }

  drag(event, name, x) {
    if (!this.dragging) return;
    const { bottom, height } = event.currentTarget.getBoundingClientRect();
    this.setBar(name, x, ((bottom - event.clientY) / height) * this.top);
  }

  endDrag() {
    this.dragging = false;
    this.change({});
  }

  // One face gets this probability; the others share the rest as they did before.
  setBar(name, x, wanted) {
    const value = clamp(Math.round(100 * wanted) / 100, 0, 1);
    const row = this.state[name];
    const others = 1 - row[x];
    const rest = row.map((old) => (others > 1e-9 ? old / others : 1 / (row.length - 1)));
    const changed = rest.map((share, y) => (y === x ? value : share * (1 - value)));
    this.stop();
    this.change({ [name]: changed.map((share) => Number(share.toFixed(4))), rolls: 0 });
  }

  setFaces(text) {
    const n = clamp(Math.round(Number(text)) || 4, 3, NAMES.length);
    const resized = (row) => {
      const longer = [...row, ...Array(NAMES.length).fill(0.5 / n)].slice(0, n);
      return longer.map((value) => Number((value / (sum(longer) || 1)).toFixed(4)));
    };
    this.stop();
    this.change({ p: resized(this.state.p), q: resized(this.state.q), rolls: 0 });
  }

  setRule(rule) {
    this.stop();
    this.change({ rule, rolls: 0 });
  }

  rollMany() {
    this.stop();
    this.change({ rolls: this.state.rolls + MANY });
  }

  clear() {
    this.stop();
    this.change({ rolls: 0, seed: this.state.seed + 1 });
  }

  drawFace({ q, p, out }, x) {
    const { exact, state } = this;
    const agreed = Math.min(state.p[x], state.q[x]);
    for (const [bar, value, rest] of [[q, state.q[x], "rejected"], [p, state.p[x], "missing"]]) {
      this.place(bar.kept, 0, agreed);
      this.place(bar.rest, agreed, value - agreed);
      this.place(bar.value, value, 0);
      bar.value.textContent = shown(value);
      bar.box.setAttribute("aria-valuenow", Number(value.toFixed(4)));
      bar.box.setAttribute("aria-valuetext", `${shown(value)}, of which ${shown(agreed)} in both, `
        + `${shown(value - agreed)} ${rest}`);
    }
    const total = exact.out[x];
    const enough = this.counted.rolls >= FEW;
    const frequency = enough ? Math.min(this.counted.counts[x] / this.counted.rolls, this.top) : 0;
    this.place(out.kept, 0, exact.kept[x]);
    this.place(out.third, exact.kept[x], exact.third[x]);
    this.place(out.line, state.p[x], 0);
    out.dot.hidden = !enough;
    this.place(out.dot, frequency, 0);
    this.place(out.value, Math.max(total, state.p[x], frequency) + 0.03 * this.top, 0);
    const error = total - state.p[x];
    const wrong = Math.abs(error) >= 5e-7;
    const sign = error > 0 ? "+" : "−";
    out.value.textContent = shown(total) + (wrong ? `\n${sign}${shown(Math.abs(error))}` : "");
    out.value.classList.toggle("wrong", wrong);
    out.box.setAttribute("role", "img");
    out.box.setAttribute("aria-label", `face ${NAMES[x]} comes out with ${shown(total)}, wanted `
      + `${shown(state.p[x])}; kept ${shown(exact.kept[x])}, third die ${shown(exact.third[x])}`);
  }

  place(part, from, height) {
    part.style.bottom = `${(100 * from) / this.top}%`;
    if (height > 0 || part.className === "kept" || part.className === "thrown"
        || part.className === "third") {
      part.style.height = `${(100 * height) / this.top}%`;
      part.hidden = height <= 0;
    }
  }

  drawWords() {
    const { state, exact, counted } = this;
    const error = total_variation(exact.out, state.p);
    byId("die-verdict").textContent = error < 1e-9
      ? "✓ The exact error is 0: what comes out is p."
      : `✗ Not p. The exact error is ${error.toPrecision(3)}: at least ${percent(error)} of all rolls `
        + "would have to show another face.";
    byId("die-why").textContent = explain(state, exact, NAMES);
    byId("die-count").textContent = counted.rolls === 0
      ? `α = Σ min(p, q) = ${shown(sum(state.p.map((px, x) => Math.min(px, state.q[x]))))} `
        + "is the part of all drafted faces that the right rule keeps."
      : counted.rolls < FEW ? `rolled: ${counted.counts.map((n, x) => `${NAMES[x]} ${n}`).join(", ")}`
        : describe(counted, state.p, exact.out);
  }

  arrow(direction) {
    const names = Object.keys(RULES);
    const next = names.indexOf(this.state.rule) + direction;
    this.setRule(names[(next + names.length) % names.length]);
  }

  // Begin a roll, or go to its next step at once.
  space() {
    if (this.steps.length === 0) this.begin();
    else this.advance();
  }

  begin() {
    const { rule, p, q } = this.state;
    this.clearList();
    const generator = new SeededGenerator(0);
    generator.state = this.counted.generator.state; // the roll that will be counted next
    const { rounds } = roll(RULES[rule], p, q, generator);
    const die = RULES[rule].drawn === greedy ? "the draft’s favourite, always" : "drawn from q";
    this.steps = rounds.flatMap((round) => this.stepsOf(round, die));
    this.steps.push(() => this.change({ rolls: this.state.rolls + 1 }));
    this.advance();
  }

  stepsOf({ drafted, n, token, u }, die) {
    const { p, q } = this.state;
    const tested = drafted.slice(0, n + 1);
    const chances = ratios(tested, Array(tested.length).fill(q), Array(tested.length).fill(p));
    const tests = tested.map((x, i) => () => {
      const number = u[Math.min(i, u.length - 1)];
      this.say(element("span", {}, `${NAMES[x]}: u = ${number.toFixed(3)}, p/q = ${shown(p[x])} / `
        + `${shown(q[x])} = ${shown(chances[i])}. `, i < n ? element("b", { class: "good" }, "✓ kept")
        : element("b", { class: "q" }, "✗ ", element("s", {}, NAMES[x]), " rejected"), testBar(number, chances[i])));
    });
    const steps = [() => {
      this.mark("die-in", drafted);
      this.say(element("span", {}, "drafted ", element("b", { class: "q" },
        drafted.map((x) => NAMES[x]).join(", then ")), ` (${die})`));
    }, ...tests];
    const what = n < drafted.length ? "third die" : drafted.length > 1 ? "all kept; bonus from p" : null;
    if (n < drafted.length) {
      steps.push(() => this.say(element("span", {}, `${what}: `, element("b", { class: "p" }, NAMES[token]))));
    }
    steps.push(() => this.mark("die-out", n < drafted.length ? [token] : [drafted.at(-1)]));
    return steps;
  }

  say(words) {
    byId("die-roll").append(element("li", {}, words));
  }

  mark(chart, faces) {
    this.unmark();
    for (const x of faces) byId(chart).children[x].classList.add("now");
  }

  unmark() {
    for (const face of document.querySelectorAll("#die .now")) face.classList.remove("now");
  }

  advance() {
    clearTimeout(this.timer);
    this.steps.shift()();
    const quick = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (this.steps.length > 0) this.timer = setTimeout(() => this.advance(), quick ? 0 : PAUSE);
  }

  clearList() {
    byId("die-roll").replaceChildren();
    this.unmark();
  }

  stop() {
    clearTimeout(this.timer);
    this.steps = [];
    this.clearList();
  }
}

function describe({ rolls, counts }, p, out) {
  const rolled = counts.map((n) => n / rolls);
  return `${rolls.toLocaleString("en")} rolls are ${total_variation(rolled, p).toFixed(4)} from p, and `
    + `${total_variation(rolled, out).toFixed(4)} from what this rule gives.`;
}

function normalised(row, n) {
  const cut = [...row, ...Array(n).fill(0)].slice(0, n);
  const total = sum(cut);
  return total > 0 ? cut.map((value) => value / total) : cut.map(() => 1 / n);
}
