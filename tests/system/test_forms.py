"""Every form of attention over the wire, for every position scheme.

Against NumPy on PyTorch's whole maps.
"""

from __future__ import annotations

import grpc
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headlight import AttentionMaps, AttentionSpec, Client, InvalidInput, Run, Span
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.results import TokenList
from headlight.runtime.values import Floats
from headlight_model.encoder import Encoder
from tests.attention_reference import Text, check
from tests.shipped import DIM, HEADS, LAYERS
from tests.specs import specs
from tests.system.conftest import Small
from tests.system.processes import Service

TOLERANCE = 1e-5
WORDS = st.lists(st.text("abcxyz09", min_size=1, max_size=7), min_size=1, max_size=9).map(" ".join)


def reference(encoder: Encoder, tokens: TokenList, head_mask: Floats | None = None) -> Text:
    """Return PyTorch's outputs for tokens.

    Words are runs of tokens without a space between, as in these texts.
    """
    ids = torch.tensor(tokens.ids)[None]
    mask = None if head_mask is None else torch.from_numpy(head_mask)[None]
    segments = torch.tensor(tokens.segments)[None] if encoder.config.segments else None
    with torch.inference_mode():
        out = encoder(ids, segments=segments, head_mask=mask, fused=False)
    scores = torch.cat(out.scores).numpy()
    scores[scores < -1e29] = -np.inf
    words, last = [0], 0
    for at in range(1, len(tokens)):
        touches = tokens.starts[at] == tokens.ends[at - 1] and not (
            tokens.special[at] or tokens.special[at - 1]
        )
        last += not touches
        words.append(last)
    weights = torch.cat(out.attention).numpy()
    return Text(
        weights, scores, tokens.special, tokens.starts, tokens.ends, words, encoder.config.pooling
    )


def compare(
    spec: AttentionSpec, encoder: Encoder, answer: AttentionMaps, head_mask: Floats | None = None
) -> None:
    text = reference(encoder, answer.tokens, head_mask)
    assert answer.values.dtype == spec.dtype
    check(spec, text, answer.weights, answer.values, answer.indices, TOLERANCE)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=WORDS, data=st.data())
def test_any_form_of_any_text_matches_pytorch(small: Small, text: str, data: st.DataObject) -> None:
    kind, service, encoder = small
    config = encoder.config
    with Client(service.target, timeout=60) as client:
        # Kind "none" has no tokenizer.
        given_ids = [5 + ord(letter) % 40 for letter in text] + [7, 8]
        value = given_ids if kind == "none" else text
        length = len(given_ids) if kind == "none" else len(client.tokenize([text])[0])
        spec = data.draw(
            specs(
                config.layers,
                config.heads,
                length,
                0 if kind == "none" else len(text),
                config.pooling,
            )
        )
        [answer] = client.attention([value], spec)
        sent = sum(
            part.nbytes
            for part in (answer.values, answer.indices, answer.scales)
            if part is not None
        )
        assert client.attention_bytes(value, spec) == sent
    if "statistics" in spec.reduce and kind == "none":
        assert np.isnan(answer.values[..., 1]).all()  # special tokens of ids are unknown
        answer.values[..., 1] = 0
    compare(spec, encoder, answer)


def test_masked_heads_match_pytorch(small: Small) -> None:
    _, service, encoder = small
    config = encoder.config
    mask = (
        np.random.default_rng(3)
        .choice([0.0, 0.5, 1.0], size=(config.layers, config.heads))
        .astype(np.float32)
    )
    ids = list(range(5, 45))
    with Client(service.target) as client:
        [vector] = client.encode([ids], head_mask=mask)
        [whole] = client.encode([ids])
        [answer] = client.attention([ids], AttentionSpec(), head_mask=mask)
        with pytest.raises(InvalidInput, match="head_mask"):
            client.encode([ids], head_mask=[[1.0]])
        for wrong in (np.nan, np.inf, 3e38, -0.5):
            with pytest.raises(
                InvalidInput,
                match=r"^head_mask: has a value outside 0 to 1",
            ):
                client.encode([ids], head_mask=np.full_like(mask, wrong))
    with torch.inference_mode():
        expected = (
            encoder(torch.tensor(ids)[None], head_mask=torch.from_numpy(mask)[None])
            .pooled[0]
            .numpy()
        )
    assert np.abs(vector - expected).max() <= 1e-5
    assert np.abs(whole - expected).max() > 1e-3
    compare(AttentionSpec(), encoder, answer, mask)


