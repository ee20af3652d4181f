"""The parts of training: vocabulary and text, losses, how a model learns, going on."""
import base64
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from model import GPT2, GPT2Config
from tests.weights.training_toys import (
    CONFIG,
    RECIPE,
    same,
    story,
    ticking,
    toy_ids,
    toy_model,
    toy_trainer,
)
from weights import vocabulary_difference
from weights.registry import BUNDLED
from weights.tokenizer import END_OF_TEXT, gpt2_tokenizer, read_vocabulary
from weights.training import corpus, pair
from weights.training.loop import MEASUREMENTS
from weights.training.objective import (
    DivergedError,
    distillation_loss,
    evaluate,
    next_token_loss,
    split_block,
    to_blocks,
)
from weights.training.recipe import (
    Recipe,
    add_dropout,
    initialise,
    make_optimizer,
    rate_factor,
)
from weights.training.resume import read_checkpoint, save_checkpoint

# ---- the vocabulary and the text

def test_vocabulary_holds_every_byte_and_what_the_text_uses_most():
    documents = [story(500, seed) for seed in range(3)]
    gpt2 = gpt2_tokenizer()
    tokens = corpus.choose_vocabulary(documents, 262)
    assert len(tokens) == 261 and {bytes([byte]) for byte in range(256)} < set(tokens)
    ranks = list(map(gpt2.token_byte_values().index, tokens))
    assert ranks == sorted(ranks)  # GPT-2's order
    counts = {}
    for document in documents:
        for token in gpt2.encode(document):
            counts[token] = counts.get(token, 0) + 1
    words = sorted((count for token, count in counts.items()
                    if len(gpt2.decode_single_token_bytes(token)) > 1), reverse=True)
    chosen = [counts[rank] for rank, token in zip(ranks, tokens, strict=True) if len(token) > 1]
    assert sorted(chosen, reverse=True) == words[:5]


def test_vocabulary_is_smaller_when_the_text_uses_fewer_tokens():
    tokens = corpus.choose_vocabulary(["the king and the queen"], 4096)
    assert len(tokens) == 256 + len({"the", " king", " and", " the", " queen"})


@pytest.mark.parametrize("n_vocab, good",
                         [(256, False), (257, True), (50257, True), (50258, False)])
def test_vocabulary_sizes_end_where_there_are_no_more_tokens(n_vocab, good):
    if good:
        assert len(corpus.choose_vocabulary(["a"], n_vocab)) == 256
    else:
        with pytest.raises(ValueError, match="from 257 to 50257"):
            corpus.choose_vocabulary(["a"], n_vocab)


def test_vocabulary_file_is_read_back_as_the_tokenizer_that_encoded_the_text(tmp_path):
    tokens = corpus.choose_vocabulary([story(100)], 300)
    (tmp_path / "v.tiktoken").write_bytes(corpus.vocabulary_file(tokens))
    written, used = read_vocabulary(tmp_path / "v.tiktoken"), corpus.to_tokenizer(tokens)
    assert vocabulary_difference(written, used) is None
    assert written.encode(story(50, 1)) == used.encode(story(50, 1))


def test_vocabulary_file_has_the_bundled_ones_format():
    file = BUNDLED["tales-large"] / "tales.tiktoken"
    tokens = [base64.b64decode(line.split()[0]) for line in file.read_bytes().splitlines()]
    assert corpus.vocabulary_file(tokens) == file.read_bytes()


