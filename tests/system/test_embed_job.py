"""A `headlight embed` job whose service is killed and which is interrupted itself.

Against the real service.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np

from headlight import Client
from tests.ports import free_port
from tests.system.conftest import bundle_of
from tests.system.processes import ROOT, Service

TEXTS = [
    f"def function_{number}(path): return json.loads(open(path).read())[{number}]"
    for number in range(1500)
]
REQUEST = 32  # texts


def test_a_job_survives_a_service_restart_and_resumes_after_ctrl_c(tmp_path: Path) -> None:
    texts, out = tmp_path / "texts.txt", tmp_path / "vectors.npz"
    rows = tmp_path / "vectors.npz.partial" / "rows"
    texts.write_text("\n".join(TEXTS), encoding="utf-8")
    at = f"127.0.0.1:{free_port()}"
    options = ("--max-items", str(REQUEST))
    environment = {**os.environ, "HEADLIGHT_TARGET": at}
    command = [
        sys.executable,
        "-m",
        "headlight",
        "embed",
        "--file",
        str(texts),
        "--format",
        "npz",
        "--out",
        str(out),
    ]
    first = Service(bundle_of("docs-rope"), *options, grpc_at=at)
    job = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert job.stderr is not None
        while not (rows.exists() and rows.stat().st_size):
            assert job.poll() is None
            first.counted("headlight_texts_total")  # takes a moment
        first.process.kill()
        assert "; waiting for it, for 60 s at most" in job.stderr.readline()
        stayed = rows.stat().st_size
        with Service(bundle_of("docs-rope"), *options, grpc_at=at) as second:
            while rows.stat().st_size == stayed:
                assert job.poll() is None
                second.counted("headlight_texts_total")
            job.send_signal(signal.SIGINT)
            assert "texts are kept in" in job.communicate(timeout=60)[1]
            assert (job.returncode, out.exists()) == (128 + signal.SIGINT, False)
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stderr=subprocess.PIPE,
                text=True,
                check=True,
                timeout=120,
            )
            assert "going on from" in done.stderr
            with Client(at) as client, np.load(out) as archive:
                assert np.abs(archive["embeddings"] - client.encode(TEXTS)).max() <= 1e-6
    finally:
        for process, errors in ((job, job.stderr), (first.process, first.process.stderr)):
            process.kill()
            process.wait()
            assert errors is not None
            errors.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.txt", "vectors.npz"]