def test_hidden_tokens_move_the_vector_as_in_pytorch(small: Small) -> None:
    """PyTorch gets a mask with a hole at the token."""
    _, service, encoder = small
    ids = [7, 9, 30, 8, 12, 9]
    vector_at = {"cls": 0, "last": 5}.get(encoder.config.pooling)
    with Client(service.target) as client:
        found = client.occlusion(ids)
        chosen = client.occlusion(ids, (3, -2))
        with pytest.raises(InvalidInput, match=r"tokens\[0\]: is 6"):
            client.occlusion(ids, (6,))
    assert found.places == tuple(token for token in range(6) if token != vector_at)
    for moved, token in zip(found.moved, found.places, strict=True):
        mask = torch.tensor([[int(other != token) for other in range(6)]])
        with torch.inference_mode():
            whole, hole = (
                encoder(torch.tensor(ids)[None], mask=each).pooled[0] for each in (None, mask)
            )
        assert moved == pytest.approx(float((whole - hole).norm()), abs=2e-5)
    by_place = dict(zip(found.places, found.moved, strict=True))
    assert chosen.places == (3, 4)
    assert chosen.moved == pytest.approx([by_place[3], by_place[4]], abs=1e-6)


def test_hidden_states_of_selected_tokens_match_pytorch(small: Small) -> None:
    _, service, encoder = small
    ids = [7, 9, 30, 8, 12, 9]
    with Client(service.target) as client:
        whole = client.hidden(ids)
        some = client.hidden(ids, slice(-1, None), tokens=(4, 0), dtype="float16")
    with torch.inference_mode():
        expected = encoder(torch.tensor(ids)[None], fused=False).hidden[-1][0].numpy()
    assert whole.states.shape == (encoder.config.layers + 1, 6, encoder.config.dim)
    assert np.abs(whole.states[-1] - expected).max() < 1e-4
    assert (some.places, some.layers) == ((4, 0), (encoder.config.layers,))
    assert some.states.dtype == np.float16
    assert np.abs(some.states[0] - expected[[4, 0]]).max() < 1e-2


def test_a_head_mask_of_one_input_does_not_affect_others(small: Small) -> None:
    """All items of a request run on one graph; those without a mask are as they would be alone."""
    _, service, encoder = small
    config = encoder.config
    mask = pb.HeadMask(values=[0.0] * (config.layers * config.heads))
    plain, other = (pb.TokenIds(ids=ids) for ids in ([7, 9, 30], [8, 12]))
    inputs = [pb.Input(ids=plain), pb.Input(ids=other, head_mask=mask), pb.Input(ids=other)]
    with grpc.insecure_channel(service.target) as channel:
        answer = pb_grpc.HeadlightServiceStub(channel).Encode(
            pb.EncodeRequest(inputs=inputs), timeout=60
        )
    vectors = np.frombuffer(answer.pooled[0].data, "<f4").reshape(3, -1)
    with torch.inference_mode():
        alone, whole = (
            encoder(torch.tensor([ids])).pooled[0].numpy() for ids in ([7, 9, 30], [8, 12])
        )
    assert np.abs(vectors[0] - alone).max() <= 1e-5
    assert np.abs(vectors[2] - whole).max() <= 1e-5
    assert np.abs(vectors[1] - whole).max() > 1e-3


def test_pairs_of_texts_have_spans_of_both(rope: Service) -> None:
    text = "open a file and read its lines"
    with Client(rope.target) as client:
        spec = AttentionSpec(layers=(-1,), heads=(0,), unit="span", spans=(Span(0, 4), Span(7, 11)))
        [maps] = client.attention([text], spec)
        [whole] = client.attention([text], AttentionSpec(layers=(-1,), heads=(0,)))
    labels = maps.queries.labels(whole.tokens.labels(text))
    assert labels == ("open", "file")
    assert maps.axes == ("layer", "head", "query", "key")
    first = whole.values[0, 0][1]
    assert maps.values[0, 0, 0, 0] == pytest.approx(first[1], abs=1e-6)


