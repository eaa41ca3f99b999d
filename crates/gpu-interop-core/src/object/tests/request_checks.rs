//! The table of checks at [`ExternalMemory`](crate::ExternalMemory) (`object/memory.md`): each cell is tried.

use std::ptr::NonNull;

use super::exported::{memory_request, with_dedicated};
use super::recorder::gpu;
use super::{SIZE, memfd, opaque, open};
use crate::array::{ArrayFormat, ArrayShape, ChannelType, MipmappedArrayDesc};
use crate::error::{ErrorKind, Result};
use crate::format::{MappedPlanes, PlaneLayout};
use crate::handle::{KmtHandle, MemoryHandle, NvSciBufObject};
use crate::identity::Uuid;
use crate::import::MemoryImport;
use crate::nv_sci::{NvSciBufGpu, NvSciBufProperties};
use crate::object::{Device, ExternalMemory};

const TABLE: &str = include_str!("../memory.md");
const OFFSET: u64 = 4096;

fn rows() -> Vec<Vec<&'static str>> {
    let cells = |line: &'static str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>();
    TABLE.lines().filter(|line| line.starts_with("| ")).map(cells).filter(|cells| cells.len() == 6).collect()
}

fn image() -> MipmappedArrayDesc {
    let format = ArrayFormat::new(ChannelType::Unorm8, 4).expect("four channels");
    MipmappedArrayDesc { offset: OFFSET, ..MipmappedArrayDesc::new(ArrayShape::D2 { width: 8, height: 8 }, format) }
}

fn nv_sci(id: Option<Uuid>) -> MemoryImport {
    let gpus = id.map(|id| NvSciBufGpu { id, cache: None, needs_memsync: None, compression: None });
    let properties =
        NvSciBufProperties { alignment: 512, planes: 1, read_only: false, gpus: gpus.into_iter().collect() };
    // SAFETY: the recorder never dereferences the object.
    let object = unsafe { NvSciBufObject::from_raw(NonNull::dangling()) };
    memory_request(MemoryHandle::NvSciBuf(object.with_properties(properties)), SIZE)
}

/// A request with one value that some function rejects, and the arguments of the mapping functions.
struct Case {
    request: MemoryImport,
    range: std::ops::Range<u64>,
    array: MipmappedArrayDesc,
}

fn case(value: &str) -> Case {
    let whole = |request| Case { request, range: 0..SIZE, array: image() };
    match value {
        "handle: kind, open, can be memory" => {
            whole(memory_request(MemoryHandle::OpaqueFd(rustix::pipe::pipe().expect("a pipe").0), SIZE))
        }
        "size of 0, or more than the descriptor's memory" => {
            let fd = memfd("short");
            rustix::fs::ftruncate(&fd, SIZE - 1).expect("ftruncate");
            whole(memory_request(MemoryHandle::OpaqueFd(fd), SIZE))
        }
        "range, image or planes past the size" => Case {
            request: opaque(SIZE),
            range: 1..SIZE + 1,
            array: MipmappedArrayDesc { offset: SIZE - 1, ..image() },
        },
        "dedicated flag, where the kind requires it" => {
            let handle = KmtHandle::new(0x40).expect("a handle");
            whole(with_dedicated(memory_request(MemoryHandle::D3d11ResourceKmt(handle), SIZE), false))
        }
        // SAFETY: the recorder accesses no memory.
        "`native` with a kind that no backend exports" => whole(unsafe { nv_sci(gpu(1).uuid).native(true) }),
        "exporting device" => whole(opaque(SIZE).exported_by(gpu(2))),
        "NvSciBuf: GPUs of the object" => whole(nv_sci(None)),
        "NvSciBuf: one mip level" => {
            Case { array: MipmappedArrayDesc { levels: 2, ..image() }, ..whole(nv_sci(gpu(1).uuid)) }
        }
        // SAFETY: as above.
        "declared image: its texels" => whole(unsafe { opaque(SIZE).of_image(image()) }),
        "declared image: another image" => {
            // SAFETY: as above.
            let request = unsafe { opaque(SIZE).of_image(image()) };
            Case { request, range: 0..OFFSET, array: MipmappedArrayDesc { offset: 2 * OFFSET, ..image() } }
        }
        other => panic!("no test of `{other}`"),
    }
}

