"""The files of the image, compared with each other and with the repository.

`nox -s image-check` tests what they build.
"""

from __future__ import annotations

import fnmatch
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import headlight
from deploy.checkout import requirements
from deploy.image import licences
from deploy.image.locked import (
    IMAGE,
    ROOT,
    VARIANTS,
    canonical,
    read_lock,
    read_names,
    requirements_file,
)
from headlight_service.config.options import Config
from tests import dockerfile

DOCKERFILE = IMAGE / "Dockerfile"
ARGUMENTS, BUNDLE, BUILD, FINAL = dockerfile.stages(DOCKERFILE)
LOCKS = [*(requirements_file(variant) for variant in VARIANTS), IMAGE / "tools.txt"]
PIPS = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
UNWANTED = {
    "pip",
    "setuptools",
    "torch",
    "onnx",
    "onnxscript",
    "transformers",
    "huggingface-hub",
    "openvino-telemetry",
}
OURS = [path for path in IMAGE.iterdir() if path.is_file()]


def settings(stage: list[dockerfile.Instruction], word: str) -> dict[str, str]:
    return {
        name: value
        for found in dockerfile.of(stage, word)
        for name, value in found.settings().items()
    }


def test_the_dockerfile_fetches_nothing_from_a_url() -> None:
    everything = ARGUMENTS + BUILD + FINAL
    assert dockerfile.of(everything, "ADD") == []
    for instruction in everything:
        assert not re.search(r"https?://|curl|wget", instruction.text), instruction


def test_both_stages_use_the_same_base_version() -> None:
    base = settings(ARGUMENTS, "ARG")["BASE"]
    assert re.fullmatch(r"debian:12(\.\d+)?-slim(@sha256:[0-9a-f]{64})?", base)
    assert [stage[0].text for stage in (BUILD, FINAL)] == ["${BASE} AS build", "${BASE}"]


def test_it_holds_no_bundle_unless_one_is_given() -> None:
    """--build-context bundle=FOLDER takes the place of that stage."""
    assert [found.text for found in BUNDLE] == ["scratch AS bundle"]


def test_the_image_runs_as_an_unprivileged_user() -> None:
    words = [instruction.word for instruction in FINAL]
    assert [found.text for found in dockerfile.of(FINAL, "USER")] == ["10001:10001"]
    assert set(words[words.index("USER") + 1 :]) == {"ENTRYPOINT"}, (
        "what follows USER could not be written, or is root's again"
    )
    assert dockerfile.of(FINAL, "ENTRYPOINT")[0].words() == ["python", "-m", "headlight", "serve"]
    assert [found.text for found in dockerfile.of(FINAL, "STOPSIGNAL")] == ["SIGTERM"]
    assert {"HEALTHCHECK", "VOLUME", "CMD"} & set(words) == set()


def test_the_last_stage_contains_no_build_tools() -> None:
    copies = [found.text for found in dockerfile.of(FINAL, "COPY")]
    assert copies == [
        "--from=build /opt/venv /opt/venv",
        "--from=build /opt/headlight /opt/headlight",
        "--from=bundle --chmod=0555 / /mnt/models/",
    ]
    for run in dockerfile.of(FINAL, "RUN"):
        assert not re.search(r"pip|gcc|build-essential|python3-(dev|venv)", run.text)
    for stage in (BUILD, FINAL):
        for run in dockerfile.of(stage, "RUN"):
            assert "apt-get install" not in run.text or "--no-install-recommends" in run.text


def test_copied_files_exist_and_are_not_ignored() -> None:
    sources = [
        source for found in dockerfile.of(BUILD, "COPY") for source in found.text.split()[:-1]
    ]
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in lines, "everything is left out that is not let in by name"
    let_in = [line.removeprefix("!") for line in lines if line.startswith("!")]
    for source in sources:
        assert list(ROOT.glob(source)), source
        assert any(source == pattern or fnmatch.fnmatch(source, pattern) for pattern in let_in), (
            source
        )
    assert sorted(let_in) == sorted(sources), "what no COPY takes has no business at the builder"


def test_every_argument_is_used_and_every_variable_of_the_service_is_an_option() -> None:
    for stage in (ARGUMENTS + BUILD, FINAL):
        text = " ".join(
            instruction.text for instruction in [*stage, BUILD[0]] if instruction.word != "ARG"
        )
        for name in settings(stage, "ARG"):
            # pip reads its own.
            assert f"${{{name}}}" in text or name in PIPS, f"{name} is read by nothing"
    variables = settings(FINAL, "ENV")
    config = Config.parse([], variables)
    own = {name for name in variables if name.startswith("HEADLIGHT_")}
    assert own == {f"HEADLIGHT_{name.upper()}" for name in ("bundle", "grpc", "api", "metrics")}
    assert str(config.bundle) == "/mnt/models"
    assert config.api is not None
    listening = [config.grpc.port, config.api.port, config.metrics.port]
    assert listening == [50051, 8000, 8080]
    assert {str(port) for port in (50052, *listening)} == set(
        dockerfile.of(FINAL, "EXPOSE")[0].text.split()
    )
    assert variables["ORT_DISABLE_TELEMETRY"] == "1"


