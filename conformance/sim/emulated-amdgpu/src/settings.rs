//! The environment variables that the emulation reads, all optional.
//!
//! | variable (`GPU_INTEROP_SIM_AMDGPU_...`) | meaning | default |
//! |---|---|---|
//! | `DEVICES` | comma list of GPUs: `gfx906[@DDDD:BB:DD.F]` | `gfx906@0000:03:00.0` |
//! | `VRAM` | bytes of video memory, each GPU | 8 GiB, as the suite has an object of more than 4 GiB |
//! | `BAR` | `large`: the CPU maps all video memory; `small`: none | `large` |
//! | `FAULTS` | comma list of faults, see [`crate::faults`] | none |
//! | `LOG` | 0 to 3, messages to stderr | 0 |
//! | `ACCELERATE` | `large`: the runtimes' kernels of large fills and copies are executed as such; `none`: all instructions are executed; `check`: they are, and the kernels of fills and copies are compared with what they should do | `large` |
//! | `TRAP_HANDLER` | `reserved`: the kernel's trap handler is at addresses that no program uses; `high`: it is at 0x800000000000, as of Linux 6.6.1 to 6.6.13, 6.7.0 and 6.7.1, where RADV's first program or command buffer is | `reserved` |
//! | `REPORT` | file that gets one line of JSON at exit, see [`crate::report`] | none |
//! | `VULKAN_GPU` | index of the GPU whose address the Vulkan layer gives out, or `none` | 0 |
//!
//! They are read once, when a process first looks up a device of the driver. With an invalid value there is no device,
//! and a message on stderr names the variable.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::faults::Fault;
use crate::gpu::{GpuSetting, Model};
use crate::report;

/// The settings of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) gpus: Vec<GpuSetting>,
    pub(crate) vram: u64,
    pub(crate) large_bar: bool,
    pub(crate) faults: Vec<Fault>,
    pub(crate) log: u8,
    pub(crate) acceleration: Acceleration,
    pub(crate) trap_handler: TrapHandler,
    pub(crate) report: Option<PathBuf>,
    pub(crate) vulkan_gpu: Option<usize>,
}

/// How the runtimes' kernels of fills and copies are executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Acceleration {
    /// Large ones as such, without their instructions.
    Large,
    /// By their instructions.
    None,
    /// By their instructions, and the result is compared.
    Check,
}

/// Where the kernel maps its trap handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TrapHandler {
    /// At addresses that are withheld from programs.
    Reserved,
    /// At the lowest of the high addresses.
    High,
}

/// The settings of this process; `None` if a variable is invalid.
pub(crate) fn settings() -> Option<&'static Settings> {
    static SETTINGS: OnceLock<Option<Settings>> = OnceLock::new();
    let read = || match Settings::read(|name| std::env::var_os(format!("GPU_INTEROP_SIM_AMDGPU_{name}"))) {
        Ok(settings) => {
            report::set_level(settings.log);
            Some(settings)
        }
        Err(error) => {
            report::failure(format_args!("{error}; there is no GPU"));
            None
        }
    };
    SETTINGS.get_or_init(read).as_ref()
}

impl Settings {
    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, SettingsError> {
        let text = |name: &'static str| match variable(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text).filter(|text| !text.is_empty())),
            Some(Err(bytes)) => Err(SettingsError::new(name, &bytes.to_string_lossy())),
        };
        fn number<T: FromStr>(name: &'static str, text: Option<String>, default: T) -> Result<T, SettingsError> {
            text.map_or(Ok(default), |text| text.parse().map_err(|_| SettingsError::new(name, &text)))
        }
        let gpus = gpus(text("DEVICES")?.as_deref().unwrap_or("gfx906"))?;
        let large_bar = match text("BAR")?.as_deref() {
            None | Some("large") => true,
            Some("small") => false,
            Some(other) => return Err(SettingsError::new("BAR", other)),
        };
        let acceleration = match text("ACCELERATE")?.as_deref() {
            None | Some("large") => Acceleration::Large,
            Some("none") => Acceleration::None,
            Some("check") => Acceleration::Check,
            Some(other) => return Err(SettingsError::new("ACCELERATE", other)),
        };
        let trap_handler = match text("TRAP_HANDLER")?.as_deref() {
            None | Some("reserved") => TrapHandler::Reserved,
            Some("high") => TrapHandler::High,
            Some(other) => return Err(SettingsError::new("TRAP_HANDLER", other)),
        };
        let vulkan_gpu = match text("VULKAN_GPU")? {
            Some(none) if none == "none" => None,
            index => Some(number("VULKAN_GPU", index, 0)?),
        };
        if let Some(index) = vulkan_gpu.filter(|index| *index >= gpus.len()) {
            return Err(SettingsError::new("VULKAN_GPU", &index.to_string()));
        }
        Ok(Self {
            gpus,
            vram: number("VRAM", text("VRAM")?, 8 << 30)?,
            large_bar,
            faults: text("FAULTS")?.map_or(Ok(Vec::new()), |list| list.split(',').map(str::parse).collect())?,
            log: number("LOG", text("LOG")?, 0)?,
            acceleration,
            trap_handler,
            report: variable("REPORT").filter(|path| !path.is_empty()).map(PathBuf::from),
            vulkan_gpu,
        })
    }
}

