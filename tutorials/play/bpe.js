// Text to ids and back: byte pair encoding, as weights/vocabulary.py and tiktoken do it.

// GPT-2's pattern. JavaScript's \s is not Unicode's White_Space, which is meant.
const PIECES = new RegExp(["'(?:[sdmt]|ll|ve|re)", " ?\\p{L}+", " ?\\p{N}+",
  " ?[^\\p{White_Space}\\p{L}\\p{N}]+", "\\p{White_Space}+(?!\\P{White_Space})",
  "\\p{White_Space}"].join("|"), "gu");

// Bytes are kept in strings, a character each.
export class Tokenizer {
  // text: of a *.tiktoken file, a line for each token: its bytes in base64, and its id. Throws an
  // Error with one sentence.
  constructor(name, text) {
    this.ids = new Map();
    for (const line of text.trim().split("\n")) {
      const [, base64, id] = /^([A-Za-z0-9+/]+={0,2}) (\d+)\r?$/.exec(line) ?? [];
      if (base64?.length % 4 !== 0 || Number(id) !== this.ids.size) {
        throw new Error(`${name} is no vocabulary, or is damaged.`);
      }
      this.ids.set(atob(base64), Number(id));
    }
    this.tokens = [...this.ids.keys()];
    for (let byte = 0; byte < 256; byte += 1) {
      if (!this.ids.has(String.fromCharCode(byte))) {
        throw new Error(`${name} is damaged: not all 256 bytes are among its tokens.`);
      }
    }
    this.end = this.tokens.length; // <|endoftext|>
    this.longest = Math.max(...this.tokens.map((token) => token.length)); // in bytes
  }

  // What a model is to read: no text at all is the token that comes before one.
  prompt(text) {
    const ids = this.encode(text);
    return ids.length > 0 ? ids : [this.end];
  }

  encode(text) {
    return (text.match(PIECES) ?? []).flatMap((piece) => this.merge(bytesOf(piece)));
  }

  // Of all neighbours join those that make the lowest id, until none makes a token.
  merge(piece) {
    if (this.ids.has(piece)) return [this.ids.get(piece)];
    const parts = [...piece];
    for (;;) {
      const joined = parts.slice(1).map((part, i) => this.ids.get(parts[i] + part) ?? Infinity);
      const best = Math.min(...joined);
      if (best === Infinity) return parts.map((part) => this.ids.get(part));
      parts.splice(joined.indexOf(best), 2, this.tokens[best]);
    }
  }

  decode(ids) {
    const bytes = ids.map((id) => this.tokens[id] ?? "<|endoftext|>").join("");
    return new TextDecoder("utf-8", { ignoreBOM: true })
      .decode(Uint8Array.from(bytes, (byte) => byte.charCodeAt(0)));
  }
}

function bytesOf(text) {
  return Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join("");
}
