//! Deliberate errors in the exporter's barriers and waits: each must be found by an operation's data, or by the validation
//! layer.
//!
//! Seen on an H200, with Debian 12's layer: errors of waits by the data; `NoAcquire`, wrong masks, families and layouts of the
//! operation by the layer. Not found by either, nor by Debian 13's layer: what concerns only the other side's view of a layout
//! or an owner (`NoRelease`, `AcquiresUndefined`, `ReleasesUndefined`, `WrongOldLayout`, `NotGeneral`, `NoFamilies`). The layer
//! does not follow an image to an external owner, and that driver's exported images have one layout, also with texels that GPUs
//! compress. This crate's own contexts refuse them (`OwnedImage`'s states).

use std::cell::Cell;
use std::sync::Arc;

use gpu_interop::vulkan::ash::vk;

use super::gpu::{Barrier, Gpu};
use super::operation::Masks;
use super::{buffers_in, images_in};
use crate::backend_under_test::BackendUnderTest;
use crate::context::Context;
use crate::exporter::ExporterName;
use crate::outcome::{StopKind, Verdict};
use crate::render::{Order, Pairs};

/// An error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Error {
    NoAcquire,
    NoRelease,
    /// The acquire discards the contents.
    AcquiresUndefined,
    /// The release discards the contents.
    ReleasesUndefined,
    /// The acquire names a layout in which the other side does not leave the image.
    WrongOldLayout,
    /// The release leaves the image in the operation's layout.
    NotGeneral,
    /// The operation's writes are not made available.
    NoAccess,
    /// The release waits for no stage.
    WrongStage,
    /// The acquire makes the other side's writes visible to nothing.
    WrongDestination,
    /// The acquire moves the image to a layout that the operation does not use.
    WrongNewLayout,
    /// The release names accesses that its stages do not have.
    AccessOfOtherStage,
    /// No change of the owner.
    NoFamilies,
    /// A family that has no queue.
    WrongFamily,
    DeviceDoesNotWait,
    ExporterDoesNotWait,
}

impl Error {
    const ALL: [Self; 15] = [
        Self::NoAcquire,
        Self::NoRelease,
        Self::AcquiresUndefined,
        Self::ReleasesUndefined,
        Self::WrongOldLayout,
        Self::NotGeneral,
        Self::NoAccess,
        Self::WrongStage,
        Self::WrongDestination,
        Self::WrongNewLayout,
        Self::AccessOfOtherStage,
        Self::NoFamilies,
        Self::WrongFamily,
        Self::DeviceDoesNotWait,
        Self::ExporterDoesNotWait,
    ];

    pub(super) fn is_planted(self) -> bool {
        PLANTED.get() == Some(self)
    }
}

thread_local! {
    static PLANTED: Cell<Option<Error>> = const { Cell::new(None) };
}

/// A change of the owner, from the exporter's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transfer {
    Acquire,
    Release,
}

/// Records a wrong transfer, or nothing, and returns `true` if one is planted.
pub(super) fn instead_of(
    gpu: &Gpu<'_>,
    commands: vk::CommandBuffer,
    image: vk::Image,
    masks: &Masks,
    transfer: Transfer,
) -> bool {
    use Transfer::{Acquire, Release};
    let (none, all) = (vk::AccessFlags::empty(), vk::PipelineStageFlags::ALL_COMMANDS);
    let (mut barrier, own) = match transfer {
        Acquire => (
            Barrier {
                families: [vk::QUEUE_FAMILY_EXTERNAL, gpu.context.queue_family()],
                layouts: [vk::ImageLayout::GENERAL, masks.layout],
                stages: [all, masks.stages],
                access: [none, masks.access],
            },
            1,
        ),
        Release => (
            Barrier {
                families: [gpu.context.queue_family(), vk::QUEUE_FAMILY_EXTERNAL],
                layouts: [masks.layout, vk::ImageLayout::GENERAL],
                stages: [masks.stages, vk::PipelineStageFlags::BOTTOM_OF_PIPE],
                access: [masks.access, none],
            },
            0,
        ),
    };
    match (PLANTED.get(), transfer) {
        (Some(Error::NoAcquire), Acquire) | (Some(Error::NoRelease), Release) => return true,
        (Some(Error::AcquiresUndefined), Acquire) | (Some(Error::ReleasesUndefined), Release) => {
            barrier.layouts[0] = vk::ImageLayout::UNDEFINED;
        }
        (Some(Error::WrongOldLayout), Acquire) => barrier.layouts[0] = vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        (Some(Error::WrongNewLayout), Acquire) => barrier.layouts[1] = vk::ImageLayout::TRANSFER_SRC_OPTIMAL,
        (Some(Error::NotGeneral), Release) => barrier.layouts[1] = masks.layout,
        (Some(Error::NoAccess), Release) => barrier.access[0] = none,
        (Some(Error::WrongStage), Release) => {
            (barrier.stages[0], barrier.access[0]) = (vk::PipelineStageFlags::TOP_OF_PIPE, none);
        }
        (Some(Error::WrongDestination), Acquire) => {
            (barrier.stages[1], barrier.access[1]) = (vk::PipelineStageFlags::BOTTOM_OF_PIPE, none);
        }
        (Some(Error::AccessOfOtherStage), Release) => barrier.stages[0] = vk::PipelineStageFlags::VERTEX_INPUT,
        (Some(Error::NoFamilies), _) => barrier.families = [vk::QUEUE_FAMILY_IGNORED; 2],
        (Some(Error::WrongFamily), _) => barrier.families[own] = 77,
        _ => return false,
    }
    gpu.barrier(commands, image, &barrier);
    true
}

