// A round of a tree: a row for each position, and candidates for the same one side by side. The
// first of them is right below the token that it follows.

import { MARKS, visible } from "./cards.js";
import { element, fine, shown } from "./dom.js";
import { DRAFT, parentsOf, pathOf, TEXT, VERDICT } from "./recording.js";

const NODE = { height: 50, across: 10, down: 14, stem: 26 }; // pixels; style.css has the width

// The stages are those of a card, but u comes with the verdict: only candidates that are tested
// have one, which would give the path away. The last stage has a node for the token that is not the
// draft's.
export function treeOf(round, stage) {
  const parents = [...parentsOf(round)]; // a copy: the extra token is added below
  const fates = round.drafted.map(({ verdict }) => stage === VERDICT ? verdict : "drafted");
  const names = namesOf(parents);
  const boxes = round.drafted.map((token, i) => candidate(token, names[i], fates[i], stage));
  const places = placesOf(parents);
  if (stage === VERDICT && round.extra !== null) {
    const path = pathOf(round);
    const beside = places.filter(({ row }) => row === path.length).map(({ column }) => column);
    places.push({ row: path.length, column: Math.max(-1, ...beside) + 1 });
    parents.push(path.at(-1) ?? TEXT);
    fates.push(round.kind);
    boxes.push(extraBox(round));
  }
  boxes.forEach((box, i) => {
    place(box, across(places[i].column), y(places[i]), "var(--node)", NODE.height);
  });
  const lines = boxes.flatMap((_, i) => parents[i] === TEXT ? []
    : line(places[parents[i]], places[i], fates[i]));
  const tree = element("div", { class: "tree", role: "list", "aria-label": "the candidates" },
    ...lines, ...boxes);
  const columns = Math.max(0, ...places.map(({ column }) => column + 1));
  const rows = Math.max(0, ...places.map(({ row }) => row + 1));
  tree.style.width = across(columns, -NODE.across);
  tree.style.height = `${y({ row: rows }) - NODE.down + 2}px`;
  return tree;
}

// The row of each token is its depth. Rows are filled from the left, the lowest first, and nothing
// stands left of its own first child.
function placesOf(parents) {
  const children = (node) => [...parents.keys()].filter((i) => parents[i] === node);
  const rows = [];
  for (let row = children(TEXT); row.length > 0; row = row.flatMap(children)) rows.push(row);
  const columns = [];
  for (const row of [...rows].reverse()) {
    let free = 0;
    for (const node of row) {
      const [first] = children(node);
      columns[node] = Math.max(free, columns[first] ?? 0);
      free = columns[node] + 1;
    }
  }
  return columns.map((column, i) => ({ column, row: rows.findIndex((row) => row.includes(i)) }));
}

// As in a terminal: candidate 1.2 is the second that may follow candidate 1.
function namesOf(parents) {
  const names = [];
  parents.forEach((parent, i) => {
    const nth = parents.slice(0, i + 1).filter((other) => other === parent).length;
    names.push(parent === TEXT ? `${nth}` : `${names[parent]}.${nth}`);
  });
  return names;
}

function candidate({ text, q, p, u, verdict }, name, fate, stage) {
  const tested = stage === VERDICT && u !== null && verdict !== "not tested";
  const sign = u < p / q ? "<" : "≥";
  const [ofDraft, ofTarget] = [["q", q], ["p", p]].map(([whose, value]) =>
    element("span", { class: whose }, tested ? fine(value) : `${whose} ${fine(value)}`));
  const numbers = tested ? [`u ${shown(u)} ${sign} `, ofTarget, "/", ofDraft]
    : [ofDraft, stage === DRAFT ? "" : " ", stage === DRAFT ? "" : ofTarget];
  const words = [`candidate ${name}`, visible(text), `q ${shown(q)}`,
    ...stage === DRAFT ? [] : [`p ${shown(p)}`],
    ...tested ? [`u ${shown(u)} ${sign} p/q ${shown(p / q)}`] : [],
    ...stage === VERDICT ? [verdict] : []];
  return box(words, text, fate, numbers);
}

function extraBox({ extra, kind, residual }) {
  return box([kind, visible(extra.text)], extra.text, kind,
    residual.length > 0 ? ["drawn from what is left"] : []);
}

function box(words, text, fate, numbers) {
  const [mark, ...word] = (MARKS[fate] ?? "").split(" ");
  return element("div", { class: `card node ${fate}`, role: "listitem", "aria-label":
      words.join(", ") },
    element("div", { class: "first" },
      element(fate === "rejected" ? "s" : "span", { class: "token" }, visible(text)),
      element("b", { class: "fate" }, mark,
        element("span", { class: "word" }, ` ${word.join(" ")}`))),
    element("div", { class: "numbers" }, ...numbers));
}

// From the bottom of a token to the top of one that may follow it.
function line(from, to, fate) {
  const [half, top] = [NODE.down / 2, y(from) + NODE.height];
  const columns = to.column - from.column;
  const side = columns < 0 ? "left" : "right";
  const [stem, elbow] = ["stem", `elbow ${side}`].map((part) =>
    element("div", { class: `branch ${part} ${fate}`, "aria-hidden": "true" }));
  place(stem, across(from.column, NODE.stem), top, "0", half);
  place(elbow, across(Math.min(from.column, to.column), NODE.stem), top + half,
    across(Math.abs(columns)), half);
  return [stem, elbow];
}

function place(part, left, top, width, height) {
  Object.assign(part.style, { left, top: `${top}px`, width, height: `${height}px` });
}

// So many columns, and pixels, as a length.
function across(columns, pixels = 0) {
  return `calc(${columns} * (var(--node) + ${NODE.across}px) + ${pixels}px)`;
}

function y({ row }) {
  return row * (NODE.height + NODE.down);
}
