// What a round of a chain looks like: a card for each drafted token; the text, and both caches.

import { element, fine, shown } from "./dom.js";
import { DRAFT, heldBy, TARGET, VERDICT } from "./recording.js";

const BEFORE = 5; // positions before the round that the caches show
export const MARKS = { accepted: "✓ accepted", rejected: "✗ rejected", "not tested": "– not tested",
  correction: "▲ correction", bonus: "★ bonus" };

// DRAFT: with q. TARGET: with p and u. VERDICT: with that.
export function card(token, stage) {
  const { text, q, p, u, verdict, P, h } = token;
  const decided = stage === VERDICT;
  const block = h !== undefined;
  const tag = decided && verdict === "rejected" ? "s" : "span";
  const name = element(tag, { class: "token" }, visible(text));
  const made = element("div", { class: `card ${decided ? verdict : "drafted"}` }, name,
    meter("q", q, "draft"));
  const tested = decided && verdict !== "not tested";
  const compared = block ? [`P = ${shown(P)}`, `h = ${shown(h)}`] : [`p/q = ${shown(p / q)}`];
  const sign = tested && block ? ` ${u < h ? "<" : "≥"} h` : "";
  if (u !== null) compared.push(`u = ${shown(u)}${sign}`);
  else if (tested) compared.push(p > 0 ? "target’s choice" : "not its choice");
  if (stage !== DRAFT) {
    made.append(meter("p", p, "target"), ...compared.map((words) => element("div", {}, words)));
  }
  if (tested && u !== null) made.append(block ? testBar(u, h, "h") : testBar(u, p / q));
  if (decided) made.append(element("b", { class: "fate" }, MARKS[verdict]));
  return made;
}

export function testBar(u, limit, name = "p/q") {
  return element("div", { class: "tests", role: "img", "aria-label":
      `u = ${shown(u)}, ${u < limit ? "below" : "not below"} ${name} = ${shown(limit)}` },
    element("div", { class: "pass", style: `width:${100 * Math.min(1, limit)}%` }),
    element("div", { class: "u", style: `left:${100 * u}%` }));
}

export function extraCard({ extra, kind, residual, block }) {
  const rest = residual.slice(0, 4).map(({ text, p }) =>
    element("div", { class: "small" }, visible(text), ` ${p.toFixed(2)}`));
  const from = block ? "max(0, Pp−q)" : "max(0, p−q)";
  return element("div", { class: `card ${kind}` },
    element("span", { class: "token" }, visible(extra.text)),
    element("b", { class: "fate" }, MARKS[kind]),
    rest.length > 0 ? element("div", { class: "small" }, from) : "", ...rest);
}

function meter(name, value, whose) {
  return element("div", { class: "meter" }, `${name} ${fine(value)}`,
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

// The last positions before the round, the drafted tokens, and what each cache holds of them.
export function cachesTable(before, round, stage) {
  const first = Math.max(0, before.length - BEFORE);
  const head = [
    ...before.slice(first).map(({ text }, i) => element("th", { scope: "col" },
      i === 0 && first > 0 ? "…" : "", visible(text))),
    ...round.drafted.map(({ text, verdict }) => {
      const gone = stage === VERDICT && verdict !== "accepted";
      const name = element(gone ? "s" : "span", {}, visible(text));
      return element("th", { scope: "col", class: "q" }, name);
    })];
  const row = (name, held) => element("tr", {}, element("th", { scope: "row" }, name),
    ...(held === null ? [element("td", { colspan: head.length }, "none")]
      : head.map((_, i) => cell(first + i, held, stage))));
  const { target, draft } = heldBy(round, before.length);
  const title = element("th", { scope: "row" }, "■ was read");
  return [element("tr", {}, title, ...head),
    row("target’s cache", target), row("draft’s cache", draft)];
}

function cell(position, held, stage) {
  if (held[stage](position)) return element("td", { class: "held" }, "■");
  const gone = stage === VERDICT && held[TARGET](position);
  return gone ? element("td", { class: "dropped" }, "✗ dropped") : element("td", {}, "");
}
