"""Buckets of relative distances, which share what is trained for them."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def relative_buckets(count: int, reach: int, span: int) -> Tensor:
    """Return the bucket of each distance j - i: int64 [2 span + 1], for -span .. span.

    After Raffel et al. 2020 (T5), section 2.1. Half of the `count` buckets are for keys ahead. Of
    each half, the first buckets e = count / 4 hold one distance each, the others r logarithmically
    up to `reach`: e + ln(r / e) / ln(reach / e) * e; all distances from there on share the last.

    In float32, as models were trained with it: some distances lie on an edge, such as 16, 32 and 64
    of 32 buckets, where float64 rounds otherwise.
    """
    half = count // 2
    exact = half // 2
    ahead = torch.arange(-span, span + 1)
    distance = ahead.abs()
    share = torch.log(distance.clamp(min=1).float() / exact) / math.log(reach / exact)
    far = (exact + (share * (half - exact)).long()).clamp(max=half - 1)
    return torch.where(distance < exact, distance, far) + half * (ahead > 0)


def disentangled_buckets(count: int, reach: int, span: int) -> Tensor:
    """Return the bucket of each distance i - j: int64 [2 span + 1], for -span .. span.

    After the code of DeBERTa's second version (He et al. 2021 describes the first, without
    logarithms). Distance 0 has the bucket count / 2; keys ahead of the query have those before it.
    Distances r up to e = count / 4 have one each, the others
    e + ceil(ln(r / e) / ln((reach - 1) / e) * (e - 1)); all from `reach` on share the last.

    In float32, as `relative_buckets`.
    """
    exact = count // 4
    behind = torch.arange(-span, span + 1)
    distance = behind.abs()
    share = torch.log(distance.clamp(min=exact) / exact) / torch.log(
        torch.tensor((reach - 1) / exact)
    )
    far = exact + (share * (exact - 1)).ceil().long()
    bucket = torch.where(distance <= exact, distance, far) * behind.sign()
    return (bucket + count // 2).clamp(0, count - 1)
