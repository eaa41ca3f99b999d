//! Calls that reach the simulators of NvSci and NVIDIA's driver, inspected from a process that uses both through the
//! library.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ExitCode, Output};
use std::ptr::NonNull;

use gpu_interop::cuda::CudaBackend;
use gpu_interop::handle::NvSciFence;
use gpu_interop::nvsci::{
    Buffer, BufferAttributeList, BufferAttributes, ColorFormat, GpuAttributes, ImageAttributes, ImageLayout,
    ImportedSync, MemSync, NvSci, PlaneAttributes, SyncAttributeList, SyncModule, SyncOptions,
};
use gpu_interop::{
    Device, Error, ErrorKind, MemoryImport, NvSciSyncUse, SemaphoreImport, SignalParams, Uuid, WaitParams,
};
use libloading::Library;
use libtest_mimic::{Failed, Trial};

use crate::run::{GPU_INTEROP_SIM_CUDA, GPU_INTEROP_SIM_NVSCI, check};
use gpu_interop_test_support::{build, this_program};

/// The argument of such a process.
pub(crate) const COMMAND: &str = "nvsci-calls";

type Check = fn(&Rig) -> Result<(), Failed>;

const CHECKS: [(&str, Check); 10] = [
    ("flags_of_skipped_memsync_reach_the_driver", skipped),
    ("a_read_only_duplicate_is_mapped_read_only", read_only),
    ("caches_are_flushed_where_needed", flushed),
    ("only_a_pitch_linear_image_is_mapped_as_rows", layouts),
    ("everything_is_given_back_in_any_order", given_back),
    ("a_handle_keeps_its_object_and_what_is_known_of_it", handles_keep),
    ("a_second_free_ends_the_process", freed_twice),
    ("a_use_that_no_list_asked_for_is_not_supported", unasked),
    ("an_object_may_be_freed_while_it_is_imported", freed_early),
    ("a_conflict_list_that_is_read_ends_the_process", conflict_read),
];

/// Checks that must abort the process, with the expected message.
const ENDED: [(&str, &str); 2] = [
    ("a_second_free_ends_the_process", "an NvSciBufObj was freed twice"),
    ("a_conflict_list_that_is_read_ends_the_process", "attributes of a conflict list were read"),
];

pub(crate) fn tests() -> Vec<Trial> {
    let mut tests: Vec<Trial> =
        CHECKS.into_iter().map(|(name, _)| Trial::test(format!("nvsci_{name}"), move || start(name))).collect();
    tests.push(Trial::test("nvsci_what_is_not_given_back_is_counted", leaks_are_counted));
    tests.push(Trial::test("nvsci_libraries_that_do_not_load_are_named", not_loaded));
    tests.push(Trial::test("nvsci_functions_that_a_library_lacks_are_named", lacking));
    tests
}

/// The result of a check in a separate process: whether it passed, and its output.
fn run(name: &str, behaviour: &str) -> Result<Output, Failed> {
    run_with(&build(GPU_INTEROP_SIM_NVSCI)?, name, behaviour)
}

/// The same with this file as both NvSci libraries.
fn run_with(nvsci: &Path, name: &str, behaviour: &str) -> Result<Output, Failed> {
    let mut command = this_program()?;
    command.args([COMMAND, name]).env("GPU_INTEROP_SIM_ATTRIBUTES", "18:1").env("GPU_INTEROP_SIM_NVSCI", behaviour);
    command.env("GPU_INTEROP_CUDA_LIBRARY", build(GPU_INTEROP_SIM_CUDA)?);
    command.env("GPU_INTEROP_NVSCIBUF_LIBRARY", nvsci).env("GPU_INTEROP_NVSCISYNC_LIBRARY", nvsci);
    Ok(command.output()?)
}

/// The negative control of the object counts: a library with leaks.
fn leaks_are_counted() -> Result<(), Failed> {
    for leak in ["leak_list", "leak_object", "leak_fence"] {
        let output = run("everything_is_given_back_in_any_order", leak)?;
        let text = String::from_utf8_lossy(&output.stderr);
        check(
            !output.status.success() && text.contains("objects before"),
            format!("{leak}: {}: {text}", output.status),
        )?;
    }
    Ok(())
}

fn start(name: &str) -> Result<(), Failed> {
    let output = run(name, "iso_engine")?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if let Some((_, why)) = ENDED.into_iter().find(|(ended, _)| *ended == name) {
        let aborted = output.status.signal() == Some(6);
        return check(aborted && text.contains(why), format!("{}: {text}", output.status));
    }
    check(output.status.success(), format!("{}: {text}", output.status))
}

