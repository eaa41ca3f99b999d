//! Between frames, no call of CUDA's driver blocks or asks for the state of work: with three frames in flight, all
//! calls enqueue work. The driver-call events show which calls there were.
//!
//! On a machine with NVIDIA's driver the test runs on it. Without, it runs in a process of this program on the
//! simulator, over the bridge, because Vulkan's driver for the CPU exports no timelines. Without Vulkan, or the
//! simulator's sources and `GPU_INTEROP_SIMULATORS`, it prints `skipped:` and the reason.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use crate::common::{Context, buffer_desc, device, is_simulated, texture_desc};
use gpu_interop_driver::DRIVER_CALL;
use gpu_interop_test_support::{build, in_own_process, this_program};
use gpu_interop_wgpu::gpu_interop::vulkan::HeadlessContext;
use gpu_interop_wgpu::gpu_interop::{
    BackendChoice, BackendName, Device, DeviceKind, ErrorKind, TimelineStrategy, select,
};
use gpu_interop_wgpu::{HandBack, Interop, SharedBuffer, SharedTexture, TextureOptions, identity};
use tracing::field::{Field, Visit};
use tracing_subscriber::layer::SubscriberExt;

const NAME: &str = "driver_calls::no_driver_call_blocks_between_frames";
const LIBRARY: &str = "GPU_INTEROP_CUDA_LIBRARY";

/// Calls that enqueue work and return: one in front of the compute work of a frame, the work itself, and one behind it.
const ENQUEUES: [&str; 12] = [
    "cuLaunchKernel",
    "cuMemcpy3DAsync",
    "cuMemcpyDtoDAsync",
    "cuMemsetD32Async",
    "cuSignalExternalSemaphoresAsync",
    "cuWaitExternalSemaphoresAsync",
    // The bridge's.
    "cuLaunchHostFunc",
    "cuStreamBatchMemOp",
    "cuStreamWaitValue32",
    "cuStreamWaitValue64",
    "cuStreamWriteValue32",
    "cuStreamWriteValue64",
];
/// Calls that change the state of the calling thread, or return a handle that exists.
const IMMEDIATE: [&str; 5] = [
    "cuCtxPopCurrent",
    "cuCtxPushCurrent",
    "cuCtxSetCurrent",
    "cuMipmappedArrayGetLevel",
    "cuThreadExchangeStreamCaptureMode",
];

/// The number of calls of each function since the recording began.
static CALLS: Mutex<Option<BTreeMap<String, u32>>> = Mutex::new(None);

struct Recorder;

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Recorder {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        /// The name of the function, in an event before a call.
        #[derive(Default)]
        struct Call(Option<String>, bool);
        impl Visit for Call {
            fn record_debug(&mut self, field: &Field, _: &dyn Debug) {
                self.1 |= field.name() == "arguments";
            }
            fn record_str(&mut self, field: &Field, value: &str) {
                if field.name() == "function" {
                    self.0 = Some(value.into());
                }
            }
        }
        if event.metadata().target() != DRIVER_CALL {
            return;
        }
        let mut call = Call::default();
        event.record(&mut call);
        if let (Call(Some(function), true), Some(calls)) = (call, &mut *CALLS.lock().expect("not poisoned")) {
            *calls.entry(function).or_default() += 1;
        }
    }
}

fn record() {
    *CALLS.lock().expect("not poisoned") = Some(BTreeMap::new());
}

fn recorded() -> BTreeMap<String, u32> {
    CALLS.lock().expect("not poisoned").take().expect("recording")
}

#[test]
fn no_driver_call_blocks_between_frames() {
    if is_simulated() || !in_own_process(NAME) {
        return;
    }
    match select(BackendChoice::Named(BackendName::Cuda)) {
        Ok(cuda) => {
            let Some(context) = context(&*cuda.backend) else { return };
            frames(&context);
        }
        Err(error) if error.kind() == ErrorKind::DriverNotFound && std::env::var_os(LIBRARY).is_none() => {
            match on_simulator() {
                Ok(mut command) => {
                    let output = command.output().expect("a process");
                    let text = String::from_utf8_lossy(&output.stdout);
                    println!("{text}");
                    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
                    assert!(text.contains("frames on ") || text.contains("skipped: "), "{text}");
                }
                Err(reason) => println!("skipped: no CUDA driver ({error}), and no simulator: {reason}"),
            }
        }
        Err(error) => println!("skipped: {error}"),
    }
}

