#!/usr/bin/env python3
"""Measures the tests with random mutants of the source, which `cargo mutants` lists: small changes, each a defect.

    conformance/mutations/run.py [--seed N] [--mutants N] [--crate NAME]... [--since REVISION] [--own-checks] [--list]
                                 [PART...]

Works on a copy of the last commit, in target/mutations or in the folder that MUTATIONS_FOLDER names. `crates.toml` has the
crates with their checks, arguments of `cargo test`. A mutant is caught if a check fails or does not end: first the crate's
own checks, and then, unless `--own-checks` is given, those of the simulators and the suite. Mutants that do not compile, and
those of other systems, are replaced by the next ones.

The sample depends on the seed and the source only, and has equally many mutants of each crate. `--since` runs all mutants of the lines that changed since a revision, and PART those whose name contains
it. A run that was ended continues where it was: results are in the folder's file SEED-COMMIT.json, with the diffs.

Exit status: 0 if at least 75 % of the mutants are caught, 1 if fewer are, 2 if a check fails without a mutant or `cargo
mutants` does not run.
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Two runs at the same time need a folder each.
WORK = pathlib.Path(os.environ.get("MUTATIONS_FOLDER", ROOT / "target" / "mutations")).resolve()
TREE = WORK / "tree"
# Time limit of a build, in seconds.
BUILD_LIMIT = 1200
# Time limit of a check: a multiple of its time without a mutant, and at least the seconds.
RUN_LIMIT = (4, 90)
# The least share caught, in percent.
LEAST_SHARE = 75
FINAL = ("caught", "not viable", "not compiled here")


def say(text):
    print(text, flush=True)


def git(*arguments, folder=TREE):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def fresh_tree():
    """Checks out HEAD; unchanged files keep their times, which cargo compares."""
    if not TREE.is_dir():
        git("clone", "--quiet", "--no-checkout", ROOT, TREE, folder=ROOT)
    git("fetch", "--quiet", "--update-shallow", ROOT, "HEAD")
    git("checkout", "--quiet", "--force", "--detach", "FETCH_HEAD")
    return git("rev-parse", "--short=12", "HEAD")


def run(command, limit):
    """Returns exit status (None after a timeout) and output."""
    # A target folder of its own: cargo would reuse artefacts of the same packages from another tree.
    own = {"CARGO_TARGET_DIR": str(WORK / "build"), "CARGO_INCREMENTAL": "1", "MUTATIONS_ROOT": str(ROOT)}
    environment = {"CARGO_PROFILE_DEV_DEBUG": "0"} | os.environ | own
    environment.pop("GPU_INTEROP_BACKEND", None)
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=limit)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, _ = process.communicate()
        return None, output


def failed_tests(output):
    """Returns the failed tests, or, without any, the first error of the output."""
    tests = {match[1]: None for match in re.finditer(r"^---- (\S+)(?: stdout)? ----$", output, re.MULTILINE)}
    tests |= {match[1]: None for match in re.finditer(r"^test (\S+) +\.\.\. FAILED", output, re.MULTILINE)}
    tests |= {match[1]: None for match in re.finditer(r"^FAILED (\S+)", output, re.MULTILINE)}
    errors = [" ".join(line.split())[:100] for line in output.splitlines() if line.startswith("error")]
    return list(tests) or errors[:1] or ["failed"]


class Checks:
    def __init__(self, table):
        self.table, self.seconds = table, {}

    def build(self, name):
        """Returns the output, or None if it builds."""
        check = self.table[name]
        arguments = check["run"].split(" -- ")[0]
        status, output = run(check.get("build", f"cargo test --quiet --locked --no-run {arguments}"), BUILD_LIMIT)
        return None if status == 0 else output

    def run(self, name, limit):
        """Returns the failed tests, or None if there are none."""
        check = self.table[name]
        status, output = run(check["run"] if "build" in check else f"cargo test --quiet --locked {check['run']}", limit)
        if status is None:
            return [f"did not end within {limit:.0f} s"]
        return None if status == 0 else failed_tests(output)

    def is_known(self, name):
        return name in self.seconds

    def limit(self, name):
        """Runs a check once without a mutant. Returns the time limit with one, or None if the check fails."""
        if name not in self.seconds:
            unbuilt, start = self.build(name), time.monotonic()
            failed = [unbuilt[-2000:]] if unbuilt is not None else self.run(name, BUILD_LIMIT)
            taken = time.monotonic() - start
            self.seconds[name] = None if failed else max(taken * RUN_LIMIT[0], RUN_LIMIT[1])
            say(f"without a mutant: {name:<24}{taken:4.0f} s  {', '.join(failed or ['passes'])}")
        return self.seconds[name]


def mutants_of(crate, since):
    """The crate's mutants in the order of the source, as `cargo mutants` describes them."""
    workspace = TREE / crate.get("workspace", ".")
    command = ["cargo", "mutants", "--list", "--json", "--diff", "--workspace", "--dir", workspace]
    command += ["--config", TREE / ".cargo" / "mutants.toml"]
    command += [part for pattern in crate["files"] for part in ("--file", pattern)]
    if since:
        changes = WORK / "changes.diff"
        folder = ROOT / crate.get("workspace", ".")
        changes.write_text(git("diff", "--relative", f"{since}...HEAD", folder=folder) + "\n")
        command += ["--in-diff", changes]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [of_result(mutant) for mutant in json.loads(listed or "[]")]


