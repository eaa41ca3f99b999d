//! Completions and manual pages contain every subcommand and option of `--help`, and no hidden one.

#[cfg(unix)]
use std::io::Write;
#[cfg(unix)]
use std::process::{Command, Stdio};

use super::{Tested, conformance, printed};

/// The hidden subcommands.
const INTERNAL: [&str; 5] = ["child", "discover", "gpu-state", "bench-load", "suite-process"];

/// The subcommands that the help lists.
fn subcommands() -> Tested<Vec<String>> {
    let help = printed(&["-h"])?;
    let (_, list) = help.split_once("Commands:\n").ok_or("no commands")?;
    let names: Vec<String> = list
        .lines()
        .take_while(|line| line.starts_with("  "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(ToOwned::to_owned)
        .collect();
    // Benchmarks exist only on Linux.
    let bench = cfg!(unix).then_some("bench");
    for name in ["doctor", "list", "run", "merge", "diff", "schema", "completions", "man"].into_iter().chain(bench) {
        assert!(names.iter().any(|known| known == name), "{name} is not in {names:?}");
    }
    Ok(names)
}

fn options(subcommand: &str) -> Tested<Vec<String>> {
    let help = printed(&[subcommand, "--help"])?;
    let long = help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(str::split_whitespace);
    Ok(long.filter(|word| word.starts_with("--")).map(|word| word.trim_end_matches(',').to_owned()).collect())
}

#[test]
fn completions_have_every_subcommand_and_option() -> Tested {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell])?;
        for name in subcommands()? {
            assert!(script.contains(&name), "{shell}: {name}");
            for option in options(&name)? {
                // Fish's options have no dashes.
                let spelt = if shell == "fish" { format!("-l {}", &option[2..]) } else { option };
                assert!(script.contains(&spelt), "{shell}: {name} {spelt}");
            }
        }
        for name in INTERNAL {
            let listed =
                script.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).any(|word| word == name);
            assert!(!listed, "{shell} completes {name}");
        }
    }
    assert_eq!(conformance(&["completions", "no-shell"])?.status.code(), Some(2));
    Ok(())
}

#[cfg(unix)]
#[test]
fn bash_completes() -> Tested {
    let script = printed(&["completions", "bash"])?;
    let ask =
        "COMP_WORDS=(conformance me) COMP_CWORD=1; _conformance conformance me conformance; echo \"${COMPREPLY[@]}\"";
    let mut bash = Command::new("bash").arg("--norc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    bash.stdin.take().ok_or("no input")?.write_all(format!("{script}\n{ask}\n").as_bytes())?;
    let answer = bash.wait_with_output()?;
    assert_eq!(String::from_utf8(answer.stdout)?.trim(), "merge");
    Ok(())
}

#[test]
fn the_manual_has_a_page_for_every_subcommand() -> Tested {
    // Dashes are escaped with a backslash.
    let page = |arguments: &[&str]| printed(&[&["man"], arguments].concat()).map(|page| page.replace('\\', ""));
    let front = page(&[])?;
    assert!(front.contains(".TH conformance 1") && front.contains("Exit status: 0"), "{front}");
    for name in subcommands()? {
        assert!(front.contains(&format!("conformance-{name}(1)")), "{name}");
        let page = page(&[&name])?;
        assert!(page.contains(&format!(".TH conformance-{name} 1")), "{page}");
        for option in options(&name)? {
            assert!(page.contains(&option), "{name} {option}");
        }
    }
    for name in INTERNAL {
        assert!(!front.contains(&format!("conformance-{name}(1)")), "{name}");
        assert_eq!(conformance(&["man", name])?.status.code(), Some(2), "{name}");
    }
    Ok(())
}
