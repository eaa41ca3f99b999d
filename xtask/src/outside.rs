//! Crates outside of the workspace: the example `fill` as an application with the README's dependency, and the suite with
//! another vendor's backend. In the workspace, dependencies could have features that the crates do not ask for.

use std::fs;
use std::path::Path;

use crate::run::{Outcome, cargo};
use crate::session::Session;

const THIRD_PARTY: &str = "conformance/examples/third-party";

pub(crate) fn check(session: &Session) -> Outcome {
    let fails = |error: std::io::Error| error.to_string();
    let readme = fs::read_to_string("README.md").map_err(fails)?;
    let dependency = readme.split_once("```toml\n").and_then(|(_, rest)| rest.split_once("```"));
    let (dependency, _) = dependency.ok_or("README.md has no block of TOML")?;
    let dependency = dependency.replace("\"../gpu-interop/", &format!("\"{}/", session.root.display()));
    let manifest = format!("[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n{dependency}");
    let example = fs::read_to_string("crates/gpu-interop/examples/fill.rs").map_err(fails)?;
    start(session, "outside", &manifest, &[("main.rs", &example)], "")?;
    let folder = session.root.join(THIRD_PARTY);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).map_err(fails)?;
    // Three folders up, and two.
    let manifest = manifest
        .replace("\"../../../", &format!("\"{}/", session.root.display()))
        .replace("\"../../", &format!("\"{}/conformance/", session.root.display()));
    let read = |file: &str| fs::read_to_string(folder.join("src").join(file)).map_err(fails);
    let sources = [("main.rs", &*read("main.rs")?), ("processor.rs", &read("processor.rs")?)];
    start(session, "outside-third-party", &manifest, &sources, SUITE)
}

/// Arguments of the suite with the third party's backend.
pub(crate) const SUITE: &str =
    "--backend third-party --exporter native --quiet --filter {identity,import,lifetime,map,memory}.*";

/// Creates a crate of these files with a workspace of its own, builds and starts it.
fn start(session: &Session, name: &str, manifest: &str, sources: &[(&str, &str)], arguments: &str) -> Outcome {
    let folder = session.target.join(name);
    let write = |file: &str, text: &str| fs::write(folder.join(file), text);
    fs::create_dir_all(folder.join("src"))
        .and_then(|()| sources.iter().try_for_each(|(file, text)| write(&format!("src/{file}"), text)))
        .and_then(|()| write("Cargo.toml", &format!("{manifest}\n[workspace]\n")))
        .and_then(|()| fs::copy(session.root.join("Cargo.lock"), folder.join("Cargo.lock")))
        .map_err(|error| format!("{}: {error}", folder.display()))?;
    run_of(session, &folder.join("Cargo.toml")).arg("--").args(arguments.split_whitespace()).check()
}

/// Cargo with the target folder and profile of the workspace, so that common dependencies are built once.
fn run_of(session: &Session, manifest: &Path) -> crate::run::Run {
    cargo("--config profile.dev.package.'*'.debug=false run --quiet --manifest-path")
        .arg(manifest)
        .env("CARGO_TARGET_DIR", &session.target)
        .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
        .env("CARGO_PROFILE_DEV_LTO", "off")
}
