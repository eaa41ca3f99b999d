//! The driver or the simulator, and what the tests use of it.

use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use gpu_interop::cudarc::cudarc::driver::{CudaContext, CudaFunction, LaunchConfig, PushKernelArg};
use gpu_interop::cudarc::cudarc::nvrtc::Ptx;
use gpu_interop::cudarc::{SharedSlice, SharedStream, context_for};
use gpu_interop::vulkan::ash::vk::BufferUsageFlags;
use gpu_interop::vulkan::{BufferOptions, ExportableBuffer, HeadlessContext, HeadlessOptions};
use gpu_interop::{Device, DeviceKind, ErrorKind, MappedBuffer};
use gpu_interop_test_support::{build, this_program};
use libtest_mimic::Failed;

/// Argument of a process that runs one test on the simulator.
pub(crate) const CHILD: &str = "on-a-simulator";
/// Exit code of such a process without Vulkan.
const SKIPPED: i32 = 77;
/// Size of exported buffers in bytes.
pub(crate) const SIZE: u64 = 64 << 10;

/// The kernels of this project, in PTX for NVIDIA's driver; the simulator finds `increment` by its name.
const KERNELS: &str = include_str!("../../../../kernels/prebuilt/kernels.ptx");

/// A test and its name.
pub(crate) type Test = (&'static str, fn(&Machine));

/// A Vulkan device, and the same GPU in both libraries.
pub(crate) struct Machine {
    pub(crate) vulkan: HeadlessContext,
    pub(crate) device: Device,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) increment: CudaFunction,
}

impl Machine {
    fn new() -> Result<Self, gpu_interop::Error> {
        let vulkan = HeadlessContext::new(&HeadlessOptions::default())?;
        let (device, context) = context_for(vulkan.identity())?;
        let module = context.load_module(Ptx::from_src(KERNELS)).expect("a module");
        let increment = module.load_function("increment").expect("a kernel");
        Ok(Self { vulkan, device, context, increment })
    }

    pub(crate) fn is_simulated(&self) -> bool {
        self.device.backend().simulated
    }

    /// A new stream of cudarc, shared.
    pub(crate) fn stream(&self) -> SharedStream {
        // SAFETY: the tests capture no graphs on shared streams.
        unsafe { SharedStream::new(&self.device, self.context.new_stream().expect("a stream")) }.expect("shared")
    }

    /// A buffer of Vulkan, which the other side owns.
    pub(crate) fn export(&self) -> ExportableBuffer {
        let usage = BufferUsageFlags::TRANSFER_SRC | BufferUsageFlags::TRANSFER_DST;
        let options = BufferOptions::new(SIZE, usage);
        let exported = ExportableBuffer::new(self.vulkan.interop(), &options).expect("a buffer");
        self.vulkan.fill(exported.buffer(), 0, SIZE, 0).expect("filled");
        self.vulkan.release(exported.buffer()).expect("released");
        exported
    }

    /// The words of a buffer in Vulkan, after its acquisition.
    pub(crate) fn words(&self, exported: &ExportableBuffer) -> Vec<u32> {
        self.vulkan.acquire(exported.buffer()).expect("acquired");
        let mut bytes = vec![0; usize::try_from(SIZE).expect("small")];
        self.vulkan.download(exported.buffer(), 0, &mut bytes).expect("downloaded");
        bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]])).collect()
    }

    /// Enqueues the kernel that adds 1 to each word on a stream of cudarc.
    pub(crate) fn increment(
        &self,
        stream: &Arc<gpu_interop::cudarc::cudarc::driver::CudaStream>,
        words: &mut SharedSlice<u32>,
    ) {
        let count = words.len() as u64;
        let mut launch = stream.launch_builder(&self.increment);
        launch.arg(words).arg(&count);
        // SAFETY: the kernel takes an address and a number of words, and writes only those.
        unsafe { launch.launch(LaunchConfig::for_num_elems(4096)) }.expect("launched");
    }
}

