"""The last panel of the page: tales-large and tales-small at work in the browser."""
import functools
import http.server
import json
import random
import re
import shlex
import struct
import threading
import unicodedata

import pytest
import torch

from decoding.baseline import autoregressive
from decoding.cli.options import parse
from decoding.coupling import Coupled, SharedNoise
from decoding.generate import main
from decoding.sampling import GREEDY, Sampling
from decoding.speculative import speculative_greedy, speculative_sampling
from tests.tutorials.play.browser import needs_a_browser, state
from tutorials.play.__main__ import PAGE
from weights import load_model, load_tokenizer
from weights.tokenizer import read_vocabulary

pytestmark = pytest.mark.slow

ROOT = PAGE.parents[1]
TALES = ROOT / "weights" / "tales"
LARGE, SMALL = (TALES / name / "model.safetensors" for name in ("tales-large", "tales-small"))
VOCABULARY = TALES / "tales-large" / "tales.tiktoken"
NEW_TOKENS = 100


@pytest.fixture(scope="module")
def loaded(browser):
    """The page with the pair in it."""
    context = browser.new_context(viewport={"width": 1280, "height": 720}, offline=True)
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text))
    page.goto(PAGE.as_uri() + "#panel=pair")
    page.set_input_files("#pair-folder", TALES)
    page.locator("#pair-run").wait_for()
    yield page
    context.close()
    assert errors == []


@pytest.fixture(scope="module")
def models():
    return [load_model(name) for name in ("tales-large", "tales-small")]


@pytest.fixture(scope="module")
def tokenizer():
    return load_tokenizer("tales-large")


def written(page, prompt, gamma, temperature, seed, coupling):
    """What both loops of the page write: {"speculative": ids, "plain": ids}."""
    return page.evaluate("""async (state) => {
        const { pair } = play.panels;
        pair.change(state);
        await pair.write();
        return Object.fromEntries(
            Object.entries(pair.runs).map(([name, rounds]) => [name, play.idsOf(rounds)]));
    }""", {"panel": "pair", "prompt": prompt, "gamma": gamma, "temperature": temperature,
           "seed": seed, "coupling": coupling})


def wanted(models, tokenizer, prompt, gamma, temperature, seed, coupling):
    """What this project's own loops write."""
    ids, sampling = tokenizer.prompt(prompt), Sampling(temperature)
    target, draft = models
    eos = tokenizer.eot_token

    def generator():
        return torch.Generator().manual_seed(seed)

    if coupling:
        noise = SharedNoise(generator())
        target, draft = (Coupled(model, sampling, noise) for model in models)
        sampling = GREEDY
    if sampling.greedy:
        speculative = speculative_greedy(target, draft, ids, NEW_TOKENS, gamma=gamma, eos=eos)
    else:
        speculative = speculative_sampling(target, draft, ids, NEW_TOKENS, gamma=gamma, eos=eos,
                                           sampling=sampling, generator=generator())
    plain = autoregressive(target, ids, NEW_TOKENS, sampling=sampling, eos=eos,
                           generator=generator())
    return {"speculative": speculative.tokens, "plain": plain.tokens}


# Chosen such that rounding, which is not the same in the two, decides nothing.
@needs_a_browser
@pytest.mark.parametrize("prompt, gamma, temperature, seed, coupling", [
    ("Once upon a time", 4, 0, 0, ""),
    ("", 8, 0, 0, ""),
    ("\"Who are you?\" asked the little  girl's\n\ncat", 1, 0, 0, ""),
    ("Once upon a time", 4, 0.8, 1, "gumbel"),
    ("The old king had three sons.", 2, 1, 2**32 - 1, "gumbel"),
    ("", 7, 1.5, 12345, "gumbel"),
    ("It is true,", 0, 0.5, 7, "gumbel"),
    ("Once upon a time", 4, 0.8, 1, ""),
    ("The old king had three sons.", 3, 1, 15, ""),
    ("In winter, ", 8, 1.3, 2**31, ""),
    ("And they lived happily ever after.", 3, 0, 0, ""),  # the text ends
    ("And they lived happily ever after.", 3, 0.7, 3, "gumbel"),  # ends in a draft
    ("And they lived happily ever after.", 3, 0.7, 0, ""),
    ("And they lived happily ever after.", 5, 0.9, 3, "gumbel"),  # one draft's end is rejected
])
def test_the_page_writes_what_the_command_line_writes(loaded, models, tokenizer, prompt, gamma,
                                                      temperature, seed, coupling):
    asked = prompt, gamma, temperature, seed, coupling
    assert written(loaded, *asked) == wanted(models, tokenizer, *asked)


