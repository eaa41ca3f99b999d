//! Standard libraries for other targets, built from the source in Debian's compiler packages.
//!
//! Some machines cannot reach rustup's downloads, only Debian's packages and the registry of crates. The compiler is
//! Debian's as well, because a standard library works only with the compiler that built it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::run::{Run, run};
use crate::session::Session;

/// The packages with the compiler, its lints and its source.
const PACKAGES: &str = "the packages rustc-web, cargo-web, rust-web-clippy and rust-web-src";
const RUSTC: &str = "/usr/bin/rustc";
const RUSTDOC: &str = "/usr/bin/rustdoc";
const SOURCE: &str = "/usr/lib/rustlib/src/rust/library/std";

/// Debian's cargo for `target`, with a standard library; `None` if it is left out.
///
/// # Errors
/// If a CI system runs this without the packages, or the standard library does not build.
pub(crate) fn cargo_for(session: &Session, target: &str) -> Result<Option<Run>, String> {
    if !Path::new(SOURCE).is_dir() || !Path::new("/usr/bin/cargo-clippy").is_file() {
        session.leave_out(&format!("everything for {target}"), PACKAGES)?;
        return Ok(None);
    }
    let sysroot = standard_library(session, target)?;
    let flags = format!("--sysroot={}{}", sysroot.display(), fast_linker(session, target)?);
    let variable = |flags| format!("CARGO_TARGET_{}_{flags}", target.to_uppercase().replace('-', "_"));
    let cargo = cargo(&session.target.join("debian")).env("CARGO_BUILD_TARGET", target);
    Ok(Some(cargo.env(&variable("RUSTFLAGS"), &flags).env(&variable("RUSTDOCFLAGS"), &flags)))
}

/// Flags for LLVM's linker, if it is installed: MinGW's own takes some seconds for each of the many test programs.
fn fast_linker(session: &Session, target: &str) -> Result<String, String> {
    const LINKER: &str = "/usr/bin/ld.lld-19";
    if !target.ends_with("-windows-gnu") || !Path::new(LINKER).is_file() {
        return Ok(String::new());
    }
    let folder = session.target.join("linker");
    #[cfg(unix)]
    {
        let fails = |error: std::io::Error| format!("{}: {error}", folder.display());
        fs::create_dir_all(&folder).map_err(fails)?;
        // The name that GCC looks for.
        let link = folder.join("ld.lld");
        if !link.exists() {
            std::os::unix::fs::symlink(LINKER, link).map_err(fails)?;
        }
    }
    Ok(format!(" -Clink-arg=-fuse-ld=lld -Clink-arg=-B{}", folder.display()))
}

/// Debian's cargo, whose other programs are found before rustup's.
fn cargo(target_folder: &Path) -> Run {
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let cargo = run("/usr/bin/cargo").env("PATH", path).env("CARGO_TARGET_DIR", target_folder);
    cargo.env("RUSTC", RUSTC).env("RUSTDOC", RUSTDOC)
}

/// Builds the standard library for `target`, unless this compiler has built it before. Returns the folder for the
/// compiler's option `--sysroot`: Debian's own, as a link, and this target beside it.
///
/// # Errors
/// If it does not build.
pub(crate) fn standard_library(session: &Session, target: &str) -> Result<PathBuf, String> {
    let sysroot = session.target.join("sysroot");
    let libraries = sysroot.join("lib/rustlib").join(target).join("lib");
    let mark = libraries.join("built-by");
    let version = run(RUSTC).arg("-vV").text()?;
    if fs::read_to_string(&mark).is_ok_and(|found| found == version) {
        return Ok(sysroot);
    }
    #[cfg(unix)]
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not name its host")?;
    let project = session.target.join("standard-library");
    let built = project.join("target");
    let fails = |error: std::io::Error| format!("the standard library for {target}: {error}");
    fs::create_dir_all(project.join("src")).map_err(fails)?;
    let manifest = "[package]\nname = \"standard-library\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[workspace]\n";
    fs::write(project.join("Cargo.toml"), manifest).map_err(fails)?;
    fs::write(project.join("src/lib.rs"), "#![no_std]\n").map_err(fails)?;
    // The option requires a nightly compiler, or `RUSTC_BOOTSTRAP`.
    cargo(&built)
        .args("build --quiet --release -Zbuild-std=std,test,proc_macro --target".split(' '))
        .arg(target)
        .env("RUSTC_BOOTSTRAP", "1")
        // An optimised build takes three times as long, and this library only runs tests.
        .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
        .within(&project)
        .check()?;
    let _ = fs::remove_dir_all(&libraries);
    fs::create_dir_all(&libraries).map_err(fails)?;
    for entry in fs::read_dir(built.join(target).join("release/deps")).map_err(fails)? {
        let file = entry.map_err(fails)?.path();
        let name = file.file_name().unwrap_or_default();
        if file.extension().is_some_and(|extension| extension == "rlib")
            && !name.to_string_lossy().starts_with("libstandard_library")
        {
            fs::copy(&file, libraries.join(name)).map_err(fails)?;
        }
    }
    #[cfg(unix)]
    {
        let own = sysroot.join("lib/rustlib").join(host);
        if !own.exists() {
            std::os::unix::fs::symlink(Path::new("/usr/lib/rustlib").join(host), own).map_err(fails)?;
        }
    }
    fs::remove_dir_all(built).map_err(fails)?;
    fs::write(mark, version).map_err(fails)?;
    Ok(sysroot)
}
