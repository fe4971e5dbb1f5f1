"""All schemes of positions over the wire: small models, freshly initialised, their attention sharpened."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import numpy as np
import pytest
import torch

from export.reference import BASE_TOLERANCE, random_ids, random_segments
from export.writer import export_checkpoint
from headlight import Client, InvalidInput
from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc
from headlight.runtime.parity import distance
from headlight.runtime.values import Floats, Ids
from model.checkpoint import TOKENIZER, load_checkpoint
from model.encoder import Encoder, EncoderOutput
from tests.factory import KINDS, kind_config, write_checkpoint
from tests.system.processes import Service

LENGTHS = (1, 2, 31, 32, 33, 64, 128, 160)  # up to more than four times the training length
Served = tuple[str, Service, Encoder]


@pytest.fixture(scope="module", params=list(KINDS))
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Each kind in turn: its name, the service that has it, the model in PyTorch."""
    folder = tmp_path_factory.mktemp(request.param)
    checkpoint = write_checkpoint(folder / "checkpoint", kind_config(request.param))
    if request.param == "none":  # one of them takes ids alone
        (checkpoint / TOKENIZER).unlink()
    export_checkpoint(checkpoint, folder / "bundle")
    with Service(folder / "bundle") as service:
        yield request.param, service, load_checkpoint(checkpoint)


def pytorch(encoder: Encoder, ids: Ids, segments: Ids | None = None) -> EncoderOutput:
    types = None if segments is None else torch.from_numpy(segments)[None]
    with torch.inference_mode():
        return encoder(torch.from_numpy(ids)[None], segments=types, fused=False)  # type: ignore[no-any-return]


def test_every_output_is_pytorchs(served: Served) -> None:
    _, service, encoder = served
    with Client(service.target) as client:
        for length in LENGTHS:
            ids = random_ids(encoder.config, length, seed=7)
            expected = pytorch(encoder, ids)
            attention, hidden = client.attend(ids), client.hidden(ids)
            got = {"pooled": client.encode([ids])[0], "tokens": client.encode_tokens([ids])[0]}
            got |= {"attention": attention.weights, "hidden": hidden.states}
            reference = {"pooled": expected.pooled[0], "tokens": expected.tokens[0]}
            reference |= {"attention": torch.cat(expected.attention), "hidden": torch.cat(expected.hidden)}
            for name, value in reference.items():
                assert distance(name, got[name], value.numpy()) <= BASE_TOLERANCE[name], (name, length)
            np.testing.assert_allclose(attention.weights.sum(-1), 1.0, atol=1e-5)


def test_attention_is_sharp_enough_to_tell(served: Served) -> None:
    _, service, encoder = served
    with Client(service.target) as client:
        weights = client.attend(random_ids(encoder.config, 64, seed=7)).weights
    entropy = -(weights * np.log(np.maximum(weights, 1e-30))).sum(-1).mean()
    assert entropy < 0.7 * np.log(64)


def test_a_text_is_the_same_alone_and_in_a_batch(served: Served) -> None:
    _, service, encoder = served
    inputs = [random_ids(encoder.config, 1 + (i * 7) % 60, seed=i) for i in range(40)]
    with Client(service.target) as client:
        together = client.encode(inputs)
        for i in (0, 13, 39):
            np.testing.assert_allclose(together[i], client.encode([inputs[i]])[0], atol=1e-6, rtol=0)


def test_what_lies_beyond_the_longest_text_is_refused(served: Served) -> None:
    _, service, encoder = served
    with Client(service.target) as client, pytest.raises(InvalidInput, match="has 161 ids; send 1 to 160"):
        client.encode([random_ids(encoder.config, 161, seed=0)])


def test_reordered_texts_give_what_the_scheme_promises(served: Served) -> None:
    kind, service, encoder = served
    ids = random_ids(encoder.config, 20, seed=3)
    orders = {"reversed": np.arange(20)[::-1], "shuffled": np.random.default_rng(0).permutation(20)}
    promised = {"none": {"reversed", "shuffled"}, "alibi": {"reversed"}}.get(kind, set())

    def tokens(inputs: list[Ids]) -> list[Floats]:
        return client.encode_tokens(inputs)

    with Client(service.target) as client:
        for name, order in orders.items():
            plain, changed = tokens([ids, np.ascontiguousarray(ids[order])])
            assert bool(np.abs(plain[order] - changed).max() < 1e-5) is (name in promised), name


def test_pairs_and_segments_are_served_where_the_model_knows_them(served: Served) -> None:
    kind, service, encoder = served
    ids, segments = random_ids(encoder.config, 12, seed=1), random_segments(encoder.config, 12, seed=1)
    with grpc.insecure_channel(service.target) as channel, Client(service.target) as client:
        stub = pb_grpc.HeadlightServiceStub(channel)
        if segments is None:
            with pytest.raises(InvalidInput, match=r"inputs\[0\]\.pair: this model takes"):
                client.encode([("one", "two")])
            return
        request = pb.EncodeRequest(inputs=[pb.Input(ids=pb.TokenIds(ids=ids.tolist(), segments=segments.tolist()))])
        answer = np.frombuffer(stub.Encode(request).pooled.data, "<f4")
        assert distance("pooled", answer, pytorch(encoder, ids, segments).pooled[0].numpy()) <= 1e-5
        assert "pair" in client.model().accepts
        [tokens] = client.tokenize([("one", "two")])
        assert tokens.segments == (0,) * 5 + (1,) * 4
        expected = pytorch(encoder, np.array(tokens.ids), np.array(tokens.segments))
        assert distance("pooled", client.encode([("one", "two")])[0], expected.pooled[0].numpy()) <= 1e-5
        assert kind == "learned"


def test_a_bundle_without_a_tokenizer_takes_ids_alone(served: Served) -> None:
    kind, service, _ = served
    with Client(service.target) as client:
        if kind != "none":
            assert "text" in client.model().accepts
            return
        assert client.model().accepts == ("ids",)
        with pytest.raises(InvalidInput, match=r"inputs\[0\]\.text: this model takes ids"):
            client.encode(["a text"])
        assert set(client.tokenize([[5, 6]])[0].pieces) == {""}
