//! The last line of `conformance run` says what to do next.

use std::process::Command;

use super::{Tested, conformance, simulated, text};

const RUN: [&str; 6] = ["run", "--backend", "host", "--exporter", "native", "--filter"];

/// The last line, with its status.
fn last_line(arguments: &[&str]) -> Tested<(Option<i32>, String)> {
    let output = conformance(arguments)?;
    let [errors, text] = [output.stderr, output.stdout].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    // An error follows the results.
    let last = errors.lines().last().or_else(|| text.lines().last()).ok_or("no line")?;
    Ok((output.status.code(), last.to_owned()))
}

#[test]
fn after_a_success_it_names_the_commands_for_the_report() -> Tested {
    let folder = tempfile::tempdir()?;
    let json = folder.path().join("report.json");
    let run = [RUN.as_slice(), &["memory.fill"]].concat();
    let (status, line) = last_line(&run)?;
    assert!(status == Some(0) && line.starts_with("next: add --json FILE "), "{line}");
    let (status, line) = last_line(&[run.as_slice(), &["--json", text(&json)?]].concat())?;
    assert_eq!(status, Some(0), "{line}");
    // Both commands do what it says.
    for (name, output) in [("merge", "results.html"), ("package", "results.tar")] {
        let command = line.trim_start_matches("next: ").split("; ").find(|part| part.contains(&format!(" {name} ")));
        let (command, _) = command.and_then(|part| part.split_once(" makes ")).ok_or_else(|| line.clone())?;
        let words: Vec<&str> = command.split(' ').collect();
        let status = Command::new(words[0]).args(&words[1..]).current_dir(folder.path()).status()?;
        assert!(status.success() && folder.path().join(output).is_file(), "{command}");
    }
    let (_, line) = last_line(&[run.as_slice(), &["--quiet"]].concat())?;
    assert!(line.contains("1 passed, ") && line.contains("; 1 scenario in "), "{line}");
    Ok(())
}

#[test]
fn after_a_run_of_nothing_it_says_where_to_look() -> Tested {
    let (status, line) = last_line(&[RUN.as_slice(), &["memory.read_host_visible"]].concat())?;
    assert_eq!(status, Some(2), "{line}");
    assert!(line.contains("nothing ran") && line.ends_with("`conformance doctor` says what to install"), "{line}");
    Ok(())
}

#[test]
fn after_a_failure_it_repeats_a_case() -> Tested {
    let folder = tempfile::tempdir()?;
    let variables = [("GPU_INTEROP_SIM_FAIL", "cuMemsetD8Async:1:1")];
    let json = folder.path().join("report.json");
    let output = simulated::run(&json, &variables, &["--filter", "{identity.stable,memory.fill}", "--seed", "7"])?;
    let said = String::from_utf8(output.stdout)?;
    let (_, command) =
        said.lines().last().and_then(|line| line.split_once(": repeat one case")).ok_or_else(|| said.clone())?;
    let (_, command) = command.split_once(": ").ok_or("a command")?;
    assert!(command.contains("--backend cuda --device 0 --filter 'memory.fill@native' --seed 7"), "{command}");
    let library = gpu_interop_test_support::build("gpu-interop-sim-cuda")?;
    let mut again = Command::new("sh");
    again.args(["-c", command]).env("GPU_INTEROP_CUDA_LIBRARY", library).env_remove("CUDA_VISIBLE_DEVICES");
    let output = again.envs(variables).output()?;
    let said = String::from_utf8(output.stdout)?;
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.lines().any(|line| line.starts_with("failed ") && line.contains(" memory.fill@native ")), "{said}");
    assert!(said.contains("cuMemsetD8Async(") && said.contains("0 passed, 1 failed"), "{said}");
    Ok(())
}
