// Panel: what two real models say at each position of a story, and how much they agree.

import { declare } from "./address.js";
import { visible } from "./cards.js";
import { byId, clamp, element, shown } from "./dom.js";
import { sum } from "./numbers.js";
import { to_probs } from "./sampling.js";

const TOP = 12; // tokens that are shown
const CHOICES_K = [0, 1, 2, 5, 10, 20, 50, 100, 200]; // no more than are stored; 0: no limit
const CHOICES_P = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1];

declare({ position: 3, T: 1, topk: 0, topp: 1 });

export class Rows {
  title = "3 Real rows";
  keys = "← → position, space: on";

  constructor(change) {
    this.change = change;
    this.stored = JSON.parse(byId("stored-rows").textContent);
    for (const position of this.stored.positions) {
      for (const name of ["target", "draft"]) position[name] = unpacked(position[name]);
    }
    this.slider("rows-T", this.stored.temperatures, "T");
    this.slider("rows-topk", CHOICES_K, "topk");
    this.slider("rows-topp", CHOICES_P, "topp");
    this.makeStory();
  }

  slider(id, choices, field) {
    byId(id).max = choices.length - 1;
    byId(id).addEventListener("input", (event) => {
      this.change({ [field]: choices[event.target.value] });
    });
  }

  // A bar over each token: how much the models agree about the token after it.
  makeStory() {
    this.tokens = this.stored.story.map((text, i) => {
      const bar = element("i", { class: "overlap" });
      const choose = () => this.change({ position: i });
      const button = element("button", { class: "story", onclick: choose }, bar,
        element("span", {}, visible(text)));
      return { bar, button };
    });
    byId("rows-story").append(...this.tokens.map(({ button }) => button));
  }

  prepare(state) {
    state.position = clamp(Math.floor(state.position), 0, this.stored.positions.length - 1);
    state.T = nearest(this.stored.temperatures, state.T);
    state.topk = nearest(CHOICES_K, state.topk);
    state.topp = nearest(CHOICES_P, state.topp);
  }

  draw(state) {
    this.state = state;
    const key = `${state.T} ${state.topk} ${state.topp}`;
    if (this.key !== key) {
      const rows = this.stored.positions.map((_, i) => this.row(i));
      this.overlaps = rows.map(({ overlap }) => overlap);
      this.uncut = rows.map(({ uncut }) => uncut);
      this.key = key;
    }
    this.drawControls();
    this.drawStory();
    this.drawRow();
  }

  // Both distributions at a position, and their overlap, the sum of min(p, q).
  row(i, { T, topk, topp } = this.state) {
    const { ids, target, draft, rest } = this.stored.positions[i];
    const [restP, restQ, restBoth] = rest[this.stored.temperatures.indexOf(T)];
    const p = to_probs(target, restP, T, topk, topp);
    const q = to_probs(draft, restQ, T, topk, topp);
    const kept = sum(p.probs.map((px, x) => Math.min(px, q.probs[x])));
    const agreed = p.rest > 0 && q.rest > 0 ? restBoth : 0;
    const uncut = topp < 1 && p.rest + q.rest > 0; // top-p would need more than is stored
    return { ids, p: p.probs, q: q.probs, overlap: kept + agreed, uncut };
  }

  drawControls() {
    const { T, topk, topp } = this.state;
    const set = (id, choices, value, words) => {
      byId(id).value = choices.indexOf(value);
      byId(id).setAttribute("aria-valuetext", words);
      byId(`${id}-value`).textContent = words;
    };
    set("rows-T", this.stored.temperatures, T, T.toFixed(1));
    set("rows-topk", CHOICES_K, topk, topk === 0 ? "all" : `${topk}`);
    set("rows-topp", CHOICES_P, topp, topp === 1 ? "all" : `${topp}`);
  }

  drawStory() {
    this.tokens.forEach(({ bar, button }, i) => {
      bar.style.height = `${26 * this.overlaps[i]}px`;
      bar.classList.toggle("hollow", this.uncut[i]);
      button.setAttribute("aria-current", i === this.state.position);
      const label = `${this.stored.story[i]}, after it ${shown(this.overlaps[i])}`;
      button.setAttribute("aria-label", label);
    });
    const mean = sum(this.overlaps) / this.overlaps.length;
    byId("rows-mean").textContent = `Along the story Σ min(p, q) is ${shown(mean)} on average: `
      + "the share of drafted tokens that the rule keeps when their turn comes."
      + (this.uncut.includes(true)
        ? " Hollow bars: top-p needs more tokens than are stored, and cuts nothing." : "");
  }

  drawRow() {
    const { position } = this.state;
    const { ids, p, q, overlap } = this.row(position);
    const next = this.stored.story[position + 1];
    const before = this.stored.story.slice(Math.max(0, position - 5), position + 1).join("");
    byId("rows-about").replaceChildren(`After “${position > 5 ? "…" : ""}${before}”: Σ min(p, q) = `,
      element("b", { class: "good" }, shown(overlap)),
      next === undefined ? "" : `. The story goes on with “${visible(next)}”.`);
    const order = [...ids.keys()].sort((a, b) => Math.max(p[b], q[b]) - Math.max(p[a], q[a]));
    const shownOnes = order.slice(0, TOP).filter((x) => p[x] > 0 || q[x] > 0);
    const top = Math.max(...shownOnes.map((x) => Math.max(p[x], q[x])));
    byId("rows-bars").replaceChildren(...shownOnes.map((x) =>
      pairOfBars(this.stored.words[ids[x]], p[x], q[x], top)));
  }

  arrow(direction) {
    this.change({ position: this.state.position + direction });
  }

  space() {
    this.arrow(1);
  }
}

function pairOfBars(text, p, q, top) {
  const both = Math.min(p, q);
  const part = (fate, size) => (size <= 0 ? ""
    : element("div", { class: fate, style: `width:${(84 * size) / top}%` }));
  const bar = (name, value, excess) => element("div", { class: "flat" }, part("kept", both),
    part(excess, value - both), element("span", { class: name },
      value > 0 && value < 1e-4 ? " < 0.0001" : ` ${shown(value)}`));
  return element("div", { class: "pair" }, element("b", { class: "token" }, visible(text)),
    element("div", {}, bar("q", q, "thrown"), bar("p", p, "third")));
}

function nearest(choices, value) {
  const distance = (choice) => Math.abs(choice - value);
  return choices.reduce((best, choice) => (distance(choice) < distance(best) ? choice : best));
}

// float32 numbers, little-endian, in base64
function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return [...new Float32Array(bytes.buffer)];
}