@needs_a_browser
def test_a_text_that_fills_the_context_ends_there(loaded, models, tokenizer):
    """A prompt of 995 tokens, read in many blocks: there is room for 30 ids more."""
    story = " ".join(f"The {n % 7}. goose said no." for n in range(200))
    prompt = tokenizer.decode(tokenizer.encode(story)[:995])
    asked = prompt, 4, 0.9, 3, "gumbel"
    found = written(loaded, *asked)
    assert found == wanted(models, tokenizer, *asked)
    assert len(tokenizer.encode(prompt)) + len(found["plain"]) == 1025


@needs_a_browser
def test_a_prompt_longer_than_the_context_is_refused(loaded):
    assert written(loaded, "goose " * 1100, 4, 0, 0, "") == {}
    assert "context" in loaded.locator("#pair-about").inner_text()


@needs_a_browser
@pytest.mark.parametrize("name, i", [("tales-large", 0), ("tales-small", 1)])
def test_logits_are_those_of_the_model(loaded, models, tokenizer, name, i):
    """Read at once, and in blocks after a cache that was rewound."""
    ids = tokenizer.encode("Then the wolf said to the seven little kids, \"Open the door, for "
                           "your mother has brought something for each of you from the wood.\"")
    assert len(ids) > 16  # read in more than one block
    with torch.no_grad():
        expected = models[i].forward(torch.tensor([ids]))[0]
    found = loaded.evaluate("""([name, ids]) => {
        const model = play.panels.pair.pair[name];
        model.truncate(0);
        const whole = model.forward(ids, ids.length - 2);
        model.truncate(3);
        const parts = [...model.forward(ids.slice(3, 4), 1), ...model.forward(ids.slice(4, 10), 6),
          ...model.forward(ids.slice(10), ids.length - 10)];
        return [whole, parts].map((rows) => rows.map((row) => [...row]));
    }""", [name, ids])
    for rows, truth in zip(found, (expected[2:], expected[3:])):
        assert torch.allclose(torch.tensor(rows), truth, rtol=0, atol=2e-4)


@needs_a_browser
def test_random_numbers_are_those_of_torch(visit):
    """To the last bit. After 312 numbers of 64 bits the generator twists."""
    seeds = [0, 1, 15, 2**31 - 1, 2**31, 2**32 - 1, *random.Random(0).sample(range(2**32), 50)]
    found = visit().evaluate("""(seeds) => seeds.map((seed) => {
        const generator = new play.TorchGenerator(seed);
        return [generator.uniform(700), generator.seed(), generator.seed(), generator.number()];
    })""", seeds)
    for seed, numbers in zip(seeds, found):
        generator = torch.Generator().manual_seed(seed)
        uniforms = torch.rand(700, generator=generator, dtype=torch.float64).tolist()
        drawn = [int(torch.randint(2**62, (), generator=generator)) for _ in range(2)]
        last = torch.rand((), generator=generator, dtype=torch.float64).item()
        assert numbers == [uniforms, *(seed % 2**32 for seed in drawn), last]


def texts():
    """Texts of all kinds: of odd parts, of any characters that Unicode 3.2 has, of letters."""
    numbers = random.Random(0)
    old = [chr(c) for c in range(0x110000) if unicodedata.ucd_3_2_0.category(chr(c)) not in
           ("Cn", "Cs")]
    spaces = [c for c in map(chr, range(0x3001)) if c.isspace() or c in "\u200b\ufeff\u180e"]
    odd = [*spaces, *"'`’\"0½²٣aéßǅʰªﬁ日本語\U0001f600_-.,!?<|>\0\x7f\xad",
           "'s", "'S", "'re", "'ll", "Let's", " don't", "\r\n", "<|endoftext|>"]
    yield from ["", " ", "a  b   c", "it's 'tis we'll I'D\n\n\n x \t ", "x" * 300, "12345 678"]
    for _ in range(300):
        yield "".join(numbers.choices(odd, k=numbers.randrange(1, 30)))
    for _ in range(300):
        yield "".join(numbers.choices(old, k=numbers.randrange(1, 60)))
        yield "".join(numbers.choices("etaoinshrdlcum ", k=numbers.randrange(1, 60)))


