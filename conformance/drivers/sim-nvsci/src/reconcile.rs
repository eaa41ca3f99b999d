//! What becomes of the attributes of buffers: the rules that `nvscibuf.h` states beside each key.

use std::collections::BTreeSet;

use crate::asked_for;
use crate::attributes::{Stored, Values};

// `NvSciBufAttrKey`, counted in the header's order from each type's start.
pub(crate) const TYPES: i32 = 1;
pub(crate) const NEED_CPU_ACCESS: i32 = 2;
pub(crate) const REQUIRED_PERM: i32 = 3;
const ENABLE_CPU_CACHE: i32 = 4;
pub(crate) const GPU_ID: i32 = 5;
const CPU_NEED_SW_CACHE_COHERENCY: i32 = 6;
pub(crate) const ACTUAL_PERM: i32 = 7;
const VIDMEM_GPU_ID: i32 = 8;
const ENABLE_GPU_CACHE: i32 = 9;
const GPU_SW_NEED_CACHE_COHERENCY: i32 = 10;
const ENABLE_GPU_COMPRESSION: i32 = 11;
pub(crate) const RAW_SIZE: i32 = 1 << 16;
const RAW_ALIGN: i32 = (1 << 16) + 1;
pub(crate) const LAYOUT: i32 = 2 << 16;
pub(crate) const IMAGE_SIZE: i32 = (2 << 16) + 6;
const IMAGE_ALIGNMENT: i32 = (2 << 16) + 7;
const PLANE_COUNT: i32 = (2 << 16) + 8;
const PLANE_COLOR_FORMAT: i32 = (2 << 16) + 9;
const PLANE_BASE_ADDR_ALIGN: i32 = (2 << 16) + 11;
const PLANE_WIDTH: i32 = (2 << 16) + 12;
const PLANE_HEIGHT: i32 = (2 << 16) + 13;
const SCAN_TYPE: i32 = (2 << 16) + 14;
const PLANE_BITS_PER_PIXEL: i32 = (2 << 16) + 15;
const PLANE_OFFSET: i32 = (2 << 16) + 16;
const PLANE_PITCH: i32 = (2 << 16) + 20;
const PLANE_ALIGNED_HEIGHT: i32 = (2 << 16) + 21;
const PLANE_ALIGNED_SIZE: i32 = (2 << 16) + 22;
const IMAGE_COUNT: i32 = (2 << 16) + 23;

const PAGE: u64 = 4096;
const GPU_BYTES: usize = 16;
/// `NvSciBufAttrValGpuCache`.
const CACHE_BYTES: usize = 17;
/// `NvSciBufAttrValGpuCompression`.
const COMPRESSION_BYTES: usize = 20;

/// Output only.
const OUTPUTS: [i32; 11] = [
    CPU_NEED_SW_CACHE_COHERENCY,
    ACTUAL_PERM,
    GPU_SW_NEED_CACHE_COHERENCY,
    IMAGE_SIZE,
    IMAGE_ALIGNMENT,
    PLANE_BITS_PER_PIXEL,
    PLANE_OFFSET,
    PLANE_PITCH,
    PLANE_ALIGNED_HEIGHT,
    PLANE_ALIGNED_SIZE,
    // Of the second field; not played.
    (2 << 16) + 19,
];

/// Bytes of a texel of `NvSciBufAttrValColorFmt`, counted in the header's order, of those that are played.
fn texel(format: u32) -> Option<u32> {
    Some(match format {
        // Y8, U8, V8, A8, Signed_A8.
        84 | 88 | 89 | 102 | 103 => 1,
        // Y10, Y12, Y16, A16, Signed_A16, Float_A16.
        85..=87 | 108 | 109 | 116 => 2,
        // B8G8R8A8, A8R8G8B8, A8B8G8R8, A2R10G10B10, Signed_R16G16, A32, Signed_A32.
        104..=107 | 110 | 114 | 115 => 4,
        // A16B16G16R16, Signed_A16B16G16R16, Float_A16B16G16R16.
        111..=113 => 8,
        _ => return None,
    })
}