def test_the_labels_name_this_version_and_licence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    labels = settings(FINAL, "LABEL")
    prefix = "org.opencontainers.image."
    assert {name.removeprefix(prefix) for name in labels} == {
        "title", "description", "version", "revision", "created", "source", "base.name", "licenses",
    }  # fmt: skip
    assert settings(FINAL, "ARG")["VERSION"] == headlight.__version__
    assert labels[prefix + "licenses"] == project["license"]
    assert labels[prefix + "title"] == "headlight"
    assert labels[prefix + "description"].startswith(project["description"])


@pytest.mark.parametrize("path", LOCKS, ids=lambda path: path.name)
def test_a_lock_pins_the_versions_that_are_tested(path: Path) -> None:
    pins, tested = read_lock(path), read_names(ROOT / "constraints.txt")
    assert pins
    assert {name: pin.version for name, pin in pins.items() if name in tested} == {
        name: version for name, version in tested.items() if name in pins
    }


@pytest.mark.parametrize("variant", VARIANTS)
def test_an_image_has_its_extras_and_no_training_or_download_packages(
    variant: str,
) -> None:
    on_cpus = ("serve", "openvino", "otel")
    extras = {
        "cpu": on_cpus,
        "bulk": (*on_cpus, "parquet"),
        "gpu": ("serve-gpu", "otel"),
        "export": (*on_cpus, "export"),
    }[variant]
    exporter = {canonical(re.split(r"[<>=~; ]", line)[0]) for line in requirements(["export"])}
    unwanted = UNWANTED - (exporter if variant == "export" else set())
    names = {canonical(re.split(r"[<>=!~\[; ]", line)[0]) for line in requirements(extras)}
    pins = read_lock(requirements_file(variant))
    assert names <= set(pins)
    assert set(pins) & unwanted == set()
    assert set(read_names(IMAGE / "excluded.txt")) <= UNWANTED
    assert len({"onnxruntime", "onnxruntime-gpu"} & set(pins)) == 1, (
        "the two install the same files"
    )


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.name)
def test_lock_files_name_no_package_index(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert (
        re.findall(
            r"--(?:extra-)?index-url|--find-links|--trusted-host|file://|https?://[\w.]*pypi", text
        )
        == []
    )


def lock_file(folder: Path, text: str) -> Path:
    path = folder / "lock.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_unpinned_entry_is_refused(tmp_path: Path) -> None:
    good = (
        f"Some_Package==1.0 ; sys_platform == 'linux' \\\n    --hash=sha256:{'a' * 64}\n"
        "    # via x\n"
    )
    [pin] = read_lock(lock_file(tmp_path, good)).values()
    assert (pin.name, pin.version, pin.marker) == ("some-package", "1.0", "sys_platform == 'linux'")
    assert pin.hashes == {"a" * 64}
    for bad in (
        "a==1\n",
        f"a>=1 --hash=sha256:{'a' * 64}\n",
        "a==1 --hash=sha256:abc\n",
        "a==1 --hash=md5:abc\n",
    ):
        with pytest.raises(ValueError, match="is not one version with its digests"):
            read_lock(lock_file(tmp_path, bad))
    with pytest.raises(ValueError, match="twice"):
        read_lock(lock_file(tmp_path, good + good))


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"license_expression": "MIT AND (Apache-2.0 OR BSD-2-Clause)"}, None),
        ({"license": "MIT License"}, None),
        ({"classifier": ["License :: OSI Approved :: Apache Software License"]}, None),
        ({"license_expression": "MIT AND GPL-3.0-only"}, "does not accept"),
        ({"license_expression": "LicenseRef-NVIDIA-Proprietary"}, "does not accept"),
        ({"license": "a whole licence,\nin its own words"}, "does not state its licence"),
        ({}, "does not state its licence"),
    ],
)
def test_an_unaccepted_licence_is_a_problem(
    metadata: dict[str, object], expected: str | None
) -> None:
    found = licences.problem({"name": "some-package", **metadata}, licences.read_rules())
    assert (found is None) if expected is None else (found is not None and expected in found)


def test_an_allowed_package_is_allowed_under_that_licence_alone() -> None:
    rules = licences.read_rules()
    said = {"name": "nvidia-cublas", "license_expression": "LicenseRef-NVIDIA-Proprietary"}
    assert licences.problem(said, rules) is None
    assert licences.problem(said | {"license_expression": "LicenseRef-Other"}, rules) is not None
    assert set(rules.allowed) <= set(read_lock(requirements_file("gpu"))), (
        "allowed, and no longer there"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(("tpu", "{}"), "no variant 'tpu'"), (("cpu", "{}"), "venv exists"), (("cpu",), "usage")],
)
def test_the_install_script_reports_wrong_usage(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "venv").mkdir()
    words = [word.format(tmp_path) for word in arguments]
    done = subprocess.run(
        [IMAGE / "install.sh", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert message in done.stderr
