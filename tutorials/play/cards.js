// What a round looks like: a card for each drafted token, the text so far, and both caches.

import { element, shown } from "./dom.js";
import { cacheLengths, fateOf } from "./recording.js";

const BEFORE = 5; // positions before the round that the caches show
const MARKS = { accepted: "✓ accepted", rejected: "✗ rejected", "not tested": "– not tested",
  correction: "▲ correction", bonus: "★ bonus" };

// stage 0: drafted, with q. 1: with p. 2: with u and the verdict.
export function card({ text, q, p, u }, fate, stage) {
  const decided = stage === 2;
  const tag = decided && fate === "rejected" ? "s" : "span";
  const name = element(tag, { class: "token" }, visible(text));
  const made = element("div", { class: `card ${decided ? fate : "drafted"}` }, name,
    meter("q", q, "draft"));
  if (stage >= 1) made.append(meter("p", p, "target"));
  if (stage >= 1) made.append(element("div", {}, `p/q = ${shown(p / q)}`));
  if (decided && fate !== "not tested") made.append(...test(u, p / q));
  if (decided) made.append(element("b", { class: "fate" }, MARKS[fate]));
  return made;
}

function test(u, ratio) {
  if (typeof u !== "number") {
    return [element("div", {}, ratio > 0 ? "target’s choice" : "not its choice")];
  }
  return [element("div", {}, `u = ${shown(u)}`), testBar(u, ratio)];
}

export function testBar(u, ratio) {
  return element("div", { class: "tests", role: "img",
    "aria-label": `u = ${shown(u)}, ${u < ratio ? "below" : "not below"} p/q = ${shown(ratio)}` },
    element("div", { class: "pass", style: `width:${100 * Math.min(1, ratio)}%` }),
    element("div", { class: "u", style: `left:${100 * u}%` }));
}

export function extraCard({ extra, kind, residual }) {
  const rest = residual.slice(0, 4).map(({ text, p }) =>
    element("div", { class: "small" }, visible(text), ` ${shown(p)}`));
  return element("div", { class: `card ${kind}` },
    element("span", { class: "token" }, visible(extra.text)),
    element("b", { class: "fate" }, MARKS[kind]),
    rest.length > 0 ? element("div", { class: "small" }, "max(0, p − q):") : "", ...rest);
}

function meter(name, value, whose) {
  return element("div", { class: "meter" }, `${name} ${shown(value)}`,
    element("div", { class: `fill ${whose}`, style: `width:${100 * value}%` }));
}

// Spaces and line breaks are shown.
export function visible(text) {
  return text.replaceAll(" ", "·").replaceAll("\n", "↵");
}

export function textOf(tokens) {
  return tokens.map(({ text, fate }) =>
    element("span", { class: `in-text ${fate}`, title: fate }, text));
}

// The last positions before the round, the drafted ones, and what each cache holds of them.
export function cachesTable(before, round, stage) {
  const first = Math.max(0, before.length - BEFORE);
  const decided = stage === 2;
  const head = [
    ...before.slice(first).map(({ text }) => element("th", { scope: "col" }, visible(text))),
    ...round.drafted.map(({ text }, i) => {
      const gone = decided && fateOf(round, i) !== "accepted";
      const name = element(gone ? "s" : "span", {}, visible(text));
      return element("th", { scope: "col", class: "q" }, name);
    })];
  const last = first + head.length;
  const row = (name, lengths) => element("tr", {}, element("th", { scope: "row" }, name),
    ...(lengths === null ? [element("td", { colspan: head.length }, "none")]
      : Array.from({ length: last - first }, (_, i) => cell(first + i, lengths, stage))));
  const { target, draft } = cacheLengths(round, before.length);
  const title = element("th", { scope: "row" }, first > 0 ? `text, from ${first}` : "text");
  return [element("tr", {}, title, ...head),
    row("target’s cache", target), row("draft’s cache", draft)];
}

function cell(position, lengths, stage) {
  if (position < lengths[stage]) return element("td", { class: "held" }, "■");
  if (stage === 2 && position < lengths[1]) return element("td", { class: "dropped" }, "✗ dropped");
  return element("td", {}, "");
}
