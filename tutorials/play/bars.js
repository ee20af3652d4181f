// The two charts of the die: what goes in, with bars one can drag, and what comes out.

import { byId, clamp, element, shown } from "./dom.js";

export const NAMES = "ABCDEFGH"; // of the faces
export const FEW = 100; // rolls; fewer are listed, not drawn
const USUAL = 0.6; // the probability at the top of a chart, if none is larger

export class Bars {
  constructor(set) {
    this.set = set; // set("p" or "q", face, wanted probability), when a bar was moved
  }

  // exact: of `outcome`. counts: how often each face was rolled, in so many rolls.
  draw(state, exact, { counts, rolls }) {
    Object.assign(this, { state, exact, counts, rolls });
    const largest = Math.max(...state.p, ...state.q, ...exact.out);
    if (!this.dragging || largest > this.top) this.top = largest > USUAL ? 1 : USUAL;
    if (this.faces?.length !== state.p.length) this.makeFaces(state.p.length);
    this.faces.forEach((face, x) => this.drawFace(face, x));
  }

  makeFaces(n) {
    this.faces = Array.from({ length: n }, (_, x) => ({
      q: this.makeBar("q", x), p: this.makeBar("p", x),
      out: { box: element("div", { class: "bar" }), kept: element("div", { class: "kept" }),
        third: element("div", { class: "third" }), line: element("div", { class: "line" }),
        dot: element("div", { class: "dot" }), value: element("div", { class: "value" }) },
    }));
    const columns = (boxes) => boxes.map((box, x) =>
      element("div", { class: "face" }, ...box, element("div", { class: "name" }, NAMES[x])));
    byId("die-in").replaceChildren(...columns(this.faces.map(({ q, p }) => [q.box, p.box])));
    for (const { out: { box, ...parts } } of this.faces) box.append(...Object.values(parts));
    byId("die-out").replaceChildren(...columns(this.faces.map(({ out }) => [out.box])));
  }

  makeBar(name, x) {
    const box = element("div", { class: `bar ${name}bar`, role: "slider", tabindex: 0,
      "aria-valuemin": 0, "aria-valuemax": 1, "aria-label": `${name} of face ${NAMES[x]}`,
      "aria-orientation": "vertical" });
    const bar = { box, kept: element("div", { class: "kept" }),
      rest: element("div", { class: name === "q" ? "thrown" : "third" }),
      value: element("div", { class: "value" }) };
    box.append(bar.kept, bar.rest, bar.value);
    box.addEventListener("pointerdown", (event) => this.startDrag(event, name, x));
    box.addEventListener("pointermove", (event) => this.drag(event, name, x));
    box.addEventListener("pointerup", () => { this.dragging = false; });
    box.addEventListener("pointercancel", () => { this.dragging = false; });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 0.01, ArrowDown: -0.01, PageUp: 0.1, PageDown: -0.1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      this.set(name, x, this.state[name][x] + step);
    });
    return bar;
  }

  startDrag(event, name, x) {
    this.dragging = true;
    event.currentTarget.setPointerCapture(event.pointerId);
    this.wanted = 0;
    this.y = event.currentTarget.getBoundingClientRect().bottom;
    this.drag(event, name, x);
  }

  // By how far the pointer moved, as the scale may change on the way.
  drag(event, name, x) {
    if (!this.dragging) return;
    const { height } = event.currentTarget.getBoundingClientRect();
    this.wanted = clamp(this.wanted + this.top * (this.y - event.clientY) / height, 0, 1);
    this.y = event.clientY;
    this.set(name, x, this.wanted);
  }

  // The three bars of a face, and the numbers over them.
  drawFace({ q, p, out }, x) {
    const { exact, state } = this;
    const agreed = Math.min(state.p[x], state.q[x]);
    for (const [bar, value, rest] of [[q, state.q[x], "rejected"], [p, state.p[x], "missing"]]) {
      this.place(bar.kept, 0, agreed);
      this.place(bar.rest, agreed, value - agreed);
      this.lift(bar.value, value);
      bar.value.textContent = shown(value);
      bar.box.setAttribute("aria-valuenow", Number(value.toFixed(4)));
      bar.box.setAttribute("aria-valuetext", `${shown(value)}, of which ${shown(agreed)} in both, `
        + `${shown(value - agreed)} ${rest}`);
    }
    const total = exact.out[x];
    const enough = this.rolls >= FEW;
    const frequency = enough ? this.counts[x] / this.rolls : 0;
    this.place(out.kept, 0, exact.kept[x]);
    this.place(out.third, exact.kept[x], exact.third[x]);
    this.lift(out.line, state.p[x]);
    out.dot.hidden = !enough;
    this.lift(out.dot, frequency);
    this.lift(out.value, Math.max(total, state.p[x], frequency) + 0.03 * this.top);
    const error = total - state.p[x];
    const wrong = Math.abs(error) >= 5e-7;
    const sign = error > 0 ? "+" : "−";
    out.value.textContent = shown(total) + (wrong ? `\n${sign}${shown(Math.abs(error))}` : "");
    out.value.classList.toggle("wrong", wrong);
    out.box.setAttribute("role", "img");
    out.box.setAttribute("aria-label", `face ${NAMES[x]} comes out with ${shown(total)}, wanted `
      + `${shown(state.p[x])}; kept ${shown(exact.kept[x])}, third die ${shown(exact.third[x])}`);
  }

  place(part, from, height) {
    this.lift(part, from);
    part.style.height = `${100 * height / this.top}%`;
    part.hidden = height <= 0;
  }

  lift(part, from) {
    part.style.bottom = `${100 * from / this.top}%`;
  }
}
