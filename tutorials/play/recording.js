// A recorded run, as decoding/recording.py writes it.

const VERSION = 2;
export const TEXT = -1; // the parent of a token that follows the text

// Return the recording that a file's text holds. Throws an Error with one sentence for the reader.
export function readRecording(name, text) {
  const recording = parsed(text);
  if (recording?.recording === undefined || !Array.isArray(recording.rounds)) {
    throw noRecording(name);
  }
  if (recording.recording !== VERSION) {
    throw new Error(`${name} is a recording of version ${recording.recording}, but this page reads `
      + `version ${VERSION}.`);
  }
  if (!wellFormed(recording)) throw noRecording(name);
  return recording;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function noRecording(name) {
  return new Error(`${name} is no recording; `
    + "python -m decoding.generate … --record FILE writes one.");
}

function wellFormed({ prompt, gamma, settings, rounds }) {
  return areTokens(prompt) && isCount(gamma) && settings instanceof Object
    && rounds.length > 0 && rounds.every((round) => round instanceof Object
      && holdsTokens(round) && agrees(round, gamma)
      && isCache(round.target_cache)
      && (round.draft_cache === null || isCache(round.draft_cache)));
}

function holdsTokens({ drafted, extra, residual, block, parents }) {
  const verdicts = ["accepted", "rejected", "not tested"];
  return areTokens(drafted, "q", "p", ...(block ? ["P", "h"] : []))
    && drafted.every(({ u, verdict }) => (u === null || isNumber(u)) && verdicts.includes(verdict))
    && (parents === null || Array.isArray(parents)) && typeof block === "boolean"
    && (extra === null || areTokens([extra])) && areTokens(residual, "p");
}

// Whether the accepted tokens lead down from the text, and the round ends as it says.
function agrees(round, gamma) {
  const { drafted, extra, kind } = round;
  const parents = parentsOf(round);
  const path = pathOf(round);
  const last = path.at(-1) ?? TEXT;
  const ends = extra === null ? "none" : parents.includes(last) ? "correction" : "bonus";
  return parents.length === drafted.length && kind === ends
    && parents.every((parent, i) => isCount(parent - TEXT) && parent < i)
    && path.every((node, i) => parents[node] === (i > 0 ? path[i - 1] : TEXT))
    && depthOf(round) <= gamma;
}

function areTokens(list, ...numbers) {
  return Array.isArray(list) && list.every((token) => typeof token?.text === "string"
    && numbers.every((name) => isNumber(token[name])));
}

function isCache(lengths) {
  return Array.isArray(lengths) && lengths.length === 2 && lengths.every(isCount);
}

function isNumber(value) {
  return Number.isFinite(value) && value >= 0;
}

function isCount(value) {
  return Number.isInteger(value) && value >= 0;
}

// How the tokens were judged: one by one in a "tree", together as a "block", else by "token".
export function judgedBy({ rounds }) {
  if (rounds.some(({ parents }) => parents !== null)) return "tree";
  return rounds.some(({ block }) => block) ? "block" : "token";
}

// For each drafted token the index of the one that it follows, or TEXT.
export function parentsOf({ drafted, parents }) {
  return parents ?? drafted.map((_, i) => i - 1);
}

// The position of each drafted token in the round, counted from 1.
export function depthsOf(round) {
  const depths = [];
  for (const parent of parentsOf(round)) depths.push(parent === TEXT ? 1 : depths[parent] + 1);
  return depths;
}

export function depthOf(round) {
  return Math.max(0, ...depthsOf(round));
}

// The indices of the drafted tokens that stay, from the first position to the last.
export function pathOf({ drafted }) {
  return [...drafted.keys()].filter((i) => drafted[i].verdict === "accepted");
}

// The tokens of the text before a round (counted from 0), each with what it was.
export function textBefore({ prompt, rounds }, index) {
  const tokens = prompt.map(({ text }) => ({ text, fate: "prompt" }));
  for (const round of rounds.slice(0, index)) {
    for (const i of pathOf(round)) tokens.push({ text: round.drafted[i].text, fate: "accepted" });
    if (round.extra !== null) tokens.push({ text: round.extra.text, fate: round.kind });
  }
  return tokens;
}

// For each stage of a round (drafted, verified, decided) that began with a text of this length,
// whether a cache holds a position; the drafted tokens come after the text, in their order.
// null for a model without a cache, or a draft that is no model.
export function heldBy(round, length) {
  const { target_cache: target, draft_cache: draft } = round;
  const rows = pathOf(round).slice(0, Math.max(0, target[1] - length));
  const below = (end) => (position) => position < end;
  return {
    target: target[0] === 0 ? null : [below(length - 1), below(target[0]), (position) =>
      position < Math.min(length, target[1]) || rows.includes(position - length)],
    draft: draft === null || draft[0] === 0 ? null
      : [below(draft[0]), below(draft[0]), below(draft[1])],
  };
}
