"""The lesson in tutorials/teach: its pages print, its slides show, what its texts say is so."""
import json
import re
import shlex

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from decoding import Sampling, speculative_rounds
from decoding.acceptance import accept_sampled
from decoding.cli import options
from tests.tutorials.test_tutorials import NOTEBOOKS, ROOT, code_cells, read, said
from tutorials.teach import handout, slides

TEACH = ROOT / "tutorials" / "teach"
PLAN, QUESTIONS, QUIZ = ((TEACH / name).read_text(encoding="utf-8")
                         for name in ("README.md", "questions.md", "quiz.md"))
ORDER = [1, 2, 3, 6, 5]  # of the notebooks in the lesson


# The page to print

@pytest.fixture(params=[False, True], ids=["full", "blank"])
def page(request):
    figure = handout.draw_page(blank=request.param)
    FigureCanvasAgg(figure).draw()
    return figure


def texts(figure):
    """Every text of the page that says something."""
    page, dice = figure.axes
    found = [*page.texts, *dice.get_legend().get_texts(), *dice.get_xticklabels(),
             dice.yaxis.label]
    return [text for text in found if text.get_text().strip()]


def test_no_text_of_the_page_lies_on_another_or_outside(page):
    boxes = [(text.get_text(), text.get_window_extent()) for text in texts(page)]
    assert len(boxes) > 30
    for i, (text, box) in enumerate(boxes):
        assert 40 < box.x0 and box.x1 < page.bbox.width - 40, text  # pixels, of 1240
        assert 40 < box.y0 and box.y1 < page.bbox.height - 40, text
        for other, its in boxes[:i]:
            wide = min(box.x1, its.x1) - max(box.x0, its.x0)
            high = min(box.y1, its.y1) - max(box.y0, its.y0)
            assert min(wide, high) <= 1, f"{text!r} lies on {other!r}"


def test_the_page_is_a4_with_letters_that_can_be_read(page):
    assert page.get_size_inches() == pytest.approx([210 / 25.4, 297 / 25.4], abs=0.01)
    assert min(text.get_fontsize() for text in texts(page)) >= 7.5


def test_the_full_page_says_all_and_the_blank_one_none_of_it():
    answers = [answer for _, answer in (*handout.RULE, *handout.PROOF, *handout.FORMULA)]
    answers += [letter for _, *both in handout.LETTERS[1:] for letter in both]
    full, blank = ({text.get_text() for text in texts(handout.draw_page(b))} for b in (False, True))
    assert set(answers) | {line for line in handout.loop() if line.strip()} <= full
    assert not set(answers) & blank
    questions = {label for label, *_ in (*handout.RULE, *handout.PROOF, *handout.FORMULA)}
    assert questions <= full & blank


def test_the_page_has_page_ones_loop():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "\n".join(handout.loop()) + "\n```" in readme


def test_the_pages_are_written(tmp_path, capsys):
    for extra in ([], ["--blank"]):
        out = tmp_path / "page.pdf"
        assert handout.main([str(out), *extra]) == 0
        assert out.read_bytes()[:5] == b"%PDF-"
    assert "one page of A4" in capsys.readouterr().out


# The slides

def tagged(path):
    """The cells of a notebook that are on slides, each with its kind."""
    kinds = [(cell, cell.metadata.get("slideshow", {}).get("slide_type"))
             for cell in read(path).cells]
    return [(cell, kind) for cell, kind in kinds if kind is not None]


def test_every_cell_on_a_slide_shows_something():
    shown = [(path.stem, cell, kind) for path in NOTEBOOKS for cell, kind in tagged(path)]
    assert len(shown) > 30
    for name, cell, kind in shown:
        assert kind in ("slide", "fragment"), (name, cell.id)
        before, *rest = slides.parts_of(json.loads(json.dumps(cell)))
        assert before.strip() or (kind == "slide" and rest), (name, cell.id)