def of_result(mutant):
    """A mutant of a function that returns an alias of `Result` returns a success, which `cargo mutants` does not know."""
    value = r"(?:PyResult|Verdict)::from\((.*)\)|Default::default\(\)"
    match = re.fullmatch(rf"(.* -> (?:PyResult|Verdict)\b.*) with ({value})", mutant["name"])
    if match is None:
        return mutant
    function, value, inner = match.groups()
    success = f"Ok({inner or '()'})"
    diff = mutant["diff"].replace(value, success)
    return mutant | {"name": f"{function} with {success}", "replacement": success, "diff": diff}


class Planted:
    """The source with a mutant, until the end of the block."""

    def __init__(self, crate, mutant):
        self.file = TREE / crate.get("workspace", ".") / mutant["file"]
        self.mutant, self.sound = mutant, self.file.read_text()

    def offset(self, place):
        before = self.sound.split("\n")[: place["line"] - 1]
        return sum(len(line) + 1 for line in before) + place["column"] - 1

    def write(self, text):
        # Cargo builds what was written, even if it is the same.
        if self.file.read_text() != text:
            self.file.write_text(text)

    def plant(self):
        span = self.mutant["span"]
        start, end = self.offset(span["start"]), self.offset(span["end"])
        self.write(self.sound[:start] + self.mutant["replacement"] + self.sound[end:])

    def plant_error(self):
        """An error at the start of the mutant's function, which compiles only where the function is left out."""
        function = self.mutant.get("function")
        start = self.offset((function or self.mutant)["span"]["start"])
        text = re.sub(r"//[^\n]*|#\[[^\]]*\]", lambda match: " " * len(match[0]), self.sound[start:])
        body = start + text.find("{") + 1
        self.write(self.sound[:body] + 'compile_error!("");' + self.sound[body:])

    def undo(self):
        self.write(self.sound)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.undo()


def outcome(checks, crate, mutant, names, passed):
    """Runs the named checks that have not passed with the mutant. Returns None if all of them fail without it."""
    tried = {"outcome": "survives", "by": None, "passed": list(passed)}
    with Planted(crate, mutant) as planted:
        for name in names:
            if name in passed:
                continue
            if not checks.is_known(name):
                planted.undo()
            limit = checks.limit(name)
            if limit is None:
                continue
            planted.plant()
            if checks.build(name) is not None:
                return tried | {"outcome": "not viable"}
            if failed := checks.run(name, limit):
                return tried | {"outcome": "caught", "by": [name, *failed[:5]]}
            tried["passed"].append(name)
        if not passed and tried["passed"]:
            planted.plant_error()
            if checks.build(tried["passed"][0]) is None:
                return tried | {"outcome": "not compiled here"}
    return tried if tried["passed"] else None