pub(crate) fn main() -> ExitCode {
    let name = std::env::args().nth(2).unwrap_or_default();
    let known = CHECKS.into_iter().chain([(LACKING, lacks as Check)]).find(|(known, _)| *known == name);
    let result =
        known.ok_or_else(|| format!("there is no check `{name}`").into()).and_then(|(_, check)| check(&Rig::open()?));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failed) => {
            eprintln!("{}", failed.message().unwrap_or_default());
            ExitCode::FAILURE
        }
    }
}

/// A device, a buffer and an object, and the simulator of NvSci.
struct Rig {
    device: Device,
    nv_sci: NvSci,
    syncs: SyncModule,
    library: Library,
}

impl Rig {
    fn open() -> Result<Self, Failed> {
        let device = Device::open(&CudaBackend::load()?, 0)?;
        let nv_sci = NvSci::load()?;
        check(nv_sci.is_simulated(), "a simulator that does not say so")?;
        let syncs = nv_sci.open_syncs()?;
        // SAFETY: loaded already; it has no initialisers.
        let library = unsafe { Library::new(nv_sci.files()[0]) }?;
        Ok(Self { device, nv_sci, syncs, library })
    }

    fn number(&self, name: &str) -> Result<u64, Failed> {
        // SAFETY: a function of the simulator's of this type.
        Ok(unsafe { self.library.get::<unsafe extern "C" fn() -> u64>(name)?() })
    }

    fn memsyncs(&self) -> Result<[u64; 4], Failed> {
        // SAFETY: as above.
        let count = unsafe { self.library.get::<unsafe extern "C" fn(u32) -> u64>("sim_nvsci_memsyncs") }?;
        // SAFETY: any number is valid.
        Ok([0, 1, 2, 3].map(|which| unsafe { count(which) }))
    }

    fn buffer(&self) -> Result<Buffer, Error> {
        self.buffer_for(self.device.identity().uuid.expect("a UUID"))
    }

    fn buffer_for(&self, gpu: Uuid) -> Result<Buffer, Error> {
        let gpu = GpuAttributes::new(gpu);
        let attributes = BufferAttributes::raw(8192).cpu_access(true).cpu_cache(true).gpu(gpu);
        let list = BufferAttributeList::new(&self.nv_sci.open_buffers()?, &attributes)?;
        BufferAttributeList::reconcile(&[&list])?.allocate()
    }

    fn object(&self) -> Result<ImportedSync, Error> {
        let options = SyncOptions::default();
        let list = |uses| SyncAttributeList::for_device(&self.syncs, &self.device, uses, options);
        let both = list(NvSciSyncUse::SIGNAL | NvSciSyncUse::WAIT)?;
        Ok(SyncAttributeList::reconcile(&[&both])?.allocate()?.import(&self.device)?)
    }
}

fn skipped(rig: &Rig) -> Result<(), Failed> {
    let (object, stream, mut fence) = (rig.object()?, rig.device.create_stream()?, rig.syncs.fence());
    for (signal, wait, expected) in [
        (MemSync::Synchronize, MemSync::Synchronize, [1, 0, 1, 0]),
        (MemSync::Skip, MemSync::Synchronize, [1, 1, 2, 0]),
        (MemSync::Synchronize, MemSync::Skip, [2, 1, 2, 1]),
        (MemSync::Skip, MemSync::Skip, [2, 2, 2, 2]),
    ] {
        object.signal(&stream, &mut fence, signal)?;
        object.wait(&stream, &fence, wait)?;
        let counted = rig.memsyncs()?;
        check(counted == expected, format!("{signal:?}, {wait:?}: {counted:?}"))?;
    }
    Ok(stream.synchronize()?)
}

fn read_only(rig: &Rig) -> Result<(), Failed> {
    let buffer = rig.buffer()?;
    for (buffer, expected) in [(buffer.read_only()?, "r--s"), (buffer, "rw-s")] {
        let mapped = rig.device.import_memory(buffer.import_request())?.map_buffer(..)?;
        let start = format!("{:x}-", mapped.as_raw().get());
        let maps = std::fs::read_to_string("/proc/self/maps")?;
        let line = maps.lines().find(|line| line.starts_with(&start)).unwrap_or_default();
        check(line.split(' ').nth(1) == Some(expected), format!("{expected}: `{line}`"))?;
    }
    Ok(())
}

