//! The table of environment variables, and the page that is made from it.

/// Defines the page, and for the test in `tests/guide.rs` the names.
macro_rules! variables {
    ($($heading:literal, $lead:literal { $($name:literal, $values:literal, $effect:literal;)* })*) => {
        #[doc = include_str!("environment.md")]
        $(
            #[doc = concat!(
                "\n# ", $heading, "\n", $lead, "\n\n| variable | values | effect |\n|---|---|---|"
            )]
            $(#[doc = concat!("| `", $name, "` | ", $values, " | ", $effect, " |")])*
        )*
        pub mod environment {}

        /// Every variable of the page.
        #[cfg(test)]
        #[allow(dead_code, reason = "the test of the table includes this file")]
        pub(crate) const VARIABLES: &[&str] = &[$($($name,)*)*];
    };
}

variables! {
    "Variables of the library",
    "Rust, Python and C read the same ones. An empty value counts as not set." {
    "GPU_INTEROP_BACKEND", "`cuda`, `hip`, `host`, `auto`, in any case",
        "Selects the backend of [`load`](crate::load) and [`device_for`](crate::device_for). `auto`, the default, takes the \
         first backend with a device: CUDA, HIP, the CPU. Another value is an error. Read at each call.";
    "GPU_INTEROP_TIMELINE", "`native`, `bridge`, `auto`",
        "Selects the strategy of [`Timeline::new`](crate::Timeline::new). `auto`, the default, takes `native` where the \
         compute driver imports the timeline, and `bridge` elsewhere. Another value is an error. Read for each timeline.";
    "GPU_INTEROP_CUDA_LIBRARY", "file",
        "NVIDIA's driver, or a simulator of it. No other file is tried. The default is the first that loads of \
         `libcuda.so.1` and `libcuda.so`, on Windows `nvcuda.dll`.";
    "GPU_INTEROP_HIP_LIBRARY", "file",
        "AMD's runtime, or a simulator of it. No other file is tried. The default is the first that loads of \
         `libamdhip64.so.7`, `.so.6`, `.so.5` and `libamdhip64.so`, on Windows of `amdhip64_7.dll`, `amdhip64_6.dll` and `amdhip64.dll`.";
    "GPU_INTEROP_NVSCIBUF_LIBRARY", "file", "NvSciBuf. No other file is tried. Feature `nvsci`.";
    "GPU_INTEROP_NVSCISYNC_LIBRARY", "file", "NvSciSync. No other file is tried. Feature `nvsci`.";
    "ROCM_PATH", "folder",
        "AMD's runtime is searched in its `lib` (Windows: `bin`), if the dynamic linker does not find it.";
    "HIP_PATH", "folder", "As `ROCM_PATH`, searched after it.";
    "VIRTUAL_ENV", "folder",
        "Linux: AMD's runtime is searched in ROCm's wheels for Python, in \
         `lib/python*/site-packages/_rocm_sdk_core/lib`, after the folders above. Activating a virtual environment sets it. \
         The Python module searches those of its interpreter first, whether activated or not.";
    "CONDA_PREFIX", "folder", "As `VIRTUAL_ENV`, and then in `lib`. Activating an environment of conda sets it.";
    "GUIX_ENVIRONMENT", "folder", "HIP's library is also searched in `lib` of this folder. `guix shell` sets it.";
    "ProgramFiles", "folder", "Windows: AMD's runtime is searched in `AMD\\ROCm\\Core*\\bin`. Windows sets it.";
    "LOCALAPPDATA", "folder", "Windows: as `ProgramFiles`, searched after it. Windows sets it.";
    "GPU_MAX_HW_QUEUES", "number, 4 by default",
        "Linux: AMD's runtime shares so many hardware queues among streams. The HIP backend puts one stream fewer on them, \
         and gives each further stream a queue of its own. Set it before the process starts.";
    "GPU_ENABLE_PAL", "`0` or not",
        "Windows: `0` makes AMD's runtime use ROCr in place of PAL. The HIP backend then reports names, and before HIP 7.14 \
         KMT handles, as unsupported.";
    }
    "Variables of `conformance`",
    "The command also reads all of the above." {
    "RUST_LOG", "filters of `tracing_subscriber`",
        "Selects log messages on standard error, `warn` by default. `gpu_interop::driver_call=trace` shows each driver call.";
    "NO_COLOR", "anything", "No colours in log messages.";
    "GPU_INTEROP_D3D_LIBRARY", "absolute path", "Windows: a library in place of Direct3D 11, 12 and DXGI, such as the simulator.";
    "GPU_INTEROP_NVML_LIBRARY", "file", "NVIDIA's management library, for the evidence in reports.";
    "GPU_INTEROP_AMD_RUNTIMES", "folder", "AMD's runtimes for `--emulate amd:VERSION`, as `--emulate-root`. Default: `target/amd`.";
    "GPU_INTEROP_VULKAN_QUEUE", "`compute`",
        "The suite uses a Vulkan queue without graphics. `--emulate amd` sets it for RADV, whose graphics queue copies images \
         by draws.";
    "GPU_INTEROP_EMULATED_AMDGPU", "file", "The emulated kernel driver of `--emulate amd`. Default: the file beside the program.";
    "GPU_INTEROP_SIM_VERSION", "as of the simulator", "`--simulate hip` keeps a value that is set. `--simulate hip:VERSION` replaces it.";
    "GPU_INTEROP_SIM_UUID", "as of the simulator", "`--simulate` keeps a value that is set. Default: the UUID of Vulkan's CPU device.";
    "GPU_INTEROP_SIM_EXPORT", "as of the simulator", "As above. Default: the layout of memory that Vulkan's CPU device imports.";
    "GPU_INTEROP_SIM_EXPORT_HEADER", "as of the simulator", "As above.";
    "GPU_INTEROP_SIM_ATTRIBUTES", "as of the simulator", "`--simulate nvsci` keeps a value that is set. Default: an integrated GPU.";
    "GPU_INTEROP_SIM_AMDGPU_DEVICES", "as of the emulated driver", "`--emulate amd` keeps a value that is set. Default: two GPUs.";
    "CUDA_DEVICE_MAX_CONNECTIONS", "number",
        "The suite keeps a value that is set. Otherwise it sets one for processes that need few or many streams.";
    "VK_DRIVER_FILES", "files", "`--emulate amd` keeps a value that is set. Otherwise it selects RADV, or lavapipe. `doctor` checks it.";
    "VK_ICD_FILENAMES", "files", "The older name of `VK_DRIVER_FILES`.";
    "VK_ADD_LAYER_PATH", "folders", "`--emulate amd` adds a folder to it.";
    "VK_INSTANCE_LAYERS", "names", "`--emulate amd` adds a layer to it.";
    "LD_PRELOAD", "files", "`--emulate amd` adds the emulated kernel driver to it.";
    "CARGO", "file", "`--simulate` builds a missing simulator with it. Cargo sets it. Default: `cargo`.";
    "GPU_INTEROP_SIMULATE_SESSION", "", "Internal: marks the process that `--simulate` starts.";
    "GPU_INTEROP_EMULATE_SESSION", "", "Internal: marks the process that `--emulate` starts.";
    "GPU_INTEROP_CONFORMANCE_PARENT", "", "Internal: the process that a process of a scenario ends with.";
    }
    "Variables that `conformance doctor` examines",
    "`doctor` reads them to find faults: a GPU, a driver or a library that a value hides." {
    "CUDA_VISIBLE_DEVICES", "numbers or UUIDs", "NVIDIA's driver, and AMD's runtime, show these GPUs only. The scenarios `environment.*` read it, too.";
    "HIP_VISIBLE_DEVICES", "numbers", "AMD's runtime shows these GPUs only. The scenarios `environment.*` read it, too.";
    "ROCR_VISIBLE_DEVICES", "numbers or UUIDs", "As above, of the layer below.";
    "GPU_DEVICE_ORDINAL", "numbers", "As above.";
    "NVIDIA_VISIBLE_DEVICES", "numbers, UUIDs, `all`, `none`", "The container toolkit passes these GPUs.";
    "NVIDIA_DRIVER_CAPABILITIES", "list", "The container toolkit passes these parts of the driver. Vulkan needs `graphics`.";
    "CUDA_MPS_PIPE_DIRECTORY", "folder", "Where NVIDIA's multi-process service (MPS) listens.";
    "VK_ADD_DRIVER_FILES", "files", "The Vulkan loader uses these drivers, too.";
    "VK_LOADER_DRIVERS_SELECT", "globs", "The Vulkan loader uses these drivers only.";
    "VK_LOADER_DRIVERS_DISABLE", "globs", "The Vulkan loader does not use these drivers.";
    "LD_LIBRARY_PATH", "folders", "The dynamic linker searches these folders first.";
    "HOME", "folder", "The Vulkan loader searches `.config` and `.local/share` in it.";
    "XDG_CONFIG_HOME", "folder", "The Vulkan loader searches it.";
    "XDG_CONFIG_DIRS", "folders", "The Vulkan loader searches them.";
    "XDG_DATA_HOME", "folder", "The Vulkan loader searches it.";
    "XDG_DATA_DIRS", "folders", "The Vulkan loader searches them.";
    "KUBERNETES_SERVICE_HOST", "anything", "The process is in a container of Kubernetes.";
    "container", "name", "The process is in a container of this kind.";
    }
}
