from pathlib import Path
from typing import Any

import pytest

from headlight_export.folders.sentence_folder import read_recipe
from tests.folders import chain, dense, refusal, write


@pytest.mark.parametrize(
    ("config", "pooling"),
    [
        ({}, "mean"),
        ({"pooling_mode": "mean"}, "mean"),
        ({"pooling_mode": ["cls"]}, "cls"),
        ({"pooling_mode": "lasttoken"}, "last"),
        ({"pooling_mode": "weightedmean"}, "weighted_mean"),
        ({"pooling_mode": "mean_sqrt_len_tokens"}, "mean_sqrt_len"),
        ({"pooling_mode": "max", "pooling_mode_cls_token": True}, "max"),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, "cls"),
        ({"pooling_mode_max_tokens": True}, "max"),
        ({"pooling_mode_mean_sqrt_len_tokens": True}, "mean_sqrt_len"),
        ({"pooling_mode_weightedmean_tokens": True}, "weighted_mean"),
        ({"pooling_mode_lasttoken": True}, "last"),
        ({"pooling_mode_mean_tokens": False}, "mean"),
    ],
)
def test_every_pooling_name_is_read(tmp_path: Path, config: dict[str, Any], pooling: str) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "1_Pooling/config.json", {"embedding_dimension": 4} | config)
    assert read_recipe(tmp_path).pooling == pooling


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"pooling_mode": ["cls", "max"]}, "several modes at once"),
        (
            {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": True},
            "several modes at once",
        ),
        ({"pooling_mode": "attention"}, "'attention' cannot be served"),
        ({"pooling_mode": [{}]}, "cannot be served"),
    ],
)
def test_unsupported_pooling_is_refused(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "1_Pooling/config.json", config)
    assert message in refusal(tmp_path)


def test_prompts_can_be_excluded_from_pooling(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "1_Pooling/config.json", {"include_prompt": False})
    assert not read_recipe(tmp_path).include_prompt


def test_a_missing_pooling_config_is_refused(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    (tmp_path / "1_Pooling/config.json").unlink()
    assert "1_Pooling/config.json" in refusal(tmp_path)


def test_dense_layers_are_read_in_order(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dense", "Dense")
    dense(
        tmp_path / "2_Dense",
        give=7,
        bias=False,
        activation_function="torch.nn.modules.activation.GELU",
    )
    dense(tmp_path / "3_Dense", take=7, give=3)
    first, second = read_recipe(tmp_path).dense
    assert (first.activation, first.bias, list(first.weight.shape)) == ("gelu", None, [7, 4])
    assert (second.activation, list(second.weight.shape)) == ("identity", [3, 7])
    assert second.bias is not None


def test_the_default_activation_is_tanh(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dense")
    write(tmp_path / "2_Dense/config.json", {"in_features": 4, "out_features": 4})
    assert read_recipe(tmp_path).dense[0].activation == "tanh"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"activation_function": "torch.nn.modules.activation.Mish"}, "Mish cannot be served"),
        ({"activation_function": "my.Tanh"}, "my.Tanh cannot be served"),
        ({"activation_function": None}, "None cannot be served"),
        (
            {"use_residual": True, "activation_function": "torch.nn.modules.activation.GELU"},
            "use_residual cannot be served with",
        ),
        ({"module_input_name": "token_embeddings"}, "'token_embeddings' cannot be served"),
        ({"module_output_name": "other"}, "'other' cannot be served"),
        ({"take": 5}, "takes vectors of 5 numbers, but gets 4"),
        (
            {"out_features": 5},
            "linear.weight [4, 4] and linear.bias [4], while config.json says [5, 4]",
        ),
    ],
)
def test_an_unsupported_dense_layer_is_refused(
    tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dense")
    dense(tmp_path / "2_Dense", **config)
    text = refusal(tmp_path).replace(
        "linear.bias [4] and linear.weight [4, 4]", "linear.weight [4, 4] and linear.bias [4]"
    )
    assert message in text


def test_a_dense_layer_with_an_undeclared_bias_is_refused(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dense")
    write(tmp_path / "2_Dense/config.json", {"in_features": 4, "out_features": 4, "bias": False})
    assert "holds tensors ['linear.bias', 'linear.weight'], not ['linear.weight']" in refusal(
        tmp_path
    )


def test_a_pickled_dense_layer_is_refused(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dense")
    (tmp_path / "2_Dense/model.safetensors").rename(tmp_path / "2_Dense/pytorch_model.bin")
    assert "pickled weights alone" in refusal(tmp_path)


def test_normalize_of_another_feature_is_refused(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Normalize")
    write(tmp_path / "2_Normalize/config.json", {"module_input_name": "token_embeddings"})
    assert "'token_embeddings' cannot be served" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"query_length": 32}, "query_length cannot be served"),
        ({"query_expansion": {"length": 32}}, "query_expansion cannot be served"),
        ({"transformer_task": "fill-mask"}, "'fill-mask' cannot be served"),
        ({"modality_config": {"message": {}}}, "a chat template around texts cannot be served"),
        ({"modality_config": {"image": {}}}, "modality_config cannot be served"),
        ({"modality_config": 3}, "modality_config is not an object"),
        ({"processing_kwargs": {"text": {"max_length": 3}}}, "processing_kwargs cannot be served"),
        ({"config_kwargs": {"is_causal": False}}, "config_kwargs sets is_causal"),
        ({"model_args": {"gguf_file": "x"}}, "model_args sets gguf_file"),
        ({"tokenizer_args": {"add_prefix_space": True}}, "tokenizer_args sets add_prefix_space"),
    ],
)
def test_unsupported_transformer_settings_are_refused(
    tmp_path: Path, own: dict[str, Any], message: str
) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "sentence_bert_config.json", own)
    assert message in refusal(tmp_path)


def test_settings_without_numeric_effect_are_accepted(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    own = {
        "transformer_task": "feature-extraction",
        "modality_config": text,
        "model_args": {"torch_dtype": "float16"},
    }
    write(
        tmp_path / "sentence_bert_config.json", own | {"query_length": None, "unpad_inputs": False}
    )
    assert read_recipe(tmp_path).pooling == "mean"
