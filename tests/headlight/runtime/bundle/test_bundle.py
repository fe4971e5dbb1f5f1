import json
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx.external_data_helper import set_external_data

from headlight.errors import BundleError, InvalidInput
from headlight.runtime import Runtime
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.onnx_file import external_data
from tests.tampering import relist, rewrite


@pytest.fixture
def copy(bundle_path: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(bundle_path, tmp_path / "bundle"))


def test_an_intact_bundle_opens_with_the_digest_of_its_manifest(copy: Path) -> None:
    bundle = Bundle(copy)
    assert bundle.manifest.name == "small-rope"
    assert Bundle(copy, bundle.sha256.upper()).sha256 == bundle.sha256


@pytest.mark.parametrize(
    "name",
    ["embed.onnx", "attend.onnx", "weights.bin", "tokenizer.json", "golden.npz", "parity.json"],
)
def test_a_flipped_bit_in_any_file_is_detected_and_named(copy: Path, name: str) -> None:
    data = bytearray((copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (copy / name).write_bytes(data)
    with pytest.raises(BundleError, match=rf"^{name}: was altered"):
        Bundle(copy)


def test_a_missing_file_is_named(copy: Path) -> None:
    (copy / "weights.bin").unlink()
    with pytest.raises(BundleError, match=r"^weights\.bin: is missing"):
        Bundle(copy)


def test_two_swapped_files_are_detected(copy: Path) -> None:
    (copy / "embed.onnx").rename(copy / "x")
    (copy / "attend.onnx").rename(copy / "embed.onnx")
    (copy / "x").rename(copy / "attend.onnx")
    with pytest.raises(BundleError, match=r"\.onnx: (has|was)"):
        Bundle(copy)


def test_a_wrong_pinned_digest_is_refused(copy: Path) -> None:
    with pytest.raises(BundleError, match=r"manifest\.json: has the digest [0-9a-f]{64}, not 00"):
        Bundle(copy, "00" * 32)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname", "a/../../outside", "..\\outside"])
def test_file_names_that_leave_the_bundle_are_refused(copy: Path, name: str) -> None:
    (copy.parent / "outside").write_bytes(b"")
    rewrite(copy, lambda m: m["files"].update({name: {"sha256": "0", "bytes": 0}}))
    with pytest.raises(BundleError, match="leads out of the bundle"):
        Bundle(copy)


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


def test_unlisted_files_are_ignored(copy: Path) -> None:
    (copy / "lost+found").mkdir()
    (copy / "notes.txt").write_text("x")
    Bundle(copy)


def test_a_directory_that_is_no_bundle_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="is this a bundle"):
        Bundle(tmp_path)


def test_broken_json_and_wrong_types_name_the_field(copy: Path) -> None:
    rewrite(copy, lambda m: m["architecture"].update(layers="two"))
    with pytest.raises(BundleError, match=r"architecture\.layers is 'two'; expected int"):
        Bundle(copy)
    (copy / "manifest.json").write_text("{")
    with pytest.raises(BundleError, match="is not JSON"):
        Bundle(copy)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            {"format_version": 99},
            "format_version is 99; this runtime reads 3 and 4: update Headlight",
        ),
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


def test_an_unknown_pooling_mode_is_refused_with_the_known_ones(copy: Path) -> None:
    rewrite(copy, lambda m: m.update(pooling="median"))
    accepted = "mean, cls, max, last, weighted_mean, mean_sqrt_len"
    with pytest.raises(BundleError, match=f"pooling is 'median'; expected one of {accepted}"):
        Bundle(copy)


def test_a_graph_that_refers_to_an_undeclared_file_is_refused_before_it_is_opened(
    copy: Path,
) -> None:
    model = onnx.load(str(copy / "embed.onnx"), load_external_data=False)
    external = next(
        t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL
    )
    next(e for e in external.external_data if e.key == "location").value = "../../etc/passwd"
    onnx.save(model, str(copy / "embed.onnx"))
    relist(copy, "embed.onnx")
    with pytest.raises(
        BundleError,
        match=(
            r"^embed\.onnx: refers to '\.\./\.\./etc/passwd', "
            r"which the manifest does not give it"
        ),
    ):
        Bundle(copy)


@pytest.mark.parametrize(("offset", "length"), [(10**15, 8), (0, 10**15), (-4096, 8), (0, -1)])
def test_a_graph_that_refers_beyond_its_weights_file_is_refused(
    copy: Path, offset: int, length: int
) -> None:
    model = onnx.load(str(copy / "embed.onnx"), load_external_data=False)
    external = next(
        t for t in model.graph.initializer if t.data_location == onnx.TensorProto.EXTERNAL
    )
    for entry in external.external_data:
        if entry.key in ("offset", "length"):
            entry.value = str(offset if entry.key == "offset" else length)
    onnx.save(model, str(copy / "embed.onnx"))
    relist(copy, "embed.onnx")
    with pytest.raises(BundleError, match=r"^embed\.onnx: refers to bytes"):
        Bundle(copy)


def test_a_file_that_is_no_graph_is_refused(copy: Path) -> None:
    (copy / "embed.onnx").write_bytes(b"\xff" * 64)
    relist(copy, "embed.onnx")
    with pytest.raises(BundleError, match=r"^embed\.onnx: is not an ONNX file"):
        Bundle(copy)


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


def test_a_loop_of_links_is_refused(copy: Path) -> None:
    (copy / "golden.npz").unlink()
    (copy / "golden.npz").symlink_to("golden.npz")
    with pytest.raises(
        BundleError, match=r"golden\.npz.*is not a name that a file can be found by"
    ):
        Bundle(copy)


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-1.0", "true"])
def test_an_unreachable_tolerance_is_refused(copy: Path, value: str) -> None:
    path = copy / "manifest.json"
    text = path.read_text()
    tolerance = json.loads(text)["tolerances"][0]["pooled"]
    path.write_text(text.replace(f'"pooled": {tolerance}', f'"pooled": {value}', 1))
    with pytest.raises(BundleError, match=r"^manifest\.json: "):
        Bundle(copy)
