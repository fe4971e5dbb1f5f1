from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from headlight import Client, InvalidInput
from headlight.analysis.head_analysis import analyse, distances, importance, parts_of
from headlight.analysis.head_kinds import PATTERNS, Link
from headlight.analysis.terminal_view import bar, cells
from headlight.cli.attention.heads_command import five, heads_text, legend
from headlight.cli.commands import main
from headlight.errors import BadAnswer, MixedWeights
from headlight.interface.arguments import Input, text_of
from headlight.pb import headlight_pb2 as pb
from tests.headlight.conftest import Pipe
from tests.headlight.fake_model import HEADS, LAYERS, OTHER_REF, REF
from tests.headlight.fake_server import FakeServicer

TEXTS = ["read a file", "for line in open ( path )"]
# Distances that the fake makes without each head.
MOVED = np.arange(1, LAYERS * HEADS + 1).reshape(LAYERS, HEADS) / 100


@pytest.fixture
def environment(target: str, monkeypatch: pytest.MonkeyPatch, pipe: Pipe) -> None:
    monkeypatch.setenv("HEADLIGHT_TARGET", target)
    pipe(b"")


@pytest.mark.parametrize("at_once", [1, 32])
def test_links_are_the_largest_of_whole_maps(
    client: Client, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("headlight.analysis.head_analysis.TEXTS_AT_ONCE", at_once)
    analysis = analyse(client, TEXTS)
    assert [(head.layer, head.head) for head in analysis.heads] == list(np.ndindex(LAYERS, HEADS))
    assert analysis.token_counts == (5, 9)
    assert analysis.importance is None
    for head in analysis.heads:
        best = Link(-1, 0, 0, 0, "", "")
        for text, words in enumerate(TEXTS):
            weights = client.attend(words).head(head.layer, head.head)[1:-1, 1:-1].copy()
            np.fill_diagonal(weights, -1)
            query, key = np.unravel_index(weights.argmax(), weights.shape)
            names = words.split()
            link = Link(
                weights[query, key], text, int(query) + 1, int(key) + 1, names[query], names[key]
            )
            best = link if link.weight > best.weight else best
        assert head.link == best


def test_importance_is_the_distance_that_vectors_move(
    client: Client, servicer: FakeServicer
) -> None:
    moved = importance(client, TEXTS)
    np.testing.assert_allclose(moved.distance, MOVED, rtol=1e-5)
    assert moved.distance.dtype == np.float32
    assert moved.distance.shape == (LAYERS, HEADS)
    np.testing.assert_array_equal(moved.baseline, client.encode(TEXTS))
    assert (moved.cosine > 0).all()
    masks = [
        tuple(item.head_mask.values) for request in servicer.encoded[:-1] for item in request.inputs
    ]
    assert masks[:2] == [(), ()]
    assert [mask.index(0) for mask in masks[2::2]] == list(range(LAYERS * HEADS))
    assert {sum(mask) for mask in masks[2:]} == {LAYERS * HEADS - 1}


def test_distances_of_vectors_match_their_formulas() -> None:
    one = np.array([[1, 0], [0, 2]], np.float32)
    other = np.array([[0, 1], [0, 1]], np.float32)
    assert distances(one, other) == pytest.approx(((2**0.5 + 1) / 2, 0.5))
    assert distances(one, one) == (0, 0)
    assert distances(one, np.zeros_like(one)) == pytest.approx((1.5, 1))


def test_the_legend_breaks_between_words(client: Client) -> None:
    analysis = analyse(client, TEXTS, patterns=True)
    shown = heads_text(analysis, 40).splitlines()
    begin = next(at for at, line in enumerate(shown) if line.startswith("share: "))
    assert max(map(cells, shown[begin:])) <= 40
    assert " ".join(shown[begin:]).split() == " ".join(legend(analysis)).split()


def test_no_texts_are_refused(client: Client) -> None:
    for call in (analyse, importance):
        with pytest.raises(InvalidInput, match="texts: no text was given"):
            call(client, [])


def test_requests_include_enough_weights_of_each_row(
    client: Client, servicer: FakeServicer
) -> None:
    """All special tokens, the token itself, and one other."""
    wanted: list[tuple[list[Input], int]] = [
        ([TEXTS[0]], 4),
        ([TEXTS[0], ("open a file", "read it")], 5),
        ([[5, 6, 7]], 2),
    ]
    for texts, expected in wanted:
        analyse(client, texts)
        assert servicer.encoded[-1].outputs.attention.top_k == expected


def test_tokens_are_labelled_by_the_characters_of_a_text_or_pair() -> None:
    assert text_of("a b") == "a b"
    assert text_of(("a", "b")) == ("a", "b")
    assert [text_of(ids) for ids in ([5, 6], np.array([5, 6]))] == [None, None]


def test_ids_have_no_special_tokens(client: Client) -> None:
    analysis = analyse(client, [[5, 6, 7]])
    link = analysis.heads[0].link
    assert link is not None
    assert {link.query_label, link.key_label} < {"#5", "#6", "#7"}


def test_weights_replaced_during_an_analysis_are_detected(
    client: Client, servicer: FakeServicer
) -> None:
    servicer.ref = lambda call: REF if call < 1 else OTHER_REF
    with pytest.raises(MixedWeights, match="changed during the analysis"):
        importance(client, TEXTS)
    servicer.numbers = itertools.count()
    with pytest.raises(MixedWeights, match="during the analysis"):
        analyse(client, TEXTS[0])


def other_pairs(response: pb.EncodeResponse) -> None:
    response.attention_map.axes[:2] = ["pair"]


def other_statistics(response: pb.EncodeResponse) -> None:
    response.attention_map.statistics[:] = ["entropy"]


def other_heads(response: pb.EncodeResponse) -> None:
    response.attention_map.heads[:] = [1]


def groups_of_tokens(response: pb.EncodeResponse) -> None:
    for item in response.items:
        together = pb.Units(tokens=range(item.token_count), starts=range(0, item.token_count, 2))
        response.attention_map.places.add(queries=together, keys=together)


@pytest.mark.parametrize("change", [other_pairs, other_statistics, other_heads, groups_of_tokens])
def test_maps_that_do_not_match_the_requested_form_are_refused(
    client: Client, servicer: FakeServicer, change: Callable[[pb.EncodeResponse], None]
) -> None:
    servicer.change_answer = change
    with pytest.raises(BadAnswer, match="attention"):
        analyse(client, TEXTS)
    servicer.change_answer = lambda response: (
        change(response) if response.HasField("attention_indices") else None
    )
    with pytest.raises(BadAnswer, match="attention"):
        analyse(client, TEXTS)


@pytest.mark.usefixtures("environment")
def test_the_table_fits_into_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    texts = [
        "an_identifier_of_some_length + another_one_that_is_long",
        "日本語日本語日本語 = 日本語日本語日本語日本語",
    ]
    for options in ([], ["--importance"], ["--patterns", "--importance"]):
        assert main(["heads", *texts, *options]) == 0
        out, err = capsys.readouterr()
        title, header, *rows = out.splitlines()
        assert err == ""
        assert title == "6 heads, 2 texts, 10 tokens"
        assert ("moved" in header) == bool(options)
        assert max(map(cells, out.splitlines())) <= 80
        assert [row.split()[0] for row in rows[:6]] == ["0.0", "0.1", "1.0", "1.1", "2.0", "2.1"]
        assert all(" → " in row for row in rows[:6])
        assert rows[5].endswith("0.060 ████████") == bool(options)


@pytest.mark.usefixtures("environment")
def test_json_and_npz_contain_the_same_data(
    client: Client, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "texts").write_text("\n".join(TEXTS) + "\n")
    common = ["heads", "--file", str(tmp_path / "texts"), "--importance", "--format"]
    assert main([*common, "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert main([*common, "npz", "--out", str(tmp_path / "heads.npz")]) == 0
    expected = analyse(client, TEXTS)
    assert answer["token_counts"] == [5, 9]
    assert answer["thresholds"] == {
        "called": 0.5,
        "uniform": 0.9,
        "faint": 0.05,
        "above_base": 2.0,
    }
    assert "patterns" not in answer
    with np.load(tmp_path / "heads.npz", allow_pickle=False) as archive:
        np.testing.assert_allclose(archive["importance"], MOVED, rtol=1e-5)
        assert archive["statistics"].shape == (LAYERS, HEADS, 7)
        for row, head in zip(answer["heads"], expected.heads, strict=True):
            at = (head.layer, head.head)
            assert (row["layer"], row["head"], row["kind"]) == (*at, head.kind)
            assert row["importance"]["distance"] == pytest.approx(MOVED[at], rel=1e-5)
            assert head.link is not None
            assert row["link"]["weight"] == pytest.approx(head.link.weight)
            assert (
                row["link"]["query_label"]
                == archive["link_query_label"][at]
                == head.link.query_label
            )
            assert archive["kinds"][at] == head.kind
            for place, name in enumerate(archive["statistic_names"].tolist()):
                assert row[name] == pytest.approx(head.statistics[name])
                assert row[name] == pytest.approx(float(archive["statistics"][at][place]))


@pytest.mark.parametrize(
    ("counts", "heads", "expected"),
    [
        ([128] * 70, 0, [32, 32, 6]),
        ([128] * 70, 32, [32, 32, 6]),
        ([128] * 20, 144, [7, 7, 6]),  # 9.4 MB each
        ([512, 8, 8, 512, 512], 144, [1, 2, 1, 1]),  # 151 MB each, more than a part may have
        ([512], 144, [1]),
    ],
)
def test_whole_maps_are_requested_in_parts_of_limited_bytes(
    counts: list[int], heads: int, expected: list[int]
) -> None:
    parts = list(parts_of(counts, heads))
    assert [len(part) for part in parts] == expected
    assert [text for part in parts for text in part] == list(range(len(counts)))


@pytest.mark.parametrize("bytes_at_once", [1, 2**30])
def test_patterns_are_means_over_the_queries_of_all_texts(
    client: Client, monkeypatch: pytest.MonkeyPatch, bytes_at_once: int
) -> None:
    monkeypatch.setattr("headlight.analysis.head_analysis.MAPS_BYTES_AT_ONCE", bytes_at_once)
    texts = ["open ( path )", "read a file", "a or a"]
    analysis = analyse(client, texts, patterns=True)
    assert analysis.patterns is not None
    assert {name: each.queries for name, each in analysis.patterns.items()} == {
        "same": 2,
        "bracket": 2,
        "punctuation": 4,
        "rare": 10,
    }
    rates = {name: each.base_rate for name, each in analysis.patterns.items()}
    # "a" counts three times; each other token once, and is rare.
    assert rates == pytest.approx(
        {
            "same": 1 / 5,
            "bracket": 1 / 6,
            "punctuation": 2 / 6,
            "rare": (4 * 4 / 6 + 3 * 2 / 5 + 3 / 5) / 10,
        }
    )
    plain = analyse(client, texts)
    assert plain.patterns is None
    for head, before in zip(analysis.heads, plain.heads, strict=True):
        maps = [client.attend(text).head(head.layer, head.head) for text in texts]
        assert head.patterns["bracket"] == pytest.approx((maps[0][2, 4] + maps[0][4, 2]) / 2)
        assert head.patterns["same"] == pytest.approx((maps[2][1, 3] + maps[2][3, 1]) / 2)
        assert head.link == before.link
        assert before.patterns == {}


@pytest.mark.usefixtures("environment")
def test_patterns_are_in_json_npz_and_the_legend(
    client: Client, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    common = ["heads", *TEXTS, "--patterns", "--format"]
    assert main([*common, "text"]) == 0
    assert "  bracket       0.11  over 2 queries" in capsys.readouterr().out
    assert main([*common, "json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert main([*common, "npz", "--out", str(tmp_path / "heads.npz")]) == 0
    expected = analyse(client, TEXTS, patterns=True)
    assert expected.patterns is not None
    with np.load(tmp_path / "heads.npz", allow_pickle=False) as archive:
        assert archive["pattern_names"].tolist() == [*answer["patterns"]] == [*PATTERNS]
        for place, name in enumerate(PATTERNS):
            rate, queries = expected.patterns[name].base_rate, expected.patterns[name].queries
            found = answer["patterns"][name]
            assert found["queries"] == archive["pattern_queries"][place] == queries
            if name == "same":
                assert found["base_rate"] is None
                assert np.isnan(archive["pattern_base_rates"][place])
                continue
            assert found["base_rate"] == pytest.approx(rate)
            assert archive["pattern_base_rates"][place] == pytest.approx(rate)
            for row, head in zip(answer["heads"], expected.heads, strict=True):
                at = (head.layer, head.head, place)
                assert row["patterns"][name] == pytest.approx(head.patterns[name])
                assert archive["pattern_shares"][at] == pytest.approx(head.patterns[name])


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "the texts: no text was given"),
        (["word " * 50], "the text: has 52 tokens"),
    ],
)
def test_errors_of_the_caller_are_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main(["heads", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_bars_have_steps_of_an_eighth() -> None:
    assert [bar(number, 1, 2) for number in (0, 1 / 16, 0.5, 0.75, 1)] == ["", "▏", "█", "█▌", "██"]
    assert bar(0, 0, 8) == ""


@pytest.mark.parametrize(
    ("number", "digits", "shown"),
    [
        (0.25, 3, "0.250"),
        (12.349, 3, "12.35"),
        (9.9999, 3, "10.00"),
        (99.96, 1, "100.0"),
        (1234.56, 1, " 1235"),
        (123456.0, 3, "1e+05"),
        (float("nan"), 1, "  nan"),
    ],
)
def test_numbers_are_rounded_to_five_columns(number: float, digits: int, shown: str) -> None:
    assert five(number, digits) == shown
