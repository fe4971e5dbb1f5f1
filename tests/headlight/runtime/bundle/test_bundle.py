import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.external_data_helper import set_external_data

from headlight.errors import BundleError, InvalidInput
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.onnx_file import external_data
from tests.tampering import TAMPERINGS, rewrite


def test_an_intact_bundle_opens_with_the_digest_of_its_manifest(copy: Path) -> None:
    (copy / "lost+found").mkdir()
    (copy / "notes.txt").write_text("not listed")
    bundle = Bundle(copy)
    assert bundle.manifest.name == "small-rope"
    assert Bundle(copy, bundle.sha256.upper()).sha256 == bundle.sha256


REASONS = {
    "a changed bit in weights.bin": "was altered",
    "weights.bin missing": "is missing",
    "name with ..": "leads out of the bundle",
    "symbolic link to itself": "is not a name that a file can be found by",
    "graph refers out": r"refers to '\.\./\.\./etc/passwd', which the manifest does not give it",
    "offset beyond the file": "refers to bytes",
    "graph that is none": "is not an ONNX file",
    "pooling of 'median'": "expected one of mean, cls, max, last, weighted_mean, mean_sqrt_len",
    "not a bundle": "is this a bundle",
}


@pytest.mark.parametrize("name", REASONS)
def test_a_refusal_has_its_reason(copy: Path, name: str) -> None:
    """All tamperings are refused: test_tampering.py."""
    [tampering] = [each for each in TAMPERINGS if each.name == name]
    tampering.apply(copy)
    with pytest.raises(BundleError, match=REASONS[name]):
        Bundle(copy)


def test_a_wrong_pinned_digest_is_refused(copy: Path) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json: has the digest [0-9a-f]{64}, not 00"):
        Bundle(copy, "00" * 32)


def test_only_symbolic_links_out_of_the_bundle_are_refused(copy: Path) -> None:
    (copy / "..data").mkdir()
    (copy / "golden.npz").rename(copy / "..data" / "golden.npz")
    (copy / "golden.npz").symlink_to("..data/golden.npz")  # as Kubernetes mounts volumes
    Bundle(copy)
    (copy / "..data" / "golden.npz").rename(copy.parent / "golden.npz")
    (copy / "golden.npz").unlink()
    (copy / "golden.npz").symlink_to("../golden.npz")
    with pytest.raises(BundleError, match=r"^golden\.npz: is a symbolic link that leads out"):
        Bundle(copy)


def test_broken_json_and_wrong_types_name_the_field(copy: Path) -> None:
    rewrite(copy, lambda m: m["architecture"].update(layers="two"))
    with pytest.raises(BundleError, match=r"architecture\.layers is 'two'; expected int"):
        Bundle(copy)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match="is not JSON"):
        Bundle(copy)


ROLE: dict[str, Any] = {
    "max_length": 0,
    "marker": None,
    "expansion": None,
    "expanded_length": 0,
    "attend_to_expansion": False,
    "skiplist": [],
}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"roles": {"answer": ROLE}}, "roles has 'answer'; expected query, document"),
        (
            {"roles": {"query": ROLE | {"expansion": 4, "expanded_length": 1 << 20}}},
            r"roles.query.expanded_length is 1048576; expected up to \d+ with an expansion",
        ),
        (
            {"roles": {"document": ROLE | {"expanded_length": 9}}},
            "roles.document.expanded_length is 9; expected .* an expansion, else 0",
        ),
        (
            {"roles": {"query": ROLE | {"marker": 5, "max_length": 1}}},
            "roles.query.max_length is 1; a marker needs 2",
        ),
        ({"query_terms": "golden.npz"}, "query_terms need a head for terms, and rules of queries"),
        ({"format_version": 99}, "format_version is 99; .* reads 3 and 4: update Headlight"),
        ({"format_version": 2}, "format_version is 2; this runtime reads 3 and 4: export again"),
        ({"task": "answer"}, "task is 'answer'; this runtime serves embed, rerank, classify"),
        ({"task": "rerank"}, "task is rerank, which takes one label of texts; .* has 0 of texts"),
        ({"task": "classify"}, "task is classify, and architecture.labels is 0"),
        ({"labels": [1]}, "labels holds something that is not a string"),
        ({"graphs": []}, "outputs has pooled, which none of the graphs gives"),
        ({"dense_layers": 1}, "outputs has spans, which none of the graphs gives"),
        (
            {"pair_template": {"plain": ["a", "b"], "prompted": []}},
            "pair_template must have 3 parts, or 4 around a prompt",
        ),
        (
            {"pair_template": {"plain": ["a", 2, "c"], "prompted": []}},
            "pair_template.plain.'1' is 2; expected a text of at most 16384 characters",
        ),
        (
            {"pair_template": {"plain": ["a" * 9000] * 3, "prompted": []}},
            "pair_template has more than 16384 characters",
        ),
    ],
)
def test_a_format_task_or_output_that_cannot_be_served_is_refused(
    copy: Path, change: dict[str, object], problem: str
) -> None:
    rewrite(copy, lambda m: m.update(change))
    with pytest.raises(BundleError, match=f"^manifest.json: {problem}"):
        Bundle(copy)


