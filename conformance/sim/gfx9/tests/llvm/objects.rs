//! Programs for gfx906 in files.

use std::path::Path;

/// Libraries of AMD's runtime with programs.
pub(crate) const RUNTIMES: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/libamdhip64.so.5", "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1"];

/// The machine of AMD's GPUs in ELF files.
const AMDGPU: u16 = 224;

/// gfx906 in the flags of an ELF file for AMD's GPUs.
const GFX906: u32 = 0x2f;

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn number16(bytes: &[u8], at: usize) -> Option<usize> {
    number(bytes, at).map(|bytes| usize::from(u16::from_le_bytes(bytes)))
}

fn number64(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u64::from_le_bytes(number(bytes, at)?)).ok()
}

/// The instructions of all programs for gfx906 in a file, each with the word after it: those of ELF files that it
/// contains, and, of a library of the host, the words of its constants, among which programs may be.
pub(crate) fn programs(file: &Path) -> std::io::Result<Vec<[u32; 2]>> {
    let bytes = std::fs::read(file)?;
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(4).position(|window| window == b"\x7fELF") {
        let object = &bytes[at + found..];
        if number16(object, 18) == Some(usize::from(AMDGPU)) {
            let gfx906 = number(object, 48).is_some_and(|flags| u32::from_le_bytes(flags) & 0xff == GFX906);
            if gfx906 {
                section(object, ".text", &mut words);
            }
        } else if found + at == 0 {
            section(object, ".rodata", &mut words);
        }
        at += found + 4;
    }
    Ok(words)
}

/// Adds the words of a section: the instructions from its start on, and every word where there is none.
fn section(object: &[u8], wanted: &str, words: &mut Vec<[u32; 2]>) -> Option<()> {
    let (table, size) = (number64(object, 40)?, number16(object, 58)?);
    let (count, names) = (number16(object, 60)?, number16(object, 62)?);
    let header = |index: usize| table + index * size;
    let names = number64(object, header(names) + 24)?;
    for index in 0..count {
        let name = names + u32::from_le_bytes(number(object, header(index))?) as usize;
        let name = object.get(name..)?.split(|byte| *byte == 0).next()?;
        let start = number64(object, header(index) + 24)?;
        let length = number64(object, header(index) + 32)?;
        if name != wanted.as_bytes() {
            continue;
        }
        let (content, _) = object.get(start..start + length)?.as_chunks::<4>();
        let content: Vec<_> = content.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let mut at = 0;
        while at < content.len() {
            let pair = [content[at], content.get(at + 1).copied().unwrap_or(0)];
            words.push(pair);
            let length = gpu_interop_sim_gfx9::decode(pair).map_or(4, |instruction| instruction.length());
            at += if wanted == ".text" { length as usize / 4 } else { 1 };
        }
    }
    Some(())
}
