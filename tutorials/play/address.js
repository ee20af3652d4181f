// The state of the page is its address, as in play.html#rule=redraw&gamma=4, so that a slide can
// link to it.

const DEFAULTS = { panel: "die" };

// Each panel adds its own fields with their defaults; the type of a default is that of its field.
export function declare(fields) {
  Object.assign(DEFAULTS, fields);
}

// Return the state that the address names; what it does not name, or names badly, is the default.
export function readAddress() {
  const state = { ...DEFAULTS };
  for (const [name, text] of new URLSearchParams(location.hash.slice(1))) {
    if (Object.hasOwn(DEFAULTS, name)) state[name] = parse(text, DEFAULTS[name]);
  }
  return state;
}

// Only what differs from the defaults is written.
export function writeAddress(state) {
  const parts = Object.keys(DEFAULTS)
    .filter((name) => written(state[name]) !== written(DEFAULTS[name]))
    .map((name) => `${name}=${written(state[name])}`);
  history.replaceState(null, "", `#${parts.join("&")}`);
}

function written(value) {
  if (Array.isArray(value)) return value.map((x) => Number(x.toFixed(4))).join(",");
  return encodeURIComponent(value);
}

function parse(text, like) {
  if (Array.isArray(like)) {
    const numbers = text.split(",").map(Number);
    return numbers.every((x) => Number.isFinite(x) && x >= 0) ? numbers : like;
  }
  if (typeof like !== "number") return text;
  return text !== "" && Number.isFinite(Number(text)) ? Number(text) : like;
}
