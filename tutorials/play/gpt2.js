// GPT-2, as model/gpt2.py has it and by the same names. T new tokens; S of the text with them.

import { at, STRIPE } from "./kernel.js";
import { Matrices } from "./matrices.js";
import { sum } from "./numbers.js";

const CHUNK = 16; // tokens that are read at once

// The tensors of a model, {name: shape}.
export function shapesOf({ n_layer, n_embd, n_ctx, n_vocab }) {
  const shapes = { "wte.weight": [n_vocab, n_embd], "wpe.weight": [n_ctx, n_embd] };
  const norm = (name) => {
    for (const part of ["weight", "bias"]) shapes[`${name}.${part}`] = [n_embd];
  };
  const linear = (name, n, m) => {
    Object.assign(shapes, { [`${name}.weight`]: [n, m], [`${name}.bias`]: [m] });
  };
  for (let layer = 0; layer < n_layer; layer += 1) {
    norm(`h.${layer}.ln_1`);
    linear(`h.${layer}.attn.c_attn`, n_embd, 3 * n_embd);
    linear(`h.${layer}.attn.c_proj`, n_embd, n_embd);
    norm(`h.${layer}.ln_2`);
    linear(`h.${layer}.mlp.c_fc`, n_embd, 4 * n_embd);
    linear(`h.${layer}.mlp.c_proj`, 4 * n_embd, n_embd);
  }
  norm("ln_f");
  return shapes;
}

// A model with its key/value cache, which holds the first `length` tokens of one text.
export class GPT2 {
  length = 0;

  // tensors: {name: Float32Array}, with the shapes of shapesOf(config).
  constructor(config, tensors) {
    const { n_layer, n_embd, n_ctx, n_vocab } = config;
    const widths = { x: n_embd, normed: n_embd, qkv: 3 * n_embd, y: n_embd, hidden: 4 * n_embd,
      scores: n_ctx, rows: n_vocab };
    const weights = Object.values(tensors).map((values) => values.length);
    const matrices = new Matrices(
      sum(weights) + 2 * n_layer * n_ctx * n_embd + CHUNK * sum(Object.values(widths)) + n_vocab);
    Object.assign(this, { config, matrices, d_head: n_embd / config.n_head });
    const linear = (name, n, m) => ({ n, m, bias: matrices.keep(tensors[`${name}.bias`]),
      weight: matrices.stripes(tensors[`${name}.weight`], n, m, m, 1) });
    const norm = (name) => ["weight", "bias"].map((part) => tensors[`${name}.${part}`]);
    this.zeros = matrices.take(n_vocab);
    this.wpe = tensors["wpe.weight"];
    this.wte = { n: n_embd, m: n_vocab, bias: this.zeros, // transposed: it is the head
      weight: matrices.stripes(tensors["wte.weight"], n_embd, n_vocab, 1, n_embd) };
    this.h = Array.from({ length: n_layer }, (_, i) => ({
      ln_1: norm(`h.${i}.ln_1`),
      c_attn: linear(`h.${i}.attn.c_attn`, n_embd, 3 * n_embd),
      attn_proj: linear(`h.${i}.attn.c_proj`, n_embd, n_embd),
      ln_2: norm(`h.${i}.ln_2`),
      c_fc: linear(`h.${i}.mlp.c_fc`, n_embd, 4 * n_embd),
      mlp_proj: linear(`h.${i}.mlp.c_proj`, 4 * n_embd, n_embd),
      k: matrices.take(n_ctx * n_embd), // of each head, transposed
      v: matrices.take(n_ctx * n_embd),
    }));
    this.ln_f = norm("ln_f");
    for (const [name, width] of Object.entries(widths)) this[name] = matrices.take(CHUNK * width);
  }

  // Forget what lies beyond a length. Returns the cache's length before and after.
  truncate(length) {
    const before = this.length;
    this.length = Math.min(before, length);
    return [before, this.length];
  }

  // Read tokens that follow those in the cache. Returns the logits after the last ones,
  // (last, n_vocab).
  forward(tokens, last) {
    const logits = [];
    for (let i = 0; i < tokens.length; i += CHUNK) {
      const chunk = tokens.slice(i, i + CHUNK);
      this.read(chunk);
      const first = Math.max(0, tokens.length - last - i);
      if (first < chunk.length) logits.push(...this.head(first, chunk.length));
    }
    return logits;
  }