def test_the_slides_need_no_network_no_script_for_formulas_and_no_eyes():
    page = slides.page([slide for path in NOTEBOOKS for slide in slides.slides_of(path)])
    assert not re.search(r"""<script[^>]+src|<link|@import|url\(|src=["'](?!data:)""", page)
    for picture in re.findall(r"<img[^>]{,400}", page):
        assert re.match(r'<img alt="[^"]{40,}" src="data:image/png', picture), picture[:90]
    prose = re.sub(r"<pre.*?</pre>|<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "$" not in prose and prose.count("<math") > 50
    assert not re.search(r"[\x00-\x08]", page)


def notebook(tmp_path, *cells):
    """A notebook of (kind, source) texts and (kind, [output]) codes."""
    path = tmp_path / "07_toy.ipynb"
    made = [{"metadata": {"slideshow": {"slide_type": kind}} if kind else {},
             **({"cell_type": "markdown", "source": [content]} if isinstance(content, str)
                else {"cell_type": "code", "source": ["secret()"], "outputs": content})}
            for kind, content in cells]
    path.write_text(json.dumps({"cells": made}), encoding="utf-8")
    return path


def test_a_slide_begins_at_a_heading_and_a_fragment_ends_before_it(tmp_path):
    end_and_start = "an end\n\n## A start\nof it\n\n## Another\nof that"
    printed = [{"output_type": "stream", "text": ["a < ", "b\n"]}]
    path = notebook(tmp_path, (None, "not shown"), ("slide", end_and_start), ("fragment", printed),
                    ("fragment", end_and_start), (None, "nor this"), ("slide", "no heading"))
    first, second, third = slides.slides_of(path)
    number = '<p class="from">notebook 7</p>'
    assert first == f"{number}<h2>A start</h2>\n<p>of it</p>\n"
    assert second == (f"{number}<h2>Another</h2>\n<p>of that</p>\n"
                      '<div class="fragment"><pre class="narrow">a &lt; b\n</pre></div>'
                      '<div class="fragment"><p>an end</p>\n</div>')
    assert third == f"{number}<p>no heading</p>\n"
    with pytest.raises(ValueError, match="begins with a fragment"):
        slides.slides_of(notebook(tmp_path, ("fragment", "too early")))


def test_formulas_stand_where_they_stood():
    page = slides.markdown("so $a_1 +\nb_2$ and *so*\n\n$$\\frac{1}{2}$$\n\n- $c$\n")
    assert re.sub(r"<math.*?display=.(\w+).*?</math>", r"[\1]", page) == (
        "<p>so [inline] and <em>so</em></p>\n<p>[block]</p>\n<ul>\n<li>[inline]</li>\n</ul>\n")
    assert "<msub><mi>a</mi><mn>1</mn></msub>" in page


def test_the_slides_are_written_in_the_order_that_is_asked_for(tmp_path, capsys):
    out = tmp_path / "lesson.html"
    assert slides.main([str(out), *map(str, ORDER)]) == 0
    page = out.read_text(encoding="utf-8")
    shown = [int(n) for n in re.findall(r'<section><p class="from">notebook (\d)', page)]
    assert list(dict.fromkeys(shown)) == ORDER
    assert f"{len(shown)} slides" in capsys.readouterr().out


@pytest.mark.parametrize("program, words", [
    (handout, ["page.docx"]), (handout, []), (slides, ["a.html", "99"]), (slides, ["a.html", "1x"]),
    (slides, ["nowhere/at/all.html"]), (slides, ["a.html", "4"])])
def test_a_refusal_is_one_line(program, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    try:
        code = program.main(words)
    except SystemExit as stop:
        code = stop.code
    written = capsys.readouterr()
    assert code in (1, 2) and written.out == ""
    assert written.err.startswith(program.PROGRAM) and written.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


# The plan

def commands(text):
    """The commands in blocks and in backticks that have arguments, as words."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    blocks += re.findall(r"`(python -m .*?)`", text)
    found = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [words for words in found if len(words) > 3]


def test_the_plans_commands_are_ones_that_the_programs_take(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    programs = {"tutorials.teach.slides": slides.main, "tutorials.teach.handout": handout.main}
    seen = set()
    for words in commands(PLAN):
        if words[:2] == ["pip", "install"]:
            assert (ROOT / words[-1]).is_file()
        elif words[2] == "tutorials.grade":
            assert (ROOT / words[3]).is_file()
        elif words[2] == "decoding.generate":
            options.parse(words[3:])
            seen.add(words[2])
        else:
            assert programs[words[2]](words[3:]) == 0
            seen.add(words[2])
    assert seen == {*programs, "decoding.generate"}
    assert " ".join(map(str, ORDER)) in PLAN


def test_the_minutes_of_the_plans_follow_each_other():
    plans = {"Ninety minutes": 90, "Forty-five minutes": 45, "Two times ninety": 90}
    for title, end in plans.items():
        section = PLAN.split(f"\n## {title}\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| (\d+)–(\d+) \|", section, re.MULTILINE)
        assert rows[0][0] == "0" and rows[-1][1] == str(end)
        assert [start for start, _ in rows[1:]] == [stop for _, stop in rows[:-1]], title
        for start, stop in rows if end == 90 and "### " in section else []:
            assert f"\n### {start}–{stop}. " in section


def test_the_plan_names_slides_that_there_are():
    """In italics, with a capital, and no stop at the end."""
    headings = {re.sub(r"^#+ ", "", line) for path in NOTEBOOKS for cell in read(path).cells
                if cell.cell_type == "markdown" for line in cell.source.splitlines()
                if line.startswith("#")}
    named = re.findall(r"(?<!\*)\*([A-Z][^*]+[^*.:])\*(?!\*)", " ".join(PLAN.split()))
    assert len(named) > 12
    assert set(named) <= headings, set(named) - headings


def test_the_plan_has_the_numbers_of_the_slides():
    """As in *The slack* (3), or *The whole text* (10): lesson.html#10 jumps there."""
    def headings(numbers):
        shown = [slide for n in numbers for slide in slides.slides_of(NOTEBOOKS[n - 1])]
        return [(re.findall(r"<h[1-6]>(.*?)</h", slide) or [""])[0] for slide in shown]

    long, short = PLAN.split("\n## Forty-five minutes\n")
    for text, numbers, least in ((long, ORDER, 12), (short.split("\n## ")[0], [2, 3], 2)):
        named = re.findall(r"\*([A-Z][^*]+)\*\s+\((\d+)\)", text)
        found = headings(numbers)
        assert len(named) >= least
        for heading, number in named:
            assert found[int(number) - 1] == " ".join(heading.split()), heading


@pytest.mark.parametrize("number, said_in_plan, stored", [
    (2, "120 tokens in 40 passes, so 3.00 tokens per round",
     "120 tokens in 40 passes of the target: 3.00 tokens per round"),
    (2, "39 rounds for 40 tokens", "random weights: 39 rounds"),
    (2, "hence 0.03", "39 rounds, accepted 0.03"),
    (2, "who had **three**", "then a correction: ' three'"),
    (2, "8 rounds, 40 / (4 + 1)", "8 rounds, accepted 1.00"),
    (2, "(2, and a correction.)", "accepted 2 of 4, then a correction"),
    (3, "0.7 in grey", "alpha = 0.70"),
    (3, "is 0.39", "redraw from p    [0.32, 0.39, 0.16, 0.13]"),
    (3, "4096 faces", "faces 4096"),
    (6, "2 of 22", "itself       notices  2 of 22"),
    (6, "(5 of 22 each)", "greedy       notices  5 of 22"),
    (6, "(5 of 22 each)", "impossible   notices  5 of 22"),
    (5, "4.887 tokens instead of 4.329", "4.887"),
    (5, "it costs 2.60 instead of 1.80", "2.60"),
])
def test_a_number_of_the_plan_is_the_notebooks(number, said_in_plan, stored):
    assert said_in_plan in " ".join(PLAN.split())
    assert stored in "".join(map(said, code_cells(read(NOTEBOOKS[number - 1]))))


@pytest.mark.slow
def test_the_rounds_of_minute_30_are_the_programs():
    """By one thread and plain layers: another machine may write another story, the plan says so."""
    from weights import load_model, load_tokenizer

    rows = re.findall(r"\| (\d) \| `(.+?)` \|" + r" ([\d.]+) \|" * 4 + r" (\w+)", PLAN)
    tokenizer = load_tokenizer("tales-large")
    rounds = list(speculative_rounds(
        load_model("tales-large"), load_model("tales-small"), tokenizer.encode("The wolf said"), 24,
        gamma=4, rule=accept_sampled, sampling=Sampling(0.8), trace=True,
        generator=torch.Generator().manual_seed(15)))
    found = []
    for number in (2, 3, 4):
        round = rounds[number - 1]
        for i, x in enumerate(round.drafted[:round.tested]):
            p, q, u = round.trace.p[i, x], round.trace.q[i, x], round.trace.u[i]
            found.append((str(number), tokenizer.decode([x]),
                          *(f"{value:.3f}" for value in (q, p, p / q, u)),
                          "kept" if i < round.accepted else "rejected"))
    assert rows == found
    assert [len(round.emitted) for round in rounds[1:4]] == [5, 3, 1]
    assert options.parse(["--seed", "15"]).temperature == 0.8


def test_links_of_the_lesson_lead_somewhere():
    for text in (PLAN, QUESTIONS, QUIZ):
        for link in re.findall(r"\]\(([^)#]+)\)", text):
            assert (TEACH / link).exists(), link


def test_there_are_twelve_questions_each_with_an_answer():
    parts = re.split(r"^\*\*(\d+)\. ", QUESTIONS, flags=re.MULTILINE)[1:]
    assert parts[::2] == [str(n) for n in range(1, 13)]
    for part in parts[1::2]:
        question, answer = part.split("**", 1)
        assert question.endswith("?") and len(answer.split()) > 25, question


def test_the_quiz_has_a_reason_for_every_choice():
    parts = re.split(r"^\*\*(\d+)\.\*\* ", QUIZ, flags=re.MULTILINE)[1:]
    assert parts[::2] == [str(n) for n in range(1, 21)]
    for number, part in zip(parts[::2], parts[1::2], strict=True):
        asked, answer = part.split("<details><summary>Answer</summary>")
        choices = re.findall(r"^- \*\*(\w)\*\* ", asked, re.MULTILINE)
        reasons = re.findall(r"^- \*\*(\w)\*\* (right|wrong): \S", answer, re.MULTILINE)
        (right,) = re.findall(r"Right is \*\*(\w)\*\*", answer)
        assert choices == list("abcd")[:len(choices)] and len(choices) >= 3, number
        assert dict(reasons) == {c: "right" if c == right else "wrong" for c in choices}, number
        assert answer.count("</details>") == 1
