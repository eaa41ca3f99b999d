//! Processes of the tests on RADV. They exit with status 1 after an error, which they print.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use ash::vk;

use crate::CHILD;
use crate::modifiers;
use crate::pictures;
use crate::producer;
use crate::program::Program;
use crate::runtime::{Hip, held};
use crate::shared::{COLOR, to_general};
use crate::sync_files;
use crate::syncobjs;
use crate::vulkan::{Gpu, Result, barrier};

type Test = fn() -> Result<()>;

/// The tests by name.
pub(crate) const TESTS: [(&str, Test); 31] = [
    ("transfers", transfers),
    ("large_transfers", large_transfers),
    ("compute", compute),
    ("dispatch_base", dispatch_base),
    ("graphics_queue", graphics_queue),
    ("timelines", timelines),
    ("second_process", second_process),
    ("modifiers", modifiers::modifiers),
    ("pictures", pictures::pictures),
    ("pictures_second_process", pictures::second_process),
    ("pictures_sizes", || pictures::sizes(4)),
    (crate::SLOW, || pictures::sizes(500)),
    ("pictures_killed_producer", producer::killed),
    ("pictures_without_gpu", pictures::without_gpu),
    ("sync_files", sync_files::sync_files),
    ("syncobjs", syncobjs::points),
    (crate::OLD_KERNEL, syncobjs::old_kernel),
    ("syncobjs_semaphores", syncobjs::semaphores),
    ("syncobjs_timelines", syncobjs::timelines),
    ("syncobjs_bridge", syncobjs::bridge),
    ("syncobjs_hip_bridge", syncobjs::hip_bridge),
    ("syncobjs_second_process", syncobjs::second_process),
    ("draw", draw),
    ("hip_first", hip_first),
    ("hip_second", hip_second),
    ("hip_cycles", || hip_cycles(CYCLES)),
    ("hip_modifiers", modifiers::with_hip),
    ("hip_first_two_gpus", hip_first_two_gpus),
    ("hip_second_two_gpus", hip_second_two_gpus),
    ("trap_handler_hip_first", hip_first),
    ("trap_handler_hip_second", trap_handler_hip_second),
];

/// Cycles of memory that both drivers use, and then its end; a longer run is a process with another number.
const CYCLES: u32 = 100;

/// Runs a test's process: its name, then its own arguments.
pub(crate) fn run(arguments: &[String]) {
    let result = match arguments {
        [peer, memory, to_peer, from_peer] if peer == PEER => peer_process([memory, to_peer, from_peer]),
        [peer, numbers @ ..] if peer == modifiers::PEER => modifiers::peer(numbers),
        [peer, numbers @ ..] if peer == pictures::PEER => pictures::peer(numbers),
        [peer, numbers @ ..] if peer == producer::PEER => producer::peer(numbers),
        [peer, numbers @ ..] if peer == syncobjs::PEER => syncobjs::peer(numbers),
        [test, count] if test == "pictures_sizes" => {
            count.parse().map_err(|_| format!("no number of sizes: {count}")).and_then(pictures::sizes)
        }
        [test, count] if test == "hip_cycles" => {
            count.parse().map_err(|_| format!("no number of cycles: {count}")).and_then(hip_cycles)
        }
        [test] => match TESTS.iter().find(|(name, _)| name == test) {
            Some((_, function)) => function(),
            None => Err(format!("unknown test {test}")),
        },
        _ => Err("the name of a test is missing".to_owned()),
    };
    if let Err(error) = result {
        println!("error: {error}");
        std::process::exit(1);
    }
}

/// The folder of the runtime with which the tests run, if it is not the system's.
pub(crate) fn runtime_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("GPU_INTEROP_SIM_AMDGPU_TEST_RUNTIME");
    folder.filter(|folder| !folder.is_empty()).map(PathBuf::from)
}

/// This program, started by the dynamic linker of the runtime's folder.
pub(crate) fn this_program() -> Command {
    // Not the current executable, which is the dynamic linker in a process that was started so.
    let own = std::env::args_os().next().unwrap_or_default();
    let Some(folder) = runtime_folder() else { return Command::new(own) };
    let folders = ["amd", "libc", "lib"].map(|part| folder.join(part).display().to_string());
    let mut command = Command::new(folder.join("libc/ld-linux-x86-64.so.2"));
    command.arg("--library-path").arg(format!("{}:{SYSTEM}", folders.join(":"))).arg(own);
    command
}

/// Debian's folder of libraries.
const SYSTEM: &str = "/usr/lib/x86_64-linux-gnu";

