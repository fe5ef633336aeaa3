"""One update: the same gradient however its work is cut up, shared out or too large."""

import weakref
from itertools import islice

import pytest
import torch
from toy import make_data, threads, tiny_config

from aiayn.distributed import ProcessGroup
from aiayn.errors import MemoryTooSmall
from aiayn.kernels.linear import ONEDNN_IS_FAST
from aiayn.training import gradients
from aiayn.training.loader import prefetched, updates_from
from aiayn.training.schedule import learning_rate
from aiayn.training.state import fresh_state
from aiayn.training.update import (
    accumulate_gradients,
    dropout_seed,
    run_update,
)

CPU = torch.device("cpu")
ALONE = ProcessGroup(0, 1, CPU)
F32 = torch.float32


@pytest.fixture
def corpus(data):
    return data.corpus("train")


@pytest.fixture
def make_state(data):
    """Return a function that makes a fresh state; no dropout unless it is asked for."""

    def make(*settings):
        config = tiny_config("model.dropout=0", "batch.tokens=200", *settings)
        return fresh_state(config, data.codec, CPU, F32)

    return make


def first_update(corpus, config, ranks=ALONE, *, epoch=0, number=0):
    return next(updates_from(corpus, config.batch, ranks, seed=1, epoch=epoch, number=number))


def gradient(state, corpus, ranks=ALONE):
    """Return the two losses and the summed gradient of the first update, or a rank's share."""
    update = first_update(corpus, state.config, ranks)
    micro_batches = [(str(number), batch) for number, batch in update.micro]
    while (losses := accumulate_gradients(state, micro_batches, F32)) is None:
        pass  # it is halved
    return losses, state.gradients.total.clone()


def assert_close(found, wanted):
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)


def out_of_memory_above(state, rows):
    """Let the encoder fail, as torch does, for more sentences at once; return what it saw."""
    seen = []

    def check(_, inputs):
        _, layout = inputs
        seen.append(layout.packing.sentences)
        if layout.packing.sentences > rows:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory")

    state.model.encoder[0].register_forward_pre_hook(check)
    return seen


@pytest.mark.parametrize("limit", [1, 10, 40, 100])
def test_the_gradient_is_the_same_for_any_size_of_micro_batch(make_state, corpus, limit):
    losses, whole = gradient(make_state("batch.micro_tokens=100000"), corpus)
    cut_losses, cut = gradient(make_state(f"batch.micro_tokens={limit}"), corpus)
    assert_close(cut, whole)
    assert_close(cut_losses, losses)


def test_the_weights_follow_the_mean_over_all_tokens_of_the_update(make_state, corpus):
    state = make_state()
    _, total = gradient(make_state(), corpus)
    update = first_update(corpus, state.config)
    (_, _, norm), _ = run_update(state, update, ALONE, F32)
    assert_close(state.gradients.mean, (total / update.target_tokens).float())
    assert_close(norm, (total / update.target_tokens).norm())


def test_a_step_is_adams_with_the_learning_rate_of_its_number(make_state, corpus):
    state = make_state()
    learned = [p for p in state.model.parameters() if p.requires_grad]
    before = [p.detach().clone() for p in learned]
    run_update(state, first_update(corpus, state.config), ALONE, F32)
    rate = learning_rate(1, d_model=32, warmup=60, factor=0.7)
    # Adam's first step is the learning rate in the direction of each gradient's sign.
    for old, new in zip(before, learned, strict=True):
        large = new.grad.abs() > 1e-6
        step = -rate * new.grad.sign()
        torch.testing.assert_close((new - old)[large], step[large], rtol=1e-2, atol=1e-7)
    assert state.progress.step == 1


def test_two_steps_are_adams_with_beta1_0_9_beta2_0_98_and_epsilon_1e_9(make_state, corpus):
    state = make_state()
    learned = [p for p in state.model.parameters() if p.requires_grad]
    wanted = [p.detach().double() for p in learned]
    means = [torch.zeros_like(weight) for weight in wanted]
    squares = [torch.zeros_like(weight) for weight in wanted]
    for step in (1, 2):
        run_update(state, first_update(corpus, state.config, number=step), ALONE, F32)
        rate = learning_rate(step, d_model=32, warmup=60, factor=0.7)
        for weight, m, v, p in zip(wanted, means, squares, learned, strict=True):
            m.mul_(0.9).add_(0.1 * p.grad)
            v.mul_(0.98).add_(0.02 * p.grad.double().square())
            unbiased_m, unbiased_v = m / (1 - 0.9**step), v / (1 - 0.98**step)
            weight -= rate * unbiased_m / (unbiased_v.sqrt() + 1e-9)
    found = [p.detach().double() for p in learned]
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


