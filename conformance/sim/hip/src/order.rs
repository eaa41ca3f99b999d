//! Streams, events, kernels, and the order of their work.

use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::sync::Mutex;

use gpu_interop_sim_abi::hip::code_object;
use gpu_interop_sim_abi::hip::code_object::Damage;
use gpu_interop_sim_abi::hip::version::{Behaviour, Era};
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::kernel::{MODULES, Module};
use gpu_interop_sim_device::stream::{EVENTS, Event, Stream};
use gpu_interop_sim_device::work::HostFunction;
use gpu_interop_sim_device::work::{Condition, Word};
use gpu_interop_sim_device::{code, entries, faults, kernel, work};

use crate::device::need;
use crate::streams::{DESTROYED, Missing, QueueKind};
use crate::{address, die_because, give, graph, memory, streams};

/// `hipEventBlockingSync`, `hipEventDisableTiming`, `hipEventInterprocess`, and two flags of releases.
const EVENT_FLAGS: u32 = 1 | 2 | 0x4000_0000 | 0x8000_0000;
const EVENT_RELEASES: u32 = 0x4000_0000 | 0x8000_0000;
const INTERPROCESS: u32 = 4;

/// `hipStreamWaitValueGte` and the other conditions. The first is documented as `>=`, without wrap-around. Before HIP
/// 5.5 every other number means it, too.
fn condition(flags: u32) -> Result<Condition, u32> {
    match Condition::of(Condition::AtLeast, flags) {
        Some(condition) => Ok(condition),
        None if Era::now() == Era::Early => Ok(Condition::AtLeast),
        None => Err(code::INVALID_VALUE),
    }
}

/// Enqueues a write of a word or a wait for it. Versions that do not capture it execute it at once.
fn enqueue(stream: &Stream, run: impl Fn() -> Result<(), u32> + Send + Sync + 'static) {
    if Behaviour::RecordsWords.now() { stream.enqueue(run) } else { stream.enqueue_now(run) }
}

/// The words that streams currently wait for, with the number of waiting streams.
static WAITED_WORDS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// A stream waits for a word while this lives.
struct WordWait(usize);

impl WordWait {
    fn begin(word: usize) -> Self {
        *lock(&WAITED_WORDS).entry(word).or_default() += 1;
        Self(word)
    }

    /// `true` if a stream waits for the word.
    fn is(word: usize) -> bool {
        lock(&WAITED_WORDS).contains_key(&word)
    }
}

impl Drop for WordWait {
    fn drop(&mut self) {
        let mut waited = lock(&WAITED_WORDS);
        match waited.get_mut(&self.0) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(waited.remove(&self.0)),
        }
    }
}

/// Makes a stream wait for a word.
///
/// # Safety
/// The word is valid until the wait has ended.
unsafe fn wait(stream: usize, pointer: u64, value: Word, mask: u64, flags: u32) -> Result<(), u32> {
    let (condition, word) = (condition(flags)?, memory::word(address(pointer), value.size())?);
    let (here, stream) = streams::for_work(stream, &Missing::WORD)?;
    enqueue(&stream, move || {
        let word = word.reachable()?;
        let _waited_for = WordWait::begin(word);
        // SAFETY: the caller's promise.
        unsafe { value.wait(word, mask, condition) };
        Ok(())
    });
    streams::note_work(here, &stream);
    Ok(())
}

/// Makes a stream write a word.
///
/// # Safety
/// The word is valid until it is written.
unsafe fn write(stream: usize, pointer: u64, value: Word) -> Result<(), u32> {
    let word = memory::word(address(pointer), value.size())?;
    let (here, stream) = streams::for_work(stream, &Missing::WORD)?;
    enqueue(&stream, move || {
        let word = word.reachable()?;
        if Behaviour::WritesReleaseNothing.now() && WordWait::is(word) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        faults::unless_lost(|| unsafe { value.store(word) });
        Ok(())
    });
    streams::note_work(here, &stream);
    Ok(())
}

fn event(handle: usize) -> Result<std::sync::Arc<Event>, u32> {
    if handle == 0 {
        return Err(code::INVALID_HANDLE);
    }
    Ok(EVENTS.get(handle).unwrap_or_else(|| die_because("a destroyed or invalid event is used")))
}