/// Fails unless both are equal.
pub(crate) fn same(what: &str, found: &[u32], expected: impl Fn(usize) -> u32) -> Result<()> {
    match found.iter().enumerate().find(|(at, word)| **word != expected(*at)) {
        None => Ok(()),
        Some((at, word)) => Err(format!("{what}: word {at} is {word:#x}, not {:#x}", expected(at))),
    }
}

const WORDS: usize = 256;

/// The words that tests copy.
fn pattern(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(0).wrapping_mul(7) + 1
}

fn transfers() -> Result<()> {
    let gpu = Gpu::new(false)?;
    if !gpu.name.contains("RADV VEGA20") {
        return Err(format!("the device is {}", gpu.name));
    }
    transfer(&gpu)
}

fn graphics_queue() -> Result<()> {
    transfer(&Gpu::new(true)?)
}

/// Fills, updates and copies of a size for which RADV uses no compute program.
fn transfer(gpu: &Gpu) -> Result<()> {
    let [from, to] = [gpu.buffer(WORDS, None)?, gpu.buffer(WORDS, None)?];
    from.write((0..WORDS).map(pattern));
    let update: Vec<u8> = [9_u32, 8, 7].iter().flat_map(|word| word.to_le_bytes()).collect();
    gpu.execute(|device, commands| {
        let copy = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: WORDS as u64 * 2 }];
        // SAFETY: the buffers are live and have these sizes.
        unsafe {
            device.cmd_fill_buffer(commands, to.buffer, 0, vk::WHOLE_SIZE, 0xa5a5_a5a5);
            barrier(device, commands);
            device.cmd_copy_buffer(commands, from.buffer, to.buffer, &copy);
            barrier(device, commands);
            device.cmd_update_buffer(commands, to.buffer, 16, &update);
        }
    })?;
    same("fill, copy and update", &to.words(), |at| match at {
        4..7 => [9, 8, 7][at - 4],
        at if at < WORDS / 2 => pattern(at),
        _ => 0xa5a5_a5a5,
    })
}

/// Fills and copies for which RADV uses compute programs, of sizes that are no multiple of a group's.
fn large_transfers() -> Result<()> {
    const LARGE: usize = (256 << 10) + 33;
    let gpu = Gpu::new(false)?;
    let [from, to] = [gpu.buffer(LARGE, None)?, gpu.buffer(LARGE, None)?];
    from.write((0..LARGE).map(pattern));
    gpu.execute(|device, commands| {
        let copy = [vk::BufferCopy { src_offset: 4, dst_offset: 8, size: LARGE as u64 * 4 - 64 }];
        // SAFETY: the buffers are live and have these sizes.
        unsafe {
            device.cmd_fill_buffer(commands, to.buffer, 0, vk::WHOLE_SIZE, 0x5a5a_5a5a);
            barrier(device, commands);
            device.cmd_copy_buffer(commands, from.buffer, to.buffer, &copy);
        }
    })?;
    same("a large fill and copy", &to.words(), |at| match at {
        2.. if at < LARGE - 14 => pattern(at - 1),
        _ => 0x5a5a_5a5a,
    })
}

/// A program that RADV compiles, launched directly and indirectly.
fn compute() -> Result<()> {
    const ITEMS: usize = 640;
    let gpu = Gpu::new(false)?;
    let [data, sizes] = [gpu.buffer(ITEMS + 64, None)?, gpu.buffer(16, None)?];
    data.write((0..ITEMS + 64).map(pattern));
    sizes.write([0, 0, 0, 0, 5, 1, 1]);
    let program = Program::new(&gpu, &data)?;
    gpu.execute(|device, commands| {
        program.bind(device, commands);
        // SAFETY: the program and the buffers are live, and the launches are within them.
        unsafe {
            device.cmd_dispatch(commands, 10, 1, 1);
            barrier(device, commands);
            device.cmd_dispatch_indirect(commands, sizes.buffer, 16);
        }
    })?;
    let step = |at: usize, value: u32| value.wrapping_mul(3).wrapping_add(u32::try_from(at).unwrap_or(0));
    same("two launches", &data.words(), |at| match at {
        at if at < 320 => step(at, step(at, pattern(at))),
        at if at < ITEMS => step(at, pattern(at)),
        at => pattern(at),
    })
}

