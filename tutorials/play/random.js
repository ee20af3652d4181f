// All randomness, by decoding/random.py's names: a generator has `draw(probs)` and `uniform(k)`.

import { sum } from "./numbers.js";

export function draw(probs, generator) {
  return generator.draw(probs);
}

export function uniform(k, generator) {
  return generator.uniform(k);
}

// u < ratio, and u <= ratio, for a number, or for one of which nothing is known yet (enumerate.js).
export function is_below(u, ratio) {
  return typeof u === "number" ? u < ratio : u.below(ratio, u.low < ratio);
}

export function is_at_most(u, ratio) {
  return typeof u === "number" ? u <= ratio : u.below(ratio, u.low <= ratio);
}

export function are_below(u, ratios) {
  return ratios.map((ratio, i) => is_below(u[i], ratio));
}

// What all generators do with number(), their next random number from [0, 1).
export class Generator {
  uniform(k) {
    return Array.from({ length: k }, () => this.number());
  }

  // The first face whose cumulative value is above a uniform number.
  draw(probs) {
    const x = this.number() * sum(probs);
    let cumulative = 0;
    let face = -1;
    do {
      face += 1;
      cumulative += probs[face];
    } while (cumulative <= x && face < probs.length - 1);
    while (probs[face] === 0) face -= 1; // the sum can end a rounding error below x
    return face;
  }
}

// Random numbers that a seed repeats (the generator called mulberry32).
export class Mulberry extends Generator {
  constructor(seed) {
    super();
    this.state = seed;
  }

  number() {
    this.state = (this.state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }
}
