from __future__ import annotations

import pytest

from pypsa_aidc import InputError, Transformer
from pypsa_aidc.training import presets


@pytest.mark.parametrize("name", presets.names("transformers"))
def test_presets_count_to_their_published_parameters(name: str) -> None:
    model = Transformer.preset(name)
    assert model.counted_parameters == pytest.approx(model.parameters, rel=0.006)


@pytest.mark.parametrize(
    ("name", "published"),
    # Grattafiori et al. 2024, Table 3 and the model cards: 8.03, 70.6 and 405.9 billion parameters.
    [("LLaMA-3 8B", 8.03e9), ("LLaMA-3 70B", 70.55e9), ("LLaMA-3 405B", 405.85e9)],
)
def test_grouped_query_attention_and_gate_are_counted(name: str, published: float) -> None:
    assert Transformer.preset(name).counted_parameters == pytest.approx(published, rel=2e-3)


def test_unknown_preset_lists_the_known_ones() -> None:
    with pytest.raises(InputError, match="LLaMA-13B"):
        Transformer.preset("LLaMA-14B")


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(InputError) as caught:
        Transformer("x", layers=0, hidden=-5, ffn=1.5, heads=8, vocabulary=32000)  # type: ignore[arg-type]
    assert {fault.where for fault in caught.value.faults} == {"layers", "hidden", "ffn"}


def test_parameters_in_billions_are_refused() -> None:
    with pytest.raises(InputError, match="not billions"):
        Transformer("x", layers=40, hidden=5120, ffn=13824, heads=40, vocabulary=32000, parameters=13.0, gated=True)


def test_heads_must_divide_hidden_and_kv_heads_must_divide_heads() -> None:
    with pytest.raises(InputError, match="multiple of heads"):
        Transformer("x", layers=2, hidden=100, ffn=400, heads=3, vocabulary=1000)
    with pytest.raises(InputError, match="divisor of heads"):
        Transformer("x", layers=2, hidden=96, ffn=400, heads=8, kv_heads=3, vocabulary=1000)


LLAMA_3_8B = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def test_hugging_face_config_equals_the_preset() -> None:
    read, preset = Transformer.from_hf(LLAMA_3_8B, "LLaMA-3 8B"), Transformer.preset("LLaMA-3 8B")
    assert read.layer_weights == preset.layer_weights
    assert read.counted_parameters == preset.counted_parameters
    assert read.parameters == read.counted_parameters


def test_head_dim_of_the_config_is_used() -> None:
    # Qwen3-4B has 32 heads of 128 on a hidden size of 2560.
    config = LLAMA_3_8B | {"model_type": "qwen3", "hidden_size": 2560, "head_dim": 128}
    assert Transformer.from_hf(config).attention_width == 4096


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"num_local_experts": 8}, "num_local_experts"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"model_type": "something_new"}, "model_type"),
        ({"hidden_size": None}, "hidden_size"),
        ({"num_hidden_layers": "many"}, "layers"),
    ],
)
def test_configs_that_are_no_dense_decoder_are_refused(change: dict[str, object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        Transformer.from_hf(LLAMA_3_8B | change)
