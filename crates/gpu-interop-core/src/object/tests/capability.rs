//! Operations on devices that lack the feature.

use super::exported::{memory_request, semaphore_request};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use super::recorder::{Call, Recorder, everything, gpu};
use super::{SIZE, assert_error, binary, exported, opaque, open_on};
use crate::array::{ArrayFormat, ArrayShape, ArrayUsage, ChannelType, MipmappedArrayDesc};
use crate::backend::WaitCondition;
use crate::capability::{Capabilities, Feature, Support};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::{MemoryHandle, NvSciSyncAttrList, ObjectName, SemaphoreHandle, Win32Object};
use crate::kernel::{LaunchConfig, ModuleImage};
use crate::nv_sci::NvSciSyncUse;
use crate::object::{Device, Stream, Timeline};
use crate::texture::TextureDesc;
use crate::timeline::{ExporterTimeline, TimelineStrategy};

/// A timeline that stays at 0.
#[derive(Debug)]
struct Zero;

impl ExporterTimeline for Zero {
    fn value(&self) -> Result<u64> {
        Ok(0)
    }

    fn signal(&self, _value: u64) -> Result<()> {
        Err(Error::unsupported("Zero::signal", "it stays 0"))
    }

    fn wait(&self, _value: u64, _timeout: Duration) -> Result<()> {
        Err(Error::new(ErrorKind::Timeout, "Zero::wait", "it stays 0"))
    }
}

fn named() -> Win32Object {
    Win32Object::Name(ObjectName::new("Local\\object").expect("a name"))
}

/// Results on `device` of every operation that needs `feature`.
fn attempts(device: &Device, feature: Feature) -> Vec<(&'static str, Option<Error>)> {
    let memory = device.import_memory(opaque(SIZE)).expect("import");
    let queue = device.create_stream().expect("stream");
    let format = ArrayFormat::new(ChannelType::Uint8, 1).expect("one channel");
    let desc = MipmappedArrayDesc::new(ArrayShape::D1 { width: 16 }, format);
    let word = |size: u64| memory.map_buffer(0..size).expect("map");
    let condition = WaitCondition::GreaterOrEqual;
    match feature {
        Feature::MappedBuffer => vec![("ExternalMemory::map_buffer", memory.map_buffer(..).err())],
        Feature::MappedMipmappedArray => {
            vec![("ExternalMemory::map_mipmapped_array", memory.map_mipmapped_array(&desc).err())]
        }
        Feature::Surfaces => {
            let usage = ArrayUsage::SURFACE_LOAD_STORE;
            let array = memory.map_mipmapped_array(&MipmappedArrayDesc { usage, ..desc }).expect("map");
            vec![("MappedMipmappedArray::surface", array.surface(0).err())]
        }
        Feature::Textures => {
            let array = memory.map_mipmapped_array(&desc).expect("map");
            let normalized = TextureDesc::new().with_normalized_coordinates(true);
            vec![
                ("MappedMipmappedArray::texture", array.texture(&normalized).err()),
                ("MappedMipmappedArray::texture_of_level", array.texture_of_level(0, &TextureDesc::new()).err()),
            ]
        }
        Feature::ExportableMemory => vec![("Device::allocate_exportable", device.allocate_exportable(1).err())],
        Feature::StreamMemoryOperations32 => vec![
            ("Stream::wait_value_u32", queue.wait_value_u32(&word(4), 0, condition).err()),
            ("Stream::write_value_u32", queue.write_value_u32(&word(4), 0).err()),
        ],
        Feature::StreamMemoryOperations64 => vec![
            ("Stream::wait_value_u64", queue.wait_value_u64(&word(8), 0, condition).err()),
            ("Stream::write_value_u64", queue.write_value_u64(&word(8), 0).err()),
        ],
        Feature::SignalMemory => {
            let bridged = Timeline::with_strategy(device, Arc::new(Zero), TimelineStrategy::HostBridge);
            vec![("Timeline::new", bridged.err())]
        }
        Feature::HostFunctions => vec![("Stream::launch_host_function", queue.launch_host_function(|| ()).err())],
        Feature::Kernels => vec![("Device::load_module", device.load_module(ModuleImage::Builtin).err())],
        Feature::Graphs => vec![("Device::record", device.record(|_| Ok(())).err())],
        Feature::GraphSemaphores => {
            let semaphore = binary(device);
            let record = |work: &dyn Fn(&Stream) -> Result<()>| device.record(work).err();
            vec![
                ("Stream::signal", record(&|stream| stream.signal(&[semaphore.signal()]))),
                ("Stream::wait", record(&|stream| stream.wait(&[semaphore.wait()]))),
            ]
        }
        Feature::GraphKernels => {
            let module = device.load_module(ModuleImage::Builtin).expect("module");
            let kernel = module.kernel(c"kernel").expect("kernel");
            // SAFETY: the recorder runs nothing.
            let recorded = device.record(|stream| unsafe { stream.launch(&kernel, &LaunchConfig::linear(1), &[]) });
            vec![("Stream::launch", recorded.err())]
        }
        Feature::GraphMemoryOperations => {
            let record = |work: &dyn Fn(&Stream) -> Result<()>| device.record(work).err();
            vec![
                ("Stream::wait_value_u32", record(&|stream| stream.wait_value_u32(&word(4), 0, condition))),
                ("Stream::wait_value_u64", record(&|stream| stream.wait_value_u64(&word(8), 0, condition))),
                ("Stream::write_value_u32", record(&|stream| stream.write_value_u32(&word(4), 0))),
                ("Stream::write_value_u64", record(&|stream| stream.write_value_u64(&word(8), 0))),
            ]
        }
        // Only Windows has named handles.
        Feature::NamedMemory | Feature::NamedSemaphores if cfg!(not(windows)) => Vec::new(),
        Feature::NamedMemory => {
            let request = memory_request(MemoryHandle::OpaqueWin32(named()), SIZE);
            vec![("Device::import_memory", device.import_memory(request).err().map(|failure| failure.into_parts().0))]
        }
        Feature::NamedSemaphores => {
            let request = semaphore_request(SemaphoreHandle::OpaqueWin32(named()));
            vec![(
                "Device::import_semaphore",
                device.import_semaphore(request).err().map(|failure| failure.into_parts().0),
            )]
        }
        Feature::NvSciSyncAttributes => {
            // SAFETY: the recorder does not follow it.
            let list = unsafe { NvSciSyncAttrList::from_raw(NonNull::dangling()) };
            let filled = device.fill_nv_sci_sync_attributes(list, NvSciSyncUse::WAIT);
            vec![("Device::fill_nv_sci_sync_attributes", filled.err())]
        }
    }
}

