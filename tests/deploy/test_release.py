"""`nox -s release-check` fails for errors and for checks that could not run.

A script plays its tools; no network.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from deploy.image import release
from deploy.image.locked import IMAGE, ROOT, VARIANTS, read_lock, requirements_file

FILES = (
    "headlight/__init__.py",
    "deploy/image/Dockerfile",
    "deploy/chart/Chart.yaml",
    "deploy/chart/values.yaml",
)
DIGEST = "a" * 64


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create what `versions` and `base` read, in the state of a correct release."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n- All of it.\n"
    )
    (tmp_path / "deploy/kustomization.yaml").write_text(
        "images:\n  - name: headlight\n    newName: registry.example.com/headlight\n"
        "    newTag: 0.2.0-gpu\n"
        "  - name: headlight-export\n    newTag: 0.2.0-export\n"
        "  - name: headlight-bundle\n    newTag: 7.0.0\n"
    )
    replace(
        tmp_path / "deploy/image/Dockerfile",
        "debian:12-slim\n",
        f"debian:12-slim@sha256:{DIGEST}\n",
    )
    monkeypatch.setattr(release, "ROOT", tmp_path)
    return tmp_path


def replace(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")


def test_one_version_everywhere_and_a_base_by_digest_are_no_problem(repository: Path) -> None:
    assert list(release.versions()) == []
    assert list(release.base()) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("headlight/__init__.py", '"0.2.0"', '"0.3.0"', "0.2.0, headlight/__init__.py 0.3.0"),
        (
            "deploy/image/Dockerfile",
            "ARG VERSION=0.2.0",
            "ARG VERSION=0.3.0",
            "(ARG VERSION) says 0.3.0",
        ),
        ("CHANGELOG.md", "[0.2.0]", "[0.3.0]", "(its newest section) says 0.3.0"),
        ("CHANGELOG.md", "## [Unreleased]\n", "## [Unreleased]\n\n- More.\n", "says Unreleased"),
        ("deploy/kustomization.yaml", "0.2.0-gpu", "0.3.0", "(newTag 0.3.0) says 0.3.0"),
        ("deploy/chart/Chart.yaml", "appVersion: 0.2.0", "appVersion: 0.3.0", "(appVersion) says"),
        ("deploy/chart/values.yaml", "docs-rope:0.2.0", "docs-rope:0.3.0", "(model.image) says"),
        ("deploy/kustomization.yaml", "- name: headlight", "- name: other", "no overlay"),
        (
            "deploy/kustomization.yaml",
            "images:",
            "app.kubernetes.io/version: 0.3.0\nimages:",
            "version) says 0.3.0",
        ),
    ],
)
def test_a_different_version_is_reported_with_its_place(
    repository: Path, name: str, old: str, new: str, message: str
) -> None:
    replace(repository / name, old, new)
    problems = list(release.versions())
    assert problems
    assert all("0.2.0" in problem or "no overlay" in problem for problem in problems)
    assert any(message in problem for problem in problems), problems


def test_a_base_without_a_digest_is_a_problem_with_its_remedy(repository: Path) -> None:
    replace(repository / "deploy/image/Dockerfile", f"@sha256:{DIGEST}", "")
    [problem] = release.base()
    assert "without a digest" in problem
    assert "imagetools inspect debian:12-slim --format '{{.Manifest.Digest}}'" in problem


def test_uncommitted_files_are_reported(repository: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=repository, check=True)
    assert "not committed: ?? CHANGELOG.md" in list(release.uncommitted())


def audit_that_says(
    monkeypatch: pytest.MonkeyPatch, folder: Path, output: str, code: int = 0
) -> None:
    """Replace pip-audit with a script."""
    script = folder / "pip-audit"
    body = (
        f"#!{sys.executable}\nimport sys\nsys.stdout.write({output!r})\n"
        f"sys.stderr.write('no route')\nsys.exit({code})\n"
    )
    script.write_text(body, encoding="utf-8")
    script.chmod(0o755)
    monkeypatch.setattr(release, "tool", lambda name: folder / name)
    monkeypatch.setattr(release, "LOCKS", [])


def audited(**changes: Any) -> str:
    """Return pip-audit's output about the tools,
    clean except for the given changes to the entry of uv.
    """
    pins = read_lock(IMAGE / "tools.txt").values()
    entries = [{"name": pin.name, "version": pin.version, "vulns": []} for pin in pins]
    return json.dumps(
        {
            "dependencies": [
                changes if entry["name"] == "uv" and changes else entry for entry in entries
            ]
        }
    )


def test_a_clean_audit_of_everything_is_no_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit_that_says(monkeypatch, tmp_path, audited())
    assert list(release.vulnerabilities()) == []


def test_a_vulnerability_is_reported_with_the_fixed_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = {"id": "CVE-1", "fix_versions": ["2.0"]}
    audit_that_says(monkeypatch, tmp_path, audited(name="uv", version="1.0", vulns=[known]), code=1)
    assert list(release.vulnerabilities()) == ["tools.txt: uv 1.0 has CVE-1, fixed in 2.0"]


def test_packages_without_an_audit_answer_do_not_count_as_clean(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit_that_says(monkeypatch, tmp_path, audited(name="uv", skip_reason="not found"))
    [problem] = release.vulnerabilities()
    assert problem.endswith("did not answer about uv")
    audit_that_says(
        monkeypatch,
        tmp_path,
        json.dumps({"dependencies": [{"name": "uv", "skip_reason": "not found"}]}),
    )
    [problem] = release.vulnerabilities()
    assert "did not answer about any of its" in problem


def test_an_unreachable_audit_service_is_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    audit_that_says(monkeypatch, tmp_path, "", code=1)
    assert list(release.vulnerabilities()) == ["tools.txt: pip-audit could not ask: no route"]


def entry(name: str, digest: str, licence: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "license_expression": licence},
        "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
    }


def test_unlocked_files_and_unaccepted_licences_are_problems(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def report(variant: str, processor: str, python: str) -> list[dict[str, Any]]:
        if python == "3.12":
            raise RuntimeError("no wheel of numpy")
        pins = read_lock(requirements_file(variant))
        good = next(iter(pins["numpy"].hashes))
        return [
            entry("grpcio", DIGEST, "MIT"),
            entry("numpy", good, "SSPL-1.0" if processor == "aarch64" else "MIT"),
        ]

    monkeypatch.setattr(release, "report", report)
    problems = list(release.files())
    assert "gpu, aarch64, Python 3.12: no wheel of numpy" in problems
    assert (
        "cpu, x86_64, Python 3.11: the index offers a file of grpcio whose digest is not locked"
        in problems
    )
    assert problems[-1] == "numpy is under 'SSPL-1.0', which licences.toml does not accept"
    assert len(problems) == 2 * 2 * len(VARIANTS) + 1


def test_one_failed_check_fails_the_release_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"first": lambda: iter(["it is wrong"]), "second": lambda: iter([])}
    monkeypatch.setattr(release, "CHECKS", checks)
    assert release.main() == 1
    assert capsys.readouterr().out.split() == [
        "FAILED",
        "first",
        "it",
        "is",
        "wrong",
        "ok",
        "second",
    ]
    monkeypatch.setattr(release, "CHECKS", {"second": checks["second"]})
    assert release.main() == 0
