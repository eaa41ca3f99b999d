//! [`VendorBackend`]: a vendor's driver and its devices.

use std::ffi::c_int;
use std::sync::Arc;

use gpu_interop_core::{Backend, BackendDevice, BackendInfo, DeviceIdentity, Error, ErrorKind, Result};

use crate::device::VendorDevice;
use crate::driver::Driver;
use crate::driver::{CallPurpose, Vendor};
use crate::functions::DeviceNumber;
use crate::status::Status;

/// Loaded and initialised driver of a vendor.
#[derive(Debug)]
pub struct VendorBackend<V: Vendor> {
    info: BackendInfo,
    driver: Arc<Driver<V>>,
}

impl<V: Vendor> VendorBackend<V> {
    /// Finds the driver's library, loads it and initialises it (`cuInit`, `hipInit`).
    ///
    /// # Errors
    /// [`ErrorKind::DriverNotFound`] with every path tried; [`ErrorKind::SymbolMissing`] if the library is not this
    /// vendor's driver, or incomplete; [`ErrorKind::DriverTooOld`] if it is older than [`Vendor::REQUIRED_SINCE`];
    /// [`ErrorKind::NoDevice`] if the driver reports no device; otherwise the driver's error.
    pub fn load() -> Result<Self> {
        let driver = Driver::load()?;
        let info = BackendInfo::new(
            V::NAMING.name(),
            match driver.file.canonicalize().ok().and_then(|file| V::release(&file)) {
                Some(release) => format!("{}, driver {release}", driver.version),
                None => driver.version.to_string(),
            },
        )
        .with_library(Some(driver.file.clone()))
        .with_simulated(driver.simulated);
        Ok(Self { info, driver: Arc::new(driver) })
    }
}

impl<V: Vendor> Backend for VendorBackend<V> {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        let found =
            |ordinal| self.identity(ordinal).map_or_else(|error| unidentified(&error), |(_, identity)| identity);
        Ok((0..self.count()?).map(found).collect())
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        let count = self.count()?;
        let Some(number) = c_int::try_from(ordinal).ok().filter(|number| *number < count) else {
            let message = match count {
                0 => V::meaning(CallPurpose::Initialising, Status::NO_DEVICE).1.to_owned(),
                _ => format!("no device has this ordinal; the driver reports {count} devices"),
            };
            let operation = self.driver.functions.device_get.operation;
            return Err(Error::new(ErrorKind::NoDevice, operation, message).with_context("ordinal", ordinal));
        };
        let (device, identity) = self.identity(number)?;
        Ok(Arc::new(VendorDevice::open(self.driver.clone(), device, identity)?))
    }
}

impl<V: Vendor> VendorBackend<V> {
    /// Returns the number of devices.
    fn count(&self) -> Result<c_int> {
        match self.driver.device_count() {
            Err(error) if error.kind() == ErrorKind::NoDevice => Ok(0),
            count => count,
        }
    }

    fn identity(&self, ordinal: c_int) -> Result<(DeviceNumber, DeviceIdentity)> {
        let device = self.driver.device(ordinal)?;
        Ok((device, self.driver.identity(device)?))
    }
}

/// Identity of a device whose properties cannot be queried. It stays in the list so that the other devices keep their
/// ordinals; without UUID, LUID and PCI address it matches no exporter.
fn unidentified(error: &Error) -> DeviceIdentity {
    DeviceIdentity::default().with_name(format!("a device that cannot be queried ({error})"))
}

/// Declares a vendor's public backend type, which keeps the implementation of [`Vendor`] private to its crate.
///
/// The crate needs `gpu-interop-core` as a dependency.
#[macro_export]
macro_rules! vendor_backend {
    ($(#[$meta:meta])* pub struct $backend:ident($vendor:ty);) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub struct $backend($crate::VendorBackend<$vendor>);

        impl $backend {
            /// Finds the driver's library, loads it and initialises it (`cuInit`, `hipInit`).
            ///
            /// # Errors
            /// [`DriverNotFound`](gpu_interop_core::ErrorKind::DriverNotFound) with every path tried;
            /// [`SymbolMissing`](gpu_interop_core::ErrorKind::SymbolMissing) if the library is not this vendor's
            /// driver, or incomplete; [`DriverTooOld`](gpu_interop_core::ErrorKind::DriverTooOld) if it is older than
            /// this backend requires; [`NoDevice`](gpu_interop_core::ErrorKind::NoDevice) if the driver reports no
            /// device; otherwise the driver's error.
            pub fn load() -> ::gpu_interop_core::Result<Self> {
                $crate::VendorBackend::load().map(Self)
            }
        }

        impl ::gpu_interop_core::Backend for $backend {
            fn info(&self) -> &::gpu_interop_core::BackendInfo {
                self.0.info()
            }

            fn devices(&self) -> ::gpu_interop_core::Result<::std::vec::Vec<::gpu_interop_core::DeviceIdentity>> {
                self.0.devices()
            }

            fn open(
                &self,
                ordinal: usize,
            ) -> ::gpu_interop_core::Result<::std::sync::Arc<dyn ::gpu_interop_core::BackendDevice>> {
                self.0.open(ordinal)
            }
        }
    };
}
