// Panel: the real pair, tales-large and tales-small, at work in the page.

import { declare } from "./address.js";
import { byId, clamp, element } from "./dom.js";
import { addFiles, droppedFiles, fetchFiles, isOfPair, missing } from "./pairfiles.js";
import { recordedRound, recordedToken, recordingOf } from "./pairrecording.js";
import { loopsOf, pause, promptIds, warmUp } from "./pairrun.js";
import { command, identity, idsOf, measured, table, textPieces } from "./pairwords.js";

const MOST_GAMMA = 8;
const LARGEST_SEED = 2 ** 32 - 1;

declare({ prompt: "Once upon a time", temperature: 0.8, seed: 1, coupling: "" });

export class Pair {
  title = "5 The pair";
  keys = "← → γ, space: write, or stop";
  pair = {};

  // show: what shows the text of a recording, round by round
  constructor(change, show) {
    this.change = change;
    const served = location.protocol.startsWith("http");
    byId("pair-beside").hidden = !served;
    byId("pair-disk").hidden = served;
    byId("pair-beside").addEventListener("click", () => this.load(fetchFiles()));
    byId("pair-folder").addEventListener("change", (event) => this.load([...event.target.files]));
    addEventListener("drop", (event) => this.drop(event), { capture: true });
    const fields = { prompt: String, gamma: Number, temperature: Number, seed: Number };
    for (const [name, read] of Object.entries(fields)) {
      byId(`pair-${name}`).addEventListener("input", (event) => {
        change({ [name]: read(event.target.value) });
      });
    }
    byId("pair-coupling").addEventListener("change", (event) => {
      change({ coupling: event.target.checked ? "gumbel" : "" });
    });
    byId("pair-write").addEventListener("click", () => this.space());
    byId("pair-rounds").addEventListener("click", () => show(recordingOf(this.recorded)));
    byId("pair-formula").addEventListener("click", () => {
      change({ panel: "pays", ...measured(this.runs) });
    });
  }

  // Files dropped anywhere: those of the pair come here, all others go on to the recordings.
  drop(event) {
    const files = [...event.dataTransfer.files];
    const recordings = files.every(({ name }) => name.endsWith(".json"));
    if (!files.some(isOfPair) && (recordings || this.state?.panel !== "pair")) return;
    event.preventDefault();
    event.stopPropagation();
    this.load(droppedFiles(event.dataTransfer));
  }

  // files: or a promise of them
  async load(files) {
    try {
      this.running = undefined;
      this.error = "";
      this.loading = true;
      this.change({ panel: "pair" });
      await pause(); // to show that
      await addFiles(this.pair, await files);
      if (missing(this.pair).length === 0) await warmUp(this.pair);
    } catch (error) {
      const whole = missing(this.pair).length === 0;
      this.error = error.message + (whole ? " The pair loaded before is still there." : "");
    }
    this.loading = false;
    this.change({ panel: "pair" });
  }

  prepare(state) {
    state.gamma = clamp(Math.round(state.gamma), 0, MOST_GAMMA);
    state.temperature = clamp(state.temperature, 0, 2);
    state.seed = clamp(Math.round(state.seed), 0, LARGEST_SEED);
    state.coupling = state.coupling === "gumbel" && state.temperature > 0 ? "gumbel" : "";
  }

  draw(state) {
    this.state = state;
    const { prompt, gamma, temperature, seed, coupling } = state;
    const key = JSON.stringify([prompt, gamma, temperature, seed, coupling]);
    if (key !== this.key) this.clear();
    this.key = key;
    this.drawFiles();
    const values = { prompt, gamma, temperature, seed };
    for (const [name, value] of Object.entries(values)) {
      const field = byId(`pair-${name}`);
      if (field !== document.activeElement || field.type === "range") field.value = value;
    }
    byId("pair-gamma-value").textContent = gamma;
    const heat = temperature === 0 ? "0: greedy" : temperature;
    byId("pair-temperature-value").textContent = heat;
    byId("pair-temperature").setAttribute("aria-valuetext", heat);
    byId("pair-coupling").checked = coupling === "gumbel";
    byId("pair-coupling").disabled = temperature === 0;
    byId("pair-command").textContent = command(state);
    this.drawRuns();
  }

  drawFiles() {
    const parts = missing(this.pair);
    this.ready = parts.length === 0 && !this.loading;
    byId("pair-files").hidden = parts.length === 0;
    byId("pair-run").hidden = !this.ready;
    byId("pair-about").classList.toggle("error", Boolean(this.error));
    const some = parts.length > 0 && parts.length < 3;
    byId("pair-about").textContent = this.loading ? "reading the files …"
      : [this.error, some ? `Still missing: ${parts.join(", ")}.` : ""].join(" ").trim();
  }

  clear() {
    this.running = undefined;
    this.finished = false;
    this.runs = {};
    this.error = "";
  }

  // Both loops, one after the other. Between two rounds the page can do other things.
  async write() {
    this.clear();
    let ids;
    try {
      ids = promptIds(this.pair, this.state.prompt);
      this.running = {}; // another object for each run
    } catch (error) {
      this.error = error.message;
    }
    this.drawFiles();
    if (this.running) await this.run(ids, this.running);
  }

  async run(ids, run) {
    const { tokenizer } = this.pair;
    const prompt = ids.map((id) => recordedToken(id, tokenizer));
    this.recorded = { prompt, rounds: [], state: this.state };
    for (const [name, way, rounds] of loopsOf(this.pair, ids, this.state)) {
      this.runs[name] = [];
      for (const { q, p, u, ...round } of rounds) {
        this.runs[name].push(round);
        if (name === "speculative") {
          this.recorded.rounds.push(recordedRound({ ...round, q, p, u }, way, tokenizer));
        }
        this.drawRuns();
        await pause();
        if (this.running !== run) return;
      }
    }
    this.finished = true;
    this.stop();
  }

  drawRuns() {
    byId("pair-write").textContent = this.running === undefined ? "write" : "stop";
    const { speculative: found = [], plain = [] } = this.runs;
    this.drawText("pair-speculative", textPieces(found, this.pair.tokenizer));
    this.drawText("pair-plain", [this.pair.tokenizer?.decode(idsOf(plain)) ?? ""]);
    byId("pair-table").replaceChildren(...table(this.runs));
    byId("pair-said").textContent = this.finished ? identity(this.runs, this.state) : "";
    byId("pair-rounds").hidden = this.running !== undefined || found.length === 0;
    byId("pair-formula").hidden = !this.finished || measured(this.runs) === undefined;
  }

  drawText(id, pieces) {
    const prompt = element("span", { class: "in-text prompt" }, this.state.prompt);
    byId(id).replaceChildren(prompt, ...pieces);
    byId(id).scrollTop = byId(id).scrollHeight;
  }

  arrow(direction) {
    this.change({ gamma: this.state.gamma + direction });
  }

  space() {
    if (!this.ready) return;
    if (this.running === undefined) this.write();
    else this.stop();
  }

  stop() {
    this.running = undefined;
    this.drawRuns();
  }
}