/// The simulator distinguishes the layouts by the header's numbers, as the library must.
fn layouts(rig: &Rig) -> Result<(), Failed> {
    let gpu = GpuAttributes::new(rig.device.identity().uuid.expect("a UUID"));
    let plane = PlaneAttributes { width: 64, height: 64, format: ColorFormat::Y8 };
    for (layout, is_mapped) in [(ImageLayout::PitchLinear, true), (ImageLayout::BlockLinear, false)] {
        let attributes = BufferAttributes::image(ImageAttributes::new(layout, plane)).gpu(gpu);
        let list = BufferAttributeList::new(&rig.nv_sci.open_buffers()?, &attributes)?;
        let buffer = BufferAttributeList::reconcile(&[&list])?.allocate()?;
        let memory = rig.device.import_memory(buffer.import_request())?;
        memory.map_mipmapped_array(&buffer.array_desc(0)?)?;
        let mapped = memory.map_buffer(..);
        check(mapped.is_ok() == is_mapped, format!("{layout:?}: {mapped:?}"))?;
    }
    Ok(())
}

fn flushed(rig: &Rig) -> Result<(), Failed> {
    let buffer = rig.buffer()?;
    check(buffer.properties().cpu_needs_flush(), "the simulator was asked for this")?;
    buffer.write(0, &[7; 100])?;
    let mut found = [0; 100];
    buffer.read(0, &mut found)?;
    check(found == [7; 100], "other data")?;
    let flushes = rig.number("sim_nvsci_flushes")?;
    check(flushes == 2, format!("{flushes} flushes for a write and a read"))?;
    // Reads before any write, of objects that were never mapped for the CPU; a duplicate has a separate pointer.
    let buffer = rig.buffer()?;
    buffer.read(0, &mut found)?;
    check(found == [0; 100], "a new buffer is not zeros")?;
    Ok(buffer.read_only()?.read(0, &mut found)?)
}

fn given_back(rig: &Rig) -> Result<(), Failed> {
    let before = rig.number("sim_nvsci_live")?;
    // Each of four operations occurs at each position.
    for order in 0..24_usize {
        let (object, stream) = (rig.object()?, rig.device.create_stream()?);
        let mut fence = rig.syncs.fence();
        let mapped = rig.device.import_memory(rig.buffer()?.import_request())?.map_buffer(..)?;
        stream.fill(&mapped, 1)?;
        object.signal(&stream, &mut fence, MemSync::Synchronize)?;
        let mut left: Vec<Box<dyn std::any::Any>> =
            vec![Box::new(object), Box::new(stream), Box::new(fence), Box::new(mapped)];
        let mut number = order;
        while !left.is_empty() {
            let place = number % left.len();
            number /= left.len();
            drop(left.swap_remove(place));
        }
    }
    let settled = (0..200).any(|_| {
        rig.device.collect();
        std::thread::sleep(std::time::Duration::from_millis(10));
        rig.number("sim_nvsci_live").is_ok_and(|live| live == before)
    });
    check(settled, format!("{before} objects before, {} after", rig.number("sim_nvsci_live")?))
}

/// A handle taken out of a request is as valid as the request: the simulator aborts on a freed object.
fn handles_keep(rig: &Rig) -> Result<(), Failed> {
    let (live, stream) = (rig.number("sim_nvsci_live")?, rig.device.create_stream()?);
    let buffer = rig.buffer()?;
    buffer.write(0, &[0x5e; 8192])?;
    let (writable, readable) =
        (buffer.import_request().into_handle(), buffer.read_only()?.import_request().into_handle());
    drop(buffer);
    for (handle, writes) in [(readable, false), (writable, true)] {
        // SAFETY: the handle keeps the buffer, which has this many bytes.
        let request = unsafe { MemoryImport::new(handle, 8192) };
        let mapped = rig.device.import_memory(request)?.map_buffer(..)?;
        let mut found = [0; 8192];
        stream.read(&mapped, &mut found)?;
        check(found == [0x5e; 8192], "other data")?;
        let filled = stream.fill(&mapped, 1).map_err(|error| error.kind());
        let expected = if writes { Ok(()) } else { Err(ErrorKind::InvalidArgument) };
        check(filled == expected, format!("a fill, where writing is {writes}: {filled:?}"))?;
        stream.synchronize()?;
    }
    let foreign = rig.buffer_for(Uuid::from_bytes([9; 16]).expect("a UUID"))?.import_request().into_handle();
    // SAFETY: as above.
    let foreign = unsafe { MemoryImport::new(foreign, 8192) };
    let refused = rig.device.import_memory(foreign).map_err(|failure| failure.kind());
    check(matches!(refused, Err(ErrorKind::DeviceMismatch)), format!("another GPU's buffer: {refused:?}"))?;

    let object = rig.object()?;
    let handle = object.object().import_request().into_handle();
    drop(object);
    // SAFETY: the handle keeps the object.
    let semaphore = rig.device.import_semaphore(unsafe { SemaphoreImport::new(handle) })?;
    drop((semaphore, refused));
    rig.device.collect();
    let left = rig.number("sim_nvsci_live")?;
    check(left == live, format!("{live} objects before, {left} after"))
}

