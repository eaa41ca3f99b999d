//! Tests under AddressSanitizer, with its check for leaks, or ThreadSanitizer: those of core, driver, host and CUDA, and the
//! suite of CUDA on `sim-cuda`, which is built for the sanitizer as well.
//!
//! The sanitizers come with Rust's toolchain, whose stable compiler takes the option if it is told to. The standard
//! library is the ordinary one: `ci/tsan_edges.c` reports its synchronisation to ThreadSanitizer. `ci/tsan.supp` and
//! `ci/lsan.supp` list reports proven false and leaks on purpose; `ci/sanitize.toml` lists scenarios left out, with
//! reasons. Exporters of Vulkan are left out: their drivers are not built for the sanitizer.

use std::fs;
use std::path::Path;

use crate::run::{Run, cargo, run};
use crate::session::{Outcome, Session};

/// One set of packages for every command: with another, Cargo would build with other features, and so again.
const PACKAGES: [&str; 6] = ["core", "driver", "host", "cuda", "sim-cuda", "conformance-cli"];
const TESTS: [&str; 4] = ["crates/gpu-interop-core", "crates/gpu-interop-driver", "backends/host", "backends/cuda"];

/// Functions of the standard library that `tsan_edges.c` wraps: the name there, and the start and end of the symbol's
/// path, as the compiler mangles it.
const EDGES: [(&str, &str, &str); 8] = [
    ("MUTEX_LOCK_CONTENDED", "3sys4sync5mutex5futexN", "_5Mutex14lock_contended"),
    ("RWLOCK_READ_CONTENDED", "3sys4sync6rwlock5futexN", "_6RwLock14read_contended"),
    ("RWLOCK_WRITE_CONTENDED", "3sys4sync6rwlock5futexN", "_6RwLock15write_contended"),
    ("CONDVAR_WAIT", "3sys4sync7condvar5futexN", "_7Condvar4wait"),
    ("CONDVAR_WAIT_TIMEOUT", "3sys4sync7condvar5futexN", "_7Condvar12wait_timeout"),
    ("BARRIER_WAIT", "4sync7barrierN", "_7Barrier4wait"),
    ("ONCE_CALL", "3sys4sync4once5futexN", "_4Once4call"),
    ("SCOPE_THREAD_ENDS", "6thread6scopedN", "_9ScopeData29decrement_num_running_threads"),
];

pub(crate) fn check(session: &Session, sanitizer: &str) -> Outcome {
    let folder = session.target.join(format!("sanitize-{sanitizer}"));
    let reports = folder.join("reports");
    let fails = |error: std::io::Error| error.to_string();
    let _ = fs::remove_dir_all(&reports);
    fs::create_dir_all(&reports).map_err(fails)?;
    let version = run("rustc -vV").text()?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc does not name its host")?;

    // Generic functions of the standard library are compiled here, not taken from it. The simulator takes the sanitizer's
    // functions from the program that loads it.
    let mut flags = format!(
        "-Zsanitizer={sanitizer} -Cunsafe-allow-abi-mismatch=sanitizer -Zshare-generics=no -Clink-arg=-Wl,--export-dynamic"
    );
    // A report ends the process, so that its test fails, and is in a file, whatever becomes of what the process printed.
    let options = |more: &str| format!("log_path={}/{sanitizer}:exitcode=66:{more}", reports.display());
    let suppressions = |name: &str| format!("suppressions={}/ci/{name}", session.root.display());
    let mut variables = vec![
        ("RUSTC_BOOTSTRAP", "1".to_owned()),
        ("CARGO_BUILD_TARGET", host.to_owned()),
        ("CARGO_TARGET_DIR", folder.display().to_string()),
        ("ASAN_OPTIONS", options("detect_leaks=1")),
        ("LSAN_OPTIONS", suppressions("lsan.supp") + ":print_suppressions=0"),
        ("TSAN_OPTIONS", options("halt_on_error=1:") + &suppressions("tsan.supp")),
    ];
    if sanitizer == "thread" {
        // Memory is mapped by functions that ThreadSanitizer knows, not by system calls: what is mapped anew has no past.
        flags += &format!(" {} --cfg=rustix_use_libc", edges(&folder)?);
    }
    variables.push(("RUSTFLAGS", flags));
    let mut tests = Vec::new();
    for folder in TESTS {
        for entry in fs::read_dir(format!("{folder}/tests")).map_err(fails)? {
            let file = entry.map_err(fails)?.path();
            if file.extension().is_some_and(|extension| extension == "rs") {
                tests.push(format!("--test={}", file.file_stem().unwrap_or_default().display()));
            }
        }
    }
    let command = |line: &str| -> Run {
        cargo(line).args(PACKAGES.map(|name| format!("--package=gpu-interop-{name}"))).envs(&variables)
    };
    command("build --lib --test sims").args(&tests).check()?;
    let tests = command("test --no-fail-fast --lib").args(&tests).check();
    let library = folder.join(host).join("debug/libgpu_interop_sim_cuda.so");
    // Scenarios that count what a process holds see freed memory that is kept back, so less of it is.
    let suite = command(
        "test --test sims -- run --backend cuda --exporter native --require cuda,native --jobs 2 --expectations",
    )
    .arg(session.root.join("ci/sanitize.toml"))
    .env("GPU_INTEROP_CUDA_LIBRARY", library)
    .env("ASAN_OPTIONS", options("detect_leaks=1:quarantine_size_mb=1:thread_local_quarantine_size_kb=1"))
    .check();
    let reported: Vec<_> = fs::read_dir(&reports).map_err(fails)?.filter_map(|entry| entry.ok()).collect();
    for report in &reported {
        println!("{}", fs::read_to_string(report.path()).unwrap_or_default());
    }
    if !reported.is_empty() {
        return Err(format!("{} processes have reports of the sanitizer", reported.len()));
    }
    tests.and(suite)
}

/// The flags that put `tsan_edges.c` between the program and the standard library.
fn edges(folder: &Path) -> Result<String, String> {
    let folder = folder.join("edges");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let libraries = run("rustc --print target-libdir").text()?;
    let script = format!("ar x {libraries}/libstd-*.rlib && readelf -sW ./std-*.o");
    let symbols = run("bash -c").arg(script).within(&folder).text()?;
    let functions: Vec<&str> = symbols
        .lines()
        .filter_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
            [_, _, _, "FUNC", "GLOBAL", _, _, name] => Some(name),
            _ => None,
        })
        .collect();
    let (mut defines, mut flags) = (Vec::new(), Vec::new());
    for (name, path, end) in EDGES {
        let found: Vec<_> = functions.iter().filter(|symbol| symbol.contains(path) && symbol.ends_with(end)).collect();
        let [symbol] = found[..] else {
            return Err(format!("the standard library has other functions than tsan_edges.c wraps: {name}: {found:?}"));
        };
        defines.push(format!("-D{name}={symbol}"));
        flags.push(format!("-Clink-arg=-Wl,--wrap={symbol}"));
    }
    for symbol in ["__tsan_atomic64_fetch_sub", "__tsan_atomic_thread_fence"] {
        flags.push(format!("-Clink-arg=-Wl,--wrap={symbol}"));
    }
    let object = folder.join("edges.o");
    let compile = run("cc -O2 -fPIC -fexceptions -Wall -Wextra -Werror -c ci/tsan_edges.c");
    compile.args(defines).arg("-o").arg(&object).check()?;
    Ok(format!("-Clink-arg={} {}", object.display(), flags.join(" ")))
}
