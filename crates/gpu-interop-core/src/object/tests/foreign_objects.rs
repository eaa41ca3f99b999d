//! Objects of one device on a stream of another.

use super::recorder::{Recorder, gpu};
use super::{assert_invalid, binary, mapped, open, open_on};
use crate::backend::WaitCondition;
use crate::kernel::{LaunchConfig, ModuleImage};

#[test]
fn objects_of_another_device_are_rejected_everywhere() {
    let (recorder, device) = open();
    let (other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let (queue, own, foreign) = (device.create_stream().expect("stream"), mapped(&device), mapped(&other));
    let (event, semaphore) = (other.create_event().expect("event"), binary(&other));
    let exportable = other.allocate_exportable(64).expect("allocate");
    let kernel = other.load_module(ModuleImage::Builtin).expect("load").kernel(c"touch").expect("kernel");
    let (four, eight) = (foreign.slice(..4).expect("slice"), foreign.slice(..8).expect("slice"));
    let (mut host, condition) = ([0; 4], WaitCondition::Equal);
    let pointer = host.as_mut_ptr();
    other_recorder.forget_calls();

    let both = |kind| [kind, "another device", "card 1", "card 2"];
    let rejected = |operation: &str, kind, work: &dyn Fn() -> crate::Result<()>| {
        assert_invalid(&recorder, operation, &both(kind), work);
    };
    rejected("Stream::copy", "memory", &|| queue.copy(&own, &foreign));
    rejected("Stream::copy", "memory", &|| queue.copy(&foreign, &own));
    rejected("Stream::copy", "memory", &|| queue.copy(&foreign, &foreign));
    rejected("Stream::copy", "memory", &|| queue.copy(own.slice(..4096)?, &exportable));
    rejected("Stream::read", "memory", &|| queue.read(four, &mut [0; 4]));
    rejected("Stream::write", "memory", &|| queue.write(four, &[0; 4]));
    // SAFETY: nothing is copied.
    rejected("Stream::read_async", "memory", &|| unsafe { queue.read_async(four, pointer) });
    // SAFETY: nothing is copied.
    rejected("Stream::write_async", "memory", &|| unsafe { queue.write_async(four, pointer) });
    rejected("Stream::fill", "memory", &|| queue.fill(&foreign, 0));
    rejected("Stream::fill_u32", "memory", &|| queue.fill_u32(&exportable, 0));
    rejected("Stream::wait_value_u32", "memory", &|| queue.wait_value_u32(four, 0, condition));
    rejected("Stream::wait_value_u64", "memory", &|| queue.wait_value_u64(eight, 0, condition));
    rejected("Stream::write_value_u32", "memory", &|| queue.write_value_u32(four, 0));
    rejected("Stream::write_value_u64", "memory", &|| queue.write_value_u64(eight, 0));
    rejected("Stream::signal", "semaphore", &|| queue.signal(&[semaphore.signal()]));
    rejected("Stream::wait", "semaphore", &|| queue.wait(&[semaphore.wait()]));
    rejected("Stream::record", "event", &|| queue.record(&event));
    rejected("Stream::wait_event", "event", &|| queue.wait_event(&event));
    // SAFETY: nothing is launched.
    rejected("Stream::launch", "kernel", &|| unsafe { queue.launch(&kernel, &LaunchConfig::linear(1), &[]) });
    assert_eq!(other_recorder.calls(), [], "the other device is not called either");
}

/// The same hardware opened twice is two devices, whose raw values cannot be combined.
#[test]
fn objects_of_two_devices_on_the_same_hardware_cannot_be_combined() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(1)));
    let (queue, foreign) = (device.create_stream().expect("stream"), mapped(&other));
    assert_invalid(&recorder, "Stream::fill", &["another device", "card 1"], || queue.fill(&foreign, 0));
    let clone = device.clone();
    queue.fill(&mapped(&clone), 0).expect("a clone is the same device");
}
