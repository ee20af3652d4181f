// Panel: a recorded run, round by round, in three stages each.

import { declare } from "./address.js";
import { card, cachesTable, extraCard, textOf } from "./cards.js";
import { byId, clamp, element } from "./dom.js";
import {
  depthOf, DRAFT, judgedBy, pathOf, readRecording, TARGET, textBefore, VERDICT,
} from "./recording.js";
import { treeOf } from "./tree.js";
import { about, drafting, reading, verdict } from "./words.js";

const STAGES = ["1 the draft proposes", "2 the target reads", "3 the verdict"];
const WAYS = { token: "one by one", block: "as a block", tree: "in a tree" };

declare({ by: "token", gamma: 4, round: 1, stage: DRAFT, predict: 0 });

export class Rounds {
  title = "2 Round by round";
  keys = "→ or space: on, ←: back";
  guesses = new Map(); // round -> how many of its tokens the class said will stay

  constructor(change) {
    this.change = change;
    this.keep(JSON.parse(byId("recorded-runs").textContent));
    byId("rounds-by").addEventListener("change", (event) => {
      change({ by: event.target.value, round: 1, stage: DRAFT });
    });
    byId("rounds-gamma").addEventListener("input", (event) => {
      change({ gamma: this.gammas[event.target.value], round: 1, stage: DRAFT });
    });
    byId("rounds-back").addEventListener("click", () => this.goTo(this.state.round - 1, DRAFT));
    byId("rounds-next").addEventListener("click", () => this.goTo(this.state.round + 1, DRAFT));
    byId("rounds-predict").addEventListener("change", (event) => {
      change({ predict: Number(event.target.checked) });
    });
    byId("rounds-file").addEventListener("change", (event) => this.load([...event.target.files]));
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      event.preventDefault();
      this.load([...event.dataTransfer.files]);
    });
    byId("rounds-stages").append(...STAGES.map((title, stage) =>
      element("button", { onclick: () => this.goTo(this.state.round, stage) }, title)));
  }

  // Of two recordings that are judged in the same way, with the same gamma, the later one counts.
  keep(recordings) {
    this.recordings = new Map(); // way to judge -> gamma -> recording
    for (const by of Object.keys(WAYS)) {
      const some = recordings.filter((recording) => judgedBy(recording) === by)
        .sort((a, b) => a.gamma - b.gamma);
      if (some.length > 0) {
        this.recordings.set(by, new Map(some.map((recording) => [recording.gamma, recording])));
      }
    }
    byId("rounds-by").replaceChildren(...[...this.recordings.keys()].map((by) =>
      element("option", { value: by }, WAYS[by])));
    this.guesses.clear();
  }

  // Show the recorded runs of these files instead; if one of them is none, say so, change nothing.
  async load(files) {
    if (files.length === 0) return;
    try {
      const read = async (file) => readRecording(file.name, await file.arrayBuffer());
      this.open(await Promise.all(files.map(read)));
    } catch (error) {
      this.error = error.message;
      this.change({ panel: "rounds" });
    }
  }

  open(recordings) {
    this.keep(recordings);
    this.error = "";
    this.change({ panel: "rounds", by: judgedBy(recordings[0]), gamma: recordings[0].gamma,
      round: 1, stage: DRAFT });
  }

  prepare(state) {
    if (!this.recordings.has(state.by)) [state.by] = this.recordings.keys();
    const runs = this.recordings.get(state.by);
    this.gammas = [...runs.keys()];
    if (!runs.has(state.gamma)) [state.gamma] = this.gammas;
    this.run = runs.get(state.gamma);
    state.round = clamp(Math.floor(state.round), 1, this.run.rounds.length);
    state.stage = clamp(Math.floor(state.stage), 0, STAGES.length - 1);
    state.predict = state.predict ? 1 : 0;
  }

  draw(state) {
    this.state = state;
    const { round: number, stage } = state;
    const run = this.run;
    const round = run.rounds[number - 1];
    this.drawControls(run);
    const decided = stage === VERDICT;
    byId("rounds-text").replaceChildren(...textOf(textBefore(run, decided ? number : number - 1)));
    byId("rounds-cards").replaceChildren(...round.parents === null ? chainOf(round, stage)
      : [treeOf(round, stage)]);
    byId("rounds-said").replaceChildren(...this.words(round));
    const before = textBefore(run, number - 1);
    byId("rounds-caches").replaceChildren(...cachesTable(before, round, stage));
    if (decided) this.scrollText();
  }

  drawControls(run) {
    const { by, gamma, round, stage, predict } = this.state;
    for (const way of Object.keys(WAYS)) byId(`rounds-${way}`).hidden = way !== by;
    byId("rounds-by").value = by;
    byId("rounds-by").disabled = this.recordings.size === 1;
    const slider = byId("rounds-gamma");
    slider.max = this.gammas.length - 1;
    slider.value = this.gammas.indexOf(gamma);
    slider.disabled = this.gammas.length === 1;
    slider.setAttribute("aria-valuetext", gamma);
    byId("rounds-gamma-value").textContent = gamma;
    byId("rounds-number").textContent = `round ${round} of ${run.rounds.length}`;
    byId("rounds-back").disabled = round === 1;
    byId("rounds-next").disabled = round === run.rounds.length;
    byId("rounds-predict").checked = predict === 1;
    byId("rounds-about").textContent = this.error || about(run);
    byId("rounds-about").classList.toggle("error", Boolean(this.error));
    [...byId("rounds-stages").children].forEach((button, i) => {
      button.setAttribute("aria-pressed", i === stage);
    });
  }

  words(round) {
    const { stage, predict } = this.state;
    if (round.drafted.length === 0 || stage === DRAFT) return [drafting(round)];
    if (stage === TARGET) return predict ? this.question(round) : [reading(round)];
    if (!predict || !this.guesses.has(round)) return [verdict(round)];
    const guess = this.guesses.get(round);
    return [verdict(round), " ", element("b", {}, guess === pathOf(round).length
      ? `You said ${guess}: right.` : `You said ${guess}.`), ` ${this.score()}`];
  }

  question(round) {
    const choice = (n) => element("button", { "aria-pressed": this.guesses.get(round) === n,
      onclick: () => {
        this.guesses.set(round, n);
        this.change({ stage: VERDICT });
      } }, n);
    return [element("b", {}, "How many of them stay? "),
      ...Array.from({ length: depthOf(round) + 1 }, (_, n) => [choice(n), " "]).flat()];
  }

  score() {
    const right = [...this.guesses].filter(([round, guess]) => guess === pathOf(round).length);
    return `${right.length} of ${this.guesses.size} right so far.`;
  }

  // Where the class predicts, the verdict comes after its answer.
  goTo(number, stage) {
    this.error = "";
    const round = this.run.rounds[number - 1];
    const open = this.state.predict === 1 && round.drafted.length > 0 && !this.guesses.has(round);
    this.change({ round: number, stage: open ? Math.min(stage, TARGET) : stage });
  }

  arrow(direction) {
    const { round, stage } = this.state;
    const at = (round - 1) * STAGES.length + stage + direction;
    const end = this.run.rounds.length * STAGES.length - 1;
    const to = clamp(at, 0, end);
    this.goTo(Math.floor(to / STAGES.length) + 1, to % STAGES.length);
  }

  space() {
    this.arrow(1);
  }

  scrollText() {
    const box = byId("rounds-text");
    box.scrollTop = box.scrollHeight;
  }
}

function chainOf(round, stage) {
  const cards = round.drafted.map((token) => card(token, stage));
  return stage !== VERDICT || round.extra === null ? cards : [...cards, extraCard(round)];
}
