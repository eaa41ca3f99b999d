"""The page of measurements on a GPU: `tests/gpu/page.py`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from gpu_interop._native import _optimised

FOLDER = Path(__file__).parent / "gpu"


def page(tmp_path: Path, *arguments: str, **changes: Any) -> subprocess.CompletedProcess[str]:
    report: dict[str, Any] = {
        "optimised": True,
        "versions": {"torch": "2.11"},
        "device": "a GPU",
        "vulkan": "a driver",
        "parts": {"cost": {"passed": True, "words": 172032000, "list": ["a|b"], "seconds": 6.3}},
    }
    report.update(changes)
    file = tmp_path / "python.json"
    file.write_text(json.dumps({key: value for key, value in report.items() if value is not None}))
    command = [sys.executable, str(FOLDER / "page.py"), *arguments, str(file)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("arguments", [(), ("--release",)])
def test_a_row_for_each_part(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    done = page(tmp_path, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "a GPU, a driver; torch 2.11",
        "",
        "| check | result |",
        "|---|---|",
        "| cost | words: 172,032,000; list: ['a\\|b'] |",
    ]


@pytest.mark.parametrize("optimised", [False, None, "yes"])
def test_wheels_without_optimisation_are_refused(tmp_path: Path, optimised: Any) -> None:
    done = page(tmp_path, "--release", optimised=optimised)
    assert done.returncode == 2 and "maturin build --release" in done.stderr and not done.stdout
    done = page(tmp_path, optimised=optimised)
    assert done.returncode == 0 and "**without optimisation**" in done.stdout


def test_a_failed_part_fails(tmp_path: Path) -> None:
    done = page(tmp_path, parts={"cost": {"passed": False, "error": "E: x"}})
    assert done.returncode == 1 and "| cost | **failed** error: E: x |" in done.stdout


@pytest.mark.skipif(_optimised, reason="this wheel is optimised")
def test_the_checks_refuse_this_wheel() -> None:
    command = [sys.executable, str(FOLDER / "check.py"), "--release", "cost"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "maturin build --release" in done.stderr and "cost" not in done.stdout
