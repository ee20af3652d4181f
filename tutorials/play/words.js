// What is said of a recorded run and of its rounds, for each way to judge drafted tokens.

import { visible } from "./cards.js";
import { shown } from "./dom.js";
import { depthOf, judgedBy, pathOf } from "./recording.js";

export function about(run) {
  const { settings, rounds, gamma } = run;
  const drafted = rounds.reduce((total, round) => total + round.drafted.length, 0);
  const accepted = rounds.reduce((total, round) => total + pathOf(round).length, 0);
  const made = accepted + rounds.filter((round) => round.extra !== null).length;
  const by = judgedBy(run);
  const names = settings.target ? `${settings.target} and ${settings.draft}, ` : "";
  const { temperature } = settings;
  const how = temperature === undefined ? ""
    : temperature === 0 ? "greedy, " : `temperature ${temperature}, `;
  const shape = by === "tree" ? shapeOf(settings, gamma)
    : `${by === "block" ? "block rule, " : ""}γ = ${gamma}`;
  return `${names}${how}${shape}: ${made} tokens in ${rounds.length} passes of the `
    + `target; ${accepted} of ${drafted}${by === "tree" ? "" : " drafted tokens"} stayed.`;
}

function shapeOf({ tree }, gamma) {
  const [, depth, width] = /^(\d+)x(\d+)$/.exec(tree) ?? [];
  return depth === undefined ? `tree ${tree ?? `of depth ${gamma}`}`
    : `tree ${tree} (${depth} deep, ${width} wide)`;
}

export function drafting(round) {
  const k = round.drafted.length;
  if (k === 0) return "Nothing is drafted in this round: the target adds one token alone.";
  return round.parents === null
    ? `The draft has read its own tokens one by one: ${k} small steps. Its cache keeps the keys `
      + "and values of what was read."
    : `The draft proposes ${k} candidates for ${depthOf(round)} positions.`;
}

export function reading(round) {
  const rows = `One pass of the target gives p at all ${round.drafted.length + 1} positions`;
  const drawn = round.drafted.some(({ u }) => u !== null);
  if (round.parents !== null) {
    return "One pass of the target reads all branches. A second candidate is tested only where the "
      + "first is rejected: its q and p are what that leaves of both. p 0.00: nothing is left for "
      + "it." + (drawn ? " u is drawn test by test." : "");
  }
  if (round.block) return `${rows}. P and h follow from p and q; a u is drawn for each token.`;
  return `${rows}. ${drawn ? "A u is drawn for each token: it stays if u < p/q"
    : "A token stays if it is the target’s own choice"}, and all before it do.`;
}

export function verdict(round) {
  const n = pathOf(round).length;
  const k = round.drafted.length;
  const said = round.parents !== null ? ofTree(round, n) : round.block ? ofBlock(round, n)
    : ofChain(round, n);
  return `${n} of ${k} stay${round.kind === "none" ? ". The text has ended." : said}`;
}

function ofChain({ kind, drafted, residual }, n) {
  if (kind === "bonus") return ": all. So the target’s p after it gives one token more, the bonus.";
  const untested = drafted.length - n - 1;
  const by = residual.length > 0 ? "a draw from max(0, p − q)" : "the target’s own choice";
  const dropped = untested > 0 ? `; ${untested} after it dropped, untested.` : ".";
  return `. The rejected one is replaced by ${by}${dropped}`;
}

function ofBlock({ kind, drafted }, n) {
  const failed = drafted.slice(0, n).filter(({ u, h }) => !(u < h)).length;
  const before = failed === 0 ? "" : `; ${failed} before it failed, which stops nothing`;
  if (kind === "bonus") {
    return `: the last test is passed${before}. So the target’s p after the last gives the bonus.`;
  }
  const why = n === 0 ? ": no u is below its h" : `: token ${n} is the last with u < h${before}`;
  return `${why}. The next is drawn from max(0, Pp − q).`;
}

function ofTree({ kind, residual }, n) {
  if (kind === "bonus") {
    return ", one below the other. Nothing is drafted after the last: the target’s p there gives "
      + "one token more, the bonus.";
  }
  const place = n === 0 ? "for the first position" : "after them";
  const rest = residual.slice(0, 3).map(({ text, p }) => `${visible(text)} ${shown(p)}`).join(", ");
  return residual.length > 0
    ? `. All candidates ${place} are rejected. The next is drawn from what they left of p: ${rest}.`
    : `. No candidate ${place} is the target’s own choice.`;
}