def test_each_document_ends_with_end_of_text(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text(f"\ufeffone \n{END_OF_TEXT}\n\ntwo{END_OF_TEXT}  {END_OF_TEXT}",
                    encoding="utf-8")
    documents, _ = corpus.read_documents(text)
    assert documents == ["one", "two"]
    tokenizer = corpus.to_tokenizer(corpus.choose_vocabulary(documents, 300))
    whole = tokenizer.decode(corpus.encode_all(documents, tokenizer))
    assert whole == "one<|endoftext|>two<|endoftext|>"


def test_held_out_text_is_the_end_and_is_not_trained_on(tmp_path):
    text = tmp_path / "t.txt"
    text.write_text(story(1000))
    ready = corpus.prepare(text, None, 400, context=8)
    whole = corpus.encode_all([story(1000)], corpus.to_tokenizer(ready.vocabulary))
    assert ready.train + ready.held_out == whole and len(ready.held_out) == len(whole) // 20
    ready = corpus.prepare(text, None, 400, context=100)
    # 5 % would be less than one block
    assert ready.train + ready.held_out == whole and len(ready.held_out) == 101


def test_held_out_file_leaves_the_whole_text_for_training(tmp_path):
    text, other = tmp_path / "t.txt", tmp_path / "o.txt"
    text.write_text(END_OF_TEXT.join(story(30, seed) for seed in range(20)))
    other.write_text(story(200, 99))
    ready = corpus.prepare(text, other, 400, context=8)
    tokenizer = corpus.to_tokenizer(ready.vocabulary)
    trained_on = tokenizer.decode(ready.train).split(END_OF_TEXT)[:-1]
    assert sorted(trained_on) == sorted(story(30, seed) for seed in range(20))
    assert trained_on != [story(30, seed) for seed in range(20)]  # shuffled
    assert tokenizer.decode(ready.held_out) == story(200, 99) + END_OF_TEXT
    assert len(ready.digests) == 2


# ---- what is measured

def slow_measures(p_logits, q_logits, targets):
    """KL(p || q), -log q(next token), sum(min(p, q)), agreement.

    A position and a token at a time, in Python's floats.
    """
    sums, rows = [0.0] * 4, 0
    for p_row, q_row, target in zip(p_logits.flatten(0, 1).tolist(),
                                    q_logits.flatten(0, 1).tolist(), targets.flatten().tolist()):
        p, q = ([math.exp(x) / sum(map(math.exp, row)) for x in row] for row in (p_row, q_row))
        sums[0] += sum(a * math.log(a / b) for a, b in zip(p, q))
        sums[1] -= math.log(q[target])
        sums[2] += sum(map(min, p, q))
        sums[3] += p.index(max(p)) == q.index(max(q))
        rows += 1
    return [total / rows for total in sums]


@pytest.mark.parametrize("kl_share", [0.0, 0.9, 1.0])
def test_losses_equal_the_slow_reference(kl_share):
    generator = torch.Generator().manual_seed(0)
    p, q = 2 * torch.randn(2, 2, 3, 7, generator=generator)
    targets = torch.randint(7, (2, 3), generator=generator)
    kl, loss, _, _ = slow_measures(p, q, targets)
    assert next_token_loss(q, targets).item() == pytest.approx(loss, rel=1e-5)
    wanted = kl_share * kl + (1 - kl_share) * loss
    assert distillation_loss(q, p, targets, kl_share).item() == pytest.approx(wanted, rel=1e-5)


def test_only_the_draft_learns_from_distillation():
    trainer = toy_trainer(teacher=toy_model(1))
    before = [weight.clone() for weight in trainer.teacher.parameters()]
    trainer.advance()
    assert all(map(torch.equal, before, trainer.teacher.parameters()))
    assert all(weight.grad is None for weight in trainer.teacher.parameters())


@pytest.mark.parametrize("batch", [1, 3, 100])
def test_evaluation_equals_the_slow_reference(batch):
    target, draft = toy_model(0), toy_model(1)
    blocks = to_blocks(toy_ids(60), 8)  # seven of them: batches of three leave a rest
    inputs, targets = split_block(blocks)
    with torch.no_grad():
        _, loss, acceptance, agreement = slow_measures(target(inputs), draft(inputs), targets)
    result = evaluate(draft, blocks, target, batch)
    measured = (result.loss, result.acceptance, result.agreement)
    assert measured == pytest.approx((loss, acceptance, agreement), rel=1e-5)
    assert result.tokens == 56 and result.score == result.acceptance
    alone = evaluate(draft, blocks, batch=batch)
    assert alone.loss == pytest.approx(loss, rel=1e-5)
    assert (alone.acceptance, alone.score) == (None, -alone.loss)


def test_evaluation_is_without_dropout_and_leaves_the_mode_alone():
    model, blocks = toy_model(), to_blocks(toy_ids(60), 8)
    expected = evaluate(model, blocks)
    add_dropout(model, 0.5)
    assert evaluate(model.train(), blocks) == expected and model.training
    assert evaluate(model.eval(), blocks) == expected and not model.training


def test_a_draft_that_is_its_target_is_always_accepted():
    result = evaluate(toy_model(), to_blocks(toy_ids(60), 8), toy_model())
    assert result.acceptance == pytest.approx(1, abs=1e-6) and result.agreement == 1


def test_a_model_that_computes_nan_is_not_measured():
    broken, sound, blocks = toy_model(), toy_model(seed=1), to_blocks(toy_ids(60), 8)
    broken.ln_f.bias.data[0] = math.inf
    for model, target, who in ((broken, None, "target"), (broken, sound, "draft")):
        with pytest.raises(DivergedError, match=f"the {who} computes NaN or infinity"):
            evaluate(model, blocks, target)


def test_blocks_read_every_token_once():
    blocks = to_blocks(torch.arange(30), 8)
    assert blocks[:, 1:].flatten().tolist() == list(range(1, 25))
    assert to_blocks(torch.arange(30), 8, most=16)[:, 0].tolist() == [0, 16]  # spread over the text
    assert len(to_blocks(torch.arange(30), 8, most=3)) == 1


# ---- how a model learns

def test_blocks_come_from_the_whole_text():
    trainer = toy_trainer(Recipe(1e-2, 0.1, batch=1000))
    trainer.ids = torch.arange(20, dtype=torch.int32)
    blocks = trainer.random_blocks()
    assert set(blocks[:, 0].tolist()) == set(range(12))
    assert torch.equal(blocks, blocks[:, :1] + torch.arange(9))


def test_two_steps_lower_the_loss():
    trainer = toy_trainer()
    blocks = to_blocks(toy_ids(), 8)
    trainer.random_blocks = lambda: blocks
    before = trainer.loss(blocks).item()
    # all tokens are about equally likely
    assert before == pytest.approx(math.log(CONFIG.n_vocab), abs=0.1)
    trainer.advance()
    trainer.advance()
    assert trainer.loss(blocks).item() < before - 0.05


def test_distillation_raises_acceptance():
    trainer = toy_trainer(Recipe(learning_rate=1e-2, weight_decay=0.01, batch=8, steps=40),
                          toy_model(3))
    while trainer.share < 1:
        trainer.advance()
    assert trainer.curve[-1].held_out.acceptance > trainer.curve[0].held_out.acceptance + 0.1


def test_initial_weights_are_gpt2s():
    config = GPT2Config(n_layer=8, n_head=2, n_embd=64, n_vocab=300, n_ctx=64)
    model, again, other = (initialise(GPT2(config), seed) for seed in (0, 0, 1))
    assert all(map(torch.equal, model.parameters(), again.parameters()))
    assert not torch.equal(model.wte.weight, other.wte.weight)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            assert (weight == (0 if name.endswith("bias") else 1)).all(), name
        else:
            spread = 0.005 if "c_proj" in name else 0.02
            assert weight.std().item() == pytest.approx(spread, rel=0.1), name


def test_dropout_acts_in_training_only_and_on_every_sublayer():
    model, plain = toy_model(), toy_model()
    add_dropout(model, 0.5)
    assert list(model.state_dict()) == list(plain.state_dict())
    tokens = toy_ids()[None, :8]
    assert torch.equal(model(tokens), plain(tokens))
    dropped = {}
    for name in ("h.0.attn", "h.1.attn", "h.0.mlp", "h.1.mlp"):
        def keep(module, args, output, name=name):
            dropped[name] = output

        model.get_submodule(name).register_forward_hook(keep)
    model.h[0].register_forward_pre_hook(lambda module, args: dropped.update(embeddings=args[0]))
    model.train()(tokens)
    assert len(dropped) == 5
    for name, output in dropped.items():
        assert 0.3 < (output == 0).float().mean() < 0.7, name


def test_only_matrices_decay():
    matrices, vectors = make_optimizer(toy_model(), RECIPE).param_groups
    assert matrices["weight_decay"] == 0.1 and {weight.dim()
                                                for weight in matrices["params"]} == {2}
    assert vectors["weight_decay"] == 0.0 and {weight.dim() for weight in vectors["params"]} == {1}
    assert len(matrices["params"] + vectors["params"]) == len(list(toy_model().parameters()))


def test_learning_rate_goes_up_stays_and_goes_down():
    shares = (0, 0.015, 0.03, 0.4, 0.7, 1, 1.1)
    rates = [round(rate_factor(share), 3) for share in shares]
    assert rates == [0.02, 0.5, 1, 1, 0.5, 0.02, 0.02]
    trainer = toy_trainer()
    trainer.step = 3  # of 4
    trainer.learn()
    for group in trainer.optimizer.param_groups:
        assert group["lr"] == pytest.approx(1e-2 * 0.25 / 0.6)


def test_gradients_are_clipped():
    trainer = toy_trainer()
    loss = trainer.loss
    trainer.loss = lambda blocks: 1000 * loss(blocks)
    trainer.optimizer.zero_grad = lambda: None  # so that they can be looked at
    trainer.learn()
    norm = torch.stack([weight.grad.norm() for weight in trainer.model.parameters()]).norm()
    assert norm.item() == pytest.approx(1, abs=1e-3)


def test_budget_is_the_first_used_up():
    for recipe, length in ((Recipe(1e-2, 0.1, 4, seconds=5), 5),
                           (Recipe(1e-2, 0.1, 4, steps=3, seconds=5), 3)):
        trainer, shares = toy_trainer(recipe, clock=ticking()), []
        for _ in range(length):
            shares.append(trainer.share)
            trainer.advance()
        assert shares == [step / length for step in range(length)] and trainer.share == 1


def test_measurements_are_spread_over_the_budget():
    trainer = toy_trainer(Recipe(1e-2, 0.1, 1, steps=2 * MEASUREMENTS))
    while trainer.share < 1:
        trainer.advance()
    assert [point.step for point in trainer.curve] == list(range(0, 2 * MEASUREMENTS + 1, 2))


@pytest.mark.parametrize("teacher", [None, toy_model(1)], ids=["target", "draft"])
def test_best_weights_are_kept(teacher):
    # far too fast: it gets worse
    trainer = toy_trainer(Recipe(learning_rate=3.0, weight_decay=0.1, batch=4, steps=8), teacher)
    snapshots = {0: initialise(GPT2(CONFIG), 0).state_dict()}
    while trainer.share < 1:
        trainer.advance()
        snapshots[trainer.step] = {name: weight.clone() for name,
                                   weight in trainer.model.state_dict().items()}
    good = [-point.held_out.loss if teacher is None else point.held_out.acceptance
            for point in trainer.curve]
    best = trainer.curve[good.index(max(good))].step
    assert best < 8 and trainer.best.step == best and same(trainer.weights, snapshots[best])


# ---- going on

@pytest.mark.parametrize("teacher", [None, toy_model(1)], ids=["target", "draft"])
def test_resume_gives_the_weights_of_no_interruption(tmp_path, teacher):
    recipe = Recipe(learning_rate=1e-2, weight_decay=0.1, batch=4, seconds=10, dropout=0.2)
    whole = toy_trainer(recipe, teacher, clock=ticking())
    for _ in range(10):
        whole.advance()
    first = toy_trainer(recipe, teacher, clock=ticking())
    for _ in range(4):
        first.advance()
    save_checkpoint({"trainer": first.state()}, tmp_path / "c.pt")
    torch.manual_seed(99)  # another process
    second = toy_trainer(recipe, teacher, seed=5, clock=ticking())
    second.restore(read_checkpoint(tmp_path / "c.pt")["trainer"])
    assert same(second.state(), first.state())
    for _ in range(6):
        second.advance()
    assert second.share == 1 and same(second.state(), whole.state())


def test_checkpoint_is_written_every_minute():
    saves, run = [], SimpleNamespace(save=lambda trainer, name: saves.append(trainer.seconds))
    trainer = SimpleNamespace(seconds=0, share=0, curve=[])  # no measurement, so nothing to show

    def advance():
        trainer.seconds += 25
        trainer.share = trainer.seconds / 200
    trainer.advance = advance
    assert pair.PairTraining.train(run, trainer, "target") is False
    assert saves == [0, 75, 150, 200]


def test_an_old_checkpoint_stays_until_the_new_one_is_whole(tmp_path, monkeypatch):
    save_checkpoint({"step": 1}, tmp_path / "c.pt")

    def fail(contents, path):
        Path(path).write_bytes(b"half")
        raise OSError("no space left on device")
    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError):
        save_checkpoint({"step": 2}, tmp_path / "c.pt")
    assert read_checkpoint(tmp_path / "c.pt") == {"step": 1}
