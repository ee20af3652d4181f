// A recorded run, as decoding/recording.py writes it.

export const [DRAFT, TARGET, VERDICT] = [0, 1, 2]; // the stages in which a round is shown
const VERSION = 2;
const LARGEST_GAMMA = 1024;
const ENDS = [null, "eos", "stop", "length", "context"];
export const TEXT = -1; // the parent of a token that follows the text

// Return the recording that a file's bytes hold. Throws an Error with one sentence for the reader.
// The same files are read, and refused, by read_recording of decoding/recording.py.
export function readRecording(name, bytes) {
  const recording = parsed(bytes);
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

function parsed(bytes) {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch {
    return undefined;
  }
}

function noRecording(name) {
  return new Error(`${name} is no recording; `
    + "python -m decoding.generate … --record FILE writes one.");
}

function wellFormed({ prompt, gamma, settings, rounds }) {
  return areTokens(prompt) && isCount(gamma) && gamma <= LARGEST_GAMMA && isObject(settings)
    && rounds.length > 0 && rounds.every((round) => isObject(round)
      && holdsTokens(round) && agrees(round, gamma) && isTimed(round)
      && isCache(round.target_cache)
      && (round.draft_cache === null || isCache(round.draft_cache)));
}

function isTimed({ finish_reason, seconds, phase_seconds, prefill_seconds }) {
  return ENDS.includes(finish_reason) && isNumber(seconds)
    && isObject(phase_seconds) && Object.values(phase_seconds).every(isNumber)
    && (prefill_seconds === null || isNumber(prefill_seconds));
}

function holdsTokens({ drafted, extra, residual, block, parents }) {
  return areTokens(drafted, "q", "p", ...(block ? ["P", "h"] : []))
    && drafted.every(({ u }) => u === null || isNumber(u))
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
    && parents.every((parent, i) => (parent === TEXT || isCount(parent)) && parent < i)
    && path.every((node, i) => parents[node] === (i > 0 ? path[i - 1] : TEXT))
    && depthOf(round) <= gamma
    && drafted.every(({ verdict }, i) => verdict === verdictIn(round, path, i));
}

// What became of the i-th drafted token of a round, of which those in the path were accepted.
function verdictIn(round, path, i) {
  const parents = parentsOf(round);
  const tested = path.length + (round.kind === "correction" ? 1 : 0);
  const decided = [TEXT, ...path].slice(0, tested); // the tokens after which one was looked for
  const kept = path.find((node) => parents[node] === parents[i]) ?? parents.length;
  const block = round.block && round.parents === null && round.kind === "correction";
  return path.includes(i) ? "accepted"
    : block || (decided.includes(parents[i]) && i < kept) ? "rejected" : "not tested";
}

function areTokens(list, ...numbers) {
  return Array.isArray(list) && list.every((token) => typeof token?.text === "string"
    && isCount(token.id) && numbers.every((name) => isNumber(token[name])));
}

function isCache(lengths) {
  return Array.isArray(lengths) && lengths.length === 2 && lengths.every(isCount);
}

function isObject(value) {
  return value instanceof Object && !Array.isArray(value);
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
function depthsOf(round) {
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
