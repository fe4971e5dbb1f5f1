"""The core is protocol-independent: its imports and names."""

from __future__ import annotations

from tests.test_architecture import (
    IMPORT,
    PACKAGES,
    WALK,
    loaded_by,
    own_imports,
    python_files,
    under,
)

CORE = "headlight_service.core"


def of(loaded: set[str], *packages: str) -> set[str]:
    return {name for name in loaded if any(under(name, package) for package in packages)}


def test_the_core_loads_no_protocol() -> None:
    walked, loaded = loaded_by(WALK, CORE)
    folder = PACKAGES["headlight_service"] / "core"
    assert len(walked) == len(
        [path for path in python_files("headlight_service") if folder in path.parents]
    )
    assert f"{CORE}.pipeline" in loaded
    assert (
        of(loaded, "grpc", "headlight.pb", "headlight.wire", "headlight_service.frontends") == set()
    )
    # The runtime reads ONNX files, which are protobuf's; the core adds nothing to that.
    _, of_runtime = loaded_by(IMPORT, "headlight.runtime")
    assert of(loaded, "google.protobuf") <= of_runtime


def test_no_module_of_the_core_names_a_protocol() -> None:
    folder = PACKAGES["headlight_service"] / "core"
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert "import grpc" not in text, path
        assert "google.protobuf" not in text, path
        named = own_imports(path)
        assert (
            of(named, "headlight.pb", "headlight.wire", "headlight_service.frontends") == set()
        ), path
