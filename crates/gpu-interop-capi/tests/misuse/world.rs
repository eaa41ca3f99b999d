//! Handles of a run: live, destroyed, of every type, and arbitrary numbers.

use std::ffi::CStr;

use gpu_interop_capi::*;

/// Host memory of asynchronous copies: as large as the largest buffer, for the whole process.
pub(crate) static HOST: [std::sync::atomic::AtomicU64; 1 << 14] =
    [const { std::sync::atomic::AtomicU64::new(0) }; 1 << 14];

/// Largest exportable buffer, in bytes.
pub(crate) const LARGEST: u64 = 1 << 16;

/// Message of the last error.
pub(crate) fn message() -> String {
    // SAFETY: a text of this thread.
    unsafe { CStr::from_ptr(gpi_last_error_message()) }.to_string_lossy().into_owned()
}

/// A name of Rust in a message, which C lacks.
pub(crate) fn rust_in(message: &str) -> Option<&'static str> {
    const NAMES: [&str; 12] = [
        "::",
        " { ",
        "DevicePtr",
        "RawStream",
        "Some(",
        "OwnedSemaphore",
        "HostSemaphore",
        "Mipmapped",
        "ArrayShape",
        "ArrayUsage",
        "MappedBuffer",
        "ExternalMemory",
    ];
    NAMES.into_iter().find(|name| message.contains(name))
}

type Destroy = fn(u64) -> gpi_status;

/// Functions that destroy a handle of each type.
pub(crate) const DESTROY: [(&str, Destroy); 12] = [
    ("gpi_backend_destroy", |id| gpi_backend_destroy(gpi_backend { id })),
    ("gpi_device_destroy", |id| gpi_device_destroy(gpi_device { id })),
    ("gpi_memory_destroy", |id| gpi_memory_destroy(gpi_memory { id })),
    ("gpi_buffer_destroy", |id| gpi_buffer_destroy(gpi_buffer { id })),
    ("gpi_array_destroy", |id| gpi_array_destroy(gpi_array { id })),
    ("gpi_stream_destroy", |id| gpi_stream_destroy(gpi_stream { id })),
    ("gpi_event_destroy", |id| gpi_event_destroy(gpi_event { id })),
    ("gpi_module_destroy", |id| gpi_module_destroy(gpi_module { id })),
    ("gpi_kernel_destroy", |id| gpi_kernel_destroy(gpi_kernel { id })),
    ("gpi_semaphore_destroy", |id| gpi_semaphore_destroy(gpi_semaphore { id })),
    ("gpi_exported_semaphore_destroy", |id| gpi_exported_semaphore_destroy(gpi_exported_semaphore { id })),
    ("gpi_timeline_destroy", |id| gpi_timeline_destroy(gpi_timeline { id })),
];

/// Numbers that are no handles.
const WRONG: [u64; 6] = [0, u64::MAX, 1, 0x1234_5678_9abc_def0, 1 << 32, (1 << 32) + 1];

/// Every handle that was ever made, and numbers that were not.
pub(crate) struct World {
    /// With the index of its type in [`DESTROY`].
    ids: Vec<(usize, u64)>,
    /// The handles to pick from, instead of all.
    only: Option<Vec<u64>>,
}

impl World {
    /// A backend, two devices, and an object of most types.
    pub(crate) fn new() -> Self {
        let mut world = Self { ids: WRONG.map(|id| (usize::MAX, id)).to_vec(), only: None };
        let mut backend = gpi_backend { id: 0 };
        assert_eq!(c!(gpi_backend_load(c"host".as_ptr(), &raw mut backend)), GPI_SUCCESS);
        world.add(0, backend.id);
        let mut device = gpi_device { id: 0 };
        for _ in 0..2 {
            assert_eq!(c!(gpi_device_open(backend, 0, &raw mut device)), GPI_SUCCESS);
            world.add(1, device.id);
        }
        for _ in 0..2 {
            let mut stream = gpi_stream { id: 0 };
            assert_eq!(c!(gpi_stream_create(device, &raw mut stream)), GPI_SUCCESS);
            world.add(5, stream.id);
            let mut buffer = gpi_buffer { id: 0 };
            assert_eq!(c!(gpi_device_allocate_exportable(device, 8192, &raw mut buffer)), GPI_SUCCESS);
            world.add(3, buffer.id);
        }
        for payload in [GPI_PAYLOAD_BINARY, GPI_PAYLOAD_TIMELINE] {
            let mut semaphore = gpi_exported_semaphore { id: 0 };
            let status = c!(gpi_exported_semaphore_create_host(payload, 0, &raw mut semaphore));
            assert_eq!(status, GPI_SUCCESS);
            world.add(10, semaphore.id);
        }
        world
    }

    pub(crate) fn add(&mut self, kind: usize, id: u64) {
        self.ids.push((kind, id));
    }

    /// A handle: often of the type at this index of [`DESTROY`], live or destroyed, else any number.
    pub(crate) fn pick(&self, kind: usize, pick: u16) -> u64 {
        if let Some(only) = &self.only {
            return only[usize::from(pick) % only.len()];
        }
        let own: Vec<u64> = self.ids.iter().filter(|(of, _)| *of == kind).map(|(_, id)| *id).collect();
        let index = usize::from(pick / 8);
        if pick.is_multiple_of(8) || own.is_empty() {
            self.ids[index % self.ids.len()].1
        } else {
            own[index % own.len()]
        }
    }

    /// Picks from these handles from now on.
    pub(crate) fn only(&mut self, ids: &[u64]) {
        self.only = Some(ids.to_vec());
    }

    pub(crate) fn all(&mut self) {
        self.only = None;
    }

    /// Handles that no function accepts: null, arbitrary, and destroyed.
    pub(crate) fn wrong_handles(&mut self) -> Vec<u64> {
        let mut wrong = WRONG.to_vec();
        let (_, last) = self.ids.pop().expect("a semaphore");
        assert_eq!(gpi_exported_semaphore_destroy(gpi_exported_semaphore { id: last }), GPI_SUCCESS);
        wrong.push(last);
        wrong
    }

    /// Destroys what is live. Each handle is destroyed by exactly one function, once.
    pub(crate) fn destroy_everything(&mut self) {
        for (_, id) in std::mem::take(&mut self.ids) {
            let destroyed = DESTROY.iter().filter(|(_, destroy)| destroy(id) == GPI_SUCCESS).count();
            assert!(destroyed <= 1, "{id:#x}");
        }
    }
}
