// What the pair's two runs show: their texts, their numbers, and what these say.

import { element } from "./dom.js";
import { emitted } from "./loops.js";
import { NEW_TOKENS } from "./pairrun.js";

// What became of the i-th drafted token of a round.
export function verdictOf({ accepted, kind }, i) {
  if (i < accepted) return "accepted";
  return i === accepted && kind === "correction" ? "rejected" : "not tested";
}

// Elements for the tokens of a run. One that was rejected is struck through, before its correction;
// it is not copied with the text.
export function textPieces(rounds, tokenizer) {
  const piece = (tag, fate, id) =>
    element(tag, { class: `in-text ${fate}`, title: fate }, tokenizer.decode([id]));
  return rounds.flatMap((round) => [
    ...round.drafted.map((id, i) => [verdictOf(round, i), id])
      .filter(([fate]) => fate !== "not tested")
      .map(([fate, id]) => piece(fate === "rejected" ? "del" : "span", fate, id)),
    ...(round.extra === null ? [] : [piece("span", round.kind, round.extra)]),
  ]);
}

// The rows of the table.
export function table(runs) {
  const head = ["", "tokens", "rounds", "tokens a round", "ms a round", "ms a token"];
  const cells = (tag, [first, ...rest]) => element("tr", {},
    element("th", { scope: tag === "th" ? "col" : "row" }, first),
    ...rest.map((text) => element(tag, tag === "th" ? { scope: "col" } : {}, text)));
  return [cells("th", head), ...["speculative", "plain"].map((name) => cells("td", [name,
    ...numbers(runs[name] ?? [])]))];
}

function numbers(rounds) {
  if (rounds.length === 0) return ["", "", "", "", ""];
  const tokens = idsOf(rounds).length;
  const time = total(rounds, "time");
  return [tokens, rounds.length, (tokens / rounds.length).toFixed(2),
    (time / rounds.length).toFixed(1), (time / tokens).toFixed(1)];
}

// How much faster, and whether the texts are the same.
export function identity(runs, { temperature, coupling }) {
  const [found, plain] = [idsOf(runs.speculative), idsOf(runs.plain)];
  const speedup = total(runs.plain, "time") / plain.length
    / (total(runs.speculative, "time") / found.length);
  const said = `Speculative: ${speedup.toFixed(2)} times as fast, in this browser, this time. `;
  if (temperature > 0 && coupling === "") {
    return `${said}Two draws from the same distribution: the texts need not be the same.`;
  }
  const parted = Array.from({ length: Math.min(found.length, plain.length) }, (_, i) => i)
    .find((i) => found[i] !== plain[i]);
  return said + (parted === undefined ? "Both texts are the same, token for token."
    : `They part at token ${parted + 1}: where two are almost equally likely, rounding decides.`);
}

// alpha, c and v of panel 4, as they came out here. v is all of a round but its drafting, so that
// gamma c + v is what a round took. Undefined where nothing was drafted.
export function measured({ speculative, plain }) {
  const tested = speculative.reduce((sum, { accepted, kind }) =>
    sum + accepted + (kind === "correction" ? 1 : 0), 0);
  const drafted = speculative.reduce((sum, round) => sum + round.drafted.length, 0);
  if (drafted === 0) return undefined;
  const step = total(plain, "time") / plain.length;
  const accepted = speculative.reduce((sum, round) => sum + round.accepted, 0);
  const drafting = total(speculative, "draftTime");
  return { alpha: accepted / tested, c: drafting / drafted / step,
    v: (total(speculative, "time") - drafting) / speculative.length / step };
}

// What makes the same text in a terminal.
export function command({ prompt, gamma, temperature, seed, coupling }) {
  const quoted = `'${prompt.replaceAll("'", "'\\''")}'`;
  const options = `--gamma ${gamma} --temperature ${temperature}`
    + (temperature > 0 ? ` --seed ${seed}` : "") + (coupling ? ` --coupling ${coupling}` : "")
    + ` --max-new-tokens ${NEW_TOKENS}`;
  return prompt.startsWith("-") ? `python -m decoding.generate ${options} -- ${quoted}`
    : `python -m decoding.generate ${quoted} ${options}`;
}

export function idsOf(rounds) {
  return rounds.flatMap(emitted);
}

function total(rounds, name) {
  return rounds.reduce((sum, round) => sum + round[name], 0);
}
