"""Prints the table of a report of check.py, for the README.

    python page.py [--release] python.json

With ``--release``, a report is refused whose wheel was built without optimisation, or does not say. The exit status is
2 then, and 1 if a part failed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

UNOPTIMISED = "the wheel was built without optimisation; build it with: maturin build --release"


def table(report: dict[str, Any]) -> str:
    """One row a part, in Markdown."""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [f"{report['device']}, {report['vulkan']}; {versions}", "", "| check | result |", "|---|---|"]
    if report.get("optimised") is not True:
        lines[0] += "; **without optimisation**"
    for name, part in report["parts"].items():
        values = {key: value for key, value in part.items() if key not in {"passed", "seconds", "trace"}}
        shown = "; ".join(f"{key}: {_shown(value)}" for key, value in values.items())
        lines.append(f"| {name} | {'' if part['passed'] else '**failed** '}{shown} |")
    return "\n".join(lines)


def _shown(value: object) -> str:
    text = f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def main(arguments: list[str]) -> int:
    release = "--release" in arguments
    files = [argument for argument in arguments if argument != "--release"]
    if len(files) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    with open(files[0]) as file:
        report = json.load(file)
    if release and report.get("optimised") is not True:
        print(f"{files[0]}: {UNOPTIMISED}", file=sys.stderr)
        return 2
    print(table(report))
    return 0 if all(part["passed"] for part in report["parts"].values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