/// A launch whose first group is not the first one of the program.
fn dispatch_base() -> Result<()> {
    const ITEMS: usize = 4 * 4096;
    let gpu = Gpu::new(false)?;
    let data = gpu.buffer(ITEMS, None)?;
    data.write((0..ITEMS).map(pattern));
    let program = Program::new(&gpu, &data)?;
    gpu.execute(|device, commands| {
        program.bind(device, commands);
        // SAFETY: the program and its buffer are live, and the launch is within the buffer.
        unsafe { device.cmd_dispatch_base(commands, 3, 1, 2, 4, 2, 1) };
    })?;
    same("a launch from group (3, 1, 2) on", &data.words(), |at| {
        let (x, y, z) = (at % 1024, at / 1024 % 4, at / 4096);
        let within = (3 * 64..7 * 64).contains(&x) && (1..3).contains(&y) && z == 2;
        let step = || pattern(at).wrapping_mul(3).wrapping_add(u32::try_from(at).unwrap_or(0));
        if within { step() } else { pattern(at) }
    })
}

/// Waits before signals, in both directions, and values.
fn timelines() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let (timeline, buffer) = (gpu.timeline()?, gpu.buffer(WORDS, None)?);
    let fill = |value| {
        move |device: &ash::Device, commands| {
            // SAFETY: the buffer is live.
            unsafe { device.cmd_fill_buffer(commands, buffer.buffer, 0, vk::WHOLE_SIZE, value) };
        }
    };
    gpu.submit(Some((timeline, 1)), Some((timeline, 2)), fill(1))?;
    gpu.submit(Some((timeline, 2)), Some((timeline, 5)), fill(2))?;
    match gpu.wait_for((timeline, 2), Duration::from_millis(50)) {
        Err(error) if error.contains("TIMEOUT") => {}
        other => return Err(format!("a wait for work that waits for the host: {other:?}")),
    }
    same("before the host's signal", &buffer.words(), |_| 0)?;
    gpu.signal((timeline, 1))?;
    gpu.wait((timeline, 4))?;
    same("after the last signal", &buffer.words(), |_| 2)?;
    match gpu.value(timeline)? {
        5 => Ok(()),
        value => Err(format!("the value is {value}, not 5")),
    }
}

/// The name of the second process.
const PEER: &str = "peer";

/// A process with its own device, which inherits descriptors of memory and of two timelines.
fn second_process() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let (buffer, to_peer, from_peer) = (gpu.buffer(WORDS, None)?, gpu.timeline()?, gpu.timeline()?);
    buffer.write((0..WORDS).map(pattern));
    let files =
        [gpu.memory_descriptor(&buffer)?, gpu.timeline_descriptor(to_peer)?, gpu.timeline_descriptor(from_peer)?];
    for file in &files {
        rustix::io::fcntl_setfd(file, rustix::io::FdFlags::empty()).map_err(|error| error.to_string())?;
    }
    let numbers = files.each_ref().map(|file| file.as_raw_fd().to_string());
    let mut peer = this_program().args([CHILD, PEER]).args(numbers).spawn().map_err(|error| error.to_string())?;
    drop(files);
    // The peer's GPU waits for this signal of this GPU, which waits for the host.
    let gate = gpu.timeline()?;
    // SAFETY: the buffer is live.
    gpu.submit(Some((gate, 1)), Some((to_peer, 1)), |device, commands| unsafe {
        device.cmd_fill_buffer(commands, buffer.buffer, 0, WORDS as u64 * 2, 0x1111_1111);
    })?;
    gpu.wait((from_peer, 1))?;
    same("before the signal to the peer", &buffer.words(), pattern)?;
    gpu.signal((gate, 1))?;
    // This GPU waits for the peer's.
    let result = gpu.buffer(WORDS, None)?;
    let done = gpu.timeline()?;
    gpu.submit(Some((from_peer, 2)), Some((done, 1)), |device, commands| {
        let copy = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: WORDS as u64 * 4 }];
        // SAFETY: the buffers are live.
        unsafe { device.cmd_copy_buffer(commands, buffer.buffer, result.buffer, &copy) };
    })?;
    gpu.wait((done, 1))?;
    same("the peer's words", &result.words(), |at| if at < WORDS / 2 { 0x2222_2222 } else { pattern(at) })?;
    let status = peer.wait().map_err(|error| error.to_string())?;
    if status.success() { Ok(()) } else { Err(format!("the second process: {status}")) }
}

