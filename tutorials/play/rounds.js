// Panel: a recorded run, round by round, in three stages each.

import { declare } from "./address.js";
import { card, cachesTable, extraCard, textOf } from "./cards.js";
import { byId, clamp, element } from "./dom.js";
import { fateOf, readRecording, textBefore } from "./recording.js";

const STAGES = ["1 the draft proposes", "2 the target reads", "3 the verdict"];

declare({ gamma: 4, round: 1, stage: 0, predict: 0 });

export class Rounds {
  title = "2 Round by round";
  keys = "→ or space: on, ←: back";
  guesses = new Map(); // "gamma round" -> how many tokens the class said will stay

  constructor(change) {
    this.change = change;
    this.keep(JSON.parse(byId("recorded-runs").textContent));
    byId("rounds-gamma").addEventListener("input", (event) => {
      change({ gamma: this.gammas[event.target.value], round: 1, stage: 0 });
    });
    byId("rounds-back").addEventListener("click", () => this.goTo(this.state.round - 1, 0));
    byId("rounds-next").addEventListener("click", () => this.goTo(this.state.round + 1, 0));
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

  // Of two recordings with the same gamma the later one counts.
  keep(recordings) {
    this.recordings = new Map(recordings.map((recording) => [recording.gamma, recording]));
    this.gammas = [...this.recordings.keys()].sort((a, b) => a - b);
    this.guesses.clear();
  }

  // Show the recorded runs of these files instead; if one of them is none, say so, change nothing.
  async load(files) {
    if (files.length === 0) return;
    try {
      const read = async (file) => readRecording(file.name, await file.text());
      this.keep(await Promise.all(files.map(read)));
      this.error = "";
      this.change({ panel: "rounds", gamma: this.gammas[0], round: 1, stage: 0 });
    } catch (error) {
      this.error = error.message;
      this.change({ panel: "rounds" });
    }
  }

  prepare(state) {
    if (!this.recordings.has(state.gamma)) state.gamma = this.gammas[0];
    const { rounds } = this.recordings.get(state.gamma);
    state.round = clamp(Math.floor(state.round), 1, rounds.length);
    state.stage = clamp(Math.floor(state.stage), 0, STAGES.length - 1);
    state.predict = state.predict ? 1 : 0;
  }

  draw(state) {
    this.state = state;
    const { gamma, round: number, stage, predict } = state;
    const run = this.recordings.get(gamma);
    const round = run.rounds[number - 1];
    this.drawControls(run);
    const decided = stage === STAGES.length - 1;
    byId("rounds-text").replaceChildren(...textOf(textBefore(run, decided ? number : number - 1)));
    const cards = round.drafted.map((token, i) => card(token, fateOf(round, i), stage));
    if (decided && round.extra !== null) cards.push(extraCard(round));
    byId("rounds-cards").replaceChildren(...cards);
    byId("rounds-said").replaceChildren(...this.words(round, stage, predict));
    const before = textBefore(run, number - 1);
    byId("rounds-caches").replaceChildren(...cachesTable(before, round, stage));
    if (decided) this.scrollText();
  }

  drawControls(run) {
    const { gamma, round, stage, predict } = this.state;
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

  words(round, stage, predict) {
    const k = round.drafted.length;
    if (k === 0) return ["Nothing is drafted in this round: the target adds the last token alone."];
    if (stage === 0) return [`The draft has read its own tokens one by one: ${k} small steps.`];
    const key = `${this.state.gamma} ${this.state.round}`;
    if (stage === 1) return predict ? this.question(k, key) : [
      `One pass of the target gives p at all ${k + 1} positions. u is not drawn yet: each token `
      + "stays with probability min(1, p/q), if all before it do."];
    const verdict = `${round.accepted} of ${k} stay${fateWords(round)} `;
    if (!predict || !this.guesses.has(key)) return [verdict];
    const guess = this.guesses.get(key);
    return [verdict, element("b", {}, guess === round.accepted ? `You said ${guess}: right.`
      : `You said ${guess}.`), ` ${this.score()}`];
  }

  question(k, key) {
    const choice = (n) => element("button", { "aria-pressed": this.guesses.get(key) === n,
      onclick: () => {
        this.guesses.set(key, n);
        this.change({ stage: 2 });
      } }, n);
    return [element("b", {}, "How many of them stay? "),
      ...Array.from({ length: k + 1 }, (_, n) => choice(n)).flatMap((button) => [button, " "])];
  }

  score() {
    const right = [...this.guesses].filter(([key, guess]) => {
      const [gamma, number] = key.split(" ").map(Number);
      return this.recordings.get(gamma).rounds[number - 1].accepted === guess;
    });
    return `${right.length} of ${this.guesses.size} right so far.`;
  }

  goTo(round, stage) {
    this.error = "";
    this.change({ round, stage });
  }

  arrow(direction) {
    const { round, stage, gamma } = this.state;
    const last = STAGES.length - 1;
    const at = (round - 1) * STAGES.length + stage + direction;
    const end = this.recordings.get(gamma).rounds.length * STAGES.length - 1;
    const to = clamp(at, 0, end);
    this.goTo(Math.floor(to / STAGES.length) + 1, Math.min(to % STAGES.length, last));
  }

  space() {
    this.arrow(1);
  }

  scrollText() {
    const box = byId("rounds-text");
    box.scrollTop = box.scrollHeight;
  }
}

function about({ settings, rounds, prompt, gamma }) {
  const drafted = rounds.reduce((total, round) => total + round.drafted.length, 0);
  const accepted = rounds.reduce((total, round) => total + round.accepted, 0);
  const made = accepted + rounds.filter((round) => round.extra !== null).length;
  const names = settings.target ? `${settings.target} and ${settings.draft}, ` : "";
  const how = settings.temperature === 0 ? "greedy" : `temperature ${settings.temperature}`;
  return `${names}${how}, γ = ${gamma}: ${made} tokens after ${prompt.length} of the prompt, in `
    + `${rounds.length} passes of the target; ${accepted} of ${drafted} drafted tokens stayed.`;
}

function fateWords({ kind, drafted, accepted }) {
  if (kind === "none") return ". The text has ended.";
  if (kind === "bonus") return ": all. So the target’s last row gives one token more, the bonus.";
  const untested = drafted.length - accepted - 1;
  return ". The rejected one is replaced by a draw from max(0, p − q)"
    + (untested > 0 ? `; ${untested} after it dropped, untested.` : ".");
}