  read(tokens) {
    const { matrices, x, normed, qkv, y, hidden, config: { n_embd } } = this;
    const T = tokens.length;
    tokens.forEach((token, t) => this.embed(token, t));
    for (const block of this.h) {
      layerNorm(x, block.ln_1, normed, T);
      matrices.linear(normed, block.c_attn, qkv, T);
      this.attend(block, T);
      matrices.linear(y, block.attn_proj, normed, T);
      addTo(x, normed, T * n_embd);
      layerNorm(x, block.ln_2, normed, T);
      matrices.linear(normed, block.c_fc, hidden, T);
      gelu(hidden, 4 * T * n_embd);
      matrices.linear(hidden, block.mlp_proj, normed, T);
      addTo(x, normed, T * n_embd);
    }
    this.length += T;
  }

  embed(token, t) {
    const { wte, wpe, x, length, config: { n_embd } } = this;
    for (let i = 0; i < n_embd; i += 1) {
      x[t * n_embd + i] = wte.weight[at(i, token, n_embd)] + wpe[(length + t) * n_embd + i];
    }
  }

  // The logits of rows first, …, end - 1 of the chunk that was read.
  head(first, end) {
    const { matrices, x, normed, rows, config: { n_vocab } } = this;
    layerNorm(x, this.ln_f, normed, end);
    matrices.linear(normed, this.wte, rows, end);
    return Array.from({ length: end - first }, (_, t) =>
      rows.slice((first + t) * n_vocab, (first + t + 1) * n_vocab));
  }

  // What each new token reads from those it may look at: all before it, and itself.
  attend(block, T) {
    const { matrices, zeros, d_head, length, config: { n_embd, n_head, n_ctx } } = this;
    const { qkv, scores, y } = this;
    const S = length + T;
    for (let head = 0; head < n_head; head += 1) {
      const [k, v] = [block.k, block.v].map((all) => all.subarray(head * n_ctx * d_head));
      for (let t = 0; t < T; t += 1) {
        const start = t * 3 * n_embd + head * d_head;
        for (let i = 0; i < d_head; i += 1) {
          k[at(i, length + t, d_head)] = qkv[start + n_embd + i];
          v[at(length + t, i, n_ctx)] = qkv[start + 2 * n_embd + i];
        }
      }
      const q = qkv.subarray(head * d_head);
      const columns = Math.ceil(S / STRIPE) * STRIPE;
      matrices.product(q, 3 * n_embd, k, zeros, scores, n_ctx, d_head, columns, T);
      for (let t = 0; t < T; t += 1) {
        attention(scores.subarray(t * n_ctx, t * n_ctx + S), length + t + 1, Math.sqrt(d_head));
      }
      for (let i = 0; i < d_head; i += STRIPE) {
        const part = v.subarray(at(0, i, n_ctx));
        matrices.product(scores, n_ctx, part, zeros, y.subarray(head * d_head + i), n_embd,
          S, STRIPE, T);
      }
    }
  }
}

function addTo(x, y, length) {
  for (let i = 0; i < length; i += 1) x[i] += y[i];
}

function layerNorm(x, [weight, bias], y, T) {
  const n = weight.length;
  for (let t = 0; t < T; t += 1) {
    let mean = 0;
    for (let i = 0; i < n; i += 1) mean += x[t * n + i] / n;
    let variance = 0;
    for (let i = 0; i < n; i += 1) {
      const off = x[t * n + i] - mean;
      variance += (off * off) / n;
    }
    const scale = 1 / Math.sqrt(variance + 1e-5);
    for (let i = 0; i < n; i += 1) {
      y[t * n + i] = (x[t * n + i] - mean) * scale * weight[i] + bias[i];
    }
  }
}

// The tanh form, x (1 + tanh z) / 2, which is x / (1 + exp(-2 z)).
function gelu(x, length) {
  const twice = 2 * Math.sqrt(2 / Math.PI);
  for (let i = 0; i < length; i += 1) {
    x[i] /= 1 + Math.exp(-twice * x[i] * (1 + 0.044715 * x[i] * x[i]));
  }
}

// The softmax of scores / root. Only the first `visible` count; the others get 0.
function attention(row, visible, root) {
  let best = -Infinity;
  for (let i = 0; i < visible; i += 1) best = Math.max(best, row[i]);
  let total = 0;
  for (let i = 0; i < visible; i += 1) {
    row[i] = Math.exp((row[i] - best) / root);
    total += row[i];
  }
  for (let i = 0; i < visible; i += 1) row[i] /= total;
  row.fill(0, visible);
}
