// A recorded run, as decoding/recording.py writes it.

const VERSION = 1;

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
  return isTokens(prompt) && Number.isInteger(gamma) && settings instanceof Object
    && rounds.length > 0 && rounds.every((round) => isTokens(round?.drafted)
      && round.drafted.every(({ p, q }) => typeof p === "number" && typeof q === "number")
      && (round.extra === null || isTokens([round.extra])) && isTokens(round.residual)
      && Number.isInteger(round.accepted) && Array.isArray(round.target_cache));
}

function isTokens(list) {
  return Array.isArray(list) && list.every((token) => typeof token?.text === "string");
}

// The tokens of the text before a round (counted from 0), each with what it was.
export function textBefore({ prompt, rounds }, index) {
  const tokens = prompt.map(({ text }) => ({ text, fate: "prompt" }));
  for (const { drafted, accepted, extra, kind } of rounds.slice(0, index)) {
    for (const { text } of drafted.slice(0, accepted)) tokens.push({ text, fate: "accepted" });
    if (extra !== null) tokens.push({ text: extra.text, fate: kind });
  }
  return tokens;
}

// The fate of the i-th drafted token of a round.
export function fateOf({ accepted, kind }, i) {
  if (i < accepted) return "accepted";
  return i === accepted && kind === "correction" ? "rejected" : "not tested";
}

// How many tokens the caches hold after each stage of a round (drafted, verified, decided) that
// began with a text of this length; null for a model without a cache, or a draft that is no model.
export function cacheLengths({ target_cache: target, draft_cache: draft }, length) {
  return {
    target: target[0] === 0 ? null : [length - 1, target[0], target[1]],
    draft: draft === null || draft[0] === 0 ? null : [draft[0], draft[0], draft[1]],
  };
}
