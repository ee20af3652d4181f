// The inner loop of both models, y = b + x W for a few rows of x at once, as WebAssembly.
//
// JavaScript multiplies one number at a time, and so a pass over five tokens took it nearly four
// times as long as one over a single token: no draft pays then. With four at a time it is reading
// W that takes long, and that is done once for all rows, as on a GPU. So this one loop is put
// together here, instruction by instruction.
//
// W lies in stripes of 8 columns: row 0 of a stripe, row 1, …; then comes the next stripe.

export const STRIPE = 8;
const VECTORS = STRIPE / 4; // of four numbers each
export const ROWS = 5; // the most rows of x for which all sums stay in the processor

// Where entry (i, o) of a W with n rows lies.
export function at(i, o, n) {
  return (Math.floor(o / STRIPE) * n + i) * STRIPE + (o % STRIPE);
}

// Return functions for 1, 2, … rows of x: f(W, b, x, y, n, m, xStride, yStride). The first four are
// where these begin and the strides are from row to row, in bytes; W is (n, m).
export function makeKernels(memory) {
  return Array.from({ length: ROWS }, (_, i) => {
    const module = new WebAssembly.Module(new Uint8Array(program(i + 1)));
    return new WebAssembly.Instance(module, { js: { memory } }).exports.run;
  });
}

const [I32, V128] = [0x7f, 0x7b];
const [W, B, X, Y, N, M, X_STRIDE, Y_STRIDE] = Array(8).keys(); // the arguments
const get = (i) => [0x20, i];
const put = (i) => [0x21, i];
const constant = (value) => [0x41, ...signed(value)];
const [ADD, SUBTRACT] = [[0x6a], [0x6b]];
const simd = (code) => [0xfd, ...unsigned(code)];
const load = (offset) => [...simd(0), 2, offset]; // four numbers
const spread = [...simd(9), 2, 0]; // one number, four times
const store = (offset) => [...simd(11), 2, offset];
const [ADD_4, MULTIPLY_4] = [simd(0xe4), simd(0xe6)];
const move = (i, by) => [...get(i), ...by, ...ADD, ...put(i)];

// Do something over and over, each time subtracting from a counter, until that is 0.
function countdown(counter, by, body) {
  const left = [...get(counter), ...constant(by), ...SUBTRACT, ...put(counter), ...get(counter)];
  return [0x03, 0x40, ...body, ...left, 0x0d, 0, 0x0b];
}

// The code for so many rows.
function instructions(rows) {
  let local = Y_STRIDE + 1;
  const names = (n) => Array.from({ length: n }, () => local++);
  const [x, y, [left]] = [names(rows), names(rows), names(1)];
  const [w, [xi]] = [names(VECTORS), names(1)];
  const sums = x.map(() => names(VECTORS));
  // row r of x (or y) begins r strides after the first
  const pointers = (all, first, stride) => all.flatMap((p, r) => (r === 0
    ? [...get(first), ...put(p)] : [...get(all[r - 1]), ...get(stride), ...ADD, ...put(p)]));
  const stripe = [
    ...pointers(x, X, X_STRIDE),
    ...sums.flatMap((row) => row.flatMap((sum, j) => [...get(B), ...load(16 * j), ...put(sum)])),
    ...get(N), ...put(left),
    ...countdown(left, 1, [
      ...w.flatMap((vector, j) => [...get(W), ...load(16 * j), ...put(vector)]),
      ...move(W, constant(4 * STRIPE)),
      ...x.flatMap((p, r) => [
        ...get(p), ...spread, ...put(xi), ...move(p, constant(4)),
        ...sums[r].flatMap((sum, j) => [
          ...get(sum), ...get(xi), ...get(w[j]), ...MULTIPLY_4, ...ADD_4, ...put(sum)]),
      ]),
    ]),
    ...y.flatMap((p, r) => [
      ...sums[r].flatMap((sum, j) => [...get(p), ...get(sum), ...store(16 * j)]),
      ...move(p, constant(4 * STRIPE))]),
    ...move(B, constant(4 * STRIPE)),
  ];
  const code = [...pointers(y, Y, Y_STRIDE), ...countdown(M, STRIPE, stripe)];
  return { code, numbers: 2 * rows + 1, vectors: (rows + 1) * VECTORS + 1 };
}

// The module around the code: one type, the memory from outside, one function, its name.
function program(rows) {
  const { code, numbers, vectors } = instructions(rows);
  const locals = list([[numbers, I32], [vectors, V128]]);
  const body = [...locals, ...code, 0x0b];
  return [
    0, ...bytes("asm"), 1, 0, 0, 0,
    ...section(1, list([[0x60, ...list(Array(8).fill([I32])), 0]])),
    ...section(2, list([[...text("js"), ...text("memory"), 2, 0, 1]])),
    ...section(3, list([[0]])),
    ...section(7, list([[...text("run"), 0, 0]])),
    ...section(10, list([[...unsigned(body.length), ...body]])),
  ];
}

const bytes = (word) => [...word].map((letter) => letter.charCodeAt(0));
const text = (word) => [word.length, ...bytes(word)];
const list = (items) => [...unsigned(items.length), ...items.flat()];
const section = (id, content) => [id, ...unsigned(content.length), ...content];

// A whole number in groups of seven bits, the lowest first (LEB128).
function unsigned(value) {
  return value < 128 ? [value] : [(value % 128) + 128, ...unsigned(Math.floor(value / 128))];
}

function signed(value) {
  return value < 64 ? [value] : [(value % 128) + 128, ...signed(Math.floor(value / 128))];
}