DROPOUT = ("model.dropout=0.3", "model.attention_dropout=0.2", "model.relu_dropout=0.2")


@pytest.mark.parametrize("dropout", [(), DROPOUT], ids=["without dropout", "with dropout"])
@pytest.mark.parametrize("rows", [1, 3, 12])
def test_a_micro_batch_that_does_not_fit_is_halved_with_the_same_gradient(
    make_state, corpus, rows, dropout
):
    settings = ("batch.micro_tokens=100000", *dropout)
    losses, whole = gradient(make_state(*settings), corpus)
    state = make_state(*settings)
    seen = out_of_memory_above(state, rows)
    cut_losses, cut = gradient(state, corpus)
    assert max(seen) > rows
    assert_close(cut, whole)
    assert_close(cut_losses, losses)


def test_what_failed_on_the_way_back_leaves_no_half_gradient(make_state, corpus):
    _, whole = gradient(make_state("batch.micro_tokens=100000"), corpus)
    state = make_state("batch.micro_tokens=100000")

    def fail_when_large(_, gradients, __):
        if len(gradients[0]) > 90:  # tokens
            raise RuntimeError("out of memory")

    # The decoder's gradients exist already when the encoder's turn comes.
    state.model.encoder[0].register_full_backward_hook(fail_when_large)
    _, cut = gradient(state, corpus)
    assert_close(cut, whole)


def test_what_did_not_fit_once_is_cut_beforehand_from_then_on(make_state, corpus):
    state = make_state("batch.micro_tokens=100000")
    seen = out_of_memory_above(state, 12)
    gradient(state, corpus)
    seen.clear()
    gradient(state, corpus)
    assert max(seen) <= 12


def test_one_sentence_that_does_not_fit_is_an_error_with_a_way_out(make_state, corpus):
    state = make_state()
    out_of_memory_above(state, 0)
    with pytest.raises(MemoryTooSmall, match="does not fit in memory by itself") as raised:
        gradient(state, corpus)
    assert raised.value.exit_code == 4
    assert "--max-length" in raised.value.fix


def test_another_error_is_not_taken_for_a_lack_of_memory(make_state, corpus):
    state = make_state()

    def fail(_, __):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    state.model.encoder[0].register_forward_pre_hook(fail)
    with pytest.raises(RuntimeError, match="shapes"):
        gradient(state, corpus)


@pytest.mark.parametrize("world", [2, 3, 9])
def test_the_shares_of_processes_add_up_to_the_whole_with_dropout(make_state, corpus, world):
    settings = ("model.dropout=0.3", "batch.micro_tokens=50")
    losses, whole = gradient(make_state(*settings), corpus)
    shares = [
        gradient(make_state(*settings), corpus, ProcessGroup(rank, world, CPU))
        for rank in range(world)
    ]
    assert torch.equal(sum(share for _, share in shares), whole)
    assert torch.equal(sum(part for part, _ in shares), losses)


@pytest.mark.skipif(not ONEDNN_IS_FAST, reason="how other libraries share a product is theirs")
@pytest.mark.parametrize(
    "settings",
    [
        ("model.d_model=32", "model.d_ff=64"),
        ("model.d_model=128", "model.d_ff=512"),
        ("model.d_model=512", "model.d_ff=2048"),
        ("model.attention_dropout=0.2",),
        ("model.d_k=16", "model.d_v=64"),
        ("model.positions=learned", "model.attention_window=3"),
    ],
    ids=lambda settings: settings[0],
)
def test_the_gradient_does_not_depend_on_the_number_of_threads(make_state, settings, tmp_path):
    # Long sentences: torch's softmax, for one, is the same for short ones.
    corpus = make_data(tmp_path, longest=40).corpus("train")
    settings = (*settings, "batch.tokens=900", "batch.micro_tokens=500")
    found = []
    for count in (1, 2, 3):
        with threads(count):
            found.append(gradient(make_state("model.dropout=0.3", *settings), corpus))
    for losses, total in found[1:]:
        assert torch.equal(losses, found[0][0])
        assert torch.equal(total, found[0][1])


