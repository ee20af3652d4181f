// Matrices in a memory of their own, which the kernels reach, and products with them.

import { at, makeKernels, ROWS } from "./kernel.js";

const PAGE = 65536; // bytes, the unit in which memory is asked for

export class Matrices {
  taken = 0;

  // size: how many numbers there will be.
  constructor(size) {
    this.memory = new WebAssembly.Memory({ initial: Math.ceil((4 * size) / PAGE) });
    this.kernels = makeKernels(this.memory);
  }

  // Return room for so many numbers; they are 0.
  take(length) {
    const part = new Float32Array(this.memory.buffer, 4 * this.taken, length);
    this.taken += length;
    return part;
  }

  keep(values) {
    const kept = this.take(values.length);
    kept.set(values);
    return kept;
  }

  // Keep a matrix (n, m), whose entry (i, o) is values[i * down + o * right], in stripes.
  stripes(values, n, m, down, right) {
    const kept = this.take(n * m);
    for (let i = 0; i < n; i += 1) {
      for (let o = 0; o < m; o += 1) kept[at(i, o, n)] = values[i * down + o * right];
    }
    return kept;
  }

  // y = bias + x weight, for T rows.
  linear(x, { weight, bias, n, m }, y, T) {
    this.product(x, n, weight, bias, y, m, n, m, T);
  }

  // The same for an x and a y that are parts of longer rows: xs and ys are from one to the next.
  product(x, xs, weight, bias, y, ys, n, m, T) {
    for (let t = 0; t < T; t += ROWS) {
      const run = this.kernels[Math.min(ROWS, T - t) - 1];
      run(weight.byteOffset, bias.byteOffset, x.byteOffset + 4 * t * xs, y.byteOffset + 4 * t * ys,
        n, m, 4 * xs, 4 * ys);
    }
  }
}
