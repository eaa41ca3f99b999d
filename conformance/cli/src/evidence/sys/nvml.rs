//! NVIDIA's management library, loaded at run time.

use std::ffi::{CString, c_char, c_void};

use gpu_interop_conformance::system::set_variable;
use libloading::Library;

use crate::evidence::gpu::Gpu;

/// The variable that names another library.
const VARIABLE: &str = "GPU_INTEROP_NVML_LIBRARY";
const NAME: &str = if cfg!(windows) { "nvml.dll" } else { "libnvidia-ml.so.1" };

/// A device of the library.
type Device = *mut c_void;
/// `nvmlReturn_t`.
type Status = u32;
const SUCCESS: Status = 0;
/// `NVML_TEMPERATURE_GPU`.
const OF_GPU: u32 = 0;
/// The names of `nvmlComputeMode_t`, in its order.
const COMPUTE_MODES: [&str; 4] = ["default", "exclusive thread", "prohibited", "exclusive process"];
/// `nvmlClockType_t`.
const CLOCKS: [(u32, &str); 3] = [(0, "graphics"), (1, "sm"), (2, "memory")];
/// More than the greatest length of a text, `NVML_SYSTEM_NVML_VERSION_BUFFER_SIZE`.
const TEXT: usize = 96;

/// The library.
pub(in crate::evidence) struct Nvml {
    library: Library,
}

impl Nvml {
    /// Loads and initialises the library.
    ///
    /// # Errors
    /// The reason.
    pub(in crate::evidence) fn load() -> Result<Self, String> {
        let name = set_variable(VARIABLE).unwrap_or_else(|| NAME.into());
        // SAFETY: the name is NVIDIA's library, whose initialisers support loading at run time, or a file that the user
        // named for this purpose.
        let library = unsafe { Library::new(&name) }.map_err(|error| format!("{}: {error}", name.display()))?;
        let nvml = Self { library };
        // SAFETY: `nvmlInit_v2` has no arguments and returns a status.
        let init = unsafe { nvml.function::<unsafe extern "C" fn() -> Status>(c"nvmlInit_v2") };
        let init = init.ok_or("the library has no nvmlInit_v2")?;
        // SAFETY: the function has no requirements.
        match unsafe { init() } {
            SUCCESS => Ok(nvml),
            status => Err(format!("nvmlInit_v2 failed with {status}")),
        }
    }

    /// Reads the state of the GPU with this PCI address or UUID.
    ///
    /// # Errors
    /// The reason.
    pub(in crate::evidence) fn read(&self, pci: Option<&str>, uuid: Option<&str>) -> Result<Gpu, String> {
        let device = self.device(pci, uuid)?;
        let mut gpu = Gpu { source: format!("NVML {}", self.version()), ..Gpu::default() };
        gpu.firmware = self.text(c"nvmlDeviceGetVbiosVersion", device);
        gpu.gsp_firmware = self.gsp_firmware(device);
        gpu.ecc = self.mode(c"nvmlDeviceGetEccMode", device);
        gpu.mig = self.mode(c"nvmlDeviceGetMigMode", device);
        gpu.compute_mode = self.number(c"nvmlDeviceGetComputeMode", device).map(|mode| {
            let known = usize::try_from(mode).ok().and_then(|mode| COMPUTE_MODES.get(mode));
            known.map_or_else(|| format!("mode {mode}"), |name| (*name).into())
        });
        gpu.sensors.temperature_mc =
            self.number_of(c"nvmlDeviceGetTemperature", device, OF_GPU).map(|degrees| i64::from(degrees) * 1000);
        gpu.sensors.power_mw = self.number(c"nvmlDeviceGetPowerUsage", device).map(u64::from);
        for (kind, name) in CLOCKS {
            if let Some(clock) = self.number_of(c"nvmlDeviceGetClockInfo", device, kind) {
                gpu.sensors.clocks_mhz.insert(name.into(), clock);
            }
            if let Some(clock) = self.number_of(c"nvmlDeviceGetMaxClockInfo", device, kind) {
                gpu.max_clocks_mhz.insert(name.into(), clock);
            }
        }
        Ok(gpu)
    }

    /// A function; `None` if the library is older.
    ///
    /// # Safety
    /// `F` is a function pointer of the symbol's type.
    unsafe fn function<F: Copy>(&self, name: &std::ffi::CStr) -> Option<F> {
        // SAFETY: the caller's promise. The library is unloaded only with this process, after the last call.
        unsafe { self.library.get::<F>(name) }.ok().map(|symbol| *symbol)
    }

