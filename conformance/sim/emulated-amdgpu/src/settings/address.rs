//! PCI addresses of emulated GPUs.

use std::fmt;
use std::str::FromStr;

use super::error::SettingsError;

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