/// How an error was found: by the data, by validation; `None` if it was not.
fn found(backend: &Arc<BackendUnderTest>, error: Option<Error>) -> Verdict<[Option<String>; 2]> {
    // A new device each time: the state of images after an error is unknown.
    let context = Context::open(backend.clone(), Some(ExporterName::Vulkan), 5)?;
    let complaints = context.complaints();
    let mut wrong = None;
    PLANTED.set(error);
    let mut pairs = Pairs::new(&context);
    let mut note = |name: &str, outcome: Verdict| {
        let failure = outcome.err().filter(|stop| stop.kind == StopKind::Failed);
        wrong = wrong.take().or(failure.map(|stop| format!("{name}: {stop}")));
    };
    for name in ["draw", "draw_part", "fetch", "store"] {
        note(name, images_in(&context, name, &[Order::Host], &mut pairs));
    }
    for name in ["store_words", "read_storage"] {
        note(name, buffers_in(&context, name, &[Order::Host], &mut pairs));
    }
    PLANTED.set(None);
    drop(pairs);
    drop(context);
    Ok([wrong, complaints().into_iter().next()])
}

fn report(backend: BackendUnderTest) -> Vec<(Error, [Option<String>; 2])> {
    let backend = Arc::new(backend);
    let short = |text: &Option<String>| text.as_deref().map_or("-".to_owned(), |text| text.chars().take(230).collect());
    match found(&backend, None) {
        Ok(clean) => assert_eq!(clean, [None, None], "without an error"),
        Err(stop) if stop.is_failure() => panic!("{stop}"),
        Err(stop) => {
            eprintln!("not run: {stop}");
            return Vec::new();
        }
    }
    let mut table = Vec::new();
    for error in Error::ALL {
        let [data, validation] = found(&backend, Some(error)).unwrap_or_else(|stop| panic!("{error:?}: {stop}"));
        println!("{error:?}\n    data: {}\n    validation: {}", short(&data), short(&validation));
        table.push((error, [data, validation]));
    }
    table
}

/// On the CPU nothing is reordered, so that most are found by validation only.
#[test]
fn errors_of_barriers_are_found_on_a_cpu() {
    let table = report(BackendUnderTest::host());
    let found = table.iter().filter(|(_, found)| found.iter().any(Option::is_some)).count();
    // Without the layer, those of waits.
    let validated = table.iter().any(|(_, [_, validation])| validation.is_some());
    let least = if validated { 7 } else { 1 };
    assert!(table.is_empty() || found >= least, "{found} of {}", table.len());
}

#[test]
#[ignore = "needs an NVIDIA GPU with Vulkan, and the validation layer"]
fn errors_of_barriers_are_found_on_a_gpu() {
    let table = report(BackendUnderTest::cuda());
    let found = table.iter().filter(|(_, found)| found.iter().any(Option::is_some)).count();
    assert!(found >= 9, "{found} of {}", table.len());
}
