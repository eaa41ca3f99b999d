//! Reconciliation of buffer attributes, by the rules that `nvscibuf.h` states for each key.

use std::collections::BTreeSet;

use crate::attributes::{Stored, Values};
use crate::behaviour::Behaviour;
use crate::error;

// Values of `NvSciBufAttrKey`, in the order of the header; each type starts at a multiple of 2^16.
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
    // Key of the second field, which is not simulated.
    (2 << 16) + 19,
];

/// Bytes per texel of a colour format (`NvSciBufAttrValColorFmt`, in the order of the header); `None` for formats that
/// are not simulated.
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

/// `true` if a key may be set to these bytes. `set` has the attributes of this and earlier calls.
pub(crate) fn may_set(behaviour: &Behaviour, key: i32, bytes: &[u8], set: &Values) -> bool {
    let stored = Stored::new(bytes);
    let is_bool = bytes.len() == 1 && bytes[0] <= 1;
    let words = |test: &dyn Fn(u32) -> bool| bytes.len().is_multiple_of(4) && stored.u32s().into_iter().all(test);
    let one = |test: &dyn Fn(u32) -> bool| bytes.len() == 4 && words(test);
    let one_long = |test: &dyn Fn(u64) -> bool| bytes.len() == 8 && stored.u64s().into_iter().all(test);
    let of_type = |wanted| set.get(&TYPES).is_some_and(|types| types.u32s().contains(&wanted));
    if (key >= LAYOUT && !of_type(2)) || ((RAW_SIZE..LAYOUT).contains(&key) && !of_type(1)) {
        return false;
    }
    if (behaviour.last_general_key() + 1..RAW_SIZE).contains(&key) {
        return false;
    }
    match key {
        TYPES => words(&|kind| (1..6).contains(&kind)),
        NEED_CPU_ACCESS | ENABLE_CPU_CACHE => is_bool,
        REQUIRED_PERM => one(&|perm| perm == 1 || perm == 3),
        GPU_ID => bytes.len().is_multiple_of(GPU_BYTES),
        VIDMEM_GPU_ID => bytes.len() == GPU_BYTES,
        ENABLE_GPU_CACHE => bytes.len().is_multiple_of(CACHE_BYTES),
        // Absence of compression cannot be requested.
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

pub(crate) fn may_get(behaviour: &Behaviour, key: i32, reconciled: bool) -> bool {
    let general = (TYPES..=behaviour.last_general_key()).contains(&key);
    let known = general || [RAW_SIZE, RAW_ALIGN].contains(&key) || (LAYOUT..=IMAGE_COUNT).contains(&key);
    known && (reconciled || !OUTPUTS.contains(&key)) && !(reconciled && key == REQUIRED_PERM)
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

/// Returns the attributes that satisfy all lists. Otherwise `BAD_PARAMETER` for a missing mandatory key, and
/// `RECONCILIATION_FAILED` for a conflict.
pub(crate) fn reconcile(behaviour: &Behaviour, lists: &[Values]) -> Result<Values, u32> {
    let mut out = Values::new();
    let mut conflict = false;
    let all = |key: i32| lists.iter().filter_map(move |list| list.get(&key));
    let any_true = |key: i32| all(key).any(Stored::bool);
    let mut missing = false;
    let mut equal = |key: i32, needed: bool| -> Option<Stored> {
        let mut values = all(key);
        let first = values.next();
        missing |= needed && first.is_none();
        conflict |= first.is_some_and(|first| values.any(|other| other != first));
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
    error::reject_if(missing)?;
    let cpu = any_true(NEED_CPU_ACCESS);
    // "Maximum of the requested"; read-only if no list requests one. The allocation of an object
    // replaces it with read-write.
    let perm = all(REQUIRED_PERM).flat_map(Stored::u32s).max().unwrap_or(1);
    let ids: BTreeSet<Vec<u8>> =
        all(GPU_ID).flat_map(|ids| ids.bytes().chunks_exact(GPU_BYTES).map(<[u8]>::to_vec)).collect();
    let named = |id: &[u8]| ids.contains(id);
    // GPUs whose caching a list chooses. The header supports that "for a single integrated GPU", which a list must
    // name.
    let chosen: BTreeSet<&[u8]> =
        all(ENABLE_GPU_CACHE).flat_map(|value| caches(value.bytes())).map(|(id, _)| id).collect();
    let discrete = behaviour.has("discrete");
    conflict |= !chosen.is_empty()
        && (discrete || ids.len() > 1 || all(ENABLE_GPU_CACHE).any(|value| caches(value.bytes()).count() > 1));
    conflict |= !chosen.into_iter().all(named);
    conflict |= !all(ENABLE_GPU_COMPRESSION).flat_map(|value| compressions(value.bytes())).all(|(id, _)| named(id));
    if conflict {
        return Err(error::RECONCILIATION_FAILED);
    }
    // "AND policy". Without a choice an integrated GPU caches system memory, and a discrete GPU only its own memory.
    let by_default = !discrete || out.contains_key(&VIDMEM_GPU_ID);
    let cached = |id: &[u8]| {
        by_default
            && all(ENABLE_GPU_CACHE).flat_map(|value| caches(value.bytes())).all(|(gpu, cached)| gpu != id || cached)
    };
    let wanted: Vec<&[u8]> =
        all(ENABLE_GPU_COMPRESSION).flat_map(|value| compressions(value.bytes())).map(|(id, _)| id).collect();
    let several = wanted.iter().collect::<BTreeSet<_>>().len() > 1;
    let compressed = |id: &[u8]| u32::from(!several && !cpu && wanted.contains(&id));
    let some_uncached = ids.iter().any(|id| !cached(id));
    let incoherent = |id: &[u8]| cached(id) && (some_uncached || cpu || behaviour.has("memsync"));
    let per_gpu = |value: &dyn Fn(&[u8]) -> Vec<u8>| -> Vec<u8> {
        ids.iter().flat_map(|id| id.iter().copied().chain(value(id)).collect::<Vec<u8>>()).collect()
    };
    out.insert(TYPES, types.unwrap_or_else(|| Stored::new(&[])));
    out.insert(NEED_CPU_ACCESS, Stored::new(&[cpu.into()]));
    let cpu_cache = any_true(ENABLE_CPU_CACHE);
    out.insert(ENABLE_CPU_CACHE, Stored::new(&[cpu_cache.into()]));
    // Since 2.8 the header reports this only if an engine lacks coherent access to memory.
    let flush = cpu_cache && cpu && (behaviour.buf_minor() < 8 || behaviour.has("iso_engine"));
    out.insert(CPU_NEED_SW_CACHE_COHERENCY, Stored::new(&[flush.into()]));
    out.insert(ACTUAL_PERM, Stored::new(&perm.to_ne_bytes()));
    // "An invalid NvSciRmGpuId" without a GPU; the header does not define its value.
    let invalid = if behaviour.has("invalid_gpu_id") { 0xff } else { 0 };
    let gpu_ids = if ids.is_empty() { vec![invalid; GPU_BYTES] } else { per_gpu(&|_| Vec::new()) };
    out.insert(GPU_ID, Stored::new(&gpu_ids));
    if !ids.is_empty() && behaviour.last_general_key() >= ENABLE_GPU_COMPRESSION {
        out.insert(ENABLE_GPU_CACHE, Stored::new(&per_gpu(&|id| vec![cached(id).into()])));
        out.insert(GPU_SW_NEED_CACHE_COHERENCY, Stored::new(&per_gpu(&|id| vec![incoherent(id).into()])));
        out.insert(ENABLE_GPU_COMPRESSION, Stored::new(&per_gpu(&|id| compressed(id).to_ne_bytes().to_vec())));
    }
    if is_image {
        out.entry(IMAGE_COUNT).or_insert_with(|| Stored::new(&1_u64.to_ne_bytes()));
        image(&mut out, all(PLANE_BASE_ADDR_ALIGN).flat_map(Stored::u32s).max().unwrap_or(1))?;
    } else {
        // The greatest requested alignment, or a default.
        let alignment = all(RAW_ALIGN).flat_map(Stored::u64s).max().unwrap_or(PAGE);
        out.insert(RAW_ALIGN, Stored::new(&alignment.to_ne_bytes()));
    }
    Ok(out)
}

/// Computes the output attributes of an image's planes.
fn image(out: &mut Values, alignment: u32) -> Result<(), u32> {
    let words = |key: i32| out.get(&key).map(Stored::u32s).unwrap_or_default();
    let count = words(PLANE_COUNT).first().map_or(0, |count| *count as usize);
    let (widths, heights, formats) = (words(PLANE_WIDTH), words(PLANE_HEIGHT), words(PLANE_COLOR_FORMAT));
    if [&widths, &heights, &formats].into_iter().any(|values| values.len() != count) {
        return Err(error::RECONCILIATION_FAILED);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(values: &[(i32, &[u8])]) -> Values {
        let size = [(TYPES, 1_u32.to_ne_bytes().to_vec()), (RAW_SIZE, 4096_u64.to_ne_bytes().to_vec())];
        let values = values.iter().map(|(key, bytes)| (*key, bytes.to_vec()));
        size.into_iter().chain(values).map(|(key, bytes)| (key, Stored::new(&bytes))).collect()
    }

    fn value(words: &str, lists: &[Values], key: i32) -> Option<Vec<u8>> {
        let out = reconcile(&Behaviour::of(words), lists).expect("compatible lists");
        out.get(&key).map(|stored| stored.bytes().to_vec())
    }

    fn code(words: &str, lists: &[Values]) -> Option<u32> {
        reconcile(&Behaviour::of(words), lists).err()
    }

    /// `NvSciBufAttrValGpuCache`.
    fn cache(gpus: &[(u8, u8)]) -> Vec<u8> {
        gpus.iter().flat_map(|(gpu, cached)| [*gpu; 16].into_iter().chain([*cached])).collect()
    }

    #[test]
    fn the_alignment_is_the_greatest_of_those_asked_for() {
        let asked = |alignment: u64| raw(&[(RAW_ALIGN, &alignment.to_ne_bytes())]);
        for (lists, expected) in [
            (vec![raw(&[])], 4096_u64),
            (vec![asked(1)], 1),
            (vec![asked(1), raw(&[])], 1),
            (vec![asked(64), asked(512)], 512),
        ] {
            assert_eq!(value("", &lists, RAW_ALIGN), Some(expected.to_ne_bytes().to_vec()));
        }
    }

    #[test]
    fn the_cache_is_chosen_for_one_integrated_gpu_only() {
        let list = |gpus: &[u8], choice: &[(u8, u8)]| {
            let (ids, choice) = (gpus.iter().flat_map(|gpu| [*gpu; 16]).collect::<Vec<u8>>(), cache(choice));
            raw(&[(GPU_ID, &ids), (ENABLE_GPU_CACHE, &choice)])
        };
        for (words, lists) in [
            ("", vec![list(&[1, 2], &[(1, 1), (2, 1)])]),
            ("", vec![list(&[1, 2], &[(1, 1)])]),
            ("", vec![list(&[1], &[(1, 1)]), raw(&[(GPU_ID, &[2; 16])])]),
            ("", vec![list(&[1], &[(2, 1)])]),
            ("discrete", vec![list(&[1], &[(1, 1)])]),
        ] {
            assert_eq!(code(words, &lists), Some(error::RECONCILIATION_FAILED), "{words}: {lists:?}");
        }
        // All lists must enable it.
        for (first, second, expected) in [(1, 1, 1), (1, 0, 0), (0, 1, 0)] {
            let lists = [list(&[1], &[(1, first)]), list(&[1], &[(1, second)])];
            assert_eq!(value("", &lists, ENABLE_GPU_CACHE), Some(cache(&[(1, expected)])));
        }
    }

    #[test]
    fn gpus_cache_by_default_what_is_near_them() {
        let named = raw(&[(GPU_ID, &[1; 16])]);
        let own = raw(&[(GPU_ID, &[1; 16]), (VIDMEM_GPU_ID, &[1; 16])]);
        for (words, list, expected) in [("", &named, 1), ("discrete", &named, 0), ("discrete", &own, 1)] {
            assert_eq!(
                value(words, std::slice::from_ref(list), ENABLE_GPU_CACHE),
                Some(cache(&[(1, expected)])),
                "{words}"
            );
        }
    }

    #[test]
    fn the_cpus_caches_need_flushing_only_where_it_caches() {
        let list = |access, cache| raw(&[(NEED_CPU_ACCESS, &[access]), (ENABLE_CPU_CACHE, &[cache])]);
        for (words, access, cache, expected) in [
            ("", 1, 1, 0),
            ("iso_engine", 1, 1, 1),
            ("iso_engine", 1, 0, 0),
            ("iso_engine", 0, 1, 0),
            ("buf_2.0", 1, 1, 1),
            ("buf_2.0", 1, 0, 0),
        ] {
            let found = value(words, &[list(access, cache)], CPU_NEED_SW_CACHE_COHERENCY);
            assert_eq!(found, Some(vec![expected]), "{words}: {access}, {cache}");
        }
        // One list that enables it is enough.
        assert_eq!(value("", &[list(1, 0), list(1, 1)], ENABLE_CPU_CACHE), Some(vec![1]));
    }

    #[test]
    fn without_a_gpu_there_is_an_id_of_none() {
        for (words, byte) in [("", 0), ("invalid_gpu_id", 0xff)] {
            assert_eq!(value(words, &[raw(&[])], GPU_ID), Some(vec![byte; 16]));
            assert_eq!(value(words, &[raw(&[(GPU_ID, &[3; 16])])], GPU_ID), Some(vec![3; 16]));
        }
    }

    #[test]
    fn an_image_is_one_unless_asked_otherwise() {
        let word = |number: u32| Stored::new(&number.to_ne_bytes());
        let keys = [
            (TYPES, 2),
            (LAYOUT, 1),
            (PLANE_COUNT, 1),
            (PLANE_COLOR_FORMAT, 84),
            (PLANE_WIDTH, 8),
            (PLANE_HEIGHT, 8),
            (SCAN_TYPE, 0),
        ];
        let image: Values = keys.into_iter().map(|(key, number)| (key, word(number))).collect();
        assert_eq!(value("", std::slice::from_ref(&image), IMAGE_COUNT), Some(1_u64.to_ne_bytes().to_vec()));
        assert_eq!(code("", &[image.clone(), raw(&[])]), Some(error::RECONCILIATION_FAILED), "two types");
        for (key, _) in keys {
            let mut without = image.clone();
            without.remove(&key);
            assert_eq!(code("", &[without]), Some(error::BAD_PARAMETER), "{key:#x}");
        }
    }

    #[test]
    fn version_2_0_knows_no_gpu_caches() {
        for (words, known) in [("", true), ("buf_2.6", true), ("buf_2.0", false)] {
            let behaviour = Behaviour::of(words);
            let set = may_set(&behaviour, ENABLE_GPU_CACHE, &cache(&[(1, 1)]), &raw(&[]));
            assert_eq!((set, may_get(&behaviour, ENABLE_GPU_CACHE, true)), (known, known), "{words}");
            assert_eq!(value(words, &[raw(&[(GPU_ID, &[1; 16])])], ENABLE_GPU_CACHE).is_some(), known, "{words}");
            assert!(may_get(&behaviour, VIDMEM_GPU_ID, true));
        }
    }
}
