"""Pictures compared with formulas written out here, on the drawn figures."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib import image
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tokenizers import Tokenizer

from headlight_model.checkpoint import load_checkpoint
from lab.pictures import biases, encodings, rotations, sinusoids, splitting, style

Draw = Callable[[Path], Path]
Floats = NDArray[np.float64]
ALL = sorted(encodings.PICTURES)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return encodings.draw(tmp_path_factory.mktemp("pictures") / "positions")


@pytest.fixture
def figure_of(monkeypatch: pytest.MonkeyPatch) -> Callable[[Draw], Figure]:
    """Draw, and yield the figure instead of a file."""

    def draw(picture: Draw) -> Figure:
        made: list[Figure] = []

        def keep(figure: Figure, path: Path) -> Path:
            made.append(figure)
            return path

        monkeypatch.setattr(style, "save", keep)
        picture(Path("nowhere"))
        made[0].draw_without_rendering()
        return made[0]

    return draw


def drawn_line(figure: Figure, axes: int, label: str) -> Floats:
    """Return the values of the line with this label, up to a colon if it has one."""
    (found,) = (
        each for each in figure.axes[axes].lines if str(each.get_label()).split(":")[0] == label
    )
    return np.asarray(found.get_ydata(), dtype=np.float64)


def chunks(data: bytes) -> Iterator[bytes]:
    """Return the chunk types of a PNG."""
    at = 8
    while at < len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        yield kind
        at += length + 12


def test_every_picture_is_a_nonblank_png_of_readable_size(drawn: list[Path]) -> None:
    assert [path.name for path in drawn] == list(encodings.PICTURES)
    for path in drawn:
        pixels = image.imread(path)
        height, width, _ = pixels.shape
        assert width == 1320, path.name
        assert 450 <= height <= 1000, path.name
        assert path.stat().st_size < 400_000, path.name
        assert pixels[..., :3].std() > 0.05, path.name


def test_pictures_are_reproducible_and_name_no_date_or_software(
    drawn: list[Path], tmp_path: Path
) -> None:
    for first, again in zip(drawn, encodings.draw(tmp_path), strict=True):
        assert first.read_bytes() == again.read_bytes(), first.name
        assert set(chunks(first.read_bytes())) == {b"IHDR", b"pHYs", b"IDAT", b"IEND"}


@pytest.mark.parametrize("name", ALL)
def test_axes_are_labelled_and_no_text_is_clipped_or_overlaps(
    name: str, figure_of: Callable[[Draw], Figure]
) -> None:
    figure = figure_of(encodings.PICTURES[name])
    for axes in figure.axes:
        place = axes.get_subplotspec()
        if place is None:  # a colour bar
            assert axes.get_ylabel()
            continue
        # Panels that share an axis are labelled at the edge.
        assert (
            axes.get_xlabel()
            or figure.get_supxlabel()
            or (name == "sinusoidal-pairs.png" and not place.is_last_row())
        )
        assert axes.get_ylabel() or figure.get_supylabel()
    texts = [
        text for axes in figure.axes for text in (axes.title, axes.xaxis.label, axes.yaxis.label)
    ]
    written = [*(text for text in (*texts, *figure.texts) if text.get_text()), *figure.legends]
    for at, text in enumerate(written):
        box = text.get_window_extent()
        assert figure.bbox.x0 <= box.x0, text
        assert box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0, text
        assert box.y1 <= figure.bbox.y1, text
        assert not any(box.overlaps(other.get_window_extent()) for other in written[at + 1 :]), text


def test_the_table_is_the_formula_of_the_paper_dimension_by_position(
    figure_of: Callable[[Draw], Figure],
) -> None:
    shown = figure_of(sinusoids.draw_table).axes[0].images[0].get_array()
    assert shown is not None
    dimension, position = np.arange(128)[:, None], np.arange(128)
    angle = position / 10000.0 ** (2 * (dimension // 2) / 128)
    np.testing.assert_allclose(
        shown, np.where(dimension % 2, np.cos(angle), np.sin(angle)), atol=1e-6
    )


def test_the_first_pairs_are_sine_and_cosine_of_the_same_angle(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(sinusoids.draw_pairs)
    for panel in range(8):
        pair, width = panel // 2, (128, 16)[panel % 2]
        angle = np.arange(64) * 10000.0 ** (-2 * pair / width)
        np.testing.assert_allclose(drawn_line(figure, panel, "sine"), np.sin(angle), atol=1e-6)
        np.testing.assert_allclose(drawn_line(figure, panel, "cosine"), np.cos(angle), atol=1e-6)


def test_the_scales_are_a_pair_that_turns_often_one_that_turns_once_and_one_that_hardly_turns(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(sinusoids.draw_scales)
    turns = []
    for panel, pair in enumerate((0, 20, 48)):
        angle = np.arange(128) * 10000.0 ** (-2 * pair / 128)
        np.testing.assert_allclose(drawn_line(figure, panel, "sine"), np.sin(angle), atol=1e-6)
        np.testing.assert_allclose(drawn_line(figure, panel, "cosine"), np.cos(angle), atol=1e-6)
        turns.append(angle[-1] / (2 * np.pi))
    assert turns[0] > 20
    assert 1 < turns[1] < 2
    assert turns[2] < 0.1


def test_wavelengths_are_two_pi_times_the_power_and_increase_with_the_dimension(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(sinusoids.draw_wavelengths)
    measured = drawn_line(figure, 0, "measured on the model's encoding")
    expected = [2 * math.pi * 10000 ** (2 * pair / 128) for pair in range(64)]
    np.testing.assert_allclose(measured, expected, rtol=1e-5)
    assert (np.diff(measured) > 0).all()
    np.testing.assert_allclose(drawn_line(figure, 0, "2π · 10000^(2i/D)"), expected)


def test_the_variant_of_tutorials_is_dashed_and_differs_from_the_model(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(sinusoids.draw_wavelengths)
    measured = drawn_line(figure, 0, "measured on the model's encoding")
    np.testing.assert_allclose(
        drawn_line(figure, 0, "10000^(2i/D)"), measured / (2 * math.pi), rtol=1e-5
    )
    np.testing.assert_allclose(
        drawn_line(figure, 0, "10000^(2·2i/D)"), [10000 ** (4 * pair / 128) for pair in range(64)]
    )
    np.testing.assert_allclose(
        drawn_line(figure, 0, "low dimensions slowest"), measured[::-1], rtol=1e-5
    )
    dashed = [each for each in figure.axes[0].lines if each.is_dashed()]
    assert len(dashed) == 3


def test_pairs_stay_on_the_unit_circle_and_turn_by_position_times_frequency(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(rotations.draw_circles)
    for axes, pair in zip(figure.axes, (0, 8, 31), strict=False):
        points = np.asarray(axes.collections[0].get_offsets())
        angle = np.arange(32) * 10000.0 ** (-2 * pair / 64)
        np.testing.assert_allclose(
            points, np.stack((np.cos(angle), np.sin(angle)), axis=1), atol=1e-6
        )


def mean_cosine(wavelengths: Floats) -> Floats:
    """Return the score of equal vectors over 257 distances, by pairs of such wavelengths."""
    cosines: Floats = np.cos(2 * math.pi * np.arange(257)[:, None] / wavelengths).mean(1)
    return cosines


def test_scores_by_theta_are_the_mean_cosine_of_all_pairs(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(rotations.draw_thetas)
    for index, theta in enumerate((100.0, 10000.0)):
        expected = 2 * math.pi * theta ** (2 * np.arange(32) / 64)
        np.testing.assert_allclose(drawn_line(figure, 0, f"theta = {theta:g}"), expected, rtol=1e-5)
        scores = np.asarray(figure.axes[1].lines[index].get_ydata(), dtype=np.float64)
        np.testing.assert_allclose(scores, mean_cosine(expected), atol=1e-5)


def test_scalings_stretch_as_in_their_papers(figure_of: Callable[[Draw], Figure]) -> None:
    figure = figure_of(rotations.draw_scalings)
    plain = 2 * math.pi * 100.0 ** (2 * np.arange(32) / 64)
    np.testing.assert_allclose(drawn_line(figure, 0, "none"), plain, rtol=1e-5)
    np.testing.assert_allclose(drawn_line(figure, 0, "linear"), 4 * plain, rtol=1e-5)
    ntk = 2 * math.pi * (100.0 * 4 ** (64 / 62)) ** (2 * np.arange(32) / 64)
    np.testing.assert_allclose(drawn_line(figure, 0, "NTK"), ntk, rtol=1e-5)
    yarn = drawn_line(figure, 0, "YaRN")
    np.testing.assert_allclose(yarn[[0, -1]], [plain[0], 4 * plain[-1]], rtol=1e-5)
    amplitude = 0.1 * math.log(4) + 1
    expected = (mean_cosine(4 * plain), mean_cosine(ntk), amplitude**2 * mean_cosine(yarn))
    for panel, scores in zip((1, 2, 3), expected, strict=True):
        unscaled, scaled = figure.axes[panel].lines[:2]
        np.testing.assert_allclose(np.asarray(unscaled.get_ydata()), mean_cosine(plain), atol=1e-5)
        np.testing.assert_allclose(np.asarray(scaled.get_ydata()), scores, atol=1e-4)
    assert f"{amplitude**2:.2f}" in figure.axes[3].get_title()


def test_heads_are_columns_of_the_queries_whose_weights_and_values_are_joined(
    figure_of: Callable[[Draw], Figure],
) -> None:
    encoder = load_checkpoint(splitting.CHECKPOINT)
    vocabulary = Tokenizer.from_file(str(splitting.CHECKPOINT / "tokenizer.json"))
    ids = torch.tensor([vocabulary.encode(splitting.TEXT).ids])
    with torch.inference_mode():
        out = encoder(ids, fused=False)
        block = encoder.get_submodule("blocks.0")
        source = block.get_submodule("attention_norm")(out.hidden[0])
        query, _, value = block.get_submodule("attention.project_in")(source)[0].split(64, dim=-1)
    panels = [
        np.asarray(axes.images[0].get_array()) for axes in figure_of(splitting.draw_split).axes[:12]
    ]
    np.testing.assert_allclose(np.hstack(panels[:4]), query.numpy(), atol=1e-5)
    np.testing.assert_allclose(np.stack(panels[4:8]), out.attention[0][0].numpy(), atol=1e-6)
    for head in range(4):
        expected = panels[4 + head] @ value[:, 16 * head : 16 * head + 16].numpy()
        np.testing.assert_allclose(panels[8 + head], expected, atol=1e-5)


def test_biases_fall_by_the_slope_in_the_title_and_signed_heads_see_one_side(
    figure_of: Callable[[Draw], Figure],
) -> None:
    figure = figure_of(biases.draw_biases)
    ahead = np.arange(64) - np.arange(64)[:, None]  # key - query
    everywhere = np.ones_like(ahead, dtype=bool)
    symmetric = [(2.0 ** (-2 * head), everywhere) for head in (1, 2, 3, 4)]
    signed = [
        (2.0**-4, ahead <= 0),
        (2.0**-4, ahead >= 0),
        (2.0**-8, ahead <= 0),
        (2.0**-8, ahead >= 0),
    ]
    for axes, (slope, seen) in zip(figure.axes, symmetric + signed, strict=False):
        shown = axes.images[0].get_array()
        assert isinstance(shown, np.ma.MaskedArray)
        np.testing.assert_array_equal(np.ma.getmaskarray(shown), ~seen)
        np.testing.assert_allclose(shown[seen], -slope * np.abs(ahead[seen]), rtol=1e-6)
        assert axes.get_title().endswith(f"slope 1/{round(1 / slope)}")