entries! {
    after need;

    fn hipStreamCreateWithFlags(stream: *mut usize, flags: c_uint) gives stream {
        code::reject_if(stream.is_null())?;
        give(stream, streams::create(flags, QueueKind::Priority(0))?)
    }

    // Any number is valid: it is clamped to the supported range.
    fn hipStreamCreateWithPriority(stream: *mut usize, flags: c_uint, priority: c_int) gives stream {
        code::reject_if(stream.is_null())?;
        give(stream, streams::create(flags, QueueKind::Priority(priority))?)
    }

    fn hipExtStreamCreateWithCUMask(stream: *mut usize, size: u32, mask: *const u32) gives stream {
        if stream.is_null() {
            return Err(code::INVALID_HANDLE);
        }
        // The bits of the mask are not checked.
        code::reject_if(size == 0 || mask.is_null())?;
        give(stream, streams::create(0, QueueKind::Own)?)
    }

    fn hipStreamDestroy(stream: usize) {
        streams::destroy(stream)
    }

    fn hipStreamSynchronize(stream: usize) {
        let (here, found) = streams::find(stream, &Missing::STREAM)?;
        if here != 0 {
            graph::check_stream_permitted(&found)?;
        }
        if found.recording().is_some() {
            found.drain();
            return Ok(());
        }
        streams::query_queue(here, &found);
        let done = found.synchronize();
        streams::note_completed(here);
        done
    }

    fn hipStreamQuery(stream: usize) {
        let (here, found) = streams::find(stream, &Missing::STREAM)?;
        if here != 0 {
            graph::check_stream_permitted(&found)?;
        }
        streams::query_queue(here, &found);
        let idle = match found.recording() {
            Some(_) => !found.is_busy(),
            None => streams::mark(here) & found.is_idle()?,
        };
        if idle { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn hipStreamWaitEvent(stream: usize, event: usize, flags: c_uint) {
        if event == 0 {
            return Err(code::INVALID_HANDLE);
        }
        let (here, found) = streams::for_work(stream, &Missing::WAIT_EVENT)?;
        match (flags, Era::now()) {
            (0, _) => {}
            // `hipEventWaitExternal`, for graphs.
            (1, era) if era >= Era::Six => die_because("hipStreamWaitEvent with a flag where no graph is recorded"),
            _ => return Err(code::INVALID_VALUE),
        }
        let it = self::event(event)?;
        if graph::wait_captured(here, &found, event)? {
            return Ok(());
        }
        // A wait for an event that is complete enqueues nothing; since HIP 6, another one has no marker of its own.
        match (it.is_complete(), Era::now()) {
            (true, _) => {}
            (false, Era::Early | Era::Five) => drop(streams::mark(here)),
            (false, _) => streams::note_work(here, &found),
        }
        work::wait_event(here, event, 0)
    }

    fn hipEventCreateWithFlags(event: *mut usize, flags: c_uint) gives event {
        let known = if Era::now() == Era::Early { EVENT_FLAGS | INTERPROCESS } else { EVENT_FLAGS };
        code::reject_if(event.is_null() || flags & !known != 0 || flags & EVENT_RELEASES == EVENT_RELEASES)?;
        give(event, EVENTS.insert(Event::default()))
    }

    fn hipEventDestroy(event: usize) {
        if event == 0 {
            return Err(code::INVALID_HANDLE);
        }
        match EVENTS.remove(event) {
            Some(_) => Ok(()),
            None if Era::now() == Era::Early => die_because("an invalid or destroyed event is destroyed"),
            None => Err(DESTROYED),
        }
    }

    fn hipEventRecord(event: usize, stream: usize) {
        if event == 0 {
            return Err(code::INVALID_HANDLE);
        }
        let (here, found) = streams::for_work(stream, &Missing::RECORD_EVENT)?;
        let it = self::event(event)?;
        if graph::record_captured(event, here, &found) {
            return Ok(());
        }
        streams::mark(here);
        found.record(&it)
    }

    fn hipEventQuery(event: usize) {
        let it = self::event(event)?;
        graph::check_query_permitted(event)?;
        if it.is_complete() { Ok(()) } else { Err(code::NOT_READY) }
    }

    fn hipEventSynchronize(event: usize) {
        let it = self::event(event)?;
        graph::check_query_permitted(event)?;
        if let Some(record) = it.last() {
            record.wait();
        }
        Ok(())
    }

    fn hipStreamWaitValue32(stream: usize, pointer: u64, value: u32, flags: c_uint, mask: u32) {
        wait(stream, pointer, Word::Narrow(value), u64::from(mask), flags)
    }

    fn hipStreamWaitValue64(stream: usize, pointer: u64, value: u64, flags: c_uint, mask: u64) {
        wait(stream, pointer, Word::Wide(value), mask, flags)
    }

    // The flags are documented as ignored.
    fn hipStreamWriteValue32(stream: usize, pointer: u64, value: u32, _flags: c_uint) {
        write(stream, pointer, Word::Narrow(value))
    }

    fn hipStreamWriteValue64(stream: usize, pointer: u64, value: u64, _flags: c_uint) {
        write(stream, pointer, Word::Wide(value))
    }

    fn hipLaunchHostFunc(stream: usize, function: Option<HostFunction>, data: *mut c_void) {
        let (here, _) = streams::for_work(stream, &Missing::HOST_FUNCTION)?;
        work::host_function(here, function, data)?;
        streams::mark(here);
        Ok(())
    }
}

/// `hipErrorInvalidConfiguration`.
const INVALID_CONFIGURATION: u32 = 9;
/// Maximum shared memory of a block in bytes, and maximum number of its threads.
const MOST_SHARED: u32 = 65536;
const MOST_THREADS: u32 = 1024;

/// Result for an unknown module.
fn missing(module: usize) -> u32 {
    if module == 0 && Era::now() > Era::Early { code::INVALID_HANDLE } else { code::NOT_FOUND }
}

entries! {
    after need;

    fn hipModuleLoadData(module: *mut usize, image: *const c_void) gives module {
        code::reject_if(module.is_null() || image.is_null())?;
        let loaded = Module::complete(code_object::check(image)?)?;
        match (code_object::damage(image), Era::now()) {
            (Some(Damage::NoNames), Era::Seven) => return Err(code::INVALID_IMAGE),
            (Some(Damage::NoNames), _) => die_because("before HIP 7.2 a code object without .strtab is followed into nothing"),
            (Some(Damage::NoSymbols), Era::Early) => return Err(code_object::SHARED_OBJECT_INIT_FAILED),
            _ => {}
        }
        give(module, MODULES.insert(loaded))
    }

    fn hipModuleUnload(module: usize) {
        MODULES.remove(module).map(drop).ok_or_else(|| missing(module))
    }

    fn hipModuleGetFunction(function: *mut usize, module: usize, name: *const c_char) gives function {
        code::reject_if(function.is_null() || name.is_null())?;
        code::reject_if(*name == 0 && Era::now() > Era::Early)?;
        MODULES.get(module).ok_or_else(|| missing(module))?;
        give(function, work::module_kernel(module, name)?)
    }

    fn hipModuleLaunchKernel(
        function: usize, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: usize, arguments: *mut *mut c_void, extra: *mut *mut c_void,
    ) {
        let era = Era::now();
        if function == 0 {
            return Err(if era == Era::Early { code::INVALID_IMAGE } else { code::INVALID_HANDLE });
        }
        if kernel::of(function).is_none() {
            die_because("an invalid kernel is launched");
        }
        let (here, found) = streams::for_work(stream, &Missing::KERNEL)?;
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        if grid.contains(&0) || block.contains(&0) {
            let recorded = found.recording().is_some() && era >= Era::Seven;
            return Err(if recorded { INVALID_CONFIGURATION } else { code::INVALID_VALUE });
        }
        let threads = block.into_iter().try_fold(1_u32, u32::checked_mul).unwrap_or(u32::MAX);
        if threads > MOST_THREADS {
            return Err(if era == Era::Early { INVALID_CONFIGURATION } else { code::INVALID_VALUE });
        }
        let too_wide = |(grid, block): (&u32, &u32)| *grid == u32::MAX || grid.checked_mul(*block).is_none();
        code::reject_if(era > Era::Early && grid.iter().zip(&block).any(too_wide))?;
        if shared_bytes > MOST_SHARED {
            return Err(if era == Era::Early { code::OUT_OF_MEMORY } else { code::INVALID_VALUE });
        }
        if arguments.is_null() && extra.is_null() && era < Era::Six {
            die_because("before HIP 6 a launch follows the arguments, which are NULL");
        }
        work::launch(function, grid, block, here, [arguments, extra])?;
        streams::note_work(here, &found);
        Ok(())
    }
}