/// `true` if a call is part of the setup, not of the feature.
fn is_preparation(call: &Call, feature: Feature) -> bool {
    let maps_image = matches!(call, Call::MapMipmappedArray { .. } | Call::MipmappedArrayLevel { .. });
    let loads = matches!(call, Call::LoadModule(_) | Call::ModuleKernel(..));
    let records = matches!(call, Call::ImportSemaphore(_) | Call::BeginCapture(_) | Call::EndCapture(_));
    matches!(call, Call::ImportMemory { .. } | Call::CreateStream | Call::QueryStream(_) | Call::MapBuffer { .. })
        || (maps_image && feature != Feature::MappedMipmappedArray)
        || (records
            && matches!(feature, Feature::GraphKernels | Feature::GraphSemaphores | Feature::GraphMemoryOperations))
        || (loads && feature == Feature::GraphKernels)
        || call.frees()
}

#[test]
fn a_missing_feature_is_unsupported_before_the_backend_is_called() {
    for feature in Feature::ALL {
        let capabilities = everything().with_feature(*feature, Support::no("attribute 92 is 0"));
        let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), capabilities));
        for (operation, error) in attempts(&device, *feature) {
            let error = error.expect("unsupported");
            assert_error(&error, ErrorKind::Unsupported, operation, &[&feature.to_string(), "attribute 92 is 0"]);
        }
        let others: Vec<_> = recorder.calls().into_iter().filter(|call| !is_preparation(call, *feature)).collect();
        assert_eq!(others, [], "{feature}");
        if *feature == Feature::MappedBuffer {
            assert!(!recorder.calls().iter().any(|call| matches!(call, Call::MapBuffer { .. })));
        }
    }
}

#[test]
fn native_and_emulated_features_work() {
    for support in [Support::Native, Support::Emulated("by polling".into())] {
        for feature in Feature::ALL {
            let capabilities = everything().with_feature(*feature, support.clone());
            let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), capabilities));
            for (operation, error) in attempts(&device, *feature) {
                assert!(error.is_none(), "{operation}: {error:?}");
            }
            // The data of a host function that never runs is leaked.
            recorder.finish_all();
        }
    }
}

#[test]
fn has_feature_agrees_with_the_support() {
    let reasons = [Support::Native, Support::Emulated(String::new()), Support::no("")];
    for feature in Feature::ALL {
        for support in &reasons {
            let capabilities = Capabilities::none().with_feature(*feature, support.clone());
            assert_eq!(capabilities.has_feature(*feature), support.is_supported(), "{feature}: {support}");
            assert_eq!(capabilities.feature(*feature), *support);
        }
        assert!(!Capabilities::none().has_feature(*feature), "{feature}");
    }
}

/// Undeclared features have a reason, and the error of an import contains its size.
#[test]
fn nothing_works_without_capabilities() {
    let (recorder, device) = open_on(Recorder::with_capabilities(gpu(1), Capabilities::none()));
    let error = device.allocate_exportable(1).expect_err("unsupported");
    let words = ["exportable memory", "the backend does not implement it"];
    assert_error(&error, ErrorKind::Unsupported, "Device::allocate_exportable", &words);
    let handle = exported::memory("memory");
    let error = device.import_memory(memory_request(handle, 12_345)).expect_err("unsupported");
    assert_error(error.error(), ErrorKind::Unsupported, "Device::import_memory", &["size: 12345"]);
    assert_eq!(recorder.calls(), []);
}
