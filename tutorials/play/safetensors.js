// Files of the kind model.safetensors: a header in JSON, and the tensors' numbers after it.

// Return {name: {shape, values}}, values as a Float32Array. Throws an Error with one sentence.
export function readSafetensors(name, buffer) {
  const header = readHeader(buffer);
  if (header === undefined) throw new Error(`${name} is no safetensors file, or is damaged.`);
  const { start, entries } = header;
  const end = start + Math.max(...Object.values(entries).map((entry) => entry.data_offsets[1]));
  if (end !== buffer.byteLength) {
    throw new Error(`${name} has ${buffer.byteLength} bytes, but its header says ${end}: it is `
      + "damaged.");
  }
  const tensors = {};
  for (const [tensor, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries)) {
    const bytes = shape.reduce((total, n) => total * n, BYTES[dtype]);
    if (!(dtype in READERS)) {
      throw new Error(`${name} has numbers of type ${dtype}, not F16 or F32.`);
    }
    const values = to - from === bytes
      ? READERS[dtype](buffer.slice(start + from, start + to)) : [NaN];
    if (!values.every(Number.isFinite)) {
      throw new Error(`${name} is damaged: its tensor ${tensor} holds no sound numbers.`);
    }
    tensors[tensor] = { shape, values };
  }
  return tensors;
}

function readHeader(buffer) {
  try {
    const length = Number(new DataView(buffer).getBigUint64(0, true));
    const decoder = new TextDecoder("utf-8", { fatal: true });
    const entries = JSON.parse(decoder.decode(new Uint8Array(buffer, 8, length)));
    delete entries.__metadata__;
    const tensors = Object.values(entries);
    const sound = tensors.every(({ shape, data_offsets }) =>
      Array.isArray(shape) && data_offsets.length === 2);
    return sound && tensors.length > 0 ? { start: 8 + length, entries } : undefined;
  } catch {
    return undefined;
  }
}

const BYTES = { F32: 4, F16: 2 };
const READERS = {
  F32: (raw) => new Float32Array(raw),
  F16: (raw) => {
    const bits = new Uint16Array(raw);
    const values = new Float32Array(bits.length);
    for (let i = 0; i < bits.length; i += 1) values[i] = HALVES[bits[i]];
    return values;
  },
};

// What each pattern of 16 bits stands for: a sign, five bits of exponent, ten of fraction.
const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => {
  const exponent = (bits >> 10) & 31;
  const fraction = (bits & 1023) / 1024;
  const size = exponent === 0 ? fraction * 2 ** -14
    : exponent < 31 ? (1 + fraction) * 2 ** (exponent - 15) : fraction === 0 ? Infinity : NaN;
  return bits < 32768 ? size : -size;
});
