//! The HIP backend on Windows with opaque handles of memory and semaphores. On other machines Vulkan exports them, but
//! no exporter of this machine does, so the host backend's are used. HIP itself creates no memory with such handles.

use std::process::ExitCode;
use std::time::Duration;

use cubecl_hip_sys as hip;
use gpu_interop::hip::HipBackend;
use gpu_interop::host::{HostBackend, HostSemaphore};
use gpu_interop::{
    Device, ExportableMemory, ExternalSemaphore, MappedBuffer, MemoryHandleKind, MemoryImport, SemaphoreHandleKind,
    Stream,
};
use gpu_interop_driver::exportable::abi::ObjectAttributes;
use libloading::os::windows::Library;
use libtest_mimic::{Failed, Trial};

use crate::run::{GPU_INTEROP_SIM_HIP, check};
use gpu_interop_test_support::{build, this_program};

const LIBRARY: &str = "GPU_INTEROP_HIP_LIBRARY";
/// The first argument of the process that loads the library.
pub(crate) const COMMAND: &str = "hip-opaque";

pub(crate) fn tests() -> Vec<Trial> {
    vec![Trial::test("hip_imports_opaque_handles_and_exports_none", started)]
}

fn started() -> Result<(), Failed> {
    let output = this_program()?.arg(COMMAND).env(LIBRARY, build(GPU_INTEROP_SIM_HIP)?).output()?;
    check(output.status.success(), format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

const SIZE: u64 = 64 << 10;
const HALF: usize = 32 << 10;
const LONG: Duration = Duration::from_secs(20);

/// Memory of the host, and HIP's import of it.
struct Shared {
    memory: ExportableMemory,
    host: Stream,
    mapped: MappedBuffer,
    hip: Stream,
}

impl Shared {
    /// HIP copies the first half to the second between two points, both enqueued before the host has written the first.
    fn exchange(&self, byte: u8, wait: impl FnOnce(&Stream), begin: impl FnOnce(), end: impl FnOnce(&Stream)) {
        let halves = [self.mapped.slice(..SIZE / 2), self.mapped.slice(SIZE / 2..)];
        let [first, second] = halves.map(|half| half.expect("a half"));
        wait(&self.hip);
        self.hip.copy(second, first).expect("copy");
        end(&self.hip);
        self.host.write(self.memory.slice(..SIZE / 2).expect("a half"), &[byte; HALF]).expect("write");
        begin();
    }

    /// Fails unless HIP has copied this.
    fn verify(&self, byte: u8) {
        let mut found = [0; HALF];
        self.host.read(self.memory.slice(SIZE / 2..).expect("a half"), &mut found).expect("read");
        assert!(found.iter().all(|found| *found == byte), "{byte}: {:?}", &found[..8]);
    }
}

fn import(hip: &Device, semaphore: &HostSemaphore, kind: SemaphoreHandleKind) -> ExternalSemaphore {
    let request = semaphore.import_request().expect("export");
    assert_eq!(request.handle().kind(), kind);
    hip.import_semaphore(request).expect("import a semaphore")
}

/// The result of the library's `hipMemCreate` for such handles.
fn create(handles: hip::hipMemAllocationHandleType) -> u32 {
    type Create = unsafe extern "C" fn(*mut u64, usize, *const hip::hipMemAllocationProp, u64) -> u32;
    let mut attributes = ObjectAttributes::nameless();
    let prop = hip::hipMemAllocationProp {
        type_: hip::hipMemAllocationType_hipMemAllocationTypePinned,
        __bindgen_anon_1: hip::hipMemAllocationProp__bindgen_ty_1 { requestedHandleType: handles },
        location: hip::hipMemLocation { type_: hip::hipMemLocationType_hipMemLocationTypeDevice, id: 0 },
        win32HandleMetaData: (&raw mut attributes).cast(),
        allocFlags: hip::hipMemAllocationProp__bindgen_ty_2 { compressionType: 0, gpuDirectRDMACapable: 0, usage: 0 },
    };
    let file = std::env::var_os(LIBRARY).expect("the library's file");
    // SAFETY: the simulator, which is loaded already.
    let library = unsafe { Library::new(file) }.expect("the library");
    // SAFETY: the function's type.
    let create = unsafe { library.get::<Create>(b"hipMemCreate\0") }.expect("a function");
    // SAFETY: the pointers are valid for the call.
    unsafe { create(&mut 0, 2 << 20, &raw const prop, 0) }
}

/// The process that loads the library.
pub(crate) fn main() -> ExitCode {
    // The backend never makes this call, because it knows the result.
    assert_eq!(create(hip::hipMemAllocationHandleType_hipMemHandleTypeWin32), hip::hipError_t_hipErrorNotSupported);
    assert_eq!(create(hip::hipMemAllocationHandleType_hipMemHandleTypeNone), hip::hipError_t_hipSuccess);

    let hip = Device::open(&HipBackend::load().expect("the library"), 0).expect("its device");
    let host = Device::open(&HostBackend::new(), 0).expect("the host");
    let memory = host.allocate_exportable(SIZE).expect("memory");
    let handle = memory.export().expect("export");
    assert_eq!(handle.kind(), MemoryHandleKind::OpaqueWin32);
    // SAFETY: the host backend exported it just before, and the simulator imports its memory.
    let request = unsafe { MemoryImport::new(handle, memory.size()) };
    let imported = hip.import_memory(request).expect("import memory");
    let shared = Shared {
        memory,
        host: host.create_stream().expect("a stream"),
        mapped: imported.map_buffer(0..SIZE).expect("map"),
        hip: hip.create_stream().expect("a stream"),
    };

    let [begin, end] = [(), ()].map(|()| HostSemaphore::binary().expect("a semaphore"));
    let [begun, ended] = [&begin, &end].map(|binary| import(&hip, binary, SemaphoreHandleKind::OpaqueWin32));
    for byte in 1..=3 {
        shared.exchange(
            byte,
            |stream| stream.wait(&[begun.wait()]).expect("wait"),
            || begin.signal().expect("signal"),
            |stream| stream.signal(&[ended.signal()]).expect("signal"),
        );
        end.wait(LONG).expect("HIP's signal");
        shared.verify(byte);
    }

    let counter = HostSemaphore::timeline(0).expect("a timeline");
    let values = import(&hip, &counter, SemaphoreHandleKind::TimelineWin32);
    for turn in 0..3_u8 {
        let (byte, value) = (turn + 4, u64::from(turn) * 2);
        shared.exchange(
            byte,
            |stream| stream.wait(&[values.wait_value(value + 1)]).expect("wait"),
            || counter.signal_value(value + 1).expect("signal"),
            |stream| stream.signal(&[values.signal_value(value + 2)]).expect("signal"),
        );
        counter.wait_value(value + 2, LONG).expect("HIP's value");
        shared.verify(byte);
    }
    ExitCode::SUCCESS
}
