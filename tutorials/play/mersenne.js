// PyTorch's random numbers on a CPU, to the last bit: the generator mt19937 (Matsumoto and
// Nishimura 1998), and what torch.rand and torch.randint make of it.

import { Generator } from "./random.js";

const SIZE = 624;

class Mersenne {
  constructor(seed) {
    this.state = new Uint32Array(SIZE);
    this.state[0] = seed;
    for (let i = 1; i < SIZE; i += 1) {
      const before = this.state[i - 1];
      this.state[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
    }
    this.used = SIZE;
  }

  // The next 32 bits.
  next() {
    if (this.used === SIZE) this.twist();
    let y = this.state[this.used];
    this.used += 1;
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  twist() {
    const { state } = this;
    for (let i = 0; i < SIZE; i += 1) {
      const y = (state[i] & 0x80000000) | (state[(i + 1) % SIZE] & 0x7fffffff);
      state[i] = state[(i + 397) % SIZE] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.used = 0;
  }
}

// torch.Generator().manual_seed(seed), which looks at the seed's lowest 32 bits only.
export class TorchGenerator extends Generator {
  constructor(seed) {
    super();
    this.engine = new Mersenne(seed);
  }

  // torch.rand((), dtype=torch.float64): of 64 bits, the high ones first, the lowest 53.
  number() {
    const high = this.engine.next();
    const low = this.engine.next();
    return ((high & 0x1fffff) * 2 ** 32 + low) / 2 ** 53;
  }

  // torch.randint(2**62, ()), modulo 2**32: a seed's lowest 32 bits are all that counts.
  seed() {
    this.engine.next();
    return this.engine.next();
  }
}
