// The page: one panel at a time, the address, and the presenter's keys.

import { readAddress, writeAddress } from "./address.js";
import { Tokenizer } from "./bpe.js";
import { outcome, RULES } from "./dice.js";
import { Die } from "./die.js";
import { byId, element } from "./dom.js";
import { TorchGenerator } from "./mersenne.js";
import { Pair } from "./pair.js";
import { idsOf } from "./pairwords.js";
import { Pays } from "./pays.js";
import { readRecording } from "./recording.js";
import { Rounds } from "./rounds.js";
import { Rows } from "./rows.js";
import { break_even, expected_speedup } from "./theory.js";

const panels = {
  die: new Die(change), rounds: new Rounds(change), rows: new Rows(change), pays: new Pays(change),
  pair: new Pair(change, (recording) => panels.rounds.open([recording])),
};
let state = readAddress();

function change(fields) {
  state = { ...state, ...fields };
  show();
  writeAddress(state);
}

function show() {
  if (!Object.hasOwn(panels, state.panel)) state.panel = "die";
  const panel = panels[state.panel];
  for (const name of Object.keys(panels)) byId(name).hidden = name !== state.panel;
  for (const tab of byId("tabs").children) {
    tab.setAttribute("aria-pressed", tab.value === state.panel);
  }
  byId("keys").textContent = `keys: ${panel.keys}`;
  const fit = { ...state }; // what this panel can show of it; the other panels keep what is theirs
  panel.prepare(fit);
  panel.draw(fit);
}

// A control that has the focus keeps its own keys: a text all, a slider the arrows, a button space.
const TEXTS = "input:not([type=radio], [type=checkbox], [type=range]), select, textarea";
const SLIDERS = "input[type=range]";
const BUTTONS = "button, summary, [type=checkbox]";

function key(event) {
  const on = (controls) => event.target.closest(controls) !== null;
  if (on(TEXTS) || event.ctrlKey || event.altKey || event.metaKey) return;
  const panel = panels[state.panel];
  const arrows = { ArrowLeft: -1, PageUp: -1, ArrowRight: 1, PageDown: 1 };
  const named = Object.keys(panels)[event.key - 1];
  if (event.key in arrows && !on(SLIDERS)) panel.arrow(arrows[event.key]);
  else if (event.key === " " && !on(BUTTONS)) panel.space();
  else if (named !== undefined) change({ panel: named });
  else return;
  event.preventDefault();
}

for (const [name, { title }] of Object.entries(panels)) {
  const open = () => change({ panel: name });
  byId("tabs").append(element("button", { value: name, onclick: open }, title));
}
addEventListener("keydown", key);
// What a mouse has clicked keeps no keys; what the keyboard has pressed (detail is 0) does.
addEventListener("click", (event) => {
  if (event.detail > 0) event.target.closest(BUTTONS)?.blur();
});
addEventListener("hashchange", () => {
  state = readAddress();
  show();
});
show();

// For the browser's console, and for the tests.
globalThis.play = {
  break_even, expected_speedup, idsOf, outcome, panels, readRecording, RULES, Tokenizer,
  TorchGenerator,
};
