"""`headlight serve --check` on a bundle that is not the one meant.

Altered files: tests/system/test_wrong_uses.py, tests/headlight/runtime/bundle/test_tampering.py.
"""

from __future__ import annotations

import pytest

from tests.system.conftest import bundle_of
from tests.system.processes import exit_code


def test_a_pinned_digest_refuses_a_consistent_but_different_bundle(
    capfd: pytest.CaptureFixture[str],
) -> None:
    bundle = ("--bundle", str(bundle_of("docs-rope")))
    assert exit_code("serve", "--check", *bundle, "--bundle-sha256", "00" * 32) == 3
    out, err = capfd.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert line.startswith("error: ")
    assert "manifest.json" in line