/// This test in another process, with the simulator.
fn on_simulator() -> Result<Command, String> {
    if !cfg!(target_os = "linux") {
        return Err("it shares memory with Vulkan's driver for the CPU, on Linux".into());
    }
    let library = build("gpu-interop-sim-cuda")?;
    let mut command = this_program().map_err(|error| error.to_string())?;
    command.args(["--exact", NAME, "--nocapture"]).env(LIBRARY, library);
    // The simulator's device is that of Vulkan's driver for the CPU.
    let devices = HeadlessContext::devices().map_err(|error| error.to_string())?;
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    command.env("GPU_INTEROP_SIM_UUID", cpu.ok_or("Vulkan has no driver for the CPU")?.to_string());
    Ok(command)
}

/// wgpu on a device of CUDA.
fn context(cuda: &dyn gpu_interop_wgpu::gpu_interop::Backend) -> Option<Context> {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::VULKAN;
    desc.flags = wgpu::InstanceFlags::empty();
    let adapters = pollster::block_on(wgpu::Instance::new(desc).enumerate_adapters(wgpu::Backends::VULKAN));
    for adapter in adapters {
        let (device, queue) = device(&adapter);
        let identity = identity(&device).expect("Vulkan");
        if let Ok(compute) = Device::open_matching(cuda, &identity) {
            let interop = Interop::with_compute(&device, &queue, compute).expect("can share");
            let stream = interop.compute().create_stream().expect("a stream");
            return Some(Context { interop, stream, validated: false });
        }
    }
    println!("skipped: no adapter of wgpu is a device of CUDA");
    None
}

const SIZE: [u32; 2] = [64, 64];
/// Bytes of a texture.
const BYTES: u64 = 64 * 64 * 4;
const WARM_UP: u32 = 20;
const FRAMES: u32 = 200;
/// Bytes of a frame that are verified: its last texel, and the last word that compute wrote.
const SEEN: u64 = 8;

/// wgpu clears a texture; compute copies it to a buffer and fills what follows; wgpu copies the ends of both.
struct Frames<'a> {
    context: &'a Context,
    ring: Vec<(SharedTexture, SharedBuffer, wgpu::TextureView)>,
    seen: wgpu::Buffer,
    begun: VecDeque<(u32, HandBack)>,
    composed: VecDeque<wgpu::SubmissionIndex>,
}

impl Frames<'_> {
    fn begin(&mut self, number: u32) {
        let (texture, buffer, view) = &self.ring[number as usize % 3];
        let draw = self.context.encode(|encoder| clear(encoder, view, number));
        let (interop, stream) = (&self.context.interop, &self.context.stream);
        let compute = interop.submit_and_begin_compute([draw], stream, &[texture, buffer]).expect("handed over");
        let copied = buffer.mapped().slice(..BYTES).expect("a part");
        let array = texture.array().expect("CUDA maps arrays");
        stream.copy_from_array(copied, array.level(0).expect("a level")).expect("copied");
        stream.fill_u32(buffer.mapped().slice(BYTES..).expect("the rest"), !number).expect("filled");
        self.begun.push_back((number, compute.signal().expect("signalled")));
    }

    fn finish(&mut self) {
        let (number, back) = self.begun.pop_front().expect("a frame");
        let (_, buffer, _) = &self.ring[number as usize % 3];
        let compose = self.context.encode(|encoder| {
            let place = u64::from(number) * SEEN;
            encoder.copy_buffer_to_buffer(buffer.wgpu(), BYTES - 4, &self.seen, place, 4);
            encoder.copy_buffer_to_buffer(buffer.wgpu(), buffer.size() - 4, &self.seen, place + 4, 4);
        });
        self.composed.push_back(back.acquire_and_submit([compose]).expect("handed back"));
    }

    /// Runs frames of which three are in flight: the third waits for the first in wgpu, as for a swapchain.
    fn run(&mut self, numbers: std::ops::Range<u32>) {
        for number in numbers {
            if self.composed.len() == 3 {
                let index = self.composed.pop_front();
                let wait = wgpu::PollType::Wait { submission_index: index, timeout: Some(Duration::from_secs(20)) };
                self.context.device().poll(wait).expect("composed");
            }
            self.begin(number);
            if self.begun.len() == 3 {
                self.finish();
            }
        }
    }
}

