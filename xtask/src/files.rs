//! Checks the files of CI: shell scripts with shellcheck, YAML with yamllint, workflows and manifests against the
//! schemas of GitHub, GitLab and Kubernetes.

use std::fs;
use std::path::Path;

use crate::python;
use crate::run::{Outcome, has, run};
use crate::session::Session;

const REQUIREMENTS: &str = "ci/requirements.txt";

pub(crate) fn check(session: &Session) -> Outcome {
    let tracked = run("git ls-files").text()?;
    let is_script = |file: &&str| {
        let text = fs::read(file).unwrap_or_default();
        let first = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        first.starts_with(b"#!") && first.ends_with(b"sh")
    };
    let scripts: Vec<&str> = tracked.lines().filter(is_script).collect();
    if has("shellcheck") {
        run("shellcheck").args(&scripts).check()?;
    } else {
        session.leave_out("the check of shell scripts", "the package shellcheck")?;
    }
    let tools = session.target.join("ci-tools");
    if !python::install(&tools, REQUIREMENTS) {
        return session
            .leave_out("the check of workflows", "the package python3-venv, and those in ci/requirements.txt");
    }
    let tool = |name: &str, line: &str| run("env").arg(tools.join("bin").join(name)).args(line.split(' '));
    tool("yamllint", "--strict --config-file ci/.yamllint ci").check()?;
    let folder = |path: &str| {
        tracked.lines().filter(move |file| Path::new(file).parent() == Some(Path::new(path))).collect::<Vec<_>>()
    };
    tool("check-jsonschema", "--builtin-schema vendor.github-workflows").args(folder("ci/github")).check()?;
    tool("check-jsonschema", "--builtin-schema vendor.gitlab-ci --data-transform gitlab-ci")
        .args(folder("ci/gitlab"))
        .check()?;
    tool("kubernetes-validate", "--strict ci/kubernetes/base/job.yaml").args(folder("ci/kubernetes")).check()?;
    // Tools that are not in Debian. Each adds checks to those of the schemas.
    if has("actionlint") {
        run("actionlint").args(folder("ci/github")).check()?;
    }
    for variant in ["nvidia", "amd"].into_iter().filter(|_| has("kubectl")) {
        let file = tools.join(format!("{variant}.yaml"));
        let text = run("kubectl kustomize").arg(format!("ci/kubernetes/{variant}")).text()?;
        fs::write(&file, text).map_err(|error| error.to_string())?;
        tool("kubernetes-validate", "--strict").arg(file).check()?;
    }
    Ok(())
}

/// The most lines of a Rust file.
const MOST: usize = 1_000;

/// Fails if a Rust file known to git has more than [`MOST`] lines.
pub(crate) fn lengths() -> Outcome {
    let files = run("git ls-files --cached --others --exclude-standard *.rs").text()?;
    let (mut total, mut long) = (0, Vec::new());
    for file in files.lines() {
        let lines = fs::read_to_string(file).unwrap_or_default().lines().count();
        total += lines;
        if lines > MOST {
            long.push(format!("{file}: {lines} lines"));
        }
    }
    println!("{total} lines of Rust in {} files", files.lines().count());
    if long.is_empty() { Ok(()) } else { Err(format!("files of more than {MOST} lines:\n{}", long.join("\n"))) }
}
