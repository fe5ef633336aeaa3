"""Figure 1 as a whole: masks, tying, dropout, start and precision."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from toy import keep_attention_weights

from aiayn.config import ModelConfig
from aiayn.errors import DataError
from aiayn.kernels.layout import Layout
from aiayn.model.attention import MultiHeadAttention
from aiayn.model.layers import AddAndNorm, FeedForward
from aiayn.model.positions import sinusoids
from aiayn.model.transformer import Embedding, Transformer, is_token, shift_right

SMALL = ModelConfig(layers=2, d_model=12, d_ff=24, heads=3, d_k=4, d_v=4, dropout=0.0)
WORDS = 30
PADDED, CAUSAL = Layout(), Layout(causal=True)


def small_model(config: ModelConfig = SMALL, target_words: int | None = None) -> Transformer:
    """A model whose biases and gains are not the zeros and ones that they start from."""
    torch.manual_seed(1)
    model = Transformer(config, WORDS, target_words)
    for name, parameter in model.named_parameters():
        if "norm" in name or "bias" in name:
            nn.init.normal_(parameter, mean=float(name.endswith("norm.weight")), std=0.2)
    return model


def padded_batch() -> tuple[Tensor, Tensor]:
    """Three pairs of different lengths on both sides."""
    torch.manual_seed(2)
    source, target = torch.randint(1, WORDS, (3, 7)), torch.randint(1, WORDS, (3, 6))
    source *= torch.arange(7) < torch.tensor([[7], [4], [1]])
    target *= torch.arange(6) < torch.tensor([[3], [6], [5]])
    return source, target


def test_the_plain_path_equals_the_fused_one_when_d_k_differs_from_d_v():
    model = small_model(replace(SMALL, d_k=2, d_v=5, attention_bias=False)).double()
    source, target = padded_batch()
    fused = model(source, target)
    learned = [p for p in model.parameters() if p.requires_grad]
    gradients = torch.autograd.grad(fused.square().sum(), learned)
    keep_attention_weights(model)
    plain = model(source, target)
    torch.testing.assert_close(plain, fused)
    expected = torch.autograd.grad(plain.square().sum(), learned)
    torch.testing.assert_close(gradients, expected)


def test_the_plain_path_shows_where_every_layer_looks():
    model = small_model()
    keep_attention_weights(model)
    source, target = padded_batch()
    model(source, target)
    for layer in model.encoder:
        assert not layer.self_attention.weights_BHLM[1, :, :, 4:].any()
    for layer in model.decoder:
        assert not layer.self_attention.weights_BHLM.triu(1).any()
        assert not layer.cross_attention.weights_BHLM[1, :, :, 4:].any()
        sums = layer.cross_attention.weights_BHLM.sum(-1)
        torch.testing.assert_close(sums, torch.ones(3, 3, 6))


@pytest.mark.parametrize("j", range(6))
def test_a_target_token_changes_only_the_logits_after_it(j):
    model = small_model().eval()
    source, target = padded_batch()
    changed = target.clone()
    changed[:, j] = target[:, j] % (WORDS - 1) + 1
    before, after = model(source, target), model(source, changed)
    assert torch.equal(before[:, : j + 1], after[:, : j + 1])
    for position in range(j + 1, 6):
        assert not torch.equal(before[:, position], after[:, position])


def test_more_padding_on_the_source_changes_nothing():
    model = small_model().double().eval()
    source, target = padded_batch()
    longer, real = F.pad(source, (0, 9)), source != 0
    memory = model.encode(source, Layout(is_token(source)))
    longer_memory = model.encode(longer, Layout(is_token(longer)))[:, :7]
    # Not bit for bit: a kernel may sum a longer row in another order.
    torch.testing.assert_close(longer_memory[real], memory[real], rtol=0, atol=1e-12)
    torch.testing.assert_close(model(longer, target), model(source, target), rtol=0, atol=1e-12)


def test_what_the_encoder_puts_at_padding_changes_no_bit_of_the_output():
    model = small_model().eval()
    source, target = padded_batch()
    layout = Layout(is_token(source))
    memory = model.encode(source, layout)
    spoilt = memory.masked_fill((source == 0)[..., None], 99.0)
    shifted = shift_right(target)
    before, after = (model.decode(shifted, m, CAUSAL, layout) for m in (memory, spoilt))
    assert torch.equal(before, after)


def test_the_mask_hides_padding_from_every_query():
    assert is_token(torch.tensor([[5, 1, 0], [5, 6, 1]])).tolist() == [
        [[[True, True, False]]],
        [[[True, True, True]]],
    ]


def test_the_decoder_sees_the_target_moved_right_from_padding_on():
    target = torch.tensor([[5, 6, 1], [7, 1, 0]])
    assert shift_right(target).tolist() == [[0, 5, 6], [0, 7, 1]]


def test_the_decoder_starts_from_the_zero_vector_and_position_0():
    model = small_model()
    seen: list[Tensor] = []
    model.decoder[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(*padded_batch())
    assert torch.equal(seen[0][:, 0], sinusoids(1, 12).float().expand(3, 12))


def test_a_token_is_embedded_as_its_row_times_the_root_of_d_model():
    embedding = Embedding(9, 512).double()
    expected = embedding.weight[3] * 22.627416997969522
    torch.testing.assert_close(embedding(torch.tensor([3]))[0], expected, rtol=1e-15, atol=0)


def test_padding_is_embedded_as_zero_and_teaches_nothing():
    embedding = Embedding(9, 512)
    vectors = embedding(torch.tensor([[3, 0], [0, 4]]))
    assert not vectors[0, 1].any() and not vectors[1, 0].any()
    vectors.sum().backward()
    assert not embedding.weight.grad[0].any()
    assert embedding.weight.grad[3].all()


def test_the_encoder_starts_from_embedding_plus_position():
    model = small_model()
    seen: list[Tensor] = []
    model.encoder[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    source, target = padded_batch()
    model(source, target)
    expected = model.source_embedding(source) + sinusoids(7, 12).float()
    assert torch.equal(seen[0], expected)


def test_logits_are_states_times_the_embedding_without_scale_or_bias():
    model = small_model()
    source, target = padded_batch()
    with torch.no_grad():  # where a product has one kernel
        states = model.states(source, target)
        wanted = F.linear(states, model.source_embedding.weight)
        assert torch.equal(model.logits(states), wanted)
        assert torch.equal(model(source, target), wanted)
    assert model.output.bias is None


def test_a_shared_vocabulary_is_one_matrix_in_three_places():
    model = small_model()
    matrices = {model.source_embedding.weight, model.target_embedding.weight}
    assert matrices == {model.output.weight}
    with torch.no_grad():
        model.source_embedding.weight[4] = 7.0
    assert (
        model.target_embedding.weight[4].tolist() == model.output.weight[4].tolist() == [7] * 12
    )
    assert sum(p.shape == (WORDS, 12) for p in model.parameters()) == 1


@pytest.mark.parametrize(
    ("tie", "target_words", "source_shares", "output_shares"),
    [
        ("all", None, True, True),
        ("all", WORDS, False, True),
        ("target", None, False, True),
        ("none", None, False, False),
        ("none", WORDS + 1, False, False),
    ],
)
def test_matrices_are_tied_as_far_as_asked_and_possible(
    tie, target_words, source_shares, output_shares
):
    model = small_model(replace(SMALL, tie=tie), target_words)
    target = model.target_embedding.weight
    assert (model.source_embedding.weight is target) == source_shares
    assert (model.output.weight is target) == output_shares


def test_weights_that_are_loaded_stay_tied():
    model, other = small_model(), Transformer(SMALL, WORDS)
    other.load_state_dict(model.state_dict())
    assert other.source_embedding.weight is other.target_embedding.weight is other.output.weight
    assert torch.equal(model(*padded_batch()), other(*padded_batch()))


def test_every_sub_layer_leaves_mean_0_and_variance_1_and_no_norm_follows():
    torch.manual_seed(1)
    model = Transformer(replace(SMALL, layers=3, d_model=64), WORDS)
    outputs: list[Tensor] = []
    for module in model.modules():
        if isinstance(module, AddAndNorm):
            module.register_forward_hook(lambda *call: outputs.append(call[-1]))
    states = model.states(*padded_batch())
    assert len(outputs) == sum(isinstance(m, nn.LayerNorm) for m in model.modules()) == 15
    assert states is outputs[-1]
    for output in outputs:
        torch.testing.assert_close(
            output.mean(-1), torch.zeros(output.shape[:2]), rtol=0, atol=1e-4
        )
        variance = output.var(-1, correction=0)
        torch.testing.assert_close(variance, torch.ones(output.shape[:2]), rtol=0, atol=1e-4)


def test_every_decoder_layer_looks_at_the_last_encoder_layer():
    model, memories = small_model(), []
    for layer in model.decoder:
        layer.cross_attention.register_forward_pre_hook(lambda _, x: memories.append(x[1]))
    last: list[Tensor] = []
    model.encoder[-1].register_forward_hook(lambda *call: last.append(call[-1]))
    model(*padded_batch())
    assert all(memory is last[0] for memory in memories)
    assert len(memories) == 2


def test_every_layer_norm_has_epsilon_1e_6():
    norms = [m for m in small_model().modules() if isinstance(m, nn.LayerNorm)]
    assert {norm.eps for norm in norms} == {1e-6}


def test_dropout_acts_on_what_sub_layers_return_and_not_inside_them():
    model = small_model(replace(SMALL, dropout=0.3)).train()
    x = torch.randn(3, 7, 12)
    for module in model.modules():
        match module:
            case MultiHeadAttention():
                assert torch.equal(*(module(x, x, PADDED, PADDED) for _ in range(2)))
            case FeedForward():
                assert torch.equal(module(x), module(x))
            case AddAndNorm():
                assert not torch.equal(*(module(x, torch.ones_like) for _ in range(2)))


def test_dropout_acts_on_the_sum_of_embedding_and_position_in_both_stacks():
    model = small_model(replace(SMALL, d_model=60, dropout=0.3))
    source, target = padded_batch()
    seen: list[Tensor] = []
    for stack in (model.encoder, model.decoder):
        stack[0].register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.eval()(source, target)
    model.train()(source, target)
    for whole, dropped in zip(seen[:2], seen[2:], strict=True):
        kept = dropped != 0
        torch.testing.assert_close(dropped[kept], whole[kept] / 0.7, rtol=1e-4, atol=0)
        assert (~kept[whole != 0]).float().mean().item() == pytest.approx(0.3, abs=0.05)


def test_the_rates_for_attention_and_relu_reach_every_layer():
    model = Transformer(replace(SMALL, attention_dropout=0.2, relu_dropout=0.4), WORDS)
    attentions = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert [attention.dropout for attention in attentions] == [0.2] * 6
    layers = [*model.encoder, *model.decoder]
    assert [layer.feed_forward.dropout for layer in layers] == [0.4] * 4


def test_evaluation_is_deterministic_and_training_is_not():
    model = small_model(replace(SMALL, dropout=0.3))
    batch = padded_batch()
    assert torch.equal(model.eval()(*batch), model(*batch))
    assert not torch.equal(model.train()(*batch), model(*batch))


def test_without_dropout_training_equals_evaluation():
    model, batch = small_model(), padded_batch()
    assert torch.equal(model.train()(*batch), model.eval()(*batch))


@pytest.mark.parametrize("tie", ["all", "none"])
def test_embeddings_and_output_start_normal_with_deviation_d_model_to_the_minus_half(tie):
    torch.manual_seed(1)
    model = Transformer(ModelConfig(layers=1, tie=tie), 1000)
    for part in (model.source_embedding, model.target_embedding, model.output):
        assert part.weight.std().item() == pytest.approx(0.0442, rel=1e-2)
        assert part.weight.mean().item() == pytest.approx(0, abs=1e-3)
        # A normal distribution has values past three deviations; a uniform one has none.
        assert part.weight.abs().max().item() > 4 * 0.0442


def test_the_projections_towards_the_encoder_start_as_two_and_one():
    torch.manual_seed(1)
    layer = Transformer(ModelConfig(layers=1), 10).decoder[0]
    limits = {"self_attention": (0.054127, 0.054127), "cross_attention": (0.076547, 0.0625)}
    for name, (query, key) in limits.items():
        attention = layer.get_submodule(name)
        assert attention.w_q.weight.abs().max().item() == pytest.approx(query, rel=1e-3)
        assert attention.w_k.weight.abs().max().item() == pytest.approx(key, rel=1e-3)


def test_every_parameter_learns_but_the_bias_of_the_keys():
    model = small_model(replace(SMALL, positions="learned", tie="none"))
    model(*padded_batch()).square().sum().backward()
    for name, parameter in model.named_parameters():
        # A bias of the keys moves all scores of a query alike, which softmax does not see.
        if name.endswith("w_k.bias"):
            assert not parameter.requires_grad
        else:
            assert parameter.grad.abs().max() > 1e-5, name


@pytest.mark.parametrize("dtype", [torch.float16, torch.float64])
@pytest.mark.parametrize("positions", ["sinusoidal", "halves", "learned"])
def test_a_model_computes_in_the_precision_of_its_weights(dtype, positions):
    model = small_model(replace(SMALL, positions=positions)).to(dtype)
    assert model(*padded_batch()).dtype == dtype


def test_learned_positions_limit_the_length_and_the_others_do_not():
    assert small_model().longest is None
    model = small_model(replace(SMALL, positions="learned", max_positions=6))
    assert model.longest == 6
    with pytest.raises(DataError, match="7 tokens"):
        model(*padded_batch())


def test_source_and_target_have_learned_positions_of_their_own():
    model = small_model(replace(SMALL, positions="learned"))
    assert model.source_positions.table is not model.target_positions.table


def test_a_model_that_translated_can_be_trained_further():
    model, batch = small_model(), padded_batch()
    with torch.inference_mode():
        expected = model(*batch)
    logits = model(*batch)
    assert torch.equal(logits, expected)
    logits.sum().backward()
