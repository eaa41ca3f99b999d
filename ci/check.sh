#!/usr/bin/env bash
# Checks the files of CI: shell scripts (all of this repository) with shellcheck, YAML with yamllint, workflows and
# manifests against the schemas of GitHub, GitLab and Kubernetes. Says what it leaves out where a tool is missing.
#
#   check.sh FOLDER   where the tools of requirements.txt are, or are installed to, as a virtual environment of Python
set -euo pipefail
tools=$(mkdir -p "${1?name the folder of the tools}" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() { printf 'left out: %s\n' "$*"; }

# By the first line, whatever the name.
mapfile -t scripts < <(git grep -lIE '^#!.*[/ ](ba)?sh$' | while read -r file; do
    head -n 1 "$file" | grep -qE '^#!.*[/ ](ba)?sh$' && echo "$file"
done)
if command -v shellcheck >/dev/null; then
    shellcheck "${scripts[@]}"
    echo "shellcheck: ${#scripts[@]} scripts"
else
    skip "the check of ${#scripts[@]} shell scripts, which needs shellcheck"
fi

# What was installed is not installed again.
if ! cmp -s ci/requirements.txt "$tools/installed"; then
    if python3 -m venv "$tools" && "$tools/bin/pip" --quiet install --requirement ci/requirements.txt; then
        cp ci/requirements.txt "$tools/installed"
    else
        skip "the check of workflows and manifests, which needs Python with venv, and to install ci/requirements.txt"
        exit 0
    fi
fi
"$tools/bin/yamllint" --strict --config-file ci/.yamllint ci
"$tools/bin/check-jsonschema" --builtin-schema vendor.github-workflows ci/github/*.yml
if command -v actionlint >/dev/null; then
    actionlint ci/github/*.yml
else
    skip "what actionlint knows of workflows beyond their schema"
fi
"$tools/bin/check-jsonschema" --builtin-schema vendor.gitlab-ci --data-transform gitlab-ci ci/gitlab/*.yml
"$tools/bin/kubernetes-validate" --strict ci/kubernetes/*.yaml ci/kubernetes/base/job.yaml
# What the variants make of it.
for variant in nvidia amd; do
    if command -v kubectl >/dev/null; then
        kubectl kustomize "ci/kubernetes/$variant" >"$tools/$variant.yaml"
        "$tools/bin/kubernetes-validate" --strict "$tools/$variant.yaml"
    else
        skip "what ci/kubernetes/$variant makes of the Job, which needs kubectl"
    fi
done