def table(found, results):
    rows, lines = [], [f"{'crate':<10}{'mutants':>8}{'tried':>7}{'caught':>8}{'own':>6}{'share':>7}"]
    for name, of_crate in found.items():
        tried = [results[mutant["name"]] for mutant in of_crate if mutant["name"] in results]
        tried = [result for result in tried if result["outcome"] in ("caught", "survives")]
        caught = [result for result in tried if result["outcome"] == "caught"]
        rows.append((name, len(of_crate), len(tried), len(caught), sum(not result["passed"] for result in caught)))
    rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows)))))
    for name, number, tried, caught, own in rows:
        share = f"{100 * caught / tried:5.0f} %" if tried else ""
        lines.append(f"{name:<10}{number:>8}{tried:>7}{caught:>8}{own:>6}{share:>7}")
    return "\n".join(lines), 100 * rows[-1][3] / max(rows[-1][2], 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    year, week, _ = datetime.date.today().isocalendar()
    parser.add_argument("--seed", type=int, default=year * 100 + week, help="of the sample; default: year and week")
    parser.add_argument("--mutants", type=int, default=6, help="how many of each crate; default: %(default)s")
    parser.add_argument("--crate", action="append", default=[], help="only those of this crate of crates.toml")
    parser.add_argument("--since", metavar="REVISION", help="all mutants of lines changed since then")
    parser.add_argument("--own-checks", action="store_true", help="leave out simulators and the suite")
    parser.add_argument("--list", action="store_true", help="only list the mutants")
    parser.add_argument("parts", nargs="*", metavar="PART", help="all mutants whose name contains one of these")
    return parser, parser.parse_args()


def main():
    parser, chosen = arguments()
    WORK.mkdir(parents=True, exist_ok=True)
    commit = fresh_tree()
    tables = tomllib.loads((TREE / "conformance/mutations/crates.toml").read_text())
    crates, checks = tables["crate"], Checks(tables["check"])
    if unknown := [name for name in chosen.crate if name not in crates]:
        parser.error(f"crates.toml has no crate {', '.join(unknown)}")
    names = chosen.crate or list(crates)
    found = {name: mutants_of(crates[name], chosen.since) for name in names}
    if chosen.parts:
        found = {name: [mutant for mutant in of_crate if any(part in mutant["name"] for part in chosen.parts)]
                 for name, of_crate in found.items()}
    if chosen.list:
        for mutant in (mutant for of_crate in found.values() for mutant in of_crate):
            say(mutant["name"])
        return 0
    file = WORK / f"{chosen.seed}-{commit}.json"
    results = json.loads(file.read_text()) if file.is_file() else {}
    for name in names:
        crate, mutants = crates[name], sorted(found[name], key=lambda mutant: mutant["name"])
        random.Random(f"{chosen.seed} {name}").shuffle(mutants)
        left = len(mutants) if chosen.since or chosen.parts else chosen.mutants
        for mutant in mutants:
            if left == 0:
                break
            own = crate["own"]
            before, start = results.get(mutant["name"], {"outcome": None, "passed": []}), time.monotonic()
            selected = own if chosen.own_checks else own + crate.get("more", [])
            if before["outcome"] in FINAL or before["outcome"] and set(selected) <= set(before["passed"]):
                result = before
            else:
                result = outcome(checks, crate, mutant, selected, before["passed"])
                if result is None:
                    break
                result |= {"crate": name, "seconds": round(time.monotonic() - start), "diff": mutant["diff"]}
                results[mutant["name"]] = result
                file.write_text(json.dumps(results, indent=2) + "\n")
                say(f"{result['outcome']:<18}{name:<8}{result['seconds']:5} s  {mutant['name']}  "
                    f"{', '.join(result['by'] or [])}")
            left -= result["outcome"] in ("caught", "survives")
    for mutant in (mutant for of_crate in found.values() for mutant in of_crate):
        if results.get(mutant["name"], {}).get("outcome") == "survives":
            say(f"\nsurvives: {mutant['name']}\n{mutant['diff']}")
    lines, share = table(found, results)
    say(f"\n{lines}\nseed {chosen.seed}, commit {commit}, {file}")
    unsound = [name for name in checks.seconds if checks.seconds[name] is None]
    if unsound:
        say(f"these checks fail without a mutant: {', '.join(unsound)}")
    return 2 if unsound else int(share < LEAST_SHARE)


if __name__ == "__main__":
    sys.exit(main())
