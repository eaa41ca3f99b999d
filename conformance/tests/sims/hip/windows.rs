//! HIP on Windows: external semaphores, and no exportable memory.

use gpu_interop_conformance::Outcome;
use gpu_interop_conformance_cli::CaseReport;
use gpu_interop_sim_abi::hip::behaviour::Below;
use libtest_mimic::{Failed, Trial};

use super::lacks::{Failing, LAUNCHED_ONCE, Lack, NO_RECORDED_WORDS, NO_WORDS};
use crate::cuda::{NO_HEAPS_OF_NATIVE, NO_NATIVE_IMAGES as NO_IMAGES, NO_RINGS_OF_NATIVE, NO_SECOND_DEVICE};
// Unsupported by the exporter, Direct3D 12.
pub(super) use crate::d3d::{NO_BINARY as NO_SEMAPHORES, NO_HOST_MEMORY as NO_FORMS};
use crate::run::{Run, check};

pub(super) fn own_tests() -> Vec<Trial> {
    vec![Trial::test("hip_exports_nothing_on_windows", exports_nothing), Trial::test("d3d_hip", with_direct3d)]
}

/// Features of Direct3D 11 that HIP lacks.
const NO_SEMAPHORES_OF_11: &str = "HIP's header declares this semaphore kind, but every runtime rejects it";
const NO_NAMES: &str = "imports of semaphores by name: HIP ignores the names of semaphores; pass a handle";
/// HIP functions on Windows that the simulator lacks.
const NO_HIP_SURFACES: &str = "has no hipCreateSurfaceObject";
const NO_HIP_TEXTURES: &str = "has no hipTexObjectCreate";
const NO_GRAPH_SEMAPHORES: &str = "HIP records no signals and waits of semaphores";
const NO_MEMORY_NAMES: &str = "HIP before 6.1 ignores the names of memory";
const NO_NAMES_ON_ROCR: &str = "HIP on ROCr (GPU_ENABLE_PAL=0) ignores the names of memory";
const NO_KMT_ON_ROCR: &str = "HIP before 7.14 on ROCr (GPU_ENABLE_PAL=0) imports no KMT handles";
const NO_BATCHES: &str = "this driver takes 1 in a call";

/// Scenarios that run on each version, without slow ones and those of [`NEVER`].
pub(super) const ALL: usize = 114;
/// Unsupported by every version, or by the exporter.
pub(super) const NEVER: &[&str] = &[
    NO_SEMAPHORES_OF_11,
    NO_NAMES,
    NO_GRAPH_SEMAPHORES,
    NO_SEMAPHORES,
    NO_FORMS,
    NO_EXPORT,
    NO_IMAGES,
    NO_SECOND_DEVICE,
    NO_HIP_SURFACES,
    NO_HIP_TEXTURES,
    NO_HEAPS_OF_NATIVE,
    NO_RINGS_OF_NATIVE,
];
pub(super) const LACKS: &[Lack] = &[
    Lack { reason: NO_RECORDED_WORDS, scenarios: 1, of: |row| ((5, 5)..(7, 16)).contains(&row.minor()) },
    Lack { reason: NO_WORDS, scenarios: 16, of: |row| row.minor() < (5, 5) },
    Lack { reason: LAUNCHED_ONCE, scenarios: 1, of: |row| row.minor() < (5, 7) },
    Lack { reason: NO_BATCHES, scenarios: 3, of: |row| row.minor() < (6, 0) },
    Lack { reason: NO_MEMORY_NAMES, scenarios: 4, of: |row| row.minor() < (6, 1) },
    Lack { reason: NO_NAMES_ON_ROCR, scenarios: 4, of: |row| row.below == Below::Rocr },
    Lack { reason: NO_KMT_ON_ROCR, scenarios: 3, of: |row| row.below == Below::Rocr && row.minor() < (7, 14) },
];
pub(super) const FAILING: &[Failing] = &[
    Failing { scenarios: &["import.size_too_large", "import.win32_sizes_beyond"], of: |_| true },
    Failing { scenarios: &["leak.device_memory"], of: |row| row.minor() == (7, 2) },
];

pub(super) const NOT_ON_TWO: &[&str] = &[NO_FORMS, NO_EXPORT];

/// Memory kinds.
pub(crate) const NO_EXPORT: &str = "on Windows HIP creates no exportable memory: hipMemCreate rejects Win32 handles";

/// Scenarios that need HIP's own memory report why there is none. The others run.
fn exports_nothing() -> Result<(), Failed> {
    let run = Run::hip().arg("--exporter").arg("native").filter("{identity,memory,semaphore,timeline}.*");
    let report = run.run()?;
    report.only_unsupported(&[NO_EXPORT, "needs two devices"])?;
    let unsupported = |case: &&CaseReport| case.outcome == Outcome::Unsupported;
    let all = report.results.iter().filter(|case| case.exporter.is_some());
    let (unsupported, all) = (all.clone().filter(unsupported).count(), all.count());
    check(unsupported == all && all >= 70, format!("{unsupported} of {all}\n{}", report.text()))?;
    report.passed("identity.", 3)?;
    report.nothing_alive()
}

/// HIP supports memory and fences of Direct3D 12, and buffers and textures of 11, but no keyed mutexes and no fences of
/// 11. It has no other exporter here.
fn with_direct3d() -> Result<(), Failed> {
    let report = Run::hip_d3d().exporter("d3d12").whole().run()?;
    report.sound(
        &[NEVER, &[NO_RECORDED_WORDS]].concat(),
        &[
            ("d3d.", 15),
            ("d3d.texture_1", 2),
            ("d3d.buffer_11", 2),
            ("memory.", 11),
            ("map.", 10),
            ("lifetime.", 6),
            ("process.", 3),
            ("stream.", 10),
            ("graph.", 10),
            ("semaphore.", 17),
            ("timeline.", 26),
            ("property.", 3),
            ("environment.", 2),
            ("import.win32_", 24),
        ],
    )
}
