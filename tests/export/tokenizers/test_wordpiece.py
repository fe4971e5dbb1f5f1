import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight_export.folders.model_folder import Refused
from tests.vocabularies import CLS, SEP, UNK, WORDS, load, tokenizer_refusal, vocabulary, words


def test_a_vocabulary_becomes_a_bert_tokenizer(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    tokenizer = load(tmp_path)
    one = tokenizer.encode(" Hellos!")
    assert one.ids == [CLS, 5, 7, 12, SEP]
    assert one.offsets == [(0, 0), (1, 6), (6, 7), (7, 8), (0, 0)]
    assert one.special_tokens_mask == [1, 0, 0, 0, 1]
    two = tokenizer.encode("hello", "nothing")
    assert two.ids == [CLS, 5, SEP, UNK, SEP]
    assert two.type_ids == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(
    ("config", "text", "expected"),
    [
        ({}, "Hello Café 今天", ["hello", "cafe", "今", "天"]),
        ({"do_lower_case": False}, "Hello café", ["Hello", "café"]),
        ({"do_lower_case": True, "strip_accents": False}, "Hello Café", ["hello", "café"]),
        ({"do_lower_case": False, "strip_accents": True}, "Hello café", ["Hello", "cafe"]),
        ({"tokenize_chinese_chars": False}, "今天", ["今天"]),
    ],
)
def test_tokenizer_settings_apply_to_a_vocabulary(
    tmp_path: Path, config: dict[str, Any], text: str, expected: list[str]
) -> None:
    vocabulary(tmp_path, **config)
    assert words(tmp_path, text) == expected


@pytest.mark.parametrize(
    "name", ["BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "ElectraTokenizerFast"]
)
def test_classes_with_the_bert_tokenizer_are_accepted(tmp_path: Path, name: str) -> None:
    vocabulary(tmp_path, tokenizer_class=name)
    assert load(tmp_path).encode("hello").ids == [CLS, 5, SEP]


def test_mpnet_puts_two_separators_between_texts(tmp_path: Path) -> None:
    vocabulary(
        tmp_path, ["<s>", "<pad>", "</s>", "[UNK]", "hello"], tokenizer_class="MPNetTokenizer"
    )
    assert load(tmp_path).encode("hello", "hello").ids == [0, 4, 2, 2, 4, 2]


@pytest.mark.parametrize("file", [None, "special_tokens_map.json", "tokenizer_config.json"])
def test_special_tokens_with_other_names_are_used(tmp_path: Path, file: str | None) -> None:
    vocabulary(tmp_path, ["<u>", "<c>", "<e>", "hello", "mask"])
    names = {
        "unk_token": "<u>",
        "cls_token": {"content": "<c>", "lstrip": False},
        "sep_token": "<e>",
    }
    if file is None:
        assert "has no [UNK] (unk_token)" in tokenizer_refusal(tmp_path)
        return
    (tmp_path / file).write_text(json.dumps(names))
    encoding = load(tmp_path).encode("hello <e> nothing")
    assert encoding.ids == [1, 3, 2, 0, 2]


@pytest.mark.parametrize("spelling", ["a b", "$A", "x:1"])
def test_special_tokens_with_conflicting_template_roles_are_refused(
    tmp_path: Path, spelling: str
) -> None:
    vocabulary(tmp_path, [*WORDS, spelling], cls_token=spelling)
    assert f"{spelling!r} cannot be the cls_token" in tokenizer_refusal(tmp_path)


@pytest.mark.parametrize(
    ("decoder", "expected"), [({}, "[SEP]"), ({"added_tokens_decoder": {}}, "[MASK]")]
)
def test_special_tokens_map_applies_unless_the_settings_list_all_tokens(
    tmp_path: Path, decoder: dict[str, Any], expected: str
) -> None:
    vocabulary(tmp_path, sep_token="[MASK]", **decoder)
    (tmp_path / "special_tokens_map.json").write_text('{"sep_token": "[SEP]"}')
    assert load(tmp_path).encode("hello").tokens[-1] == expected


def test_added_tokens_follow_the_vocabulary(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    (tmp_path / "added_tokens.json").write_text(
        json.dumps({"[b]": len(WORDS) + 1, "[a]": len(WORDS)})
    )
    assert load(tmp_path).encode("[b][a]hello").ids == [CLS, len(WORDS) + 1, len(WORDS), 5, SEP]


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ({"[a]": 99}, "[a] cannot have the id 99"),
        ({"hello": 99}, "hello cannot have the id 99"),
        ({"[a]": "x"}, "lists added tokens in a way that cannot be read"),
    ],
)
def test_added_tokens_with_gaps_are_refused(
    tmp_path: Path, added: dict[str, object], message: str
) -> None:
    vocabulary(tmp_path)
    (tmp_path / "added_tokens.json").write_text(json.dumps(added))
    assert message in tokenizer_refusal(tmp_path)


@pytest.mark.parametrize("told", [[], {"x": {"content": "a"}}, {"0": {}}, {"0": 3}, {"0": None}])
def test_added_tokens_that_cannot_be_read_are_refused(tmp_path: Path, told: object) -> None:
    vocabulary(tmp_path, added_tokens_decoder=told or [1])
    assert "lists added tokens" in tokenizer_refusal(tmp_path)


@pytest.mark.parametrize("name", ["PhobertTokenizer", "T5Tokenizer"])
def test_other_classes_are_not_built_from_a_vocabulary(tmp_path: Path, name: str) -> None:
    vocabulary(tmp_path, tokenizer_class=name)
    assert f"{name} cannot be built from vocab.txt" in tokenizer_refusal(tmp_path)


def test_the_roformer_tokenizer_is_refused_by_name(tmp_path: Path) -> None:
    vocabulary(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "roformer"}')
    assert "jieba" in tokenizer_refusal(tmp_path)
    vocabulary(tmp_path, tokenizer_class="BertTokenizer")
    load(tmp_path).save(str(tmp_path / "tokenizer.json"))
    load(tmp_path)
    vocabulary(tmp_path, tokenizer_class="RoFormerTokenizerFast")
    assert "jieba" in tokenizer_refusal(tmp_path)


def test_a_damaged_vocabulary_is_refused(tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\xfe\n")
    assert "vocab.txt" in tokenizer_refusal(tmp_path)


def test_settings_override_tokenizer_json_for_bert_only(tmp_path: Path) -> None:
    vocabulary(tmp_path, do_lower_case=False)
    load(tmp_path).save(str(tmp_path / "tokenizer.json"))
    for name, lower in (("BertTokenizer", True), ("PreTrainedTokenizerFast", False), (None, False)):
        settings = {"do_lower_case": True} | ({"tokenizer_class": name} if name else {})
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings))
        assert words(tmp_path, "Hello") == (["hello"] if lower else ["Hello"])


