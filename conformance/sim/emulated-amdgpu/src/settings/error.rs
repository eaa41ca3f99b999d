//! The error of a setting.

/// A variable with an invalid value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("GPU_INTEROP_SIM_AMDGPU_{variable} is wrong: `{value}`")]
pub struct SettingsError {
    pub(super) variable: &'static str,
    value: String,
}

impl SettingsError {
    pub(crate) fn new(variable: &'static str, value: &str) -> Self {
        Self { variable, value: value.to_owned() }
    }
}
