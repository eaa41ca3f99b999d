//! Reports of the validation layer.

use std::ffi::{CStr, c_void};
use std::sync::{Arc, Mutex};

use ash::vk;
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, Result, caught};

use crate::error::Checked;
use crate::loader::LAYER;

/// The errors that the validation layer reported about one [`HeadlessContext`](crate::HeadlessContext).
///
/// Outlives the context, so that errors about its destruction (such as leaked objects) can be read, too. Clones share
/// the list.
#[doc(alias = "vkCreateDebugUtilsMessengerEXT")]
#[derive(Debug, Clone, Default)]
pub struct ValidationLog {
    errors: Arc<Mutex<Vec<String>>>,
}

impl ValidationLog {
    /// The text of every error so far, in order of arrival.
    #[must_use]
    pub fn errors(&self) -> Vec<String> {
        lock(&self.errors).clone()
    }

    fn push(&self, error: String) {
        tracing::error!(%error, "Vulkan validation");
        lock(&self.errors).push(error);
    }

    /// Creation parameters of a messenger that reports into this log. The log must stay at its address and live until
    /// the messenger is destroyed, and the instance as well if this is chained into its creation.
    pub(super) fn messenger_info(self: &Arc<Self>) -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
        vk::DebugUtilsMessengerCreateInfoEXT::default()
            .message_severity(
                vk::DebugUtilsMessageSeverityFlagsEXT::ERROR | vk::DebugUtilsMessageSeverityFlagsEXT::WARNING,
            )
            .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION)
            .pfn_user_callback(Some(on_message))
            .user_data(Arc::as_ptr(self).cast_mut().cast())
    }
}

/// Features of the installed layer.
pub(super) struct Layer {
    /// The layer has `VK_EXT_validation_features`, which enables the detection of missing barriers.
    pub(super) finds_hazards: bool,
}

/// Fails unless the validation layer and the extension that carries its messages are installed.
pub(super) fn require_layer(entry: &ash::Entry) -> Result<Layer> {
    const OPERATION: &str = "vkEnumerateInstanceLayerProperties";
    let package = if cfg!(windows) { "it is in the Vulkan SDK" } else { "Debian: vulkan-validationlayers" };
    let missing = |what: &str| {
        let message = format!("{what}; install the Khronos validation layer ({package}) or turn validation off");
        Error::unsupported(OPERATION, message)
    };
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.checked(OPERATION)?;
    if !layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(LAYER)) {
        return Err(missing("VK_LAYER_KHRONOS_validation is not installed"));
    }
    let has = |layer, name: &CStr| {
        // SAFETY: as above; the layer was listed.
        let extensions = unsafe { entry.enumerate_instance_extension_properties(layer) }
            .checked("vkEnumerateInstanceExtensionProperties")?;
        Ok::<_, Error>(extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(name)))
    };
    if has(None, vk::EXT_DEBUG_UTILS_NAME)? || has(Some(LAYER), vk::EXT_DEBUG_UTILS_NAME)? {
        return Ok(Layer { finds_hazards: has(Some(LAYER), vk::EXT_VALIDATION_FEATURES_NAME)? });
    }
    Err(missing("neither the loader nor the validation layer has VK_EXT_debug_utils"))
}

/// # Safety
/// Called by Vulkan, with the user data of [`ValidationLog::messenger_info`].
unsafe extern "system" fn on_message(
    severity: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    log: *mut c_void,
) -> vk::Bool32 {
    // A panic must not unwind into the layer. It can only interrupt one push to the list, whose lock ignores poison.
    caught(|| {
        // SAFETY: Vulkan passes null or valid data for the length of the call; its message is null or a C string.
        let text = unsafe {
            data.as_ref()
                .filter(|data| !data.p_message.is_null())
                .map(|data| CStr::from_ptr(data.p_message).to_string_lossy().into_owned())
        };
        let text = text.unwrap_or_default();
        // SAFETY: the pointer comes from `messenger_info`, whose caller keeps the log alive.
        match unsafe { log.cast::<ValidationLog>().as_ref() } {
            Some(log) if severity.contains(vk::DebugUtilsMessageSeverityFlagsEXT::ERROR) => log.push(text),
            _ => tracing::warn!(text, "Vulkan validation"),
        }
    });
    // TRUE would abort the reported call and so change the tested behaviour.
    vk::FALSE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_are_kept() {
        let log = Arc::new(ValidationLog::default());
        let info = log.messenger_info();
        let callback = info.pfn_user_callback.expect("a callback");
        let data = vk::DebugUtilsMessengerCallbackDataEXT::default().message(c"broken");
        for severity in [vk::DebugUtilsMessageSeverityFlagsEXT::WARNING, vk::DebugUtilsMessageSeverityFlagsEXT::ERROR] {
            let kind = vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION;
            // SAFETY: called as by the layer: the data lives, and the user data is the log's.
            let answer = unsafe { callback(severity, kind, &raw const data, info.p_user_data) };
            assert_eq!(answer, vk::FALSE);
        }
        assert_eq!(log.errors(), ["broken"]);
    }
}