fn attempt(device: &Device, function: &str, value: &str) -> Result<()> {
    let Case { request, range, array } = case(value);
    let import = |request| -> Result<ExternalMemory> { Ok(device.import_memory(request)?) };
    match function {
        "`Device::import_memory`" => import(request).map(drop),
        "`map_buffer`" => import(request)?.map_buffer(range).map(drop),
        "`map_image_bytes`" => import(request)?.map_image_bytes(range).map(drop),
        "`map_mipmapped_array`" => import(request)?.map_mipmapped_array(&array).map(drop),
        "`MappedPlanes::import`" => {
            let texel = ArrayFormat::new(ChannelType::Unorm8, 1).expect("one channel");
            let width = u32::try_from(range.end - range.start).expect("small");
            let plane = PlaneLayout::new(range.start, range.end, [width, 1], texel);
            Ok(MappedPlanes::import(device, vec![request], vec![(0, plane)]).map(drop)?)
        }
        other => panic!("no test of `{other}`"),
    }
}

#[test]
fn each_value_is_checked_where_the_table_says() {
    let rows = rows();
    let (heading, rows) = rows.split_first().expect("a table");
    assert_eq!(rows.len(), 10, "a new row needs a case");
    for row in rows {
        for (function, cell) in heading.iter().zip(row).skip(1) {
            let (recorder, device) = open();
            let outcome = attempt(&device, function, row[0]);
            let what = format!("{}, {function}: {cell}, but {outcome:?}", row[0]);
            match *cell {
                "–" => assert!(outcome.is_ok(), "{what}"),
                "rejected" | "import" => {
                    let kind = outcome.as_ref().expect_err(&what).kind();
                    let kinds = [ErrorKind::InvalidArgument, ErrorKind::DeviceMismatch, ErrorKind::Unsupported];
                    assert!(kinds.contains(&kind), "{what}");
                    let mapped = recorder.calls().iter().any(|call| call.name().starts_with("Map"));
                    let imported = recorder.calls().iter().any(|call| call.name() == "ImportMemory");
                    let own = *cell == "rejected" && function.starts_with("`map_");
                    assert_eq!((mapped, imported), (false, own), "{what}");
                }
                other => panic!("{other} is no outcome"),
            }
        }
    }
}

#[test]
fn a_size_past_the_file_names_the_size_to_pass() {
    let (_recorder, device) = open();
    let value = "size of 0, or more than the descriptor's memory";
    let error = attempt(&device, "`Device::import_memory`", value).expect_err("too short");
    assert!(error.message().contains("VkMemoryAllocateInfo::allocationSize"), "{error}");
}

#[test]
fn an_image_of_optimal_tiling_is_no_buffer() {
    let (_recorder, device) = open();
    // SAFETY: the recorder accesses no memory.
    let request = || unsafe { opaque(SIZE).of_image(image()) };
    let memory = device.import_memory(request()).expect("import");
    for range in [0..SIZE, OFFSET..OFFSET + 1, OFFSET - 1..OFFSET + 1, SIZE - 1..SIZE] {
        let error = memory.map_buffer(range.clone()).expect_err("texels");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        for word in ["optimal tiling", "linear tiling", "map_mipmapped_array", "copy", "map_image_bytes"] {
            assert!(error.to_string().contains(word), "`{word}` is missing: {error}");
        }
        memory.map_image_bytes(range.clone()).expect("their bytes");
        request().check_buffer("op", range).expect_err("texels");
    }
    // The bytes before the image are no texels.
    memory.map_buffer(..OFFSET).expect("before the image");
    request().check_buffer("op", ..OFFSET).expect("before the image");
    // The requests of planes come back, all of them.
    let texel = ArrayFormat::new(ChannelType::Unorm8, 1).expect("one channel");
    let planes = vec![(0, PlaneLayout::new(0, 64, [64, 16], texel))];
    let failed = MappedPlanes::import(&device, vec![opaque(SIZE), request()], planes).expect_err("an image");
    assert_eq!(failed.kind(), ErrorKind::InvalidArgument);
    assert_eq!(failed.into_request().len(), 2);
}
