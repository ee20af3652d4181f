"""The file of chosen layouts: it helps, and cannot do harm."""
import json

import pytest
import torch

from model.fast import layouts
from model.fast.layouts import layout_name
from model.fast.preferences import PLAIN, STRIPS
from weights import load_fast
from weights.choices import FILE, Choices
from weights.output import cache_folder


def test_a_choice_is_kept_for_this_machine(tmp_path, monkeypatch):
    path = tmp_path / "caches" / FILE
    Choices(path)["layers"] = "strips"
    assert Choices(path) == {"layers": "strips"}
    assert [file.name for file in path.parent.iterdir()] == [FILE]
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    assert Choices(path) == {}
    monkeypatch.undo()
    monkeypatch.setattr("weights.choices.cpu_name", lambda: "another one")
    assert Choices(path) == {}
    Choices(path)["layers"] = "plain"
    assert sorted(str(part["layers"]) for part in json.loads(path.read_text()).values()) == [
        "plain", "strips"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}', "[" * 100_000, "\xff\0"])
def test_a_damaged_file_is_as_none(tmp_path, text):
    path = tmp_path / FILE
    path.write_bytes(text.encode("latin-1"))
    assert Choices(path) == {}
    Choices(path)["layers"] = "strips"
    assert Choices(path) == {"layers": "strips"}


def test_a_file_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    choices = Choices(tmp_path / "file" / FILE)
    choices["layers"] = "strips"
    assert choices == {"layers": "strips"}


def test_a_model_is_timed_once_on_a_machine(choose):
    timed = choose(STRIPS)
    assert [layout_name(load_fast("tales-small")) for _ in range(2)] == [STRIPS, STRIPS]
    assert len(timed) == 2  # its layers, its head
    path = cache_folder() / FILE
    path.write_text(path.read_text().replace(STRIPS, "no such layout"))
    assert layout_name(load_fast("tales-small")) == STRIPS
    assert len(timed) == 3


def test_the_heads_of_plain_and_of_packed_layers_are_chosen_apart(choose):
    timed = choose(PLAIN, "OneTokenHead", "TurnedHead")
    for layout in ("auto", STRIPS, "auto", STRIPS):
        load_fast("tales-small", layout=layout)
    assert len(timed) == 3  # with the layers, once each


@pytest.mark.parametrize("value", [["strips"], {"strips": 1}, 1, None, True])
def test_a_choice_that_is_no_name_is_made_again(choose, value):
    timed = choose(STRIPS)
    load_fast("tales-small")
    path = cache_folder() / FILE
    content = json.loads(path.read_text())
    path.write_text(json.dumps({machine: dict.fromkeys(part, value)
                                for machine, part in content.items()}))
    assert layout_name(load_fast("tales-small")) == STRIPS
    assert len(timed) == 4 and json.loads(path.read_text()) == content


def test_a_busy_machine_takes_the_preferred_one_and_a_quiet_one_looks_again(choose, monkeypatch):
    choose()
    monkeypatch.setattr(layouts, "choose", lambda *_: None)
    assert layout_name(load_fast("tales-small")) == STRIPS
    assert not (cache_folder() / FILE).exists()
    choose(PLAIN)
    assert [layout_name(load_fast("tales-small")) for _ in range(2)] == [PLAIN, PLAIN]