@pytest.mark.parametrize(
    ("model", "lower"), [("bert", True), ("nomic_bert", True), ("llama", False), (None, False)]
)
def test_the_model_type_decides_if_no_class_is_named(
    tmp_path: Path, model: str | None, lower: bool
) -> None:
    vocabulary(tmp_path, do_lower_case=False)
    load(tmp_path).save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": true}')
    (tmp_path / "config.json").write_text(json.dumps({"model_type": model}))
    assert words(tmp_path, "Hello") == (["hello"] if lower else ["Hello"])


@pytest.mark.parametrize("key", ["additional_special_tokens", "extra_special_tokens"])
def test_special_tokens_without_a_role_are_read_or_refused(tmp_path: Path, key: str) -> None:
    vocabulary(tmp_path, **{key: list[Any](["cafe", {"content": "[q]"}])})
    assert load(tmp_path).encode("cafehello[q]").ids == [CLS, 8, 5, len(WORDS), SEP]
    vocabulary(tmp_path, **{key: list[Any]([{}])})
    assert "lists special tokens in a way that cannot be read" in tokenizer_refusal(tmp_path)


odd = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 20)
    | st.sampled_from(["", "hello", "[SEP]", "a b", "$A", "x:1", "new"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["content", "3", "99", "lstrip"]), inner)
    ),
    max_leaves=4,
)
KEYS = (
    "added_tokens_decoder",
    "additional_special_tokens",
    "cls_token",
    "do_lower_case",
    "extra_special_tokens",
    "mask_token",
    "strip_accents",
    "tokenizer_class",
    "unk_token",
)


@settings(max_examples=300)
@given(config=st.dictionaries(st.sampled_from(KEYS), odd, max_size=3))
def test_any_setting_value_is_read_or_refused(
    config: dict[str, Any],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vocabulary(folder, [*WORDS, "a b", "$A", "x:1"], **config)
        try:
            tokenizer = load(folder)
        except Refused:
            return
        assert tokenizer.encode("hello").ids