# Others are in tests/wire/today.
BAD = [
    (
        AttentionSpec(heads=(-13,)),
        rf"outputs\.attention\.heads\[0\]: is -13; valid are -{HEADS} \.\. {HEADS - 1}",
    ),
    (
        AttentionSpec(layers=(Run(2, 1),)),
        r"outputs\.attention\.layer_runs\[0\]: is the run 2:1, which holds none",
    ),
    (
        AttentionSpec(pairs=((0, 9),)),
        rf"outputs\.attention\.pairs\[0\]\.head: is 9; valid are -{HEADS} \.\. {HEADS - 1}",
    ),
    (AttentionSpec(pairs=((0, 1), (0, 1))), r"outputs\.attention\.pairs: names one twice"),
    (
        AttentionSpec(queries=Span(3, 3)),
        r"outputs\.attention\.queries: is the span 3 \.\. 3, which holds no character",
    ),
    (
        AttentionSpec(queries=Span(900, 950)),
        r"outputs\.attention\.queries: no token of this input lies in",
    ),
    (AttentionSpec(keys=()), r"outputs\.attention\.keys: names no token; name at least one"),
    (
        AttentionSpec(keys=(1, 70)),
        r"outputs\.attention\.keys\[1\]: is 70; this input has tokens 0 \.\. 3",
    ),
    (AttentionSpec(keys=(1, -3)), r"outputs\.attention\.keys: names one twice"),
    (
        AttentionSpec(queries="pooled"),
        r"outputs\.attention\.queries: this model pools by mean: .*pooling_weights",
    ),
    (
        AttentionSpec(queries="special", drop_special=True),
        r"outputs\.attention\.queries: drop_special leaves no token",
    ),
    (AttentionSpec(top_k=0), r"outputs\.attention\.top_k: is 0; ask for at least 1"),
    (
        AttentionSpec(reduce=("rollout",), layers=(0, 1)),
        r"outputs\.attention\.layers: rollout multiplies all layers",
    ),
    (
        AttentionSpec(reduce=("statistics", "head_mean")),
        r"outputs\.attention\.reduce: statistics are of single heads",
    ),
    (
        AttentionSpec(reduce=("statistics",), top_k=3),
        r"outputs\.attention\.reduce: statistics are of whole rows",
    ),
    (
        AttentionSpec(reduce=("statistics",), dtype="float16"),
        r"outputs\.attention\.dtype: statistics are float32",
    ),
    (
        AttentionSpec(reduce=("pooling_weights",), queries="first"),
        r"outputs\.attention\.queries: .* leave it out",
    ),
    (
        AttentionSpec(reduce=("pooled_row",)),
        r"outputs\.attention\.reduce: this model pools by mean",
    ),
    (
        AttentionSpec(scores=True, reduce=("head_mean",)),
        r"outputs\.attention\.reduce: scores cannot be reduced",
    ),
    (AttentionSpec(scores=True, dtype="uint8"), r"outputs\.attention\.dtype: scores have no range"),
    (
        AttentionSpec(scores=True, drop_special=True),
        r"outputs\.attention\.drop_special: scores have no sum",
    ),
    (AttentionSpec(scores=True, unit="word"), r"outputs\.attention\.unit: scores cannot be summed"),
    (
        AttentionSpec(unit="span", spans=(Span(0, 3), Span(2, 4))),
        r"outputs\.attention\.spans: has two that overlap: 0 \.\. 3",
    ),
    (
        AttentionSpec(unit="span", spans=(Span(0, 1),) * 5),
        r"outputs\.attention\.spans: has 5 spans; this input has 4 tokens",
    ),
    (
        AttentionSpec(layers=(0,) * (LAYERS + 1)),
        rf"outputs\.attention\.layers: has {LAYERS + 1} entries, and the model has at most "
        rf"{LAYERS}",
    ),
    (AttentionSpec(pairs=((0, 0),) * 400_000), r"outputs\.attention\.pairs: has 400000 entries"),
    (AttentionSpec(keys=(0,) * 400_000), r"outputs\.attention\.keys: has 400000 entries"),
    (
        AttentionSpec(keys=(0, 0, 0, 0, 0)),
        r"outputs\.attention\.keys: names 5 tokens; this input has 4",
    ),
    (AttentionSpec(spans=(Span(0, 2),)), r"outputs\.attention\.spans: unit span needs"),
    (
        AttentionSpec(unit="span", spans=(Span(0, 2),), keys=(0,)),
        r"outputs\.attention\.spans\[0\]: contains none",
    ),
    (
        AttentionSpec(keys="pooled"),
        r"outputs\.attention\.keys: this model pools by mean: .* name other tokens",
    ),
]


@pytest.mark.parametrize(("spec", "message"), BAD)
def test_an_invalid_spec_names_field_and_remedy(
    rope: Service, spec: AttentionSpec, message: str
) -> None:
    with Client(rope.target) as client:
        with pytest.raises(InvalidInput, match=message):
            client.attention("open file", spec)
        assert client.encode("and the service goes on").shape == (DIM,)
