//! Properties of an operation of the exporter's queue, and the tables of operations.

use gpu_interop::vulkan::ash::vk;
use gpu_interop::vulkan::{HeadlessContext, OwnershipTransfer};

use crate::outcome::{Stop, Verdict};

/// An operation of the exporter's queue on a shared object. `U` is the type of the object's usages, `S` states the objects
/// that it takes or needs, and `R` is the function that records it.
pub(super) struct Operation<U, S, R> {
    /// Its name in the id of its scenario.
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// The usage that it needs, in addition to those of every object of the suite.
    pub(super) usage: U,
    /// Capabilities that the queue must have.
    pub(super) queue: vk::QueueFlags,
    pub(super) masks: Masks,
    pub(super) subject: S,
    pub(super) record: R,
}

/// Effect of an operation on the contents that the device wrote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All of it is overwritten by the data.
    Writes,
    /// It becomes something else.
    Changes,
    /// It stays.
    Reads,
}

/// Stages and accesses of an operation, and the layout that it needs of an image.
#[derive(Debug, Clone, Copy)]
pub(super) struct Masks {
    pub(super) stages: vk::PipelineStageFlags,
    pub(super) access: vk::AccessFlags,
    pub(super) layout: vk::ImageLayout,
}

impl Masks {
    pub(super) fn transfer(&self, context: &HeadlessContext) -> OwnershipTransfer {
        OwnershipTransfer { queue_family: context.queue_family(), stages: self.stages, access: self.access }
    }
}

/// Compares results when the commands have completed.
pub(super) type Check = Box<dyn FnOnce() -> Verdict>;

/// Result of a recorded operation.
pub(super) struct Outcome {
    /// The contents afterwards; `None` if it only reads.
    pub(super) after: Option<Vec<u8>>,
    pub(super) check: Option<Check>,
}

impl Outcome {
    pub(super) fn written(after: Vec<u8>) -> Self {
        Self { after: Some(after), check: None }
    }

    pub(super) fn read(check: impl FnOnce() -> Verdict + 'static) -> Self {
        Self { after: None, check: Some(Box::new(check)) }
    }
}

pub(super) const GRAPHICS: vk::QueueFlags = vk::QueueFlags::GRAPHICS;
pub(super) const COMPUTE: vk::QueueFlags = vk::QueueFlags::COMPUTE;
pub(super) const TRANSFER: vk::QueueFlags = vk::QueueFlags::TRANSFER;

/// Builds the constants `OPERATIONS`, a table of this type, and `SCENARIOS`, one for each operation, which this function
/// of [`super`] runs.
macro_rules! operations {
    ($operation:ty, $run:ident;
        $($name:literal $kind:ident, $sentence:literal, $usage:expr, $queue:expr, $masks:expr, $subject:expr, $record:expr;)+) => {
        /// The operations.
        pub(super) const OPERATIONS: &[$operation] = &[$(Operation {
            name: $name,
            kind: Kind::$kind,
            usage: $usage,
            queue: $queue,
            masks: $masks,
            subject: $subject,
            record: $record,
        }),+];

        crate::scenario::scenarios! {
            all need [exporter Commands];
            $(concat!("render.", $name), Any, $sentence, |context| {
                super::counted(context, |pairs| super::$run(context, $name, &super::ORDERS, pairs))
            };)+
        }
    };
}
pub(super) use operations;

/// The operation of this name in a table.
pub(super) fn named<U, S, R>(
    operations: &'static [Operation<U, S, R>],
    name: &str,
) -> Verdict<&'static Operation<U, S, R>> {
    let found = operations.iter().find(|operation| operation.name == name);
    found.ok_or_else(|| Stop::failed(format!("there is no operation {name}")))
}
