#!/usr/bin/env python3
"""Plants the defects of mutations.toml one by one, and sees whether the suite notices them on the stand-ins.

    conformance/mutations/run.py [--list] [NAME...]

Works on a copy of what is committed, in target/mutations. Each defect is built and the suite run on libraries that play
the drivers (`cargo test -p gpu-interop-conformance --test sims`), first the run that should notice it. Exit status: 0 if
all defects are noticed but those that are listed as survivors, 1 if not, 2 if a defect cannot be planted or built.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORK = ROOT / "target" / "mutations"
TREE = WORK / "tree"
TEST = ["cargo", "test", "--quiet", "--locked", "-p", "gpu-interop-conformance", "--test", "sims"]
# Runs of the suite that a defect may be noticed by, in the order in which they are tried.
RUNS = [
    "cuda_native", "hip_native", "cuda_faults_are_reported", "cuda_vulkan", "hip_vulkan", "nvsci_suite",
    "nvsci_flags_of_skipped_memsync_reach_the_driver",
]
LIMIT = 900


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


def cargo(arguments):
    environment = os.environ | {"CARGO_TARGET_DIR": str(WORK / "build"), "RUSTFLAGS": "-Awarnings"}
    environment.pop("GPU_INTEROP_BACKEND", None)
    command = subprocess.Popen(
        arguments, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )
    try:
        output, _ = command.communicate(timeout=LIMIT)
        return command.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(command.pid, 9)
        output, _ = command.communicate()
        return None, output


def noticed_by(first):
    """The first run that fails, and how it says so."""
    for run in sorted(RUNS, key=lambda run: run != first):
        status, output = cargo([*TEST, "--", "--exact", run])
        if status is None:
            return run, f"did not end within {LIMIT} s"
        if status != 0:
            failed = [line for line in output.splitlines() if line.startswith(("failed", "timed_out", "crashed"))]
            reasons = failed or [line for line in output.splitlines() if "---- " in line or "alive at the end" in line]
            return run, " ".join((reasons or ["failed"])[-1].split())[:160]
    return None, ""


def plant(mutation):
    file = TREE / mutation["file"]
    text = file.read_text()
    if text.count(mutation["find"]) != 1:
        return None
    file.write_text(text.replace(mutation["find"], mutation["replace"]))
    return lambda: file.write_text(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--list", action="store_true", help="only list the defects")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    mutations = tomllib.loads((ROOT / "conformance/mutations/mutations.toml").read_text())["mutation"]
    if arguments.names:
        mutations = [mutation for mutation in mutations if mutation["name"] in arguments.names]
    if arguments.list or not mutations:
        for mutation in mutations:
            say(f"{mutation['name']:<34} {mutation['what']}")
        return 0 if mutations else 2
    fresh_tree()
    say("without a defect ...")
    run, how = noticed_by(RUNS[0])
    if run:
        say(f"{run} fails without a defect: {how}")
        return 2
    results, bad, unusable = [], 0, 0
    for mutation in mutations:
        name, survives, start = mutation["name"], mutation.get("survives"), time.monotonic()
        undo = plant(mutation)
        if undo is None:
            say(f"UNUSABLE {name}: its text is not there just once")
            unusable += 1
            continue
        try:
            status, output = cargo([*TEST, "--no-run"])
            if status != 0:
                say(f"UNUSABLE {name}: it does not build\n{output[-2000:]}")
                unusable += 1
                continue
            run, how = noticed_by(mutation.get("by"))
        finally:
            undo()
        taken = time.monotonic() - start
        expected = (run is None) == (survives is not None)
        bad += not expected
        results.append({"name": name, "what": mutation["what"], "noticed_by": run, "how": how, "seconds": round(taken)})
        verdict = "noticed" if run else "SURVIVES"
        say(f"{verdict:<9}{name:<34}{taken:4.0f} s  {f'{run}: {how}' if run else survives or 'nobody notices'}")
    noticed = sum(result["noticed_by"] is not None for result in results)
    say(f"{noticed} of {len(results)} defects noticed, {unusable} unusable")
    (WORK / "report.json").write_text(json.dumps(results, indent=2) + "\n")
    return 2 if unusable else int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
