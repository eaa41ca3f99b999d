//! Lints and tests for Windows, on Linux: MinGW links, Wine runs them.

use std::fs;
use std::path::Path;

use crate::run::{Outcome, Run, has, run};
use crate::session::Session;
use crate::{capi, debian};

const GNU: &str = "x86_64-pc-windows-gnu";
const MSVC: &str = "x86_64-pc-windows-msvc";

/// The tests of the suite's command for Windows. Fault campaigns and benchmarks run only on Linux.
const SUITE: &str =
    "--package gpu-interop-conformance-cli --lib --bins --test negative_controls --test reports --test sims";
const REST: &str = "--workspace --exclude gpu-interop-conformance-cli --exclude xtask";

/// For Windows, Debian's clippy 1.96 also reports initialisers that are `const`.
const LINTS: [&str; 5] = ["--", "-D", "warnings", "-A", "clippy::missing_const_for_thread_local"];

/// Wine 8 lacks this Windows library, from which Rust's standard library gets random numbers.
const RANDOM: &str = "
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!RtlGenRandom(bytes, part)) return FALSE;
        bytes += part;
        length -= part;
    }
    return TRUE;
}
";

/// Programs in C, with the C interface.
fn programs(session: &Session, wine: &Wine<'_>) -> Outcome {
    // The library that the tests are linked with.
    let built = session.target.join("debian").join(GNU).join("debug/deps");
    capi::test_for_windows(session, &built, |program| run("wine").arg(program).envs(&wine.variables))
}

/// Lints, all tests, programs in C, and the suite on simulators.
pub(crate) fn slow(session: &Session) -> Outcome {
    lint(session, GNU)?;
    lint(session, MSVC)?;
    let Some(wine) = Wine::prepare(session)? else { return Ok(()) };
    // Cargo does not run under Wine: simulators are built before the tests that load them.
    let simulators = ["cuda", "d3d", "hip"].map(|name| format!("--package=gpu-interop-sim-{name}"));
    wine.cargo("build")?.args(simulators).check()?;
    let folder = format!("Z:{}/debian/{GNU}/debug", session.target.display());
    for packages in [REST, SUITE] {
        let tests = wine.cargo("test --no-fail-fast")?.args(packages.split(' '));
        tests.env("GPU_INTEROP_SIMULATORS", &folder).env("GPU_INTEROP_TEST_CYCLES", "10000").check()?;
    }
    programs(session, &wine)?;
    // File mappings, events and pipes differ between systems; the other scenarios only take long here.
    wine.cargo("run --package gpu-interop-conformance-cli --bin conformance -- run --backend host --exporter native")?
        .args(
            "--require host,native --quiet --filter {graph_semaphore,import,lifetime,map,memory,process,semaphore}.*"
                .split(' '),
        )
        .check()
}

/// Lints the workspace and all of its tests for a target.
fn lint(session: &Session, target: &str) -> Outcome {
    for packages in [REST.to_owned() + " --all-targets", SUITE.to_owned()] {
        let Some(cargo) = debian::cargo_for(session, target)? else { return Ok(()) };
        cargo.arg("clippy").args(packages.split(' ')).args(LINTS).check()?;
    }
    Ok(())
}

struct Wine<'a> {
    session: &'a Session,
    variables: Vec<(&'static str, String)>,
}

impl<'a> Wine<'a> {
    /// Creates Wine's folder and the missing library; `None` if its packages are not installed.
    fn prepare(session: &'a Session) -> Result<Option<Self>, String> {
        let compiler = "x86_64-w64-mingw32-gcc";
        // Without the preloader one process in some thousands does not get the addresses that Windows reserves.
        let preloader = Path::new("/usr/lib/wine/wine64-preloader").exists();
        if !has(compiler) || !has("wine") || !preloader {
            let packages = "the packages gcc-mingw-w64-x86-64, wine, wine64 and wine64-preloader";
            session.leave_out("tests under Wine", packages)?;
            return Ok(None);
        }
        if debian::cargo_for(session, GNU)?.is_none() {
            return Ok(None);
        }
        let folder = session.target.join("wine");
        let library = folder.join("libraries/bcryptprimitives.dll");
        if !library.is_file() {
            let fails = |error: std::io::Error| error.to_string();
            fs::create_dir_all(folder.join("libraries")).map_err(fails)?;
            fs::write(folder.join("random.c"), RANDOM).map_err(fails)?;
            run(compiler)
                .args(["-O1", "-shared", "-s", "-o"])
                .arg(&library)
                .arg(folder.join("random.c"))
                .arg("-ladvapi32")
                .check()?;
        }
        let prefix = folder.join("prefix");
        let variables = vec![
            ("WINEPATH", folder.join("libraries").display().to_string()),
            ("WINEDEBUG", "-all".into()),
            // Wine's Vulkan does not share memory, and does not work without a display. Simulators of Direct3D beside
            // a program are preferred to Wine's libraries.
            ("WINEDLLOVERRIDES", "mscoree,mshtml,vulkan-1=;d3d12,dxgi=n,b".into()),
            ("CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER", "wine".into()),
            // Linking these tests takes longer than all else, mostly because of debug information.
            ("CARGO_PROFILE_DEV_DEBUG", "false".into()),
            ("WINEPREFIX", prefix.display().to_string()),
        ];
        if !prefix.is_dir() {
            run("wineboot --init").envs(&variables).check()?;
        }
        Ok(Some(Self { session, variables }))
    }

    fn cargo(&self, line: &str) -> Result<Run, String> {
        let cargo = debian::cargo_for(self.session, GNU)?.ok_or("the standard library for Windows is missing")?;
        Ok(cargo.args(line.split(' ')).envs(&self.variables))
    }
}