/// Whether a key may be set so. `set` is what has been set before.
pub(crate) fn may_set(key: i32, bytes: &[u8], set: &Values) -> bool {
    let stored = Stored::new(bytes);
    let is_bool = bytes.len() == 1 && bytes[0] <= 1;
    let words = |test: &dyn Fn(u32) -> bool| bytes.len().is_multiple_of(4) && stored.u32s().into_iter().all(test);
    let one = |test: &dyn Fn(u32) -> bool| bytes.len() == 4 && words(test);
    let one_long = |test: &dyn Fn(u64) -> bool| bytes.len() == 8 && stored.u64s().into_iter().all(test);
    let of_type = |wanted| set.get(&TYPES).is_some_and(|types| types.u32s().contains(&wanted));
    if (key >= LAYOUT && !of_type(2)) || ((RAW_SIZE..LAYOUT).contains(&key) && !of_type(1)) {
        return false;
    }
    if asked_for("old") && (ENABLE_GPU_CACHE..RAW_SIZE).contains(&key) {
        return false;
    }
    match key {
        TYPES => words(&|kind| (1..6).contains(&kind)),
        NEED_CPU_ACCESS | ENABLE_CPU_CACHE => is_bool,
        REQUIRED_PERM => one(&|perm| perm == 1 || perm == 3),
        GPU_ID => bytes.len().is_multiple_of(GPU_BYTES),
        VIDMEM_GPU_ID => bytes.len() == GPU_BYTES,
        ENABLE_GPU_CACHE => bytes.len().is_multiple_of(CACHE_BYTES),
        // That there is none cannot be asked for.
        ENABLE_GPU_COMPRESSION => {
            bytes.len().is_multiple_of(COMPRESSION_BYTES) && compressions(bytes).all(|(_, kind)| kind == 1)
        }
        RAW_SIZE => one_long(&|size| size > 0),
        RAW_ALIGN => one_long(&u64::is_power_of_two),
        LAYOUT | SCAN_TYPE => one(&|value| value <= 1),
        PLANE_COUNT => one(&|count| (1..=3).contains(&count)),
        PLANE_COLOR_FORMAT => words(&|format| texel(format).is_some()),
        PLANE_BASE_ADDR_ALIGN => words(&u32::is_power_of_two),
        PLANE_WIDTH | PLANE_HEIGHT => words(&|size| size > 0),
        IMAGE_COUNT => one_long(&|count| count == 1),
        _ => false,
    }
}

/// Whether a key may be asked for.
pub(crate) fn may_get(key: i32, reconciled: bool) -> bool {
    let general = (TYPES..=ENABLE_GPU_COMPRESSION).contains(&key);
    let known = general || [RAW_SIZE, RAW_ALIGN].contains(&key) || (LAYOUT..=IMAGE_COUNT).contains(&key);
    let too_new = asked_for("old") && (ENABLE_GPU_CACHE..RAW_SIZE).contains(&key);
    known && !too_new && (reconciled || !OUTPUTS.contains(&key)) && !(reconciled && key == REQUIRED_PERM)
}

fn caches(bytes: &[u8]) -> impl Iterator<Item = (&[u8], bool)> {
    bytes.chunks_exact(CACHE_BYTES).map(|value| (&value[..GPU_BYTES], value[GPU_BYTES] != 0))
}

fn compressions(bytes: &[u8]) -> impl Iterator<Item = (&[u8], u32)> {
    bytes.chunks_exact(COMPRESSION_BYTES).map(|value| {
        let kind = value[GPU_BYTES..].try_into().map_or(0, u32::from_ne_bytes);
        (&value[..GPU_BYTES], kind)
    })
}

/// Why nothing satisfies lists.
pub(crate) enum Refusal {
    /// No list sets a key that is necessary.
    Missing,
    /// The keys in conflict with one of their values.
    Conflict(Values),
}