/// An `NvSciSyncFence`, for calls that the library does not make.
type RawFence = [u64; 6];

/// The result of `Stream::signal` or `Stream::wait` for an object of these lists, without the library's own check.
fn driver_use(rig: &Rig, uses: [NvSciSyncUse; 2], wanted: NvSciSyncUse) -> Result<Option<i64>, Failed> {
    let options = SyncOptions::default();
    let lists = (
        SyncAttributeList::for_device(&rig.syncs, &rig.device, uses[0], options)?,
        SyncAttributeList::for_cpu(&rig.syncs, uses[1], options)?,
    );
    let object = SyncAttributeList::reconcile(&[&lists.0, &lists.1])?.allocate()?.import(&rig.device)?;
    let (semaphore, stream, mut fence) = (object.semaphore(), rig.device.create_stream()?, [0_u64; 6]);
    let at = NonNull::from(&mut fence).cast();
    let result = if wanted == NvSciSyncUse::SIGNAL {
        // SAFETY: the fence is cleared, and valid during this one call.
        let fence = unsafe { NvSciFence::from_raw(at) };
        stream.signal(&[semaphore.signal_with(SignalParams::NvSciSync { fence, skip_memsync: true })])
    } else {
        // SAFETY: a function of NvSciSync's of this type.
        let generate = unsafe {
            rig.library.get::<unsafe extern "C" fn(usize, *mut RawFence) -> u32>("NvSciSyncObjGenerateFence")
        }?;
        // SAFETY: the object is live, and the fence cleared.
        unsafe { generate(object.object().as_raw(), at.as_ptr().cast()) };
        // SAFETY: as above.
        let fence = unsafe { NvSciFence::from_raw(at) };
        stream.wait(&[semaphore.wait_with(WaitParams::NvSciSync { fence, skip_memsync: true })])
    };
    // SAFETY: a function of NvSciSync's of this type.
    let clear = unsafe { rig.library.get::<unsafe extern "C" fn(*mut RawFence)>("NvSciSyncFenceClear") }?;
    if uses[1].contains(NvSciSyncUse::SIGNAL) {
        // So that the stream ends, if it waits.
        object.object().signal()?;
    }
    // SAFETY: the fence is cleared or filled, and nothing uses it any more.
    unsafe { clear(&raw mut fence) };
    stream.synchronize()?;
    match result {
        Ok(()) => Ok(None),
        Err(error) => Ok(Some(error.code().ok_or_else(|| error.to_string())?.value)),
    }
}

/// The driver also rejects the requests that the library rejects.
fn unasked(rig: &Rig) -> Result<(), Failed> {
    let (signal, wait) = (NvSciSyncUse::SIGNAL, NvSciSyncUse::WAIT);
    // `CUDA_ERROR_NOT_SUPPORTED`.
    for (uses, wanted, expected) in [
        ([signal, wait], signal, None),
        ([wait, signal], signal, Some(801)),
        ([wait, signal], wait, None),
        ([signal, wait], wait, Some(801)),
    ] {
        let code = driver_use(rig, uses, wanted)?;
        check(code == expected, format!("device and CPU {uses:?}, the device {wanted:?}: {code:?}"))?;
    }
    Ok(())
}

/// As with NVIDIA's driver, whose import holds a reference.
fn freed_early(rig: &Rig) -> Result<(), Failed> {
    let object = rig.object()?;
    // SAFETY: a function of NvSciSync's of this type.
    let free = unsafe { rig.library.get::<unsafe extern "C" fn(usize)>("NvSciSyncObjFree") }?;
    // SAFETY: the object is live; its owner is leaked below, so that it is not freed again.
    unsafe { free(object.object().as_raw()) };
    let (stream, mut fence) = (rig.device.create_stream()?, rig.syncs.fence());
    object.signal(&stream, &mut fence, MemSync::Synchronize)?;
    object.wait(&stream, &fence, MemSync::Synchronize)?;
    stream.synchronize()?;
    std::mem::forget((fence, object));
    Ok(())
}

