//! The backend: the driver and its devices.

use std::ffi::{CStr, c_char, c_int};
use std::sync::Arc;

use gpu_interop_core::{
    Backend, BackendDevice, BackendInfo, DeviceIdentity, DeviceKind, Error, ErrorKind, Luid, PciAddress, Result, Uuid,
};

use crate::device::CudaDevice;
use crate::driver::Driver;
use crate::sys::{self, CuResult, attribute};

/// NVIDIA's driver, loaded and initialised.
#[derive(Debug)]
pub struct CudaBackend {
    info: BackendInfo,
    driver: Arc<Driver>,
}

impl CudaBackend {
    /// Finds the driver's library, loads it and initialises it (`cuInit`).
    ///
    /// # Errors
    /// [`ErrorKind::DriverNotFound`] with every path tried; [`ErrorKind::SymbolMissing`] if the library is no CUDA driver,
    /// or an incomplete one; [`ErrorKind::DriverTooOld`] if it is older than CUDA 7.0;
    /// [`ErrorKind::NoDevice`] if the driver sees no device; else what the driver answers.
    pub fn load() -> Result<Self> {
        let driver = Driver::load()?;
        let info = BackendInfo {
            name: "cuda".into(),
            driver: driver.version.to_string(),
            library: Some(driver.file.clone()),
            stand_in: driver.stand_in,
        };
        Ok(Self { info, driver: Arc::new(driver) })
    }
}

impl Backend for CudaBackend {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        let mut count: c_int = 0;
        // SAFETY: the pointer is valid for the call.
        self.driver.check("cuDeviceGetCount", unsafe { (self.driver.functions.device_get_count)(&raw mut count) })?;
        (0..count).map(|ordinal| identity(&self.driver, device(&self.driver, ordinal)?)).collect()
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        let devices = self.devices()?;
        let (Some(identity), Ok(number)) = (devices.get(ordinal), c_int::try_from(ordinal)) else {
            let message = format!("there is no such device; there are {}", devices.len());
            return Err(Error::new(ErrorKind::NoDevice, "cuDeviceGet", message).with_context("ordinal", ordinal));
        };
        let device = device(&self.driver, number)?;
        Ok(Arc::new(CudaDevice::open(self.driver.clone(), device, identity.clone())?))
    }
}

fn device(driver: &Driver, ordinal: c_int) -> Result<sys::Device> {
    let mut device = 0;
    // SAFETY: the pointer is valid for the call.
    driver.check("cuDeviceGet", unsafe { (driver.functions.device_get)(&raw mut device, ordinal) })?;
    Ok(device)
}

/// An attribute; `None` if the driver does not know it.
pub(crate) fn attribute(driver: &Driver, device: sys::Device, attribute: c_int) -> Option<c_int> {
    let mut value = 0;
    // SAFETY: the pointer is valid for the call; an unknown attribute is an error.
    let result = unsafe { (driver.functions.device_get_attribute)(&raw mut value, attribute, device) };
    (result == CuResult::SUCCESS).then_some(value)
}

fn identity(driver: &Driver, device: sys::Device) -> Result<DeviceIdentity> {
    let mut name: [c_char; 256] = [0; 256];
    // SAFETY: the buffer is as long as the call is told.
    driver.check("cuDeviceGetName", unsafe { (driver.functions.device_get_name)(name.as_mut_ptr(), 256, device) })?;
    // Whatever the driver wrote, the text ends here.
    name[255] = 0;
    // SAFETY: the buffer has a NUL.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned();
    Ok(DeviceIdentity {
        name,
        kind: DeviceKind::Gpu,
        uuid: uuid(driver, device),
        luid: luid(driver, device),
        pci: pci(driver, device),
    })
}

fn uuid(driver: &Driver, device: sys::Device) -> Option<Uuid> {
    let mut bytes = [0; 16];
    // SAFETY: the pointer is valid for the call. The second version tells a MIG instance from its card.
    let result = unsafe { driver.functions.device_get_uuid.get()?(&raw mut bytes, device) };
    (result == CuResult::SUCCESS).then(|| Uuid::from_bytes(bytes)).flatten()
}

/// Windows only: elsewhere drivers answer "not supported", or success and zeros.
fn luid(driver: &Driver, device: sys::Device) -> Option<Luid> {
    if cfg!(not(windows)) {
        return None;
    }
    let mut bytes = [0; 8];
    let mut node_mask = 0;
    // SAFETY: the pointers are valid for the call.
    let result = unsafe { driver.functions.device_get_luid.get()?(&raw mut bytes, &raw mut node_mask, device) };
    (result == CuResult::SUCCESS && bytes != [0; 8]).then_some(Luid { bytes, node_mask })
}

fn pci(driver: &Driver, device: sys::Device) -> Option<PciAddress> {
    let read = |number| attribute(driver, device, number);
    Some(PciAddress {
        domain: u32::try_from(read(attribute::PCI_DOMAIN_ID)?).ok()?,
        bus: u8::try_from(read(attribute::PCI_BUS_ID)?).ok()?,
        device: u8::try_from(read(attribute::PCI_DEVICE_ID)?).ok()?,
        function: 0,
    })
}
