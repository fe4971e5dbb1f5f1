import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight_export.folders.model_folder import Refused
from headlight_export.folders.sentence_folder import read_recipe
from tests.folders import NEW, OLD, chain, refusal, write


def test_a_folder_without_modules_is_the_transformer_itself(tmp_path: Path) -> None:
    write(tmp_path / "config.json", {"max_position_embeddings": 40})
    recipe = read_recipe(tmp_path)
    assert (recipe.transformer, recipe.pooling, recipe.normalize, recipe.max_length) == (
        tmp_path,
        None,
        False,
        40,
    )


@pytest.mark.parametrize("prefix", [OLD, NEW, "sentence_transformers.base.modules.transformer."])
@pytest.mark.parametrize("transformer", ["", "0_Transformer"])
def test_transformer_pooling_and_normalize_are_read(
    tmp_path: Path, prefix: str, transformer: str
) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Normalize", transformer=transformer, prefix=prefix)
    recipe = read_recipe(tmp_path)
    assert recipe.transformer == tmp_path / transformer
    assert (recipe.pooling, recipe.normalize, recipe.dense, recipe.include_prompt) == (
        "mean",
        True,
        (),
        True,
    )
    assert (recipe.max_length, recipe.lower_case, recipe.truncate_dim) == (512, False, None)
    assert (recipe.prompts, recipe.default_prompt, recipe.similarity, recipe.dimensions) == (
        {},
        None,
        None,
        (),
    )


def test_modules_apply_in_list_order_and_dropout_is_ignored(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling", "Dropout", "Dense", "Normalize")
    modules = json.loads((tmp_path / "modules.json").read_text())
    write(tmp_path / "modules.json", [module | {"idx": 9 - module["idx"]} for module in modules])
    recipe = read_recipe(tmp_path)
    assert recipe.normalize
    assert len(recipe.dense) == 1


@pytest.mark.parametrize(
    "kinds",
    [
        (),
        ("Transformer",),
        ("Transformer", "Normalize"),
        ("Transformer", "Normalize", "Pooling"),
        ("Transformer", "Pooling", "Normalize", "Dense"),
        ("Transformer", "Pooling", "Normalize", "Normalize"),
        ("Transformer", "Dense", "Pooling"),
        ("Pooling", "Transformer"),
    ],
)
def test_an_unsupported_module_order_is_refused(tmp_path: Path, kinds: tuple[str, ...]) -> None:
    message = refusal(chain(tmp_path, *kinds))
    assert f"chains {', '.join(kinds) or 'nothing'}; supported is Transformer, Pooling" in message


@pytest.mark.parametrize(
    "name",
    [
        OLD + "LayerNorm",
        OLD + "CNN",
        NEW + "StaticEmbedding",
        "sentence_transformers.base.modules.router.Router",
        "my.Pooling",
    ],
)
def test_an_unsupported_module_is_refused_by_name(tmp_path: Path, name: str) -> None:
    assert f"module {name} cannot be served" in refusal(
        chain(tmp_path, "Transformer", "Pooling", name)
    )


@pytest.mark.parametrize("place", ["../other", "/etc", "a/../../b", "a\\b", None, 3])
def test_modules_outside_the_folder_are_refused(tmp_path: Path, place: object) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "modules.json", [{"type": OLD + "Transformer", "path": place}])
    assert "only a folder inside" in refusal(tmp_path)


@pytest.mark.parametrize("value", [{}, "x", [1], None])
def test_modules_that_are_no_list_are_refused(tmp_path: Path, value: object) -> None:
    write(tmp_path / "modules.json", value)
    assert "is not a list of modules" in refusal(tmp_path)


@pytest.mark.parametrize(
    "name", ["bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet"]
)
def test_transformer_settings_are_read_from_each_file_name(tmp_path: Path, name: str) -> None:
    chain(tmp_path, "Transformer", "Pooling", transformer="0_Transformer")
    write(
        tmp_path / f"0_Transformer/sentence_{name}_config.json",
        {"max_seq_length": 77, "do_lower_case": True},
    )
    recipe = read_recipe(tmp_path)
    assert (recipe.max_length, recipe.lower_case) == (77, True)


