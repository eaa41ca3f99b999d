//! Instances and devices without required features.

use ash::vk;
use gpu_interop_core::{ErrorKind, SemaphoreHandle, SemaphoreHandleKind};
use gpu_interop_test_support::request::semaphore_request;
use gpu_interop_vulkan::{ExportableSemaphore, ImportedSemaphore, OwnedSemaphore};

use crate::driver::{Settings, calls, file, start, try_start};

fn rejected(settings: Settings) -> (ErrorKind, String) {
    let error = try_start(settings).map(drop).expect_err("rejected");
    assert_eq!(error.operation(), "VulkanInterop::new", "{error}");
    assert!(error.device().is_some(), "{error}");
    (error.kind(), error.message().to_owned())
}

/// Such an instance lacks the newer functions, or leaves newer structures unfilled.
#[test]
fn instances_of_vulkan_1_0_are_rejected() {
    let default = Settings::default();
    for settings in [Settings { has_1_1: false, ..default }, Settings { fills_1_1: false, ..default }] {
        let (kind, message) = rejected(settings);
        assert_eq!(kind, ErrorKind::InvalidArgument, "{settings:?}");
        assert!(message.contains("VkApplicationInfo::apiVersion"), "{message}");
    }
}

#[test]
fn devices_of_vulkan_1_0_are_rejected() {
    let (kind, message) = rejected(Settings { version: vk::API_VERSION_1_0, ..Settings::default() });
    assert_eq!(kind, ErrorKind::DriverTooOld);
    assert!(message.contains("the device is Vulkan 1.0"), "{message}");
}

/// Without the feature, and without the functions, which a device of Vulkan 1.1 has only with the extension.
#[test]
fn timelines_need_the_feature_and_the_functions() {
    let default = Settings::default();
    for (settings, words) in [
        (Settings { timelines: false, ..default }, "the physical device does not have the feature timelineSemaphore"),
        // Lists no VK_KHR_timeline_semaphore.
        (Settings { version: vk::API_VERSION_1_1, ..default }, "the physical device does not have the feature"),
        (Settings { timeline_functions: false, ..default }, "the device was created without timeline semaphores"),
    ] {
        let interop = start(settings);
        let owned = OwnedSemaphore::timeline(&interop, 0).map(drop);
        let exported = ExportableSemaphore::timeline(&interop, 0).map(drop);
        for (outcome, operation) in [(owned, "OwnedSemaphore::timeline"), (exported, "ExportableSemaphore::timeline")] {
            let error = outcome.expect_err("no timelines");
            assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, operation), "{error}");
            assert!(error.message().contains(words), "{error}");
        }
        let request = semaphore_request(SemaphoreHandle::TimelineFd(file(64)));
        let failure = ImportedSemaphore::new(&interop, request).expect_err("no timelines");
        assert_eq!(failure.kind(), ErrorKind::Unsupported, "{settings:?}");
        assert!(failure.into_request().into_handle().into_fd().is_ok(), "the descriptor is returned");
        assert_eq!(interop.max_timeline_difference(), 0);
        assert!(calls().iter().all(|call| !call.starts_with("vkCreateSemaphore")), "{settings:?}");
        // Binary semaphores work.
        ExportableSemaphore::binary(&interop).expect("a semaphore");
        let features = interop.semaphore_features(SemaphoreHandleKind::TimelineFd).expect("Vulkan has it");
        assert_eq!(features.exportable, !settings.timeline_functions, "{settings:?}");
    }
}
