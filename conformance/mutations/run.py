#!/usr/bin/env python3
"""Plants defects one by one, each with the checks that should notice it, and runs those.

    conformance/mutations/run.py [--list | --match] [--crate NAME]... [--own-checks | --all-checks] [NAME...]

Works on a copy of what is committed, in target/mutations or in the folder that MUTATIONS_FOLDER names. `defects/CRATE.toml`
has the defects of a crate, and `checks.toml` the checks: commands of cargo. A defect is caught if one check fails that runs
on every machine, or two tests that need something of the machine. Its own checks are tried first, in their order, and then those
of its crate; `--all-checks` tries all of them even after it is caught. Exit status: 0 if all defects are caught but those
that are listed as survivors, and none of these is; 1 if not; 2 if a defect cannot be planted or built, or a check fails
without one.
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
# Seconds for one run of a check.
LIMIT = 300


def say(text):
    print(text, flush=True)


def fresh_tree():
    """What is committed, without touching files that are the same: cargo goes by their times."""
    TREE.mkdir(parents=True, exist_ok=True)
    archive = subprocess.run(["git", "-C", ROOT, "archive", "HEAD"], check=True, stdout=subprocess.PIPE).stdout
    staging = WORK / "staging"
    subprocess.run(["rm", "-rf", staging], check=True)
    staging.mkdir()
    subprocess.run(["tar", "-x", "-C", staging], input=archive, check=True)
    subprocess.run(["cp", ROOT / "Cargo.lock", staging], check=True)
    wanted = {path.relative_to(staging) for path in staging.rglob("*") if path.is_file()}
    for path in [path for path in TREE.rglob("*") if path.is_file() and path.relative_to(TREE) not in wanted]:
        path.unlink()
    for path in wanted:
        new, old = (staging / path).read_bytes(), TREE / path
        if not old.is_file() or old.read_bytes() != new:
            old.parent.mkdir(parents=True, exist_ok=True)
            old.write_bytes(new)
            old.chmod((staging / path).stat().st_mode)


def cargo(arguments, variables=None):
    """The status, None for one that did not end in time, and what was printed."""
    # Never another folder's target: cargo takes what was built there of the same packages for this tree's.
    own = {"CARGO_TARGET_DIR": str(WORK / "build"), "RUSTFLAGS": "-Awarnings"}
    environment = {"CARGO_PROFILE_DEV_DEBUG": "0"} | os.environ | own | (variables or {})
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
    """The tests that failed, or what else says that something did."""
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
        """The part of a command that only builds."""
        arguments = shlex.split(self.checks[name]["run"])
        return arguments[: arguments.index("--")] if "--" in arguments else arguments

    def run(self, name):
        """What failed; None if nothing did, and text in the second place if it does not build."""
        check = self.checks[name]
        variables = check.get("env")
        status, output = cargo([*self.build(name), "--no-run"], variables)
        if status != 0:
            return None, output
        status, output = cargo(shlex.split(check["run"]), variables)
        if status is None:
            return [f"did not end within {LIMIT} s"], None
        return (None if status == 0 else reported(output)), None

    def is_sound(self, name):
        """Whether the check passes without a defect. Asked once."""
        if name not in self.sound:
            start = time.monotonic()
            failed, unbuilt = self.run(name)
            self.sound[name] = failed is None and unbuilt is None
            how = ", ".join(failed or []) or unbuilt or "passes"
            say(f"without a defect: {name:<24}{time.monotonic() - start:4.0f} s  {how}")
        return self.sound[name]

    def always(self, name):
        return "needs" not in self.checks[name]

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
    """Those whose text is not in the source just once."""
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
    assert len(names) == len(set(names)), "two defects have one name"
    return mutations


def noticed(checks, mutation, every):
    """The checks that failed, each with how; or why there is no answer."""
    found = []
    for name in checks.names(mutation):
        if not checks.is_sound(name):
            return None, f"without a defect {name} fails, too"
        undo = plant(mutation)
        if undo is None:
            return None, "its text is not there just once"
        try:
            failed, unbuilt = checks.run(name)
        finally:
            undo()
        if unbuilt is not None:
            return None, f"it does not build\n{unbuilt[-2000:]}"
        if failed is not None:
            found.append((name, failed))
        if caught(checks, found) and not every:
            break
    return found, None


def caught(checks, found):
    return sum(len(failed) for _, failed in found) >= 2 or any(checks.always(name) for name, _ in found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only list the defects")
    parser.add_argument("--match", action="store_true", help="only see whether each can be planted in this source")
    parser.add_argument("--crate", action="append", default=[], help="only those of this crate")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all-checks", action="store_true", help="go on after a defect is caught")
    which.add_argument("--own-checks", action="store_true", help="leave out the checks of its crate")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    mutations, checks = read_mutations(), Checks(arguments.own_checks)
    if arguments.names:
        mutations = [mutation for mutation in mutations if mutation["name"] in arguments.names]
    if arguments.crate:
        mutations = [mutation for mutation in mutations if mutation["crate"] in arguments.crate]
    if arguments.list or not mutations:
        for mutation in mutations:
            say(f"{mutation['crate']:<10} {mutation['name']:<34} {mutation['what']}")
        return 0 if mutations else 2
    if arguments.match:
        for mutation in unmatched(mutations):
            say(f"{mutation['crate']:<10} {mutation['name']:<34} not just once in {mutation['file']}: {mutation['find']}")
        return 2 if unmatched(mutations) else 0
    fresh_tree()
    results, wrong, unusable = [], 0, 0
    for mutation in mutations:
        name, survives = mutation["name"], mutation.get("survives")
        start = time.monotonic()
        found, unusable_because = noticed(checks, mutation, arguments.all_checks)
        if found is None:
            say(f"UNUSABLE {name}: {unusable_because}")
            unusable += 1
            continue
        is_caught, taken = caught(checks, found), round(time.monotonic() - start)
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