/// Imports and maps all of a buffer.
pub(crate) fn import(device: &Device, exported: &ExportableBuffer) -> Arc<MappedBuffer> {
    let memory = device.import_memory(exported.import_request().expect("an export")).expect("imported");
    Arc::new(memory.map_buffer(0..SIZE).expect("mapped"))
}

/// Prints why a test did not run; fails it if the environment requires that it runs.
pub(crate) fn skip(name: &str, reason: impl std::fmt::Display) -> Result<(), Failed> {
    if std::env::var_os("GPU_INTEROP_REQUIRE_CUDARC").is_some() {
        return Err(format!("GPU_INTEROP_REQUIRE_CUDARC is set, and this would be skipped: {reason}").into());
    }
    println!("skipped: {name}: {reason}");
    Ok(())
}

/// Runs a test on the driver, or on the simulator in another process.
///
/// One at a time: on a real driver, cudarc's own frees and allocations wait for every stream of the device, also for
/// those on which another test has work pending until its thread goes on.
pub(crate) fn run(name: &str, test: fn(&Machine)) -> Result<(), Failed> {
    static ONE: Mutex<()> = Mutex::new(());
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    match Machine::new() {
        Ok(machine) => {
            test(&machine);
            println!("{name}: ran on {}", machine.device.identity());
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::DriverNotFound => match on_simulator() {
            Ok(command) => run_child(command, name),
            Err(reason) => skip(name, format_args!("no CUDA driver ({error}), and no simulator: {reason}")),
        },
        Err(error) if error.kind() == ErrorKind::NoDevice => skip(name, error),
        Err(error) => Err(error.to_string().into()),
    }
}

fn run_child(mut command: Command, name: &str) -> Result<(), Failed> {
    let output = command.args([CHILD, name]).output()?;
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    match output.status.code() {
        Some(0) if text.contains("ran on ") => Ok(()),
        Some(SKIPPED) => skip(name, text.trim()),
        _ => Err(format!("{}: {text}", output.status).into()),
    }
}

/// This program, with the simulator where cudarc looks for the driver.
///
/// # Errors
/// The reason why there is no simulator.
pub(crate) fn on_simulator() -> Result<Command, String> {
    if !cfg!(target_os = "linux") {
        return Err("cudarc finds it on Linux only".into());
    }
    let library = build("gpu-interop-sim-cuda")?;
    // Lives as long as the process: each test of this program uses it.
    static FOLDER: std::sync::OnceLock<Result<tempfile::TempDir, String>> = std::sync::OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        std::fs::copy(&library, folder.path().join("libcuda.so.1")).map_err(|error| error.to_string())?;
        Ok(folder)
    });
    let mut command = this_program().map_err(|error| error.to_string())?;
    command.env("LD_LIBRARY_PATH", folder.as_ref().map_err(Clone::clone)?.path());
    command.env_remove("GPU_INTEROP_CUDA_LIBRARY");
    // The simulator's device is that of Vulkan's driver for the CPU.
    let devices = HeadlessContext::devices().map_err(|error| error.to_string())?;
    let cpu = devices.into_iter().find(|device| device.kind == DeviceKind::Cpu).and_then(|device| device.uuid);
    let uuid = cpu.ok_or("Vulkan has no driver for the CPU")?;
    command.env("GPU_INTEROP_SIM_UUID", uuid.to_string());
    Ok(command)
}

/// Runs one test in a process of [`on_simulator`].
pub(crate) fn child(tests: &[Test], name: &str) {
    let machine = match Machine::new() {
        Ok(machine) => machine,
        Err(error) if matches!(error.kind(), ErrorKind::NoDevice | ErrorKind::DriverNotFound) => {
            println!("{error}");
            std::process::exit(SKIPPED);
        }
        Err(error) => panic!("{error}"),
    };
    assert!(machine.is_simulated(), "not the simulator: {:?}", machine.device.backend());
    let (_, test) = tests.iter().find(|(test, _)| *test == name).expect("a test of this name");
    test(&machine);
    println!("ran on {}", machine.device.identity());
}
