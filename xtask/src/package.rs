//! Checks that the published crates can be published: each compiles from its package alone, and with the oldest
//! dependencies that it declares.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Outcome, cargo, run};
use crate::session::Session;

/// The crates that applications use. All others have `publish = false`.
pub(crate) const PUBLISHED: [&str; 13] = [
    "gpu-interop",
    "gpu-interop-capi",
    "gpu-interop-core",
    "gpu-interop-cuda",
    "gpu-interop-d3d",
    "gpu-interop-driver",
    "gpu-interop-gl",
    "gpu-interop-hip",
    "gpu-interop-host",
    "gpu-interop-kernels",
    "gpu-interop-nvsci",
    "gpu-interop-vulkan",
    "gpu-interop-wgpu",
];

fn published() -> impl Iterator<Item = String> {
    PUBLISHED.into_iter().map(|name| format!("--package={name}"))
}

/// Packs every crate and checks it from the content of its package: with the metadata that the lints have built, which
/// takes a fourth of the time of Cargo's own verification. That one is [`verified`].
pub(crate) fn check(session: &Session) -> Outcome {
    // Uncommitted files are packed, too, because the check is for missing files.
    cargo("package --quiet --locked --allow-dirty --no-verify").args(published()).check()?;
    let folder = session.target.join("packed");
    unpack(session, &folder)?;
    for name in PUBLISHED {
        // One by one: together they would have the dependencies and features of each other.
        let check = cargo("check --quiet --package").arg(name).within(&folder);
        check.env("CARGO_TARGET_DIR", session.target.join("lints")).check()?;
        for wanted in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            if !folder.join(name).join(wanted).is_file() {
                return Err(format!("the package {name} has no {wanted}"));
            }
        }
    }
    Ok(())
}

/// Unpacks the packages of all published crates as a workspace, in which they find each other.
fn unpack(session: &Session, folder: &Path) -> Outcome {
    let fails = |error: std::io::Error| format!("{}: {error}", folder.display());
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(fails)?;
    let mut manifest = format!("[workspace]\nresolver = \"3\"\nmembers = {PUBLISHED:?}\n\n[patch.crates-io]\n");
    for name in PUBLISHED {
        let package = format!("{name}-{}", env!("CARGO_PKG_VERSION"));
        let file = session.target.join("package").join(format!("{package}.crate"));
        // With new times, which Cargo compares: those in packages are always the same.
        run("tar -xzm -C").arg(folder).arg("-f").arg(file).check()?;
        fs::rename(folder.join(package), folder.join(name)).map_err(fails)?;
        manifest += &format!("{name} = {{ path = \"{name}\" }}\n");
    }
    // The profile of the workspace, in which the lints have built the dependencies.
    manifest +=
        "\n[profile.dev]\ndebug = \"line-tables-only\"\nlto = \"off\"\n\n[profile.dev.package.\"*\"]\ndebug = false\n";
    fs::write(folder.join("Cargo.toml"), manifest).map_err(fails)?;
    fs::copy(session.root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(fails)?;
    Ok(())
}

/// Packs every crate and has Cargo build it from the content of its package, as before a release.
pub(crate) fn verified(_: &Session) -> Outcome {
    forget_unpacked();
    // Nothing that is built here runs.
    cargo("package --quiet --locked --allow-dirty").args(published()).env("CARGO_PROFILE_DEV_DEBUG", "false").check()
}

/// Removes the sources that an earlier run unpacked: Cargo keeps them in its home and does not unpack a version twice.
fn forget_unpacked() {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registries = home.and_then(|home| fs::read_dir(home.join("registry/src")).ok()).into_iter().flatten();
    // The registry of a packed workspace is a folder. Its name has no host, with which other names begin.
    let local = registries.flatten().filter(|registry| registry.file_name().as_encoded_bytes().starts_with(b"-"));
    for unpacked in local.filter_map(|registry| fs::read_dir(registry.path()).ok()).flatten().flatten() {
        if unpacked.file_name().as_encoded_bytes().starts_with(b"gpu-interop") {
            let _ = fs::remove_dir_all(unpacked.path());
        }
    }
}

/// Checks a copy of the last commit with the oldest versions of its direct dependencies.
pub(crate) fn floors(session: &Session) -> Outcome {
    let folder = session.target.join("floors");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    run("bash -c").arg("git archive HEAD | tar -x -C \"$0\"").arg(&folder).check()?;
    keep_published(&folder).map_err(|error| error.to_string())?;
    // The option requires a nightly compiler, or `RUSTC_BOOTSTRAP`.
    cargo("update --quiet -Zdirect-minimal-versions").env("RUSTC_BOOTSTRAP", "1").within(&folder).check()?;
    cargo("check --quiet").args(published()).env("CARGO_TARGET_DIR", folder.join("target")).within(&folder).check()
}

/// Removes all other crates from a copy of the workspace, and the dependencies of tests, whose floors do not matter.
fn keep_published(folder: &Path) -> std::io::Result<()> {
    let root = fs::read_to_string(folder.join("Cargo.toml"))?;
    let mut kept = Vec::new();
    for line in root.lines().filter(|line| !line.starts_with("default-members")) {
        let member = line.strip_prefix("    \"").and_then(|line| line.strip_suffix("\","));
        if let Some(manifest) = member.map(|member| folder.join(member).join("Cargo.toml")) {
            let text = fs::read_to_string(&manifest)?;
            if !PUBLISHED.iter().any(|name| text.lines().any(|line| line == format!("name = \"{name}\""))) {
                continue;
            }
            let mut for_tests = false;
            let text: Vec<_> = text
                .lines()
                .filter(|line| {
                    for_tests = if line.starts_with('[') { line.contains("dev-dependencies") } else { for_tests };
                    !for_tests
                })
                .collect();
            fs::write(&manifest, text.join("\n"))?;
        }
        kept.push(line);
    }
    fs::write(folder.join("Cargo.toml"), kept.join("\n"))
}