@needs_a_browser
@pytest.mark.parametrize("file", [VOCABULARY, ROOT / "weights" / "gpt2.tiktoken"])
def test_ids_of_odd_texts_are_those_of_the_tokenizer(visit, file):
    """GPT-2's whole vocabulary joins more, and so shows more of how a text was cut."""
    asked, tokenizer = list(texts()), read_vocabulary(file)
    found, back = visit().evaluate("""([lines, texts]) => {
        const tokenizer = new play.Tokenizer("its file", lines);
        const ids = texts.map((text) => tokenizer.encode(text));
        return [ids, ids.map((list) => tokenizer.decode(list))];
    }""", [file.read_text(encoding="utf-8"), asked])
    for text, ids in zip(asked, found):
        assert ids == tokenizer.encode(text), repr(text)
    assert back == asked


def said_of(page, selector):
    """What a screen reader is told of an element: the texts of the browser's accessibility tree."""
    session = page.context.new_cdp_session(page)
    root = session.send("DOM.getDocument")["root"]["nodeId"]
    node = session.send("DOM.querySelector", {"nodeId": root, "selector": selector})["nodeId"]
    told = session.send("Accessibility.queryAXTree", {"nodeId": node, "role": "StaticText"})
    return "".join(part["name"]["value"] for part in told["nodes"])


@needs_a_browser
def test_the_panel_shows_both_runs(visit):
    page = visit("#panel=pair&temperature=0&gamma=3")
    page.set_input_files("#pair-folder", TALES)
    page.get_by_role("button", name="write").click()
    page.locator("#pair-said").get_by_text("Both texts are the same").wait_for()
    rounds = page.evaluate("play.panels.pair.runs.speculative")
    rows = page.locator("#pair-table tr").all_inner_texts()
    assert rows[1].split("\t")[:3] == ["speculative", "100", str(len(rounds))]
    assert rows[2].split("\t")[:3] == ["plain", "100", "100"]
    for kind, count in {
        "accepted": sum(round["accepted"] for round in rounds),
        "rejected": sum(round["kind"] == "correction" for round in rounds),
        "correction": sum(round["kind"] == "correction" for round in rounds),
        "bonus": sum(round["kind"] == "bonus" for round in rounds),
    }.items():
        assert page.locator(f"#pair-speculative .{kind}").count() == count > 0
    for width, height in ((390, 844), (1280, 720)):
        page.set_viewport_size({"width": width, "height": height})
        wide, high = page.evaluate("[document.documentElement.scrollWidth, "
                                   "document.documentElement.scrollHeight]")
        assert wide <= width and (high <= height or width == 390)
    plain = page.locator("#pair-plain").text_content()
    shown = page.locator("#pair-speculative span").all_text_contents()
    assert "".join(shown) == plain
    copied = page.evaluate("""() => {
        getSelection().selectAllChildren(document.getElementById("pair-speculative"));
        return getSelection().toString();
    }""")
    assert copied.split() == plain.split()
    rejected = page.locator("#pair-speculative del").all_text_contents()
    assert len(rejected) == sum(round["kind"] == "correction" for round in rounds) > 0
    heard = said_of(page, "#pair-speculative")
    assert heard.count("(rejected: ") == heard.count(") ") == len(rejected)
    assert all(f"(rejected: {token}) " in heard for token in rejected)
    page.get_by_role("button", name="its α, c and v in the formula").click()
    assert "panel=pays" in state(page) and "alpha=" in state(page)
    c, v = (float(re.search(rf"\b{name}=([\d.e-]+)", state(page))[1]) for name in "cv")
    drafted, round, step = page.evaluate("""() => {
        const { speculative, plain } = play.panels.pair.runs;
        const mean = (rounds, number) =>
            rounds.reduce((total, one) => total + number(one), 0) / rounds.length;
        return [mean(speculative, ({ drafted }) => drafted.length),
            mean(speculative, ({ time }) => time), mean(plain, ({ time }) => time)];
    }""")
    assert drafted * c + v == pytest.approx(round / step)  # nothing of a round is left out


