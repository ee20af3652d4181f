// Every way a random program can go, with its exact probability: decoding/proof/enumerate.py.

import { sum } from "./numbers.js";

// Returns {result: probability}, by running the program once for each path.
export function distribution_of(program) {
  const paths = new Paths();
  const results = new Map();
  while (paths.waiting.length > 0) {
    paths.begin();
    const result = program(paths);
    results.set(result, (results.get(result) ?? 0) + paths.probability);
  }
  return results;
}

// A generator that takes every path in turn. A path is a list of the options taken.
class Paths {
  waiting = [[]];

  begin() {
    this.path = this.waiting.pop();
    this.step = 0;
    this.probability = 1;
  }

  // Return one value of [[value, chance], ..], the one the path says, and count its chance.
  take(options) {
    if (this.step === this.path.length) {
      for (let other = 1; other < options.length; other += 1) {
        this.waiting.push([...this.path, other]);
      }
      this.path.push(0);
    }
    const [value, chance] = options[this.path[this.step]];
    this.step += 1;
    this.probability *= chance;
    return value;
  }

  draw(probs) {
    const total = sum(probs);
    const options = probs.map((weight, face) => [face, weight / total]);
    return this.take(options.filter(([, chance]) => chance > 0));
  }

  uniform(k) {
    return Array.from({ length: k }, () => new Uniform(this));
  }
}

// A number from [0, 1) of which only the comparisons so far are known: it lies in [low, high).
class Uniform {
  low = 0;
  high = 1;

  constructor(paths) {
    this.paths = paths;
  }

  // Return whether the number is below `ratio`, as the path says; from then on it is known.
  below(ratio, possible) {
    const cut = Math.min(Math.max(ratio, this.low), this.high);
    const chance = this.low < this.high ? (cut - this.low) / (this.high - this.low) : 1;
    const options = possible ? [[true, chance]] : [];
    if (chance < 1 || !possible) options.push([false, 1 - chance]);
    const answer = this.paths.take(options);
    if (answer) this.high = cut;
    else this.low = cut;
    return answer;
  }
}
