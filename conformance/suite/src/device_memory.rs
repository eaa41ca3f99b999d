//! Free memory of the device, as reported by its driver.

use std::ffi::{c_int, c_uint};
use std::time::Duration;

use libloading::Library;

use crate::backend_under_test::DriverApi;
use crate::context::Context;
use crate::ensure;
use crate::outcome::{Stop, Verdict};

/// Permitted decrease of free memory, bytes: other processes allocate, too.
const SLACK: u64 = 256 << 20;
/// The code of both vendors' drivers for an unsupported query.
pub(crate) const NOT_SUPPORTED: c_uint = 801;

/// Queries the driver of the device under test directly: the library has no such query.
pub(crate) struct DeviceMemory {
    driver: Library,
    ordinal: c_int,
    ask: fn(&Self) -> Verdict<u64>,
}

/// Calls a function of the driver, loaded as `self.driver`, that must succeed.
macro_rules! call {
    ($self:ident.$symbol:ident($($argument:expr => $type:ty),* $(,)?)) => {{
        let name = concat!(stringify!($symbol), "\0").as_bytes();
        // SAFETY: the function has this type in the vendor's header.
        let function = unsafe { $self.driver.get::<unsafe extern "system" fn($($type),*) -> std::ffi::c_uint>(name) }
            .map_err(|_| Stop::unsupported(format!("the driver has no {}", stringify!($symbol))))?;
        // SAFETY: pointers are valid for the call; contexts are live.
        match unsafe { function($($argument),*) } {
            0 => Ok(()),
            $crate::device_memory::NOT_SUPPORTED => Err(Stop::unsupported(format!("{}: not supported", stringify!($symbol)))),
            code => Err(Stop::failed(format!("{}: {code}", stringify!($symbol)))),
        }
    }};
}

pub(crate) use call;

impl DeviceMemory {
    /// Loads the driver of the device under test.
    ///
    /// # Errors
    /// Unsupported for a backend without a known driver API, and for a driver without the query.
    pub(crate) fn of(context: &Context) -> Verdict<Self> {
        let info = context.backend().info();
        let ask = match context.driver_api()? {
            DriverApi::Cuda => Self::cuda,
            DriverApi::Hip => Self::hip,
        };
        let Some(file) = &info.library else {
            return Err(Stop::unsupported("free memory of the device: the driver's library is not known".into()));
        };
        // SAFETY: the backend has loaded this file, so no initialiser runs.
        let driver = unsafe { Library::new(file) }?;
        let ordinal = c_int::try_from(context.ordinal())?;
        let memory = Self { driver, ordinal, ask };
        memory.free()?;
        Ok(memory)
    }

    /// Free memory, bytes.
    pub(crate) fn free(&self) -> Verdict<u64> {
        (self.ask)(self)
    }

    /// Runs a tenth of `cycles` to warm up, then `cycles`, and checks that free memory shrinks by less than 256 MiB in
    /// between. The sum of all leaks must exceed that.
    pub(crate) fn comes_back(&self, cycles: u32, mut run: impl FnMut(u32) -> Verdict) -> Verdict {
        (0..cycles.div_ceil(10)).try_for_each(&mut run)?;
        let before = self.free()?;
        (0..cycles).try_for_each(&mut run)?;
        let mut gone = before.saturating_sub(self.free()?);
        for _ in 0..100 {
            if gone < SLACK {
                break;
            }
            // Asynchronous releases may have ended.
            std::thread::sleep(Duration::from_millis(20));
            gone = before.saturating_sub(self.free()?);
        }
        ensure!(gone < SLACK, "{gone} bytes of the device's memory were not freed after {cycles} cycles");
        Ok(())
    }

    fn cuda(&self) -> Verdict<u64> {
        let (mut device, mut context, mut popped) = (0, 0, 0);
        call!(self.cuDeviceGet(&raw mut device => *mut c_int, self.ordinal => c_int))?;
        call!(self.cuDevicePrimaryCtxRetain(&raw mut context => *mut usize, device => c_int))?;
        call!(self.cuCtxPushCurrent_v2(context => usize))?;
        let (mut free, mut total) = (0, 0);
        let asked = call!(self.cuMemGetInfo_v2(&raw mut free => *mut usize, &raw mut total => *mut usize));
        call!(self.cuCtxPopCurrent_v2(&raw mut popped => *mut usize))?;
        call!(self.cuDevicePrimaryCtxRelease_v2(device => c_int))?;
        asked.map(|()| free as u64)
    }

    fn hip(&self) -> Verdict<u64> {
        let (mut before, mut free, mut total) = (0, 0, 0);
        call!(self.hipGetDevice(&raw mut before => *mut c_int))?;
        call!(self.hipSetDevice(self.ordinal => c_int))?;
        let asked = call!(self.hipMemGetInfo(&raw mut free => *mut usize, &raw mut total => *mut usize));
        call!(self.hipSetDevice(before => c_int))?;
        asked.map(|()| free as u64)
    }
}