@needs_a_browser
@pytest.mark.parametrize("temperature, coupling", [(0, None), (0.8, "gumbel"), (0.8, None)])
def test_a_run_is_shown_round_by_round(loaded, tmp_path, temperature, coupling):
    """As one that the program has recorded."""
    file = tmp_path / "run.json"
    options = ["--temperature", str(temperature), "--gamma", "3"]
    options += ["--seed", "1"] * (temperature > 0)
    options += ["--coupling", "gumbel"] * (coupling is not None)
    assert main([*options, "--max-new-tokens", str(NEW_TOKENS), "--mode", "speculative", "--quiet",
                 "--record", str(file)]) == 0
    recording = json.loads(file.read_text(encoding="utf-8"))
    written(loaded, "Once upon a time", 3, temperature, 1, coupling or "")
    loaded.get_by_role("button", name="show it round by round").click()
    loaded.get_by_text(f"round 1 of {len(recording['rounds'])}").wait_for()
    found = loaded.evaluate("play.panels.rounds.run")
    assert (found["recording"], found["gamma"]) == (2, 3)
    for name in ("target", "draft", "temperature", "coupling"):
        assert found["settings"][name] == recording["settings"][name]
    assert found["prompt"] == recording["prompt"]
    for round, truth in zip(found["rounds"], recording["rounds"]):
        assert round == near({name: truth[name] for name in round})


def near(value):
    """The same, in which probabilities need not be equal in the last digits."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-3, abs=1e-6)
    if isinstance(value, list):
        return list(map(near, value))
    return {name: near(item) for name, item in value.items()} if isinstance(value, dict) else value


@needs_a_browser
def test_a_run_can_be_stopped_and_a_setting_ends_it(visit):
    page = visit("#panel=pair")
    page.set_input_files("#pair-folder", TALES)
    page.get_by_role("button", name="write").click()
    page.get_by_role("button", name="stop").click()
    page.get_by_role("button", name="write").wait_for()
    assert page.locator("#pair-said").inner_text() == ""
    page.get_by_role("button", name="write").click()
    page.locator("#pair-temperature").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="write").wait_for()
    assert page.locator("#pair-speculative").text_content() == "Once upon a time"
    assert "temperature=0.9" in state(page)


@needs_a_browser
def test_the_command_is_that_of_the_terminal(visit):
    page = visit("#panel=pair&prompt=it's%20\"$HOME\"&temperature=0.5&seed=9&coupling=gumbel"
                 "&gamma=2")
    page.set_input_files("#pair-folder", TALES)
    words = shlex.split(page.locator("#pair-command").inner_text())
    assert words[:3] == ["python", "-m", "decoding.generate"]
    options = parse(words[3:])
    assert (options.prompt, options.temperature, options.seed, options.coupling, options.gamma,
            options.max_new_tokens) == ("it's \"$HOME\"", 0.5, 9, "gumbel", 2, NEW_TOKENS)
    page.fill("#pair-prompt", "-h")
    assert parse(shlex.split(page.locator("#pair-command").inner_text())[3:]).prompt == "-h"


def drop(page, path):
    """Drop a file on the page, as from a folder."""
    page.evaluate("""() => {
        const input = document.createElement("input");
        Object.assign(input, { type: "file", id: "to-drop", hidden: true });
        document.body.append(input);
    }""")
    page.set_input_files("#to-drop", path)
    page.evaluate("""() => {
        const dataTransfer = new DataTransfer();
        dataTransfer.items.add(document.getElementById("to-drop").files[0]);
        document.getElementById("to-drop").remove();
        document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true }));
    }""")


@needs_a_browser
def test_files_may_be_dropped_one_by_one(visit):
    page = visit()
    drop(page, VOCABULARY)
    page.get_by_text("Still missing: model.safetensors of tales-large, model.safetensors of "
                     "tales-small.").wait_for()
    drop(page, SMALL)
    page.get_by_text("Still missing: model.safetensors of tales-large.").wait_for()
    drop(page, LARGE)
    page.locator("#pair-run").wait_for()


@needs_a_browser
@pytest.mark.parametrize("paths", [[TALES], [LARGE.parent, SMALL.parent]], ids=["one", "two"])
def test_folders_may_be_dropped(visit, paths):
    page = visit("#panel=pair")
    session = page.context.new_cdp_session(page)  # a drop that a script makes brings no folders
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        session.send("Input.dispatchDragEvent", {"type": kind, "x": 500, "y": 300, "data": data})
    page.locator("#pair-run").wait_for()


def damaged():
    """Files that are no good: (name, contents, words of the one sentence)."""
    small = SMALL.read_bytes()
    n = 8 + struct.unpack("<Q", small[:8])[0]
    header = json.loads(small[8:n])

    def changed(header, numbers=small[n:]):
        text = json.dumps(header).encode()
        return struct.pack("<Q", len(text)) + text + numbers

    three = {name: entry for name, entry in header.items() if not name.startswith("h.1.")}
    wide = header | {"ln_f.bias": header["ln_f.bias"] | {"shape": [128, 2]}}
    odd = header | {"ln_f.bias": header["ln_f.bias"] | {"dtype": "BF16"}}
    yield "model.safetensors", b"", "no safetensors file"
    yield "model.safetensors", b"\xff" * 100, "no safetensors file"
    yield "model.safetensors", changed([]), "no safetensors file"
    yield "model.safetensors", changed({}), "no safetensors file"
    yield "model.safetensors", small[:-2], "it is damaged"
    yield "model.safetensors", small[:-2] + b"\xff\x7f", "no sound numbers"
    yield "model.safetensors", changed(three), "neither tales-large nor tales-small"
    yield "model.safetensors", changed(wide), "neither tales-large nor tales-small"
    yield "model.safetensors", changed(odd), "BF16"
    yield "tales.tiktoken", b"no vocabulary", "no vocabulary"
    yield "tales.tiktoken", b"", "no vocabulary"
    yield "tales.tiktoken", b"A 0\n", "no vocabulary"
    yield "tales.tiktoken", b"YQ== 0\nYg== 1\n", "not all 256 bytes"
    yield "tales.tiktoken", (ROOT / "weights" / "gpt2.tiktoken").read_bytes(), "not the pair"
    yield "tales.txt", b"", "None of these files"


@needs_a_browser
def test_what_is_not_of_the_pair_is_said_and_the_pair_that_was_there_stays(loaded, tmp_path):
    pair = loaded.evaluate_handle("({ ...play.panels.pair.pair })")
    for name, contents, words in damaged():
        (tmp_path / name).write_bytes(contents)
        drop(loaded, tmp_path / name)
        loaded.locator("#pair-about.error").get_by_text(words).wait_for()
        _, second, *more = loaded.locator("#pair-about").inner_text().split(". ")
        assert second == "The pair loaded before is still there." and more == []
        assert loaded.locator("#pair-run").is_visible()
        assert loaded.evaluate("""(pair) => Object.entries(pair).every(
            ([name, part]) => play.panels.pair.pair[name] === part)""", pair)


@needs_a_browser
def test_a_damaged_file_among_others_is_said_and_what_is_missing_still(visit, tmp_path):
    page = visit("#panel=pair")
    drop(page, VOCABULARY)
    page.get_by_text("Still missing: ").wait_for()
    (tmp_path / "model.safetensors").write_bytes(LARGE.read_bytes()[:-2])
    drop(page, tmp_path / "model.safetensors")
    page.locator("#pair-about.error").get_by_text("it is damaged. Still missing: ").wait_for()


@pytest.fixture
def served():
    """The project by http: the address of the page."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    handler = functools.partial(Quiet, directory=ROOT)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/tutorials/play.html#panel=pair"
        server.shutdown()


