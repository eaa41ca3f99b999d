//! Expected detections of faults.

use gpu_interop_conformance::Outcome;

use crate::sabotage::Fault;

/// The scenario that must detect each fault, and the reason: a failure for another reason would prove nothing.
pub(crate) const CAUGHT: &[(Fault, &str, Outcome, &str)] = &[
    (Fault::SkipsWaits, "semaphore.binary_order", Outcome::Failed, "went on although nothing was signalled"),
    (Fault::SkipsWaits, "semaphore.timeline_order", Outcome::Failed, "a wait for 7 was met by"),
    (Fault::SkipsWaits, "semaphore.wait_before_signal", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWaits, "semaphore.timeout", Outcome::Failed, "an unmet wait was accepted"),
    (Fault::SkipsWaits, "semaphore.batches", Outcome::Failed, "met too early"),
    (Fault::SkipsWaits, "semaphore.prepared_batches", Outcome::Failed, "met too early"),
    (Fault::SkipsWaits, "semaphore.1000_frames", Outcome::Failed, "bytes differ"),
    (Fault::SkipsWaits, "semaphore.destroy_pending", Outcome::Failed, "went on when its semaphore was dropped"),
    (
        Fault::SkipsWaits,
        "semaphore.cross_process_timeline",
        Outcome::Failed,
        "before the other process had the timeline",
    ),
    (Fault::SkipsWaits, "semaphore.peer_killed", Outcome::Failed, "was accepted"),
    (Fault::SkipsSignals, "semaphore.device_to_exporter", Outcome::Failed, "timed out waiting for 1"),
    (Fault::SkipsSignals, "semaphore.two_streams", Outcome::Failed, "work is still pending on the stream"),
    (Fault::LeaksDescriptors, "import.success_closes_handle", Outcome::Failed, "open descriptors after an import"),
    (Fault::LeaksDescriptors, "leak.10000_cycles", Outcome::Failed, "open descriptors"),
    (Fault::LeaksDescriptors, "threads.import_map_free", Outcome::Failed, "open descriptors"),
    #[cfg(unix)]
    (Fault::ClosesTwice, "import.fd_stress", Outcome::Failed, "of another thread was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesTwice, "import.win32_stress", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesTwice, "import.win32_success_closes_once", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.size_too_large", Outcome::Failed, "not an open"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.win32_failure_keeps_handle", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::ClosesRefused, "import.win32_sizes_beyond", Outcome::Failed, "was closed elsewhere"),
    #[cfg(windows)]
    (Fault::LeaksDescriptors, "import.win32_10000_cycles", Outcome::Failed, "open descriptors"),
    #[cfg(windows)]
    (Fault::LeaksDescriptors, "import.win32_many_imports", Outcome::Failed, "handles are open"),
    (Fault::MapsOneByteLate, "map.offsets", Outcome::Failed, "1 bytes at 1: 1 of 1 bytes differ"),
    (Fault::MapsOneByteLate, "map.sub_range_guards", Outcome::Failed, "bytes differ"),
    // The last byte of a megabyte: each direction compares all of it.
    (Fault::LosesLastByte, "memory.read_device_local", Outcome::Failed, "the first at 1048575"),
    (Fault::LosesLastByte, "memory.write_device_local", Outcome::Failed, "the first at 1048575"),
    (Fault::FillsOneByteLess, "memory.fill", Outcome::Failed, "bytes that differ from the fills"),
    (Fault::SkipsWordWaits, "stream.asynchronous", Outcome::Failed, "the fill ran before the wait was met"),
    (Fault::SkipsWordWaits, "stream.wait_value_32", Outcome::Failed, "was met by"),
    (Fault::SkipsWordWaits, "stream.wait_value_64", Outcome::Failed, "was met by 7"),
    (Fault::SkipsWordWaits, "stream.host_function", Outcome::Failed, "before the work in front of them"),
    (Fault::SkipsWordWaits, "stream.many", Outcome::Failed, "streams that nothing blocks"),
    (Fault::SkipsWordWaits, "lifetime.drop_with_work_pending", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWordWaits, "timeline.wait_before_signal.bridge", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsWordWaits, "timeline.large_values.bridge", Outcome::Failed, "was met by"),
    // The exporter has signalled 2 at once, which satisfies the wait for 1.
    (Fault::WritesWordsEarly, "timeline.wait_before_signal.bridge", Outcome::Failed, "the stream did not wait"),
    (Fault::SkipsReads, "memory.read_device_local", Outcome::Failed, "bytes differ"),
    #[cfg(unix)]
    (Fault::MapsOneByteLate, "property.imports", Outcome::Failed, "bytes differ"),
    (Fault::MapsOneByteLate, "property.slices", Outcome::Failed, "bytes differ"),
    #[cfg(unix)]
    (Fault::LeaksDescriptors, "property.imports", Outcome::Failed, "open descriptors afterwards"),
    (Fault::LeaksDescriptors, "property.objects", Outcome::Failed, "open descriptors afterwards"),
    (Fault::SkipsWordWaits, "property.objects", Outcome::Failed, "the stream did not wait"),
    (Fault::FillsOneByteLess, "property.objects", Outcome::Failed, "bytes differ"),
    (Fault::SkipsSignals, "property.semaphores", Outcome::Failed, "that was signalled is not met"),
    // Detected by the other process, and therefore in its log.
    (Fault::SkipsReads, "process.import_sent_fd", Outcome::Failed, "bytes differ"),
];

/// As above, for objects that only Vulkan exports; each must report different data.
pub(crate) const CAUGHT_WITH_VULKAN: &[(Fault, &str)] = &[
    (Fault::MapsOneByteLate, "image_linear.read"),
    (Fault::MapsOneByteLate, "image_linear.write"),
    (Fault::MapsOneByteLate, "image_linear.at_offset"),
    (Fault::MapsOneByteLate, "property.images"),
    (Fault::SkipsReads, "image_linear.levels_and_layers"),
    (Fault::MapsOneByteLate, "heap.both_directions"),
    (Fault::SkipsReads, "heap.many_buffers"),
    (Fault::LosesLastByte, "heap.free_while_work_is_pending"),
    (Fault::SkipsWordWaits, "frame_ring.order"),
    (Fault::MapsOneByteLate, "frame_ring.compute_first"),
    (Fault::MapsOneByteLate, "video.nv12"),
    (Fault::MapsOneByteLate, "video.sizes"),
    (Fault::SkipsReads, "video.yuv420"),
    (Fault::LosesLastByte, "video.yuv444"),
];