/// Parses the list of GPUs. The n-th GPU without an address gets its own bus: 03, 43, 83, c3.
fn gpus(list: &str) -> Result<Vec<GpuSetting>, SettingsError> {
    let mut gpus = Vec::new();
    for (item, bus) in list.split(',').zip([0x03, 0x43, 0x83, 0xc3]) {
        let (name, address) = match item.split_once('@') {
            Some((name, address)) => (name, address.parse()?),
            None => (item, PciAddress { domain: 0, bus, device: 0, function: 0 }),
        };
        let model = Model::named(name).ok_or_else(|| SettingsError::new("DEVICES", item))?;
        if gpus.iter().any(|other: &GpuSetting| other.address == address) {
            return Err(SettingsError::new("DEVICES", item));
        }
        gpus.push(GpuSetting { model, address });
    }
    if gpus.len() < list.split(',').count() {
        return Err(SettingsError::new("DEVICES", list));
    }
    Ok(gpus)
}

/// A PCI address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PciAddress {
    /// The domain.
    pub domain: u16,
    /// The bus.
    pub bus: u8,
    /// The device, 0 to 31.
    pub device: u8,
    /// The function, 0 to 7.
    pub function: u8,
}

impl fmt::Display for PciAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl FromStr for PciAddress {
    type Err = SettingsError;

    fn from_str(text: &str) -> Result<Self, SettingsError> {
        let parse = || {
            let (rest, function) = text.rsplit_once('.')?;
            let mut parts = rest.split(':');
            let address = Self {
                domain: u16::from_str_radix(parts.next()?, 16).ok()?,
                bus: u8::from_str_radix(parts.next()?, 16).ok()?,
                device: u8::from_str_radix(parts.next()?, 16).ok().filter(|device| *device < 32)?,
                function: function.parse().ok().filter(|function| *function < 8)?,
            };
            parts.next().is_none().then_some(address)
        };
        parse().ok_or_else(|| SettingsError::new("DEVICES", text))
    }
}

/// A variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("GPU_INTEROP_SIM_AMDGPU_{variable} is wrong: `{value}`")]
pub struct SettingsError {
    variable: &'static str,
    value: String,
}

impl SettingsError {
    pub(crate) fn new(variable: &'static str, value: &str) -> Self {
        Self { variable, value: value.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings, SettingsError> {
        Settings::read(|name| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_default_is_one_gfx906() {
        let settings = read(&[]).unwrap();
        let [gpu] = settings.gpus[..] else { panic!("{settings:?}") };
        assert_eq!((gpu.model.name, gpu.address.to_string().as_str()), ("gfx906", "0000:03:00.0"));
        assert_eq!((settings.vram, settings.large_bar, settings.vulkan_gpu), (8 << 30, true, Some(0)));
        assert_eq!((settings.log, settings.report, settings.faults), (0, None, Vec::new()));
        assert_eq!((settings.acceleration, settings.trap_handler), (Acceleration::Large, TrapHandler::Reserved));
    }

    #[test]
    fn every_variable_is_read() {
        let settings = read(&[
            ("DEVICES", "gfx900,gfx906@0001:0a:1f.7"),
            ("VRAM", "1048576"),
            ("BAR", "small"),
            ("FAULTS", "queue-hang:2,ioctl-create-queue:1:ENOMEM"),
            ("LOG", "2"),
            ("ACCELERATE", "check"),
            ("TRAP_HANDLER", "high"),
            ("REPORT", "/x/y"),
            ("VULKAN_GPU", "1"),
        ])
        .unwrap();
        let addresses: Vec<_> = settings.gpus.iter().map(|gpu| format!("{} {}", gpu.model.name, gpu.address)).collect();
        assert_eq!(addresses, ["gfx900 0000:03:00.0", "gfx906 0001:0a:1f.7"]);
        assert_eq!((settings.vram, settings.large_bar, settings.faults.len()), (1 << 20, false, 2));
        assert_eq!((settings.log, settings.report, settings.vulkan_gpu), (2, Some("/x/y".into()), Some(1)));
        assert_eq!((settings.acceleration, settings.trap_handler), (Acceleration::Check, TrapHandler::High));
        assert_eq!(read(&[("VULKAN_GPU", "none")]).unwrap().vulkan_gpu, None);
        let second = read(&[("DEVICES", "gfx906,gfx906")]).unwrap().gpus[1].address;
        assert_eq!(second.to_string(), "0000:43:00.0");
    }

    #[test]
    fn wrong_values_are_errors_that_name_the_variable() {
        for (name, value) in [
            ("DEVICES", "gfx1"),
            ("DEVICES", "gfx906@3:0"),
            ("DEVICES", "gfx906@0000:03:20.0"),
            ("DEVICES", "gfx906@0000:03:00.0,gfx906@0000:03:00.0"),
            ("DEVICES", "gfx906,gfx906,gfx906,gfx906,gfx906"),
            ("VRAM", "4G"),
            ("BAR", "tiny"),
            ("FAULTS", "nonsense"),
            ("LOG", "loud"),
            ("ACCELERATE", "all"),
            ("TRAP_HANDLER", "low"),
            ("VULKAN_GPU", "1"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert_eq!(error.variable, name, "{value}: {error}");
        }
    }
}