/// The library never does this; the simulator would detect it.
fn conflict_read(rig: &Rig) -> Result<(), Failed> {
    type Reconcile = unsafe extern "C" fn(*const usize, usize, *mut usize, *mut usize) -> u32;
    type Pairs = unsafe extern "C" fn(usize, *mut [usize; 3], usize) -> u32;
    let module = rig.nv_sci.open_buffers()?;
    let list = |size| BufferAttributeList::new(&module, &BufferAttributes::raw(size));
    let lists = (list(1)?, list(2)?);
    let (mut reconciled, mut conflict) = (0, 0);
    // SAFETY: functions of NvSciBuf's of these types.
    let (reconcile, get) = unsafe {
        (
            rig.library.get::<Reconcile>("NvSciBufAttrListReconcile")?,
            rig.library.get::<Pairs>("NvSciBufAttrListGetAttrs")?,
        )
    };
    // SAFETY: two live lists; the outputs are valid for the call.
    unsafe { reconcile([lists.0.as_raw(), lists.1.as_raw()].as_ptr(), 2, &raw mut reconciled, &raw mut conflict) };
    check(reconciled == 0 && conflict != 0, "lists that differ have no conflict list")?;
    let mut pair = [1, 0, 0];
    // SAFETY: one pair, whose key is the first; the list is live, and reading it is forbidden on purpose.
    unsafe { get(conflict, &raw mut pair, 1) };
    Err("a conflict list was read".into())
}

const LACKING: &str = "lacking";

/// Libraries before NvSciSync 2.3, and some later ones, lack the functions that create and read fences.
fn lacking() -> Result<(), Failed> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("libnvsci.so");
    let mut bytes = std::fs::read(build(GPU_INTEROP_SIM_NVSCI)?)?;
    for function in ["NvSciSyncFenceUpdateFence", "NvSciSyncFenceExtractFence"] {
        // Between two NULs, in the table of names.
        let name = [b"\0", function.as_bytes(), b"\0"].concat();
        let places: Vec<usize> =
            bytes.windows(name.len()).enumerate().filter(|(_, part)| *part == name).map(|(at, _)| at).collect();
        check(!places.is_empty(), format!("no {function}"))?;
        places.into_iter().for_each(|at| bytes[at + 1] = b'_');
    }
    std::fs::write(&file, bytes)?;
    let output = run_with(&file, LACKING, "")?;
    check(output.status.success(), format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)))
}

fn lacks(rig: &Rig) -> Result<(), Failed> {
    let options = SyncOptions { deterministic_fences: true };
    let both = NvSciSyncUse::SIGNAL | NvSciSyncUse::WAIT;
    let list = SyncAttributeList::for_device(&rig.syncs, &rig.device, both, options)?;
    let object = SyncAttributeList::reconcile(&[&list])?.allocate()?;
    let mut fence = rig.syncs.fence();
    for (what, result) in [("set", fence.set(&object, 0, 1)), ("read", fence.id_and_value().map(drop))] {
        let error = result.err().ok_or_else(|| format!("a fence was {what} by a function that is not there"))?;
        let named = error.kind() == ErrorKind::SymbolMissing && error.message().contains("NvSciSync 2.3 has it");
        check(named, format!("{what}: {error}"))?;
    }
    Ok(())
}

/// The library never does this; the simulator would detect it.
fn freed_twice(rig: &Rig) -> Result<(), Failed> {
    let buffer = rig.buffer()?;
    // SAFETY: a function of the simulator's of this type.
    let free = unsafe { rig.library.get::<unsafe extern "C" fn(usize)>("NvSciBufObjFree") }?;
    // SAFETY: the object is live; the second call is invalid on purpose.
    unsafe { free(buffer.as_raw()) };
    drop(buffer);
    Err("a second free went unnoticed".into())
}

/// Only the files that the variables name are loaded.
fn not_loaded() -> Result<(), Failed> {
    let output = this_program()?
        .args([COMMAND, "flags_of_skipped_memsync_reach_the_driver"])
        .env("GPU_INTEROP_CUDA_LIBRARY", build(GPU_INTEROP_SIM_CUDA)?)
        .env("GPU_INTEROP_NVSCIBUF_LIBRARY", "/nonexistent/libnvscibuf.so")
        .output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    let named = ["/nonexistent/libnvscibuf.so: ", "GPU_INTEROP_NVSCIBUF_LIBRARY", "driver not found"];
    check(!output.status.success() && named.iter().all(|part| text.contains(part)), text)
}
