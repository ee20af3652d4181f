// Panel: when does it pay? The paper's formula over gamma, beside what was measured.

import { declare } from "./address.js";
import { byId, clamp, element, shown } from "./dom.js";
import { best_gamma, break_even, expected_tokens_per_round, speedup_or_one } from "./theory.js";

const MOST = 12; // of gamma
const MEASURED = [1, 2, 3, 4, 6, 8]; // the gammas of the presets

// Measured by `python -m decoding.benchmark` with tales-large and tales-small on two CPUs with two
// threads each; decoding/bench/README.md has the whole tables. alpha: the mean of accepted/tested
// over six prompts. v: of reading five tokens. speedup: for each of MEASURED.
const PRESETS = {
  "A-greedy": { title: "AMD EPYC, AVX2: greedy", alpha: 0.89, c: 0.20, v: 1.26,
    speedup: [1.22, 1.39, 1.61, 1.60, 1.70, 1.63] },
  "A-sampled": { title: "the same, temperature 1", alpha: 0.75, c: 0.20, v: 1.26,
    speedup: [1.13, 1.17, 1.27, 1.36, 1.17, 1.08] },
  "C-greedy": { title: "Intel Xeon, AVX-512: greedy", alpha: 0.88, c: 0.23, v: 1.29,
    speedup: [1.22, 1.42, 1.44, 1.43, 1.44, 1.41] },
  "C-sampled": { title: "the same, temperature 1", alpha: 0.71, c: 0.23, v: 1.29,
    speedup: [1.10, 1.15, 1.13, 1.10, 0.96, 0.83] },
};

declare({ alpha: 0.75, c: 0.20, v: 1.26 });

export class Pays {
  title = "4 When does it pay?";
  keys = "← → γ, space: next preset";

  constructor(change) {
    this.change = change;
    for (const name of ["alpha", "c", "v", "gamma"]) {
      byId(`pays-${name}`).addEventListener("input", (event) => {
        change({ [name]: Number(event.target.value) });
      });
    }
    this.buttons = Object.values(PRESETS).map(({ title, alpha, c, v }) =>
      element("button", { onclick: () => change({ alpha, c, v }) }, title));
    byId("pays-presets").append(...this.buttons);
    this.columns = Array.from({ length: MOST + 1 }, (_, gamma) => this.makeColumn(gamma));
    byId("pays-chart").append(element("div", { class: "one", id: "pays-one" }),
      ...this.columns.map(({ box }) => box));
  }

  makeColumn(gamma) {
    const [fill, dot] = ["fill", "dot"].map((name) => element("div", { class: name }));
    const value = element("div", { class: "value" });
    const bar = element("div", { class: "bar", role: "img" }, fill, dot, value);
    const box = element("div", { class: "face" }, bar, element("div", { class: "name" }, gamma));
    return { box, bar, fill, dot, value };
  }

  prepare(state) {
    state.alpha = clamp(state.alpha, 0, 1);
    state.c = clamp(state.c, 0, 1);
    state.v = clamp(state.v, 1, 3);
    state.gamma = clamp(Math.round(state.gamma), 0, MOST);
  }

  draw(state) {
    this.state = state;
    const { alpha, c, v, gamma } = state;
    const preset = Object.values(PRESETS).find((one) =>
      one.alpha === alpha && one.c === c && one.v === v);
    const speedups = this.columns.map((_, n) => speedup_or_one(alpha, n, c, v));
    const best = best_gamma(alpha, c, v, MOST);
    const top = Math.max(2, ...speedups) * 1.15;
    byId("pays-one").style.bottom = `${100 / top}%`;
    this.columns.forEach(({ box, bar, fill, dot, value }, n) => {
      const measured = preset?.speedup[MEASURED.indexOf(n)];
      fill.style.height = `${(100 * speedups[n]) / top}%`;
      fill.classList.toggle("loses", speedups[n] < 1);
      value.style.bottom = `${(100 * Math.max(speedups[n], measured ?? 0)) / top + 4}%`;
      value.textContent = `${n === best ? "★\n" : ""}${shown(speedups[n])}`;
      dot.hidden = measured === undefined;
      dot.classList.toggle("loses", measured < 1);
      dot.title = measured === undefined ? "" : `measured ${shown(measured)}`;
      dot.style.bottom = `${(100 * (measured ?? 0)) / top}%`;
      box.classList.toggle("now", n === gamma);
      bar.setAttribute("aria-label", `γ = ${n}: speed-up ${shown(speedups[n])}`
        + (measured === undefined ? "" : `, measured ${shown(measured)}`));
    });
    for (const name of ["alpha", "c", "v", "gamma"]) {
      byId(`pays-${name}`).value = state[name];
      byId(`pays-${name}-value`).textContent = name === "gamma" ? gamma : shown(state[name]);
    }
    this.buttons.forEach((button, i) => {
      button.setAttribute("aria-pressed", Object.values(PRESETS)[i] === preset);
    });
    this.drawWords(best, preset);
  }

  drawWords(best, preset) {
    const { alpha, c, v, gamma } = this.state;
    const tokens = expected_tokens_per_round(alpha, gamma);
    const cost = gamma === 0 ? 1 : gamma * c + v;
    byId("pays-round").textContent = gamma === 0
      ? "γ = 0: nothing is drafted, a round is one plain step and gives one token."
      : `γ = ${gamma}: a round costs γ·c + v = ${shown(cost)} plain steps, and gives `
        + `1 + α + … + α^γ = ${shown(tokens)} tokens: ${shown(tokens)} / ${shown(cost)} = `
        + `${shown(tokens / cost)} times as fast.`;
    byId("pays-best").textContent = best === 0
      ? "★ No γ pays: drafting costs as much as it brings, or more."
      : `★ By the formula the best γ is ${best}: ${shown(speedup_or_one(alpha, best, c, v))} times `
        + "as fast.";
    const least = gamma === 0 ? undefined : break_even(gamma, c, v);
    byId("pays-even").textContent = gamma === 0 ? ""
      : least === undefined ? `At γ = ${gamma} no α is enough: a round costs more than γ + 1 steps.`
        : `Break-even at γ = ${gamma}: with this c and v from α = ${least.toFixed(2)} on`
          + (tokens > v ? `, with this α and v up to c = ${shown((tokens - v) / gamma)}.` : ".");
    byId("pays-note").textContent = preset
      ? `Dots: measured, ${preset.speedup.map(shown).join(", ")} at γ = ${MEASURED.join(", ")}. `
        + "The formula takes one α for all positions and one v for all γ; but reading more tokens "
        + "costs more."
        + (Math.min(...preset.speedup) < 1 ? " Hollow: slower than without a draft." : "")
      : "";
  }

  arrow(direction) {
    this.change({ gamma: this.state.gamma + direction });
  }

  space() {
    const pressed = this.buttons.findIndex(({ ariaPressed }) => ariaPressed === "true");
    this.buttons[(pressed + 1) % this.buttons.length].click();
  }
}