@needs_a_browser
def test_from_beside_the_page(browser, served, visit):
    assert not visit("#panel=pair").locator("#pair-beside").is_visible()
    page = browser.new_page()
    page.goto(served)
    page.route("**/tales-small/*", lambda route: route.fulfill(status=404))
    page.get_by_role("button", name="load it from beside the page").click()
    page.get_by_text("tales-small/model.safetensors is not beside the page").wait_for()
    page.unroute("**/tales-small/*")
    page.get_by_role("button", name="load it from beside the page").click()
    page.locator("#pair-run").wait_for()
    page.close()


@needs_a_browser
def test_a_run_stays_while_other_panels_are_shown(loaded):
    written(loaded, "Once upon a time", 0, 0.8, 1, "")
    said = loaded.locator("#pair-said").inner_text()
    loaded.evaluate("document.activeElement.blur()")
    loaded.keyboard.press("1")
    loaded.get_by_role("button", name="clear").click()
    loaded.evaluate("document.activeElement.blur()")
    for key in "2345":
        loaded.keyboard.press(key)
    assert loaded.locator("#pair-said").inner_text() == said != ""
    loaded.get_by_role("button", name="show it round by round").click()
    loaded.get_by_text("the target adds one token alone").wait_for()
    loaded.evaluate("document.activeElement.blur()")
    loaded.keyboard.press("5")
    assert loaded.locator("#pair-said").inner_text() == said
