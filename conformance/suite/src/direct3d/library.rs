//! Loads Direct3D, or a simulator of it.

use std::ffi::c_void;
use std::path::Path;
use std::sync::OnceLock;

use gpu_interop::Device;
use gpu_interop::d3d::windows::Win32::Foundation::{HMODULE, LUID};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D::{
    D3D_DRIVER_TYPE, D3D_DRIVER_TYPE_UNKNOWN, D3D_FEATURE_LEVEL, D3D_FEATURE_LEVEL_11_0,
};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D11::{D3D11_SDK_VERSION, ID3D11Device};
use gpu_interop::d3d::windows::Win32::Graphics::Direct3D12::ID3D12Device;
use gpu_interop::d3d::windows::Win32::Graphics::Dxgi::{IDXGIAdapter1, IDXGIDevice, IDXGIFactory4};
use gpu_interop::d3d::windows::core::{GUID, HRESULT, Interface};
use libloading::os::windows as loading;

use crate::ensure;
use crate::outcome::{Stop, Verdict};
use crate::system::set_variable;

/// The full path of a simulator of Direct3D, used instead of the system's.
pub(crate) const VARIABLE: &str = "GPU_INTEROP_D3D_LIBRARY";
/// Symbol that identifies a simulator.
const MARKER: &[u8] = b"gpu_interop_simulated\0";

type CreateFactory = unsafe extern "system" fn(u32, *const GUID, *mut *mut c_void) -> HRESULT;
type Create12 = unsafe extern "system" fn(*mut c_void, D3D_FEATURE_LEVEL, *const GUID, *mut *mut c_void) -> HRESULT;
type Create11 = unsafe extern "system" fn(
    *mut c_void,
    D3D_DRIVER_TYPE,
    HMODULE,
    u32,
    *const D3D_FEATURE_LEVEL,
    u32,
    u32,
    *mut *mut c_void,
    *mut D3D_FEATURE_LEVEL,
    *mut *mut c_void,
) -> HRESULT;

/// The functions that create devices and factories. Loaded once, and never unloaded, because devices have threads.
pub(crate) struct Library {
    factory: CreateFactory,
    create12: Create12,
    create11: Create11,
    /// The simulator's file; `None` for the system's Direct3D.
    simulated: Option<String>,
}

/// The adapter of the device under test.
pub(crate) struct Adapter {
    library: &'static Library,
    raw: IDXGIAdapter1,
}

fn of_system(name: &str) -> Verdict<loading::Library> {
    // SAFETY: libraries of the system, from its own folder, whose initialisers have no preconditions.
    unsafe { loading::Library::load_with_flags(name, loading::LOAD_LIBRARY_SEARCH_SYSTEM32) }
        .map_err(|error| Stop::skipped(format!("{name} cannot be loaded: {error}")))
}

/// # Safety
/// `T` is the function's type.
unsafe fn function<T: Copy>(library: &loading::Library, name: &str) -> Verdict<T> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get::<T>(name.as_bytes()) };
    found.map(|function| *function).map_err(|error| Stop::failed(format!("{name}: {error}")))
}

impl Library {
    fn load() -> Verdict<Self> {
        let (dxgi, d3d12, d3d11, simulated) = match set_variable(VARIABLE) {
            None => (of_system("dxgi.dll")?, of_system("d3d12.dll")?, of_system("d3d11.dll")?, None),
            Some(path) => {
                ensure!(Path::new(&path).is_absolute(), "{VARIABLE}: {} is not an absolute path", path.display());
                let load = || {
                    // SAFETY: the user guarantees the library.
                    unsafe { loading::Library::new(&path) }
                        .map_err(|error| Stop::failed(format!("{VARIABLE}: {}: {error}", path.display())))
                };
                let library = load()?;
                // SAFETY: only the presence of the symbol is used.
                if unsafe { library.get::<*const c_void>(MARKER) }.is_err() {
                    let message = "it does not say that it simulates Direct3D; unset the variable for the system's";
                    return Err(Stop::failed(format!("{VARIABLE}: {}: {message}", path.display())));
                }
                (library, load()?, load()?, Some(path.display().to_string()))
            }
        };
        // SAFETY: the types are those of Direct3D's headers.
        let library = unsafe {
            Self {
                factory: function(&dxgi, "CreateDXGIFactory2")?,
                create12: function(&d3d12, "D3D12CreateDevice")?,
                create11: function(&d3d11, "D3D11CreateDevice")?,
                simulated,
            }
        };
        [dxgi, d3d12, d3d11].into_iter().for_each(std::mem::forget);
        Ok(library)
    }

