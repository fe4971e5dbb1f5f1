from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from matplotlib import image

from lab import schemes
from lab.pictures import style


def test_each_scheme_has_a_unique_colour_and_marker() -> None:
    assert set(style.SCHEMES) == set(schemes.FIELDS)
    for series in (tuple(style.SCHEMES.values()), style.SERIES):
        for attribute in ("colour", "marker"):
            assert len({getattr(each, attribute) for each in series}) == len(series)


def test_a_band_is_the_mean_and_the_range_over_seeds_with_a_gap_where_there_is_no_value() -> None:
    _, ((axes,),) = style.figure()
    values = np.array([[0.0, 1.0, np.nan, 4.0], [1.0, 3.0, np.nan, 4.0], [2.0, 2.0, 7.0, 7.0]])
    style.band(axes, [16, 32, 64, 128], values, "rope")
    (line,) = axes.lines
    np.testing.assert_array_equal(np.asarray(line.get_ydata()), [1, 2, np.nan, 5])
    assert (line.get_color(), line.get_marker(), line.get_label()) == ("#0072B2", "^", "rope")
    corners = np.concatenate([path.vertices for path in axes.collections[0].get_paths()])
    assert {(x, y) for x, y in corners} >= {(16, 0), (16, 2), (32, 1), (32, 3), (128, 4), (128, 7)}
    assert 64 not in corners[:, 0]


def test_a_spread_covers_minimum_to_maximum() -> None:
    _, ((axes,),) = style.figure()
    style.spread(axes, 1.0, [0.5, 0.9, 0.7], "alibi")
    (container,) = axes.containers
    _, _, (bar,) = container
    np.testing.assert_allclose(bar.get_segments()[0], [(1, 0.5), (1, 0.9)])


def test_a_series_other_than_a_scheme_needs_a_style() -> None:
    _, ((axes,),) = style.figure()
    with pytest.raises(KeyError):
        style.band(axes, [1], [[1.0]], "head 0")
    style.band(axes, [1], [[1.0]], "head 0", style.SERIES[0])


def test_unseen_cells_are_grey_and_not_a_colour_of_the_map(tmp_path: Path) -> None:
    made, ((axes,),) = style.figure(height=3.0)
    style.heat(axes, [[np.nan, 0.0], [1.0, np.nan]], low=0, high=1, unseen=True)
    axes.set_axis_off()
    axes.patch.set_visible(True)
    pixels = image.imread(style.save(made, tmp_path / "new" / "heat.png"))[..., :3]
    assert pixels.shape == (450, 1320, 3)
    # The map is blue at its low end and yellow at its high one: grey is where red, green and blue
    # are the same.
    grey = np.ptp(pixels, axis=-1) < 0.01
    inner = (slice(40, 180), slice(100, 600)), (slice(270, 410), slice(100, 600))
    assert grey[inner[0]].all()
    assert not grey[inner[1]].any()


def test_a_legend_below_covers_no_axes() -> None:
    made, ((axes,),) = style.figure()
    for name in style.SCHEMES:
        style.band(axes, [1, 2], [[1.0, 2.0]], name)
    style.lengths(axes, [1, 2])
    style.mark(axes, 1, "longest in training")
    legend = style.legend_below(made, axes, columns=4)
    made.draw_without_rendering()
    assert [text.get_text() for text in legend.get_texts()] == [
        *style.SCHEMES,
        "longest in training",
    ]
    box = axes.get_tightbbox()
    assert box is not None
    assert legend.get_window_extent().y1 <= box.y0
    assert legend.get_window_extent().x0 >= 0