fn peer_process(numbers: [&String; 3]) -> Result<()> {
    let mut files = Vec::new();
    for number in numbers {
        let number: RawFd = number.parse().map_err(|_| "a descriptor is no number")?;
        // SAFETY: the parent passed it, and nothing else in this process uses it.
        files.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    let [memory, to_peer, from_peer] = <[OwnedFd; 3]>::try_from(files).map_err(|_| "three descriptors are needed")?;
    let gpu = Gpu::new(false)?;
    let buffer = gpu.buffer(WORDS, Some(memory))?;
    let (to_peer, from_peer) = (gpu.import_timeline(to_peer)?, gpu.import_timeline(from_peer)?);
    let seen = gpu.buffer(WORDS, None)?;
    gpu.signal((from_peer, 1))?;
    gpu.submit(Some((to_peer, 1)), Some((from_peer, 2)), |device, commands| {
        let copy = [vk::BufferCopy { src_offset: 0, dst_offset: 0, size: WORDS as u64 * 4 }];
        // SAFETY: the buffers are live.
        unsafe {
            device.cmd_copy_buffer(commands, buffer.buffer, seen.buffer, &copy);
            barrier(device, commands);
            device.cmd_fill_buffer(commands, buffer.buffer, 0, WORDS as u64 * 2, 0x2222_2222);
        }
    })?;
    gpu.wait((from_peer, 2))?;
    same("the owner's words", &seen.words(), |at| if at < WORDS / 2 { 0x1111_1111 } else { pattern(at) })
}

/// RADV clears images on the graphics queue by draws. The device is lost, and the emulation says why.
fn draw() -> Result<()> {
    let gpu = Gpu::new(true)?;
    let image = gpu.image(vk::ImageTiling::OPTIMAL, [64, 64])?;
    let clear = || {
        gpu.execute(|device, commands| {
            to_general(device, commands, image);
            let color = vk::ClearColorValue { uint32: [7; 4] };
            // SAFETY: the image is live and in this layout.
            unsafe { device.cmd_clear_color_image(commands, image, vk::ImageLayout::GENERAL, &color, &[COLOR]) };
        })
    };
    match (clear(), clear()) {
        (_, Err(error)) if error.contains("DEVICE_LOST") => Ok(()),
        other => Err(format!("two clears by draws: {other:?}")),
    }
}

/// HIP of the runtime's folder, or Debian's.
pub(crate) fn hip_library() -> Option<PathBuf> {
    let folder = runtime_folder().map_or_else(|| PathBuf::from(SYSTEM), |folder| folder.join("amd"));
    (5..=7).rev().map(|major| folder.join(format!("libamdhip64.so.{major}"))).find(|path| path.exists())
}

pub(crate) fn hip() -> Result<Hip> {
    Hip::load(&hip_library().ok_or("HIP is not installed")?)
}

fn hip_first() -> Result<()> {
    let hip = hip()?;
    // The first allocation creates HIP's context on the device.
    hip.free(hip.malloc(4096)?)?;
    share_with_hip(&hip, &Gpu::new(false)?)
}

fn hip_second() -> Result<()> {
    let gpu = Gpu::new(false)?;
    share_with_hip(&hip()?, &gpu)
}

/// HIP 5.7 and later use RADV's open file, whose first program is where the kernel maps its trap handler: they find no device.
/// 5.2 has a file of its own.
fn trap_handler_hip_second() -> Result<()> {
    let gpu = Gpu::new(false)?;
    let buffer = gpu.buffer(WORDS, None)?;
    let _program = Program::new(&gpu, &buffer)?;
    match hip() {
        Ok(hip) if hip.version()? <= (5, 2) => share_with_hip(&hip, &gpu),
        Ok(_) => Err("HIP started".to_owned()),
        Err(error) if ["hipInit = 100", "hipInit = 101"].contains(&error.as_str()) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Memory of RADV is created, exported, imported by HIP, filled, verified by both, and freed. After the first cycles the
/// process holds no more descriptors and mappings.
fn hip_cycles(count: u32) -> Result<()> {
    const FIRST: u32 = 20;
    let (gpu, hip) = (Gpu::new(false)?, hip()?);
    let mut before = (0, 0);
    for cycle in 0..count {
        if cycle == FIRST {
            before = held();
        }
        let (buffer, bytes) = (gpu.buffer(WORDS, None)?, WORDS * 4);
        buffer.write((0..WORDS).map(pattern));
        let file = gpu.memory_descriptor(&buffer)?;
        let memory = hip.import(file.as_raw_fd(), bytes as u64)?;
        drop(file);
        let address = hip.map(memory, bytes as u64)?;
        let value = u8::try_from(cycle % 251).unwrap_or(0) + 1;
        hip.memset(address, value, bytes / 2)?;
        let filled = u32::from_ne_bytes([value; 4]);
        let expected = |at| if at < WORDS / 2 { filled } else { pattern(at) };
        same(&format!("RADV in cycle {cycle}"), &buffer.words(), expected)?;
        let seen = hip.download(address, bytes)?;
        let seen: Vec<_> = seen.chunks_exact(4).map(|it| u32::from_ne_bytes([it[0], it[1], it[2], it[3]])).collect();
        same(&format!("HIP in cycle {cycle}"), &seen, expected)?;
        // 5.2 aborts the process when a mapping is freed; there it ends with its import.
        if hip.version()? > (5, 2) {
            hip.free(address)?;
        }
        hip.destroy(memory)?;
        gpu.free(buffer);
    }
    let after = held();
    // A thread that starts late maps a few regions; a leak is one in each cycle.
    let cycles = count.saturating_sub(FIRST) as usize;
    let leaks = after.0 != before.0 || after.1 >= before.1 + cycles;
    // 7.2 never frees an import that was mapped.
    if cycles > 0 && leaks != (hip.version()? == (7, 2)) {
        return Err(format!("descriptors and mappings: {before:?} after {FIRST} cycles, {after:?} after {count}"));
    }
    Ok(())
}

fn hip_first_two_gpus() -> Result<()> {
    let hip = hip()?;
    for device in 0..2 {
        hip.set_device(device)?;
        // The first allocation creates HIP's context on the device.
        hip.free(hip.malloc(4096)?)?;
    }
    share_two_gpus(&hip, &two_gpus()?)
}

fn hip_second_two_gpus() -> Result<()> {
    let gpus = two_gpus()?;
    share_two_gpus(&hip()?, &gpus)
}

fn two_gpus() -> Result<Vec<Gpu>> {
    (0..2).map(|index| Gpu::of([index, 2], false)).collect()
}

/// Memory of two GPUs on both drivers: each is that of its own GPU.
fn share_two_gpus(hip: &Hip, gpus: &[Gpu]) -> Result<()> {
    let bytes = WORDS * 4;
    let mut shared = Vec::new();
    for ((device, value), gpu) in [(0, 5), (1, 6)].into_iter().zip(gpus) {
        hip.set_device(device)?;
        let buffer = gpu.buffer(WORDS, None)?;
        let file = gpu.memory_descriptor(&buffer)?;
        let memory = hip.import(file.as_raw_fd(), bytes as u64)?;
        let address = hip.map(memory, bytes as u64)?;
        gpu.execute(|device, commands| {
            // SAFETY: the buffer is live.
            unsafe { device.cmd_fill_buffer(commands, buffer.buffer, 0, vk::WHOLE_SIZE, 0x0101_0101) };
        })?;
        hip.memset(address, value, bytes / 2)?;
        shared.push((gpu, buffer, memory));
    }
    for ((_, buffer, _), value) in shared.iter().zip([0x0505_0505, 0x0606_0606]) {
        same("each GPU's words", &buffer.words(), |at| if at < WORDS / 2 { value } else { 0x0101_0101 })?;
    }
    for (gpu, buffer, memory) in shared {
        hip.destroy(memory)?;
        gpu.free(buffer);
    }
    Ok(())
}

/// Both write to memory that RADV has allocated, and see what the other has written.
fn share_with_hip(hip: &Hip, gpu: &Gpu) -> Result<()> {
    let (buffer, bytes) = (gpu.buffer(WORDS, None)?, WORDS * 4);
    let file = gpu.memory_descriptor(&buffer)?;
    let memory = hip.import(file.as_raw_fd(), bytes as u64)?;
    let address = hip.map(memory, bytes as u64)?;
    gpu.execute(|device, commands| {
        // SAFETY: the buffer is live.
        unsafe { device.cmd_fill_buffer(commands, buffer.buffer, 0, vk::WHOLE_SIZE, 0x0403_0201) };
    })?;
    let expected: Vec<u8> = [1, 2, 3, 4].into_iter().cycle().take(bytes).collect();
    if hip.download(address, bytes)? != expected {
        return Err("HIP does not see what RADV has written".to_owned());
    }
    hip.memset(address, 7, bytes / 2)?;
    same("what HIP has written", &buffer.words(), |at| if at < WORDS / 2 { 0x0707_0707 } else { 0x0403_0201 })?;
    let own = hip.malloc(bytes)?;
    hip.memset(own, 9, bytes)?;
    same("RADV's memory", &buffer.words()[..1], |_| 0x0707_0707)?;
    hip.destroy(memory)
}