def test_the_first_nonempty_settings_file_is_used(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    for name, own in (
        ("bert", {}),
        ("roberta", {"max_seq_length": 7}),
        ("xlnet", {"max_seq_length": 8}),
    ):
        write(tmp_path / f"sentence_{name}_config.json", own)
    assert read_recipe(tmp_path).max_length == 7


def test_prompts_similarity_and_vector_sizes_are_read(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    values = {
        "prompts": {"query": "query: ", "document": None},
        "default_prompt_name": "query",
        "similarity_fn_name": "dot",
        "truncate_dim": 2,
    }
    write(tmp_path / "config_sentence_transformers.json", values)
    write(tmp_path / "config.json", {"matryoshka_dimensions": [3, 4, 2]})
    recipe = read_recipe(tmp_path)
    assert recipe.prompts == {"query": "query: ", "document": ""}
    assert (recipe.default_prompt, recipe.similarity) == ("query", "dot")
    assert (recipe.truncate_dim, recipe.dimensions) == (2, (4, 3, 2))


def test_vector_sizes_are_read_from_a_model_card(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    loss = {
        "loss": "MultipleNegativesRankingLoss",
        "matryoshka_dims": [768, 256, 64],
        "n_dims_per_step": -1,
    }
    (tmp_path / "README.md").write_text(
        f"* Loss: MatryoshkaLoss\n  ```json\n{json.dumps(loss, indent=2)}\n```\n"
    )
    assert read_recipe(tmp_path).dimensions == (768, 256, 64)


def test_a_similarity_of_another_model_type_is_ignored(tmp_path: Path) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "config_sentence_transformers.json", {"similarity_fn_name": "maxsim"})
    assert read_recipe(tmp_path).similarity is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"truncate_dim": 0}, "truncate_dim is 0"),
        ({"truncate_dim": True}, "truncate_dim is True"),
        ({"prompts": ["query"]}, "prompts is not an object of texts"),
        ({"prompts": {"query": 3}}, "prompts is not an object of texts"),
        (
            {"prompts": {"a": "b"}, "default_prompt_name": "query"},
            "'query' is not one of the prompts ['a']",
        ),
    ],
)
def test_unsupported_model_settings_are_refused(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    chain(tmp_path, "Transformer", "Pooling")
    write(tmp_path / "config_sentence_transformers.json", values)
    assert message in refusal(tmp_path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text("ab.", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = {
    "config_sentence_transformers.json": (
        "prompts",
        "default_prompt_name",
        "truncate_dim",
        "similarity_fn_name",
    ),
    "sentence_bert_config.json": (
        "max_seq_length",
        "modality_config",
        "processing_kwargs",
        "model_args",
        "query_length",
    ),
    "tokenizer_config.json": ("model_max_length", "max_len"),
    "config.json": ("max_position_embeddings", "matryoshka_dims"),
    "1_Pooling/config.json": (
        "pooling_mode",
        "pooling_mode_max_tokens",
        "include_prompt",
        "embedding_dimension",
    ),
    "2_Dense/config.json": (
        "activation_function",
        "bias",
        "in_features",
        "module_input_name",
        "use_residual",
    ),
}


@settings(max_examples=200)
@given(data=st.data())
def test_any_setting_value_is_read_or_refused(data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(KEYS)))
    key, value = data.draw(st.sampled_from(KEYS[file])), data.draw(json_values)
    with tempfile.TemporaryDirectory() as name:
        folder = chain(Path(name), "Transformer", "Pooling", "Dense")
        before = json.loads((folder / file).read_text()) if (folder / file).is_file() else {}
        write(folder / file, before | {key: value})
        try:
            recipe = read_recipe(folder)
        except Refused:
            return
        assert recipe.pooling is not None
        assert recipe.max_length is None or recipe.max_length > 0
