// The files of the pair: weights/tales, chosen, dropped, or fetched from beside the page.

import { Tokenizer } from "./bpe.js";
import { GPT2, shapesOf } from "./gpt2.js";
import { readSafetensors } from "./safetensors.js";

const CONFIG = { n_embd: 256, n_head: 8, n_ctx: 1024, n_vocab: 4096 }; // as both config.json say
const LAYERS = { "tales-large": 12, "tales-small": 2 };
const LARGEST = 1e8; // bytes; none of the files has a third of it
const NEEDED = ["tales-large/model.safetensors", "tales-small/model.safetensors",
  "tales-large/tales.tiktoken"];

// Add what these files hold to a pair, {"tales-large", "tales-small", tokenizer}, in which parts
// may be missing still. Other files are passed over. Throws an Error with one sentence; then the
// pair is what it was.
export async function addFiles(pair, files) {
  const known = files.filter(isOfPair);
  if (known.length === 0) throw new Error("None of these files belongs to the pair.");
  const found = {};
  for (const file of known) {
    if (file.size > LARGEST) throw new Error(`${file.name} is too large to be one of the pair.`);
    if (file.name.endsWith(".tiktoken")) {
      found.tokenizer = new Tokenizer(file.name, await file.text());
      if (found.tokenizer.end !== CONFIG.n_vocab - 1) {
        throw new Error(`${file.name} is not the pair’s vocabulary, tales.tiktoken.`);
      }
    } else {
      const { name, model } = makeModel(file.name, await file.arrayBuffer());
      found[name] = model;
    }
  }
  Object.assign(pair, found);
}

export function isOfPair({ name }) {
  return name.endsWith(".safetensors") || name.endsWith(".tiktoken");
}

export function missing(pair) {
  return [...Object.keys(LAYERS), "tokenizer"].filter((part) => !(part in pair))
    .map((part) => (part === "tokenizer" ? "tales.tiktoken" : `model.safetensors of ${part}`));
}

function makeModel(file, buffer) {
  const tensors = readSafetensors(file, buffer);
  const layers = Object.keys(tensors).filter((name) => /^h\.\d+\.ln_1\.weight$/.test(name)).length;
  const name = Object.keys(LAYERS).find((one) => LAYERS[one] === layers);
  const config = { ...CONFIG, n_layer: layers };
  const fits = Object.entries(shapesOf(config)).every(([tensor, shape]) =>
    `${tensors[tensor]?.shape}` === `${shape}`);
  if (name === undefined || !fits) {
    throw new Error(`${file} is neither tales-large nor tales-small: its tensors are others.`);
  }
  const values = Object.entries(tensors).map(([tensor, { values: numbers }]) => [tensor, numbers]);
  return { name, model: new GPT2(config, Object.fromEntries(values)) };
}

// The files that a drop brings, those in folders too. Chromium reads folders by handles, also for a
// page from the disk, for which it reads none by entries; a browser without handles has entries.
export async function droppedFiles({ items, files }) {
  const entries = [...items].map((item) => item.webkitGetAsEntry?.());
  if (!entries.some((entry) => entry?.isDirectory)) return [...files];
  const handles = [...items].map((item) => item.getAsFileSystemHandle?.());
  if (handles.includes(undefined)) return (await Promise.all(entries.map(filesOf))).flat();
  return (await Promise.all((await Promise.all(handles)).map(filesOfHandle))).flat();
}

async function filesOf(entry) {
  if (entry.isFile) return [await new Promise((done, fail) => entry.file(done, fail))];
  const reader = entry.createReader();
  const inside = await new Promise((done, fail) => reader.readEntries(done, fail));
  return (await Promise.all(inside.map(filesOf))).flat();
}

async function filesOfHandle(handle) {
  if (handle.kind === "file") return [await handle.getFile()];
  const files = [];
  for await (const inside of handle.values()) files.push(...await filesOfHandle(inside));
  return files;
}

// Where the page came by http, the files may be had from where they lie in the project.
export async function fetchFiles() {
  return Promise.all(NEEDED.map(async (path) => {
    const answer = await fetch(`../weights/tales/${path}`);
    if (!answer.ok) {
      throw new Error(`weights/tales/${path} is not beside the page: the server says `
        + `${answer.status}.`);
    }
    return new File([await answer.blob()], path.split("/").at(-1));
  }));
}
