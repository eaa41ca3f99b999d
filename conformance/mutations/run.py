#!/usr/bin/env python3
"""Plants defects one at a time and runs the checks that should detect each.

    conformance/mutations/run.py [--list | --match] [--crate NAME]... [--own-checks | --all-checks] [NAME...]

Works on a copy of the last commit, in target/mutations or in the folder that MUTATIONS_FOLDER names. The defects, the checks
and the source for `--match` are read from the working tree. `defects/CRATE.toml` has the defects of a crate, and
`checks.toml` the checks: arguments of `cargo test`. A defect is caught if a check fails. Its own checks run first, in their
order, and then those of its crate; `--all-checks` runs all of them even after the defect is caught.

Exit status: 0 if all defects are caught except the listed survivors, and no survivor is caught; 1 otherwise; 2 if a defect
cannot be planted or built, a check fails without a defect, a defect does not match the source (`--match`), or an argument is
invalid, such as an unknown NAME or crate.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = pathlib.Path(__file__).resolve().parent
# Two runs at the same time need a folder each.
WORK = pathlib.Path(os.environ.get("MUTATIONS_FOLDER", ROOT / "target" / "mutations")).resolve()
TREE = WORK / "tree"
# Time limit of one build or run, in seconds.
LIMIT = 300


def say(text):
    print(text, flush=True)


def fresh_tree():
    """Updates TREE to HEAD; unchanged files keep their times, which cargo compares."""
    TREE.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    staging = WORK / "staging"
    subprocess.run(["rm", "-rf", staging], check=True)
    staging.mkdir()
    subprocess.run(["tar", "-x", "-C", staging], input=archive, check=True)
    wanted = {path.relative_to(staging) for path in staging.rglob("*") if path.is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file() and path.relative_to(TREE) not in wanted]:
        path.unlink()
    for path in wanted:
        new, old = (staging / path).read_bytes(), TREE / path
        if not old.is_file() or old.read_bytes() != new:
            old.parent.mkdir(parents=True, exist_ok=True)
            old.write_bytes(new)
            old.chmod((staging / path).stat().st_mode)


def cargo(arguments):
    """Returns exit status (None after a timeout) and output."""
    # A target folder of its own: cargo would reuse artefacts of the same packages from another tree.
    own = {"CARGO_TARGET_DIR": str(WORK / "build"), "RUSTFLAGS": "-Awarnings"}
    environment = {"CARGO_PROFILE_DEV_DEBUG": "0"} | os.environ | own
    environment.pop("GPU_INTEROP_BACKEND", None)
    command = subprocess.Popen(
        ["cargo", "test", "--quiet", "--locked", "--no-fail-fast", *arguments], cwd=TREE, env=environment, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )
    try:
        output, _ = command.communicate(timeout=LIMIT)
        return command.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, 9)
        output, _ = command.communicate()
        return None, output


def reported(output):
    """Returns the failed tests, or, without any, the first error of the output."""
    tests = {match[1]: None for match in re.finditer(r"^---- (\S+)(?: stdout)? ----$", output, re.MULTILINE)}
    tests |= {match[1]: None for match in re.finditer(r"^test (\S+) +\.\.\. FAILED", output, re.MULTILINE)}
    errors = [" ".join(line.split())[:100] for line in output.splitlines() if line.startswith("error")]
    return list(tests) or errors[:1] or ["failed"]


class Checks:
    def __init__(self, only_own):
        tables = tomllib.loads((HERE / "checks.toml").read_text())
        self.checks, self.of_crate = tables["check"], {} if only_own else tables["crate"]
        self.sound = {}

    def build(self, name):
        """Returns the arguments that select what to build."""
        arguments = shlex.split(self.checks[name]["run"])
        return arguments[: arguments.index("--")] if "--" in arguments else arguments

    def run(self, name):
        """Returns (failed tests or None, build failure or None)."""
        status, output = cargo([*self.build(name), "--no-run"])
        if status is None:
            return None, f"the build did not end within {LIMIT} s"
        if status != 0:
            return None, f"it does not build\n{output[-2000:]}"
        status, output = cargo(shlex.split(self.checks[name]["run"]))
        if status is None:
            return [f"did not end within {LIMIT} s"], None
        return (None if status == 0 else reported(output)), None

    def is_sound(self, name):
        """True if the check passes without a defect; cached."""
        if name not in self.sound:
            start = time.monotonic()
            failed, unbuilt = self.run(name)
            self.sound[name] = failed is None and unbuilt is None
            how = ", ".join(failed or []) or unbuilt or "passes"
            say(f"without a defect: {name:<24}{time.monotonic() - start:4.0f} s  {how}")
        return self.sound[name]

    def names(self, mutation):
        own = mutation.get("checks", [])
        return own + [name for name in self.of_crate.get(mutation["crate"], []) if name not in own]


def plant(mutation):
    file = TREE / mutation["file"]
    text = file.read_text() if file.is_file() else ""
    if text.count(mutation["find"]) != 1:
        return None
    file.write_text(text.replace(mutation["find"], mutation["replace"]))
    return lambda: file.write_text(text)


def unmatched(mutations):
    """Mutations whose `find` does not occur exactly once."""
    def count(mutation):
        file = ROOT / mutation["file"]
        return file.read_text().count(mutation["find"]) if file.is_file() else 0
    return [mutation for mutation in mutations if count(mutation) != 1]


def read_mutations():
    mutations = []
    for file in sorted((HERE / "defects").glob("*.toml")):
        for mutation in tomllib.loads(file.read_text())["mutation"]:
            mutations.append({"crate": file.stem} | mutation)
    names = [mutation["name"] for mutation in mutations]
    assert len(names) == len(set(names)), "two defects have the same name"
    return mutations


def failed_checks(checks, mutation, every):
    """Returns the failed checks, each with its failed tests, or None and the reason."""
    found = []
    for name in checks.names(mutation):
        if not checks.is_sound(name):
            return None, f"without a defect {name} fails, too"
        undo = plant(mutation)
        if undo is None:
            return None, "its `find` text does not occur exactly once"
        try:
            failed, unbuilt = checks.run(name)
        finally:
            undo()
        if unbuilt is not None:
            return None, unbuilt
        if failed is not None:
            found.append((name, failed))
            if not every:
                break
    return found, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only list the defects")
    parser.add_argument("--match", action="store_true", help="only check that each can be planted in the working tree")
    parser.add_argument("--crate", action="append", default=[], help="only those of this crate")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all-checks", action="store_true", help="continue after a defect is caught")
    which.add_argument("--own-checks", action="store_true", help="leave out the checks of its crate")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    mutations, checks = read_mutations(), Checks(arguments.own_checks)
    for key, wanted in [("name", arguments.names), ("crate", arguments.crate)]:
        known = {mutation[key] for mutation in mutations}
        if unknown := [value for value in wanted if value not in known]:
            parser.error(f"no defect has the {key} {', '.join(unknown)}")
    if arguments.names:
        mutations = [mutation for mutation in mutations if mutation["name"] in arguments.names]
    if arguments.crate:
        mutations = [mutation for mutation in mutations if mutation["crate"] in arguments.crate]
    if not mutations:
        parser.error("no defect has both one of the names and one of the crates")
    if arguments.list:
        for mutation in mutations:
            say(f"{mutation['crate']:<10} {mutation['name']:<34} {mutation['what']}")
        return 0
    if arguments.match:
        mismatches = unmatched(mutations)
        for mutation in mismatches:
            say(f"{mutation['crate']:<10} {mutation['name']:<34} not exactly once in {mutation['file']}: {mutation['find']}")
        return 2 if mismatches else 0
    fresh_tree()
    results, wrong, unusable = [], 0, 0
    for mutation in mutations:
        name, survives = mutation["name"], mutation.get("survives")
        start = time.monotonic()
        found, unusable_because = failed_checks(checks, mutation, arguments.all_checks)
        if found is None:
            say(f"UNUSABLE {name}: {unusable_because}")
            unusable += 1
            continue
        is_caught, taken = bool(found), round(time.monotonic() - start)
        wrong += is_caught == (survives is not None)
        shown = [f"{check}: {failed[0]}" + (f" and {len(failed) - 1} more" if failed[1:] else "") for check, failed in found]
        how = "; ".join(shown) or survives or "no check fails"
        say(f"{'caught' if is_caught else 'SURVIVES':<9}{mutation['crate']:<10}{name:<34}{taken:4} s  {how}")
        results.append({key: mutation[key] for key in ("crate", "name", "what")}
                       | {"caught": is_caught, "by": dict(found), "survives": survives, "seconds": taken})
    number = sum(result["caught"] for result in results)
    say(f"{number} of {len(results)} defects caught, {unusable} unusable")
    (WORK / "report.json").write_text(json.dumps(results, indent=2) + "\n")
    return 2 if unusable else int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