/// What satisfies all of these.
pub(crate) fn reconcile(lists: &[Values]) -> Result<Values, Refusal> {
    let mut out = Values::new();
    let mut conflict = Values::new();
    let all = |key: i32| lists.iter().filter_map(move |list| list.get(&key));
    let any_true = |key: i32| all(key).any(Stored::bool);
    let mut missing = false;
    let mut equal = |key: i32, needed: bool| -> Option<Stored> {
        let mut values = all(key);
        let first = values.next();
        missing |= needed && first.is_none();
        if let Some(first) = first
            && values.any(|other| other != first)
        {
            conflict.insert(key, first.clone());
        }
        first.cloned()
    };
    let types = equal(TYPES, true);
    let is_image = types.as_ref().is_some_and(|types| types.u32s().contains(&2));
    let equals: &[(i32, bool)] = if is_image {
        &[
            (LAYOUT, true),
            (PLANE_COUNT, true),
            (PLANE_COLOR_FORMAT, true),
            (PLANE_WIDTH, true),
            (PLANE_HEIGHT, true),
            (SCAN_TYPE, true),
            (IMAGE_COUNT, false),
            (VIDMEM_GPU_ID, false),
        ]
    } else {
        &[(RAW_SIZE, true), (VIDMEM_GPU_ID, false)]
    };
    for (key, needed) in equals {
        if let Some(value) = equal(*key, *needed) {
            out.insert(*key, value);
        }
    }
    if missing {
        return Err(Refusal::Missing);
    }
    let cpu = any_true(NEED_CPU_ACCESS);
    // "Maximum of the requested", read-only if nobody asked; an allocated object's is read-write.
    let perm = all(REQUIRED_PERM).flat_map(Stored::u32s).max().unwrap_or(1);
    let ids: BTreeSet<Vec<u8>> =
        all(GPU_ID).flat_map(|ids| ids.bytes().chunks_exact(GPU_BYTES).map(<[u8]>::to_vec)).collect();
    let named = |id: &[u8]| ids.contains(id);
    for value in all(ENABLE_GPU_CACHE) {
        if !caches(value.bytes()).all(|(id, _)| named(id)) {
            conflict.insert(ENABLE_GPU_CACHE, value.clone());
        }
    }
    for value in all(ENABLE_GPU_COMPRESSION) {
        if !compressions(value.bytes()).all(|(id, _)| named(id)) {
            conflict.insert(ENABLE_GPU_COMPRESSION, value.clone());
        }
    }
    if !conflict.is_empty() {
        return Err(Refusal::Conflict(conflict));
    }
    // "AND policy", true where nobody asks: as an integrated GPU's memory is.
    let cached = |id: &[u8]| {
        all(ENABLE_GPU_CACHE).flat_map(|value| caches(value.bytes())).all(|(gpu, cached)| gpu != id || cached)
    };
    let wanted: Vec<&[u8]> =
        all(ENABLE_GPU_COMPRESSION).flat_map(|value| compressions(value.bytes())).map(|(id, _)| id).collect();
    let several = wanted.iter().collect::<BTreeSet<_>>().len() > 1;
    let compressed = |id: &[u8]| u32::from(!several && !cpu && wanted.contains(&id));
    let some_uncached = ids.iter().any(|id| !cached(id));
    let incoherent = |id: &[u8]| cached(id) && (some_uncached || cpu || asked_for("memsync"));
    let per_gpu = |value: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        ids.iter().flat_map(|id| id.iter().copied().chain(value(id)).collect::<Vec<u8>>()).collect()
    };
    out.insert(TYPES, types.unwrap_or_else(|| Stored::new(&[])));
    out.insert(NEED_CPU_ACCESS, Stored::new(&[cpu.into()]));
    out.insert(CPU_NEED_SW_CACHE_COHERENCY, Stored::new(&[asked_for("flush").into()]));
    out.insert(ACTUAL_PERM, Stored::new(&perm.to_ne_bytes()));
    // "An invalid NvSciRmGpuId" if there is none.
    let gpu_ids = if ids.is_empty() { vec![0; GPU_BYTES] } else { per_gpu(&|_| Vec::new()) };
    out.insert(GPU_ID, Stored::new(&gpu_ids));
    if !ids.is_empty() && !asked_for("old") {
        out.insert(ENABLE_GPU_CACHE, Stored::new(&per_gpu(&|id| vec![cached(id).into()])));
        out.insert(GPU_SW_NEED_CACHE_COHERENCY, Stored::new(&per_gpu(&|id| vec![incoherent(id).into()])));
        out.insert(ENABLE_GPU_COMPRESSION, Stored::new(&per_gpu(&|id| compressed(id).to_ne_bytes().to_vec())));
    }
    if is_image {
        image(&mut out, all(PLANE_BASE_ADDR_ALIGN).flat_map(Stored::u32s).max().unwrap_or(1))?;
    } else {
        let asked = all(RAW_ALIGN).flat_map(Stored::u64s).max().unwrap_or(1);
        out.insert(RAW_ALIGN, Stored::new(&asked.max(PAGE).to_ne_bytes()));
    }
    Ok(out)
}

/// What is computed of an image's planes.
fn image(out: &mut Values, alignment: u32) -> Result<(), Refusal> {
    let words = |key: i32| out.get(&key).map(Stored::u32s).unwrap_or_default();
    let count = words(PLANE_COUNT).first().map_or(0, |count| *count as usize);
    let (widths, heights, formats) = (words(PLANE_WIDTH), words(PLANE_HEIGHT), words(PLANE_COLOR_FORMAT));
    for (key, values) in [(PLANE_WIDTH, &widths), (PLANE_HEIGHT, &heights), (PLANE_COLOR_FORMAT, &formats)] {
        if values.len() != count {
            return Err(Refusal::Conflict(Values::from([(key, Stored::new(&[0]))])));
        }
    }
    let base = u64::from(alignment).max(PAGE);
    let (mut offset, mut columns) = (0_u64, [const { Vec::new() }; 6]);
    for ((width, height), format) in widths.iter().zip(&heights).zip(&formats) {
        let texel = texel(*format).unwrap_or(1);
        let (pitch, rows) = ((width * texel).next_multiple_of(64), height.next_multiple_of(4));
        let size = (u64::from(pitch) * u64::from(rows)).next_multiple_of(base);
        let values: [Vec<u8>; 6] = [
            (texel * 8).to_ne_bytes().to_vec(),
            offset.to_ne_bytes().to_vec(),
            pitch.to_ne_bytes().to_vec(),
            rows.to_ne_bytes().to_vec(),
            size.to_ne_bytes().to_vec(),
            u32::try_from(base).unwrap_or(u32::MAX).to_ne_bytes().to_vec(),
        ];
        columns.iter_mut().zip(values).for_each(|(column, value)| column.extend(value));
        offset += size;
    }
    let keys = [
        PLANE_BITS_PER_PIXEL,
        PLANE_OFFSET,
        PLANE_PITCH,
        PLANE_ALIGNED_HEIGHT,
        PLANE_ALIGNED_SIZE,
        PLANE_BASE_ADDR_ALIGN,
    ];
    out.extend(keys.into_iter().zip(columns.iter().map(|column| Stored::new(column))));
    out.insert(IMAGE_SIZE, Stored::new(&offset.to_ne_bytes()));
    out.insert(IMAGE_ALIGNMENT, Stored::new(&base.to_ne_bytes()));
    Ok(())
}
