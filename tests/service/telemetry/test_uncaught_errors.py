"""Uncaught errors, which Python would print on standard error, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
BEGIN = """
import sys, threading, traceback, warnings
from headlight_service.telemetry import json_logs
try:
    from headlight_service.telemetry import uncaught_errors
except ImportError:
    uncaught_errors = None
json_logs.configure("info")
if uncaught_errors is not None:
    uncaught_errors.redirect()

def fail():
    raise ValueError("secret")

class Failing:
    def __del__(self):
        fail()
"""
CASES = {
    "thread = threading.Thread(target=fail); thread.start(); thread.join()": "thread_failed",
    "Failing()": "unraisable",
    "try:\n    fail()\nexcept ValueError:\n    traceback.print_exc()": "stray_output",
    "fail()": "crashed",
}


def run(code: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Return the exit code, and the output raw and parsed."""
    command = [sys.executable, "-c", BEGIN + code]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    return done.returncode, done.stderr, [json.loads(line) for line in done.stderr.splitlines()]


def test_exceptions_and_output_become_log_lines_without_quotes() -> None:
    exit_code, text, entries = run("\n".join(CASES))
    assert exit_code == 1
    assert [entry["event"] for entry in entries] == [*CASES.values()]
    assert "secret" not in text
    for entry in entries:
        assert entry["kind"] == "builtins.ValueError"
        assert any(place.endswith(" fail") for place in entry["stack"])


def test_output_becomes_a_log_line_without_quotes() -> None:
    exit_code, text, [entry] = run("print('secret', file=sys.stderr)")
    assert (exit_code, entry["event"]) == (0, "stray_output")
    assert "secret" not in text


def test_many_tracebacks_are_rate_limited() -> None:
    code = (
        "for _ in range(1000):\n    try:\n        fail()\n    except ValueError:\n"
        "        traceback.print_exc()"
    )
    assert 1 <= len(run(code)[2]) < 20


def test_a_process_without_standard_error_continues() -> None:
    code = "import logging\nlogging.getLogger('headlight_service').error('x')\nprint('done')"
    command = f'exec "{sys.executable}" -c "$0" 2>&-'
    done = subprocess.run(
        ["sh", "-c", command, BEGIN + code],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "done\n")