def test_a_bundle_without_attention_gives_the_rest(copy: Path) -> None:
    """An output of a later version is not served."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["graphs"] = [each for each in manifest["graphs"] if each["role"] != "attend"]
        manifest["outputs"] = ["pooled", "tokens", "token_info", "spans", "scents"]

    rewrite(copy, change)
    runtime = Runtime(copy, threads=1)
    given = ("pooled", "tokens", "token_info", "spans")
    assert runtime.model().outputs == given
    assert runtime.encode("a").shape == (runtime.model().pooled_dim,)
    problem = f"this model gives no attention; it gives {', '.join(given)}"
    with pytest.raises(InvalidInput, match=f"^outputs.attention: {problem}"):
        runtime.attend("a")


def test_references_in_nested_graphs_are_found(tmp_path: Path) -> None:
    tensor = onnx.helper.make_tensor("t", onnx.TensorProto.FLOAT, [1], b"\0\0\0\0", raw=True)
    set_external_data(tensor, "hidden.bin", offset=4, length=4)
    tensor.ClearField("raw_data")
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Constant", [], ["c"], value=tensor)], "inner", [], []
    )
    branch = onnx.helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)
    model = onnx.helper.make_model(onnx.helper.make_graph([branch], "outer", [], []))
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    found = external_data((tmp_path / "m.onnx").read_bytes(), "m.onnx")
    assert [(reference.location, reference.offset, reference.length) for reference in found] == [
        ("hidden.bin", 4, 4)
    ] * 2


def test_unverified_weights_beside_a_linked_graph_are_refused(
    copy: Path,
) -> None:
    """ONNX Runtime looks for weights beside the target of the link.

    All digests match, yet other weights would be served.
    """
    (copy / "sub").mkdir()
    (copy / "embed.onnx").rename(copy / "sub" / "embed.onnx")
    (copy / "embed.onnx").symlink_to("sub/embed.onnx")
    (copy / "sub" / "weights.bin").write_bytes(b"\0" * (copy / "weights.bin").stat().st_size)
    with pytest.raises(
        BundleError, match=r"^embed\.onnx: would not find the verified weights\.bin"
    ):
        Bundle(copy)


def test_a_volume_that_links_every_file_into_one_folder_is_accepted(copy: Path) -> None:
    (copy / "..data").mkdir()
    for path in [path for path in copy.iterdir() if path.is_file()]:
        path.rename(copy / "..data" / path.name)
        path.symlink_to(f"..data/{path.name}")
    Bundle(copy)


@pytest.mark.parametrize("value", ["NaN", "-1.0", "true"])
def test_an_unreachable_tolerance_is_refused(copy: Path, value: str) -> None:
    path = copy / "manifest.json"
    text = path.read_text()
    tolerance = json.loads(text)["tolerances"][0]["pooled"]
    path.write_text(text.replace(f'"pooled": {tolerance}', f'"pooled": {value}', 1))
    with pytest.raises(BundleError, match=r"^manifest\.json: "):
        Bundle(copy)
