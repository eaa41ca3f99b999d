//! Frames that go round between wgpu and memory that it imported: of another process, and of the compute device. Every byte
//! of each is compared on both sides.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use gpu_interop_wgpu::gpu_interop::vulkan::ash::vk;
use gpu_interop_wgpu::gpu_interop::{ErrorKind, MemoryHandle, MemoryImport};
use gpu_interop_wgpu::import::{Fences, ImportedTexture};
use wgpu::TextureFormat as Format;
use wgpu::TextureUsages as Usage;

use crate::common::{Context, buffer_desc, frames, pattern, texture_desc, validation_messages};
use crate::imports::{BYTES, Pair, SIZE, Wgpu, import_buffer, import_texture, spec};

const TEXELS: usize = 64 * 37 * 4;
const TIMEOUT: Duration = Duration::from_secs(20);

fn texture(wgpu: &Wgpu, request: MemoryImport, tiling: vk::ImageTiling) -> Result<ImportedTexture, ErrorKind> {
    let desc = texture_desc(Format::Rgba8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    import_texture(wgpu, request, &desc, spec(tiling)).map_err(|failure| {
        println!("not imported: {}", failure.error());
        failure.error().kind()
    })
}

/// wgpu reads the frame of this number, and writes the answer.
fn answer(wgpu: &Wgpu, texture: &ImportedTexture, number: u32) {
    let access = texture.begin_access(Fences::Completed).expect("begun");
    assert!(wgpu.read_texture(texture.wgpu(), 256) == pattern(number, TEXELS), "frame {number}");
    wgpu.write_texture(texture.wgpu(), 256, &pattern(!number, TEXELS));
    access.end().expect("ended").wait(TIMEOUT).expect("completes");
}

fn argument(name: &str) -> u64 {
    let value = |argument: String| argument.strip_prefix(name)?.strip_prefix('=')?.parse().ok();
    std::env::args().find_map(value).expect("an argument of the first process")
}

/// Runs in the process that `frames_of_another_process_arrive_in_a_texture` starts, with a socket as its standard input, and a
/// descriptor of the memory that it inherits.
#[test]
#[ignore = "the second process of a test"]
fn peer() {
    let wgpu = Wgpu::new().expect("as in the first process");
    // SAFETY: the first process left this descriptor open for this one.
    let memory = unsafe { OwnedFd::from_raw_fd(i32::try_from(argument("memory")).expect("a descriptor")) };
    let socket = std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor");
    let mut socket = UnixStream::from(socket);
    let tiling = vk::ImageTiling::from_raw(i32::try_from(argument("tiling")).expect("a tiling"));
    let handle = MemoryHandle::OpaqueFd(memory);
    // SAFETY: the first process exports memory of this size, dedicated or not, and keeps it alive.
    let request = unsafe { MemoryImport::new(handle, argument("size")).dedicated(argument("dedicated") == 1) };
    let texture = texture(&wgpu, request, tiling).expect("imported");
    let mut number = [0; 4];
    while socket.read_exact(&mut number).is_ok() {
        answer(&wgpu, &texture, u32::from_ne_bytes(number));
        socket.write_all(&number).expect("the first process waits");
    }
    assert_eq!(validation_messages(), 0);
}

#[test]
fn frames_of_another_process_arrive_in_a_texture() {
    let Some(pair) = Pair::new() else { return };
    let producer = &pair.producer;
    for tiling in [vk::ImageTiling::OPTIMAL, vk::ImageTiling::LINEAR] {
        let Some(exported) = pair.image(spec(tiling)) else { continue };
        producer.initialize_image(exported.image()).expect("initialised");
        let request = exported.import_request().expect("a request");
        // Inherited.
        let memory = rustix::io::dup(request.handle().as_fd().expect("a descriptor")).expect("duplicated");
        let (mut socket, other) = UnixStream::pair().expect("a socket");
        socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
        let mut command = std::process::Command::new(std::env::current_exe().expect("this program"));
        let size = format!("size={}", request.size());
        let dedicated = format!("dedicated={}", u8::from(request.is_dedicated()));
        let inherited = format!("memory={}", memory.as_raw_fd());
        let tiled = format!("tiling={}", tiling.as_raw());
        // The harness takes the last arguments for other names of tests, which are none.
        command.args(["--exact", "imported_frames::peer", "--ignored", "--nocapture"]);
        command.args([size, dedicated, inherited, tiled]);
        command.stdin(OwnedFd::from(other)).stdout(std::process::Stdio::piped());
        let child = command.spawn().expect("started");
        drop((command, memory));
        for number in 0..frames() {
            producer.upload_image(exported.image(), 0, 0, &pattern(number, TEXELS)).expect("written");
            producer.release_image(exported.image()).expect("released");
            let sent = socket.write_all(&number.to_ne_bytes()).and_then(|()| socket.read_exact(&mut [0; 4]));
            if sent.is_err() {
                let output = child.wait_with_output().expect("ended");
                panic!("frame {number}: {}", String::from_utf8_lossy(&output.stdout));
            }
            producer.acquire_image(exported.image()).expect("acquired");
            let mut seen = vec![0; TEXELS];
            producer.download_image(exported.image(), 0, 0, &mut seen).expect("read");
            assert!(seen == pattern(!number, TEXELS), "{tiling:?}, frame {number}: the answer");
        }
        drop(socket);
        let output = child.wait_with_output().expect("ended");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
        println!("{tiling:?}: {} frames", frames());
    }
    assert_eq!(validation_messages(), 0);
}

/// What an `Interop` shares with compute, another wgpu device imports, and takes the place of compute.
#[test]
fn shared_objects_are_exported_to_another_device() {
    let Some(context) = Context::new() else { return };
    let Some(other) = Wgpu::new() else { return };
    let interop = &context.interop;
    let desc = texture_desc(Format::Rgba8Unorm, [64, 37], Usage::TEXTURE_BINDING);
    let shared = interop.create_texture(&desc).expect("a texture");
    let buffer = interop.create_buffer(&buffer_desc(SIZE, wgpu::BufferUsages::STORAGE)).expect("a buffer");
    let imported_buffer = import_buffer(&other, buffer.export().expect("an export")).expect("imported");
    let Some(spec) = shared.image_spec() else { return };
    let imported = import_texture(&other, shared.export().expect("an export"), &desc, spec).expect("imported");
    for number in 0..3 {
        let texels = pattern(number, TEXELS);
        context.write_texture(shared.wgpu(), 0, 0, &texels);
        interop.queue().write_buffer(buffer.wgpu(), 0, &pattern(number, BYTES));
        interop.queue().submit([]);
        let hand_over = interop.begin_compute(&context.stream, &[&shared, &buffer]).expect("begun");
        context.stream.synchronize().expect("wgpu has finished");
        answer(&other, &imported, number);
        let access = imported_buffer.begin_access(Fences::Completed).expect("begun");
        assert!(other.read_buffer(&imported_buffer) == pattern(number, BYTES), "buffer, {number}");
        other.queue.write_buffer(imported_buffer.wgpu(), 0, &pattern(!number, BYTES));
        access.end().expect("ended").wait(TIMEOUT).expect("completes");
        hand_over.end().expect("ended");
        assert!(context.read_texture(shared.wgpu(), 0, 0) == pattern(!number, TEXELS), "texture, {number}: the answer");
        let seen = context.readback(SIZE);
        let copy = |encoder: &mut wgpu::CommandEncoder| encoder.copy_buffer_to_buffer(buffer.wgpu(), 0, &seen, 0, SIZE);
        context.queue().submit([context.encode(copy)]);
        assert!(context.map(&seen) == pattern(!number, BYTES), "buffer, {number}: the answer");
    }
}

/// The compute device exports memory; wgpu imports it as a buffer and as a texture of linear tiling.
#[test]
fn frames_of_the_compute_device_arrive() {
    let Some(context) = Context::new() else { return };
    let stream = &context.stream;
    let device = context.interop.compute();
    let Some(wgpu) = Wgpu::new() else { return };
    let memory = match device.allocate_exportable(1 << 16) {
        Ok(memory) => memory,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            println!("skipped: {error}");
            return;
        }
    };
    let request = || {
        // SAFETY: the memory has this size and is not dedicated.
        unsafe { MemoryImport::new(memory.export().expect("an export"), memory.size()) }
    };
    match import_buffer(&wgpu, request()) {
        Ok(buffer) => {
            for number in 0..frames() {
                stream.write(memory.slice(..BYTES as u64).expect("inside"), &pattern(number, BYTES)).expect("written");
                let access = buffer.begin_access(Fences::Completed).expect("begun");
                assert!(wgpu.read_buffer(&buffer) == pattern(number, BYTES), "buffer, frame {number}");
                wgpu.queue.write_buffer(buffer.wgpu(), 0, &pattern(!number, BYTES));
                access.end().expect("ended").wait(TIMEOUT).expect("completes");
                let mut seen = vec![0; BYTES];
                stream.read(memory.slice(..BYTES as u64).expect("inside"), &mut seen).expect("read");
                assert!(seen == pattern(!number, BYTES), "buffer, frame {number}: the answer");
            }
            println!("a buffer: {} frames", frames());
        }
        Err(failure) => println!("not imported: {}", failure.error()),
    }
    let Ok(texture) = texture(&wgpu, request(), vk::ImageTiling::LINEAR) else { return };
    // Rows of 256 bytes are at the same distance in all drivers' images.
    for number in 0..frames() {
        stream.write(memory.slice(..TEXELS as u64).expect("inside"), &pattern(number, TEXELS)).expect("written");
        answer(&wgpu, &texture, number);
        let mut seen = vec![0; TEXELS];
        stream.read(memory.slice(..TEXELS as u64).expect("inside"), &mut seen).expect("read");
        assert!(seen == pattern(!number, TEXELS), "texture, frame {number}: the answer");
    }
    println!("a texture: {} frames", frames());
}