    fn device(&self, pci: Option<&str>, uuid: Option<&str>) -> Result<Device, String> {
        type Find = unsafe extern "C" fn(*const c_char, *mut Device) -> Status;
        let lookups = [(c"nvmlDeviceGetHandleByPciBusId_v2", pci), (c"nvmlDeviceGetHandleByUUID", uuid)];
        let mut reason = "the device has neither a PCI address nor a UUID".to_owned();
        for (name, key) in lookups {
            let Some(key) = key.and_then(|key| CString::new(key).ok()) else { continue };
            let mut device: Device = std::ptr::null_mut();
            // SAFETY: both functions have this type.
            let Some(find) = (unsafe { self.function::<Find>(name) }) else { continue };
            // SAFETY: `key` is a NUL-terminated string, and `device` outlives the call.
            match unsafe { find(key.as_ptr(), &mut device) } {
                SUCCESS => return Ok(device),
                status => reason = format!("{} failed with {status}", name.to_string_lossy()),
            }
        }
        Err(reason)
    }

    fn version(&self) -> String {
        type Get = unsafe extern "C" fn(*mut c_char, u32) -> Status;
        // SAFETY: the function has this type.
        let Some(get) = (unsafe { self.function::<Get>(c"nvmlSystemGetNVMLVersion") }) else { return String::new() };
        // SAFETY: the pointer and the length describe a writable buffer.
        read_text(|buffer, length| unsafe { get(buffer, length) }).unwrap_or_default()
    }

    /// A text of a device.
    fn text(&self, name: &std::ffi::CStr, device: Device) -> Option<String> {
        type Get = unsafe extern "C" fn(Device, *mut c_char, u32) -> Status;
        // SAFETY: the functions that this is called with have this type.
        let get = unsafe { self.function::<Get>(name) }?;
        // SAFETY: the device is the library's; the pointer and the length describe a writable buffer.
        read_text(|buffer, length| unsafe { get(device, buffer, length) })
    }

    /// The function has no length: it writes at most 64 bytes.
    fn gsp_firmware(&self, device: Device) -> Option<String> {
        type Get = unsafe extern "C" fn(Device, *mut c_char) -> Status;
        // SAFETY: the function has this type.
        let get = unsafe { self.function::<Get>(c"nvmlDeviceGetGspFirmwareVersion") }?;
        // SAFETY: the device is the library's, and the buffer is longer than `NVML_GSP_FIRMWARE_VERSION_BUF_SIZE`, 64.
        read_text(|buffer, _| unsafe { get(device, buffer) })
    }

    /// A number of a device.
    fn number(&self, name: &std::ffi::CStr, device: Device) -> Option<u32> {
        type Get = unsafe extern "C" fn(Device, *mut u32) -> Status;
        let mut number = 0;
        // SAFETY: the functions that this is called with have this type.
        let get = unsafe { self.function::<Get>(name) }?;
        // SAFETY: the device is the library's, and `number` outlives the call.
        (unsafe { get(device, &mut number) } == SUCCESS).then_some(number)
    }

    /// A number of a kind, of a device.
    fn number_of(&self, name: &std::ffi::CStr, device: Device, kind: u32) -> Option<u32> {
        type Get = unsafe extern "C" fn(Device, u32, *mut u32) -> Status;
        let mut number = 0;
        // SAFETY: the functions that this is called with have this type; enumerations are 32 bits wide.
        let get = unsafe { self.function::<Get>(name) }?;
        // SAFETY: the device is the library's, and `number` outlives the call.
        (unsafe { get(device, kind, &mut number) } == SUCCESS).then_some(number)
    }

    /// The present value of a mode that also has a pending value.
    fn mode(&self, name: &std::ffi::CStr, device: Device) -> Option<bool> {
        type Get = unsafe extern "C" fn(Device, *mut u32, *mut u32) -> Status;
        let (mut present, mut pending) = (0, 0);
        // SAFETY: the functions that this is called with have this type.
        let get = unsafe { self.function::<Get>(name) }?;
        // SAFETY: the device is the library's, and both numbers outlive the call.
        (unsafe { get(device, &mut present, &mut pending) } == SUCCESS).then_some(present == 1)
    }
}

/// The text that `get` writes to a buffer of the given length.
fn read_text(get: impl FnOnce(*mut c_char, u32) -> Status) -> Option<String> {
    let mut bytes = [0_u8; TEXT];
    let status = get(bytes.as_mut_ptr().cast(), u32::try_from(TEXT).ok()?);
    let end = bytes.iter().position(|byte| *byte == 0)?;
    (status == SUCCESS).then(|| String::from_utf8_lossy(&bytes[..end]).into_owned())
}