fn texel(number: u32) -> [u8; 4] {
    number.wrapping_mul(0x9E37_79B1).to_le_bytes()
}

fn clear(encoder: &mut wgpu::CommandEncoder, view: &wgpu::TextureView, number: u32) {
    let [r, g, b, a] = texel(number).map(f64::from);
    let ops = wgpu::Operations { load: wgpu::LoadOp::Clear(wgpu::Color { r, g, b, a }), store: wgpu::StoreOp::Store };
    let attachment = wgpu::RenderPassColorAttachment { view, depth_slice: None, resolve_target: None, ops };
    encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
        color_attachments: &[Some(attachment)],
        ..wgpu::RenderPassDescriptor::default()
    });
}

fn frames(context: &Context) {
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(Recorder)).expect("the first");
    let interop = &context.interop;
    interop.reserve(3).expect("timelines");
    let create = |_| {
        let desc = texture_desc(wgpu::TextureFormat::Rgba8Uint, SIZE, wgpu::TextureUsages::RENDER_ATTACHMENT);
        let texture =
            interop.create_texture_with(&desc, TextureOptions::default().never_discarded(true)).expect("a texture");
        let buffer = interop.create_buffer(&buffer_desc(BYTES + 4096, wgpu::BufferUsages::STORAGE)).expect("a buffer");
        let view = texture.wgpu().create_view(&wgpu::TextureViewDescriptor::default());
        (texture, buffer, view)
    };
    let all = WARM_UP + FRAMES;
    let seen = context.readback(u64::from(all) * SEEN);
    let ring = (0..3).map(create).collect();
    let mut frames = Frames { context, ring, seen, begun: VecDeque::new(), composed: VecDeque::new() };
    frames.run(0..WARM_UP);
    record();
    frames.run(WARM_UP..all);
    let calls = recorded();
    while !frames.begun.is_empty() {
        frames.finish();
    }

    let strategy = interop.create_timeline(0).expect("a timeline").timeline().strategy();
    println!("{FRAMES} frames on {}, strategy {strategy}: {calls:?}", interop.compute().identity());
    let known = |function: &str| [&ENQUEUES[..], &IMMEDIATE].concat().contains(&function);
    let others: Vec<_> = calls.keys().filter(|function| !known(function)).collect();
    assert!(others.is_empty(), "calls that do not only enqueue work: {others:?}");
    let count = |function: &str| calls.get(function).copied().unwrap_or(0);
    // The work of each frame, so that the events are those of the frames.
    assert_eq!([count("cuMemcpy3DAsync"), count("cuMemsetD32Async")], [FRAMES; 2]);
    if strategy == TimelineStrategy::Native {
        let semaphores = ["cuWaitExternalSemaphoresAsync", "cuSignalExternalSemaphoresAsync"].map(count);
        assert_eq!(semaphores, [FRAMES; 2]);
        let work: u32 =
            calls.iter().filter(|(function, _)| !IMMEDIATE.contains(&function.as_str())).map(|(_, n)| n).sum();
        // The backend keeps a signal behind a small fill.
        let barriers = count("cuStreamBatchMemOp");
        assert!(barriers <= FRAMES, "{barriers} barriers between a fill and a signal");
        assert_eq!(work - barriers, 4 * FRAMES, "calls beside the wait, the work and the signal");
    }

    // The control: what blocks is recorded, and is not among what may be called.
    record();
    context.stream.synchronize().expect("no failure");
    let calls = recorded();
    assert!(calls.keys().any(|function| !known(function)), "{calls:?}");

    let words = context.map_words(&frames.seen);
    for (number, seen) in (0..all).zip(words.chunks_exact(2)) {
        assert_eq!(*seen, [u32::from_le_bytes(texel(number)), !number], "frame {number}");
    }
}
