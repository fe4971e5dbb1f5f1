"""All position schemes over the wire.

Small models, freshly initialised, with sharpened attention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import grpc
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from headlight import Client, InvalidInput
from headlight.outputs.registry import FLOORS
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats, Ids
from headlight_export.parity.reference import random_ids, random_segments
from headlight_model.encoder import Encoder, EncoderOutput
from tests.system.conftest import Small

LENGTHS = (1, 2, 31, 32, 33, 64, 128, 160)  # up to more than four times the training length
# The same text, however asked.
SAME = {"pooled": 1e-6, "tokens": 5e-6, "attention": 5e-6, "hidden": 5e-6}


def pytorch(encoder: Encoder, ids: Ids, segments: Ids | None = None) -> EncoderOutput:
    types = None if segments is None else torch.from_numpy(segments)[None]
    with torch.inference_mode():
        return encoder(torch.from_numpy(ids)[None], segments=types, fused=False)  # type: ignore[no-any-return]


def one_input(encoder: Encoder, length: int, seed: int) -> tuple[Ids, Ids | None]:
    """Return random ids, with segments if the model has them."""
    return random_ids(encoder.config, length, seed), random_segments(encoder.config, length, seed)


def ask(
    stub: pb_grpc.HeadlightServiceStub,
    inputs: Sequence[tuple[Ids, Ids | None]],
    layers: Mapping[str, Sequence[int]],
    heads: int,
    *,
    pooled: bool = True,
    tokens: bool = True,
) -> list[dict[str, Floats]]:
    """Return vectors, and the named layers of attention and hidden states, of one request.

    By input and output.
    """
    outputs = pb.Outputs(
        pooled=pb.PooledOutput() if pooled else None,
        tokens=pb.TokensOutput() if tokens else None,
        attention=pb.AttentionOutput(layers=layers["attention"]) if "attention" in layers else None,
        hidden=pb.HiddenOutput(layers=layers["hidden"]) if "hidden" in layers else None,
    )
    request = pb.EncodeRequest(outputs=outputs)
    for ids, segments in inputs:
        request.inputs.add().ids.CopyFrom(
            pb.TokenIds(ids=ids, segments=() if segments is None else segments)
        )
    answer = stub.Encode(request, timeout=60)
    found: list[dict[str, Floats]] = [{} for _ in inputs]
    if pooled:
        vectors = np.frombuffer(answer.pooled[0].data, "<f4").reshape(tuple(answer.pooled[0].shape))
        for row, vector in zip(found, vectors, strict=True):
            row["pooled"] = vector
    for name in ("tokens", "attention", "hidden"):
        if answer.HasField(name):
            tensor = getattr(answer, name)
            parts = np.split(np.frombuffer(tensor.data, "<f4"), tensor.offsets[1:-1])
            for row, part, (ids, _) in zip(found, parts, inputs, strict=True):
                n, count = len(ids), len(tensor.layers)
                shape = {
                    "tokens": (n, -1),
                    "attention": (count, heads, n, n),
                    "hidden": (count, n, -1),
                }[name]
                row[name] = part.reshape(shape)
    return found


def test_every_output_matches_pytorch(small: Small) -> None:
    _, service, encoder = small
    with Client(service.target) as client:
        for length in LENGTHS:
            ids = random_ids(encoder.config, length, seed=7)
            expected = pytorch(encoder, ids)
            attention, hidden = client.attend(ids), client.hidden(ids)
            got = {"pooled": client.encode([ids])[0], "tokens": client.encode_tokens([ids])[0]}
            got |= {"attention": attention.weights, "hidden": hidden.states}
            reference = {"pooled": expected.pooled[0], "tokens": expected.tokens[0]}
            reference |= {
                "attention": torch.cat(expected.attention),
                "hidden": torch.cat(expected.hidden),
            }
            for name, value in reference.items():
                assert distance(name, got[name], value.numpy()) <= FLOORS[name], (
                    name,
                    length,
                )
            np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)
            if length == 64:  # in uniform attention, a wrong scale would not show
                weights = attention.weights
                entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean()
                assert entropy < 0.7 * np.log(64)


def test_results_do_not_depend_on_batch_or_attention(small: Small) -> None:
    _, service, encoder = small
    config = encoder.config
    inputs = [one_input(encoder, 1 + (i * 7) % 60, seed=i) for i in range(24)]
    wanted = {"attention": tuple(range(config.layers)), "hidden": tuple(range(config.layers + 1))}
    with grpc.insecure_channel(service.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        everything, vectors = (
            ask(stub, inputs, wanted, config.heads),
            ask(stub, inputs, {}, config.heads),
        )
        for i in (0, 13, 23):
            [alone], [alone_vectors] = (
                ask(stub, [inputs[i]], layers, config.heads) for layers in (wanted, {})
            )
            for name, limit in SAME.items():
                for other in (everything[i], alone_vectors, vectors[i]):
                    if name in other:
                        np.testing.assert_allclose(
                            other[name], alone[name], atol=limit, rtol=0, err_msg=name
                        )


@st.composite
def some_layers(draw: st.DrawFn, count: int) -> tuple[int, ...]:
    """Return some of `count` layers in any order, each by either index; none means all of them."""
    chosen = draw(st.lists(st.integers(0, count - 1), unique=True, max_size=count))
    return tuple(layer - count if draw(st.booleans()) else layer for layer in chosen)


@settings(max_examples=20)
@given(data=st.data())
def test_any_request_for_any_texts_matches_pytorch(small: Small, data: st.DataObject) -> None:
    _, service, encoder = small
    config = encoder.config
    lengths = data.draw(st.lists(st.integers(1, 40), min_size=1, max_size=5), label="lengths")
    counts = {"attention": config.layers, "hidden": config.layers + 1}
    asked = data.draw(
        st.sets(st.sampled_from(["pooled", "tokens", *counts]), min_size=1), label="outputs"
    )
    layers = {
        name: data.draw(some_layers(count), label=name)
        for name, count in counts.items()
        if name in asked
    }
    inputs = [one_input(encoder, length, seed) for seed, length in enumerate(lengths)]
    with grpc.insecure_channel(service.target) as channel:
        stub = pb_grpc.HeadlightServiceStub(channel)
        answers = ask(
            stub, inputs, layers, config.heads, pooled="pooled" in asked, tokens="tokens" in asked
        )
    for (ids, segments), answer in zip(inputs, answers, strict=True):
        out = pytorch(encoder, ids, segments)
        expected = {"pooled": out.pooled[0], "tokens": out.tokens[0]}
        for name, every in (("attention", out.attention), ("hidden", out.hidden)):
            wanted = layers.get(name) or range(counts[name])
            expected[name] = torch.cat([every[layer] for layer in wanted])
        assert answer.keys() == asked
        for name, value in answer.items():
            assert value.shape == tuple(expected[name].shape), name
            assert distance(name, value, expected[name].numpy()) <= FLOORS[name], name


def test_reordered_texts_have_the_property_of_their_scheme(small: Small) -> None:
    kind, service, encoder = small
    ids = random_ids(encoder.config, 20, seed=3)
    orders = {"reversed": np.arange(20)[::-1], "shuffled": np.random.default_rng(0).permutation(20)}
    promised = {"none": {"reversed", "shuffled"}, "alibi": {"reversed"}}.get(kind, set())

    def tokens(inputs: list[Ids]) -> list[Floats]:
        return client.encode_tokens(inputs)

    with Client(service.target) as client:
        for name, order in orders.items():
            plain, changed = tokens([ids, np.ascontiguousarray(ids[order])])
            assert bool(np.abs(plain[order] - changed).max() < 1e-5) is (name in promised), name


def test_pairs_and_segments_are_served_by_models_with_segments(small: Small) -> None:
    kind, service, encoder = small
    ids, segments = (
        random_ids(encoder.config, 12, seed=1),
        random_segments(encoder.config, 12, seed=1),
    )
    with grpc.insecure_channel(service.target) as channel, Client(service.target) as client:
        stub = pb_grpc.HeadlightServiceStub(channel)
        if segments is None:
            with pytest.raises(InvalidInput, match=r"inputs\[0\]\.pair: this model takes"):
                client.encode([("one", "two")])
            return
        request = pb.EncodeRequest(
            inputs=[pb.Input(ids=pb.TokenIds(ids=ids.tolist(), segments=segments.tolist()))]
        )
        answer = np.frombuffer(stub.Encode(request).pooled[0].data, "<f4")
        assert distance("pooled", answer, pytorch(encoder, ids, segments).pooled[0].numpy()) <= 1e-5
        assert "pair" in client.model().accepts
        [tokens] = client.tokenize([("one", "two")])
        assert tokens.segments == (0,) * 5 + (1,) * 4
        expected = pytorch(encoder, np.array(tokens.ids), np.array(tokens.segments))
        assert (
            distance("pooled", client.encode([("one", "two")])[0], expected.pooled[0].numpy())
            <= 1e-5
        )
        assert kind == "learned"


def test_a_bundle_without_a_tokenizer_takes_ids_alone(small: Small) -> None:
    kind, service, _ = small
    with Client(service.target) as client:
        if kind != "none":
            assert "text" in client.model().accepts
            return
        assert client.model().accepts == ("ids",)
        with pytest.raises(InvalidInput, match=r"inputs\[0\]\.text: this model takes ids"):
            client.encode(["a text"])
        assert set(client.tokenize([[5, 6]])[0].pieces) == {""}
