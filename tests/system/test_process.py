"""Reflection, and the demo."""

from __future__ import annotations

import re
import subprocess
import sys

import grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from headlight_model.demo import NEAREST, QUESTIONS
from tests.ports import free_address
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service


def test_reflection_lists_the_service(rope: Service) -> None:
    with grpc.insecure_channel(rope.target) as channel:
        names = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert "headlight.v1.HeadlightService" in names
    assert "grpc.health.v1.Health" in names


def test_the_demo_answers_and_exits() -> None:
    command = [
        sys.executable,
        "-m",
        "headlight_model.demo",
        "--bundle",
        str(bundle_of("docs-rope")),
        "--reranker",
        str(bundle_of("docs-rerank")),
        "--once",
    ]
    command += ["--grpc", free_address(), "--metrics", free_address(), "--api", "off"]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "[CLS]" in done.stdout
    assert "headlight embed" in done.stdout
    for question in QUESTIONS:
        assert re.search(rf"^{question}\n(  0\.\d\d  \S+\(.*\n){{{NEAREST}}}", done.stdout, re.M)
    assert "6 of 8 brackets look most at their partner" in done.stdout
    [best] = re.findall(
        rf"Why this one of 50 candidates: {QUESTIONS[0]}\n1\. [\d.]+  (\S+)", done.stdout
    )
    assert "(" in best
