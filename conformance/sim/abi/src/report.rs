//! A simulator's reports: the symbol by which it identifies itself, and lines at the end of the process, in the file
//! that `GPU_INTEROP_SIM_REPORT` names.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::settings;

/// Registers `tell` to run at the end of the process, if the file is set.
pub fn at_exit(tell: extern "C" fn()) {
    if settings::text("GPU_INTEROP_SIM_REPORT").is_some() {
        // SAFETY: a simulator is never unloaded, so the function exists at the end.
        unsafe { libc::atexit(tell) };
    }
}

/// Adds a line, which `line` builds from this process's name: its number and the arguments that distinguish processes
/// of one program. These are the first argument, and the name of a JSON request after it.
pub fn add(line: impl FnOnce(&str) -> String) {
    let Some(path) = settings::text("GPU_INTEROP_SIM_REPORT") else { return };
    if let Ok(mut file) = OpenOptions::new().create(true).append(true).open(path) {
        let mut arguments = std::env::args().skip(1);
        let first = arguments.next().unwrap_or_default();
        let request =
            arguments.next().and_then(|json| Some(format!(" {}", json.strip_prefix("{\"")?.split_once('"')?.0)));
        let process = format!("process {} ({first}{})", std::process::id(), request.unwrap_or_default());
        let _ = file.write_all(format!("{}\n", line(&process)).as_bytes());
    }
}

/// Declares `Live`, the number of live objects of each kind: `KIND: NUMBER, ...`.
#[macro_export]
macro_rules! live {
    ($( $(#[$doc:meta])* $kind:ident: $count:expr, )*) => {
        /// The number of live objects of each kind.
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Live {
            $( $(#[$doc])* pub $kind: u64, )*
        }

        impl Live {
            /// The current numbers.
            pub fn now() -> Self {
                Self { $( $kind: $count, )* }
            }

            /// The sum over all kinds.
            pub fn total(&self) -> u64 {
                0 $(+ self.$kind)*
            }
        }
    };
}

/// The work is done by the CPU.
const CPU: i32 = 1;
/// The work is done by a GPU.
const GPU: i32 = 2;

/// Backends look up this symbol in the loaded library, report it, and after initialisation read the kind of device that
/// does the work: 1 for the CPU, 2 for a GPU.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name that backends look up")]
pub static gpu_interop_simulated: AtomicI32 = AtomicI32::new(CPU);

/// Declares that a GPU does the work. The default is the CPU.
pub fn works_on_gpu() {
    gpu_interop_simulated.store(GPU, Ordering::SeqCst);
}
