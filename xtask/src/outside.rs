//! Crates outside of the workspace: the README's example as an application, and the suite with another vendor's
//! backend.

use std::fs;

use crate::run::{Outcome, cargo};
use crate::session::Session;

pub(crate) fn check(session: &Session) -> Outcome {
    let fails = |error: std::io::Error| error.to_string();
    let lock = session.root.join("Cargo.lock");
    let folder = session.target.join("outside");
    fs::create_dir_all(folder.join("src")).map_err(fails)?;
    let readme = fs::read_to_string("README.md").map_err(fails)?;
    let example = readme.split_once("```rust\n").and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.ok_or("README.md has no block of Rust")?;
    fs::write(folder.join("src/main.rs"), example).map_err(fails)?;
    let manifest = format!(
        "[package]\nname = \"outside\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[dependencies]\ngpu-interop = {{ path = {:?} }}\n\n[workspace]\n",
        session.root.join("crates/gpu-interop")
    );
    fs::write(folder.join("Cargo.toml"), manifest).map_err(fails)?;
    fs::copy(&lock, folder.join("Cargo.lock")).map_err(fails)?;
    // The target folder and profile of the workspace, so that common dependencies are built once.
    let shared = |line: &str, manifest: &std::path::Path| {
        cargo("--config profile.dev.package.'*'.debug=false")
            .args(line.split(' '))
            .env("CARGO_TARGET_DIR", &session.target)
            .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
            .env("CARGO_PROFILE_DEV_LTO", "off")
            .arg("--manifest-path")
            .arg(manifest)
    };
    shared("run --quiet", &folder.join("Cargo.toml")).check()?;
    let third_party = session.root.join("conformance/examples/third-party");
    fs::copy(&lock, third_party.join("Cargo.lock")).map_err(fails)?;
    let suite = "--backend third-party --exporter native --quiet --filter {identity,import,lifetime,map,memory}.*";
    shared("run --quiet", &third_party.join("Cargo.toml")).arg("--").args(suite.split(' ')).check()
}