    /// Loads the machine's Direct3D, or the library that the environment names.
    ///
    /// # Errors
    /// [`Stop::skipped`] if it is missing.
    pub(crate) fn open() -> Verdict<&'static Self> {
        static LOADED: OnceLock<Verdict<Library>> = OnceLock::new();
        LOADED.get_or_init(Self::load).as_ref().map_err(Clone::clone)
    }

    /// The simulator's file; `None` for the system's Direct3D.
    pub(crate) fn simulated(&self) -> Option<&str> {
        self.simulated.as_deref()
    }

    /// The adapter of the device.
    ///
    /// # Errors
    /// [`Stop::unsupported`] if the device has no LUID, or is a real one while Direct3D is simulated; [`Stop::skipped`]
    /// if Direct3D does not find the device.
    pub(crate) fn adapter(&'static self, device: &Device) -> Verdict<Adapter> {
        if self.simulated.is_some() && !device.backend().simulated {
            return Err(Stop::unsupported(
                "Direct3D is simulated here; a real driver does not import its objects".into(),
            ));
        }
        let Some(luid) = device.identity().luid else {
            return Err(Stop::unsupported("the device has no LUID, by which Direct3D identifies adapters".into()));
        };
        let skipped = |what: &str, code: HRESULT| {
            Stop::skipped(format!(
                "{what} failed with {:#010x}; is the graphics driver of this device installed?",
                code.0
            ))
        };
        let mut factory: Option<IDXGIFactory4> = None;
        // SAFETY: the result is kept as the requested interface.
        let code = unsafe { (self.factory)(0, &IDXGIFactory4::IID, (&raw mut factory).cast()) };
        let factory = factory.filter(|_| code.is_ok()).ok_or_else(|| skipped("CreateDXGIFactory2", code))?;
        let [a, b, c, d, high @ ..] = luid.bytes;
        let luid = LUID { LowPart: u32::from_le_bytes([a, b, c, d]), HighPart: i32::from_le_bytes(high) };
        // SAFETY: the argument is a plain value.
        let raw = unsafe { factory.EnumAdapterByLuid(luid) };
        let raw = raw.map_err(|error| skipped("EnumAdapterByLuid, for the device under test,", error.code()))?;
        Ok(Adapter { library: self, raw })
    }
}

impl Adapter {
    pub(crate) fn device12(&self) -> Verdict<ID3D12Device> {
        let mut device: Option<ID3D12Device> = None;
        // SAFETY: the adapter is live, and the result is kept as the requested interface.
        let code = unsafe {
            let adapter = self.raw.as_raw();
            (self.library.create12)(adapter, D3D_FEATURE_LEVEL_11_0, &ID3D12Device::IID, (&raw mut device).cast())
        };
        code.ok()?;
        device.ok_or_else(|| Stop::failed("D3D12CreateDevice returned no device".into()))
    }

    pub(crate) fn device11(&self) -> Verdict<ID3D11Device> {
        let mut device: Option<ID3D11Device> = None;
        let null = std::ptr::null_mut();
        // SAFETY: the adapter is live; unused outputs are null.
        let code = unsafe {
            (self.library.create11)(
                self.raw.as_raw(),
                D3D_DRIVER_TYPE_UNKNOWN,
                HMODULE::default(),
                0,
                std::ptr::null(),
                0,
                D3D11_SDK_VERSION,
                (&raw mut device).cast(),
                std::ptr::null_mut(),
                null,
            )
        };
        code.ok()?;
        device.ok_or_else(|| Stop::failed("D3D11CreateDevice returned no device".into()))
    }

    /// The description for reports: the simulator, or the driver's version.
    pub(crate) fn describe(&self) -> String {
        if let Some(file) = self.library.simulated() {
            return format!("SIMULATED on the CPU by {file}");
        }
        // SAFETY: the interface's name is a constant.
        match unsafe { self.raw.CheckInterfaceSupport(&IDXGIDevice::IID) } {
            Ok(version) => {
                let part = |shift: u32| (version >> shift) & 0xffff;
                format!("driver {}.{}.{}.{}", part(48), part(32), part(16), part(0))
            }
            Err(error) => format!("driver of an unknown version ({error})"),
        }
    }
}