def test_dropout_is_another_for_each_seed_update_and_micro_batch():
    cases = [(1, 0, "0"), (2, 0, "0"), (1, 1, "0"), (1, 0, "1"), (1, 0, "0.1"), (10, 0, "0")]
    seeds = [dropout_seed(*case) for case in cases]
    assert len(set(seeds)) == len(seeds)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_every_micro_batch_of_every_update_drops_something_else(make_state, corpus):
    state = make_state("model.dropout=0.3")
    ((_, batch), *_) = first_update(corpus, state.config).micro
    found = []
    for step, name in ((0, "0"), (0, "1"), (1, "0"), (0, "0")):
        state.progress.step = step
        accumulate_gradients(state, [(name, batch)], F32)
        found.append(state.gradients.total.clone())
    assert torch.equal(found[0], found[3])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])


def test_dropout_does_not_depend_on_what_was_drawn_before(make_state, corpus):
    settings = ("model.dropout=0.3",)
    _, one = gradient(make_state(*settings), corpus)
    state = make_state(*settings)
    torch.rand(1000)
    _, other = gradient(state, corpus)
    assert torch.equal(one, other)


def test_updates_resume_from_any_position(corpus):
    batch = tiny_config().batch
    run = list(islice(updates_from(corpus, batch, ALONE, seed=1, epoch=0, number=0), 12))
    place = run[6].next_position
    again = next(updates_from(corpus, batch, ALONE, seed=1, epoch=place[0], number=place[1]))
    assert (again.epoch, again.number) == place == (run[7].epoch, run[7].number)
    assert torch.equal(again.micro[0][1].source_BS, run[7].micro[0][1].source_BS)


def test_an_epoch_follows_the_one_before(corpus):
    batch = tiny_config().batch
    updates = updates_from(corpus, batch, ALONE, seed=1, epoch=0, number=0)
    first = next(updates)
    rest = [next(updates)]
    while rest[-1].epoch == 0:
        rest.append(next(updates))
    assert rest[-2].next_position == (1, 0)
    assert (rest[-1].epoch, rest[-1].number) == (1, 0)
    tokens = sum(update.target_tokens for update in [first, *rest[:-1]])
    assert tokens == corpus.target_lengths.sum()


def test_an_update_counts_the_tokens_of_all_processes(corpus):
    config = tiny_config("batch.micro_tokens=30")
    whole, *shares = (
        first_update(corpus, config, ranks)
        for ranks in (ALONE, ProcessGroup(0, 2, CPU), ProcessGroup(1, 2, CPU))
    )
    own = [sum(batch.tokens for _, batch in share.micro) for share in shares]
    assert {share.target_tokens for share in shares} == {whole.target_tokens}
    assert sum(own) == whole.target_tokens
    assert min(own) > 0


def test_what_is_prefetched_comes_in_order():
    assert list(islice(prefetched(iter(range(10**9))), 20)) == list(range(20))


def test_what_goes_wrong_ahead_is_raised_in_its_place():
    def broken():
        yield 1
        raise ValueError("unreadable")

    items = prefetched(broken())
    assert next(items) == 1
    with pytest.raises(ValueError, match="unreadable"):
        next(items)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_first_gradient_of_a_sum_replaces_what_it_held_and_others_are_added(
    monkeypatch, dtype
):
    monkeypatch.setattr(gradients, "sum_type", lambda device: dtype)
    layer = torch.nn.Linear(3, 2)
    found = gradients.Gradients(layer)
    assert (found.total is found.mean) == (dtype == F32)
    for count in (1, 3):
        found.total.fill_(7)
        found.clear()
        for _ in range(count):
            found.expect()
            layer(torch.ones(1, 3)).sum().backward()
        assert (found.total == count).all()
    norm = found.divide(3)
    assert (layer.weight.grad == 1).all()
    assert norm == pytest.approx(8**0.5)


def test_gradients_are_freed_as_soon_as_nobody_uses_them():
    # With them goes the process group, whose threads must end before the interpreter does.
    layer = torch.nn.Linear(3, 2)
    found = gradients.Gradients(layer)
    alive = weakref.ref(found), weakref.ref(layer)
    del found, layer
    assert [each() for each in alive] == [None, None]


def test_a_process_without_micro_batches_adds_nothing(monkeypatch):
    found = gradients.Gradients(torch.nn.Linear(3, 2))
    found.total.fill_(7)
    found.clear()
    found.reduce(ALONE)
    assert not found.total.any()
