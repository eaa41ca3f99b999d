//! Processes of the tests on AMD's runtimes. They print their results, and exit with status 1 after an error.

use std::path::Path;

use rustix::fd::AsRawFd as _;

use crate::hip::{Hip, Result};

/// Runs a test's process: its name, the runtime's library, then its own arguments.
pub(crate) fn run(arguments: &[String]) {
    let result = match arguments {
        [test, library, rest @ ..] => start(test, Path::new(library), rest),
        _ => Err("the name of a test and a library are missing".to_owned()),
    };
    match result {
        Ok(found) => println!("{found}"),
        Err(error) => {
            println!("error: {error}");
            std::process::exit(1);
        }
    }
}

fn start(test: &str, library: &Path, rest: &[String]) -> Result<String> {
    let hip = Hip::load(library)?;
    match test {
        "cycles" => cycles(&hip, rest.first().and_then(|count| count.parse().ok()).unwrap_or(1)),
        "copies" => copies(&hip),
        "exhaust" => exhaust(&hip),
        "fills" => fills(&hip),
        "two_gpus" => two_gpus(&hip),
        other => Err(format!("unknown test {other}")),
    }
}

const SIZE: usize = 64 << 10;

/// The number of descriptors and mappings of the process.
fn held() -> (usize, usize) {
    let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let maps = std::fs::read_to_string("/proc/self/maps").map_or(0, |maps| maps.lines().count());
    (descriptors, maps)
}

/// Repeatedly imports, maps, fills, verifies and frees.
fn cycles(hip: &Hip, count: u32) -> Result<String> {
    let version = hip.version()?;
    let file = rustix::fs::memfd_create(c"memory of another driver", rustix::fs::MemfdFlags::CLOEXEC)
        .map_err(|it| it.to_string())?;
    rustix::fs::ftruncate(&file, SIZE as u64).map_err(|it| it.to_string())?;
    let mut before = (0, 0);
    for cycle in 0..count {
        if cycle == 3 {
            before = held();
        }
        let memory = hip.import(file.as_raw_fd(), SIZE as u64)?;
        let address = hip.map(memory, SIZE as u64)?;
        let value = u8::try_from(cycle % 251).unwrap_or(0) + 1;
        hip.memset(address, value, SIZE)?;
        let mut bytes = vec![0; SIZE];
        rustix::io::pread(&file, &mut bytes, 0).map_err(|it| it.to_string())?;
        if let Some(at) = bytes.iter().position(|byte| *byte != value) {
            return Err(format!("cycle {cycle}: byte {at} is {}, not {value}", bytes[at]));
        }
        // 5.2 aborts the process when a mapping is freed; there it ends with its import.
        if version > (5, 2) {
            hip.free(address)?;
        }
        hip.destroy(memory)?;
    }
    let after = held();
    if count > 3 && after != before {
        return Err(format!("descriptors and mappings: {before:?} before, {after:?} after"));
    }
    Ok(format!("{count} cycles"))
}

/// Copies in all directions.
fn copies(hip: &Hip) -> Result<String> {
    let address = hip.malloc(SIZE)?;
    let bytes: Vec<u8> = (0..SIZE).map(|at| (at * 7 + at / 256).to_le_bytes()[0]).collect();
    hip.upload(address, &bytes)?;
    if hip.download(address, SIZE)? != bytes {
        return Err("what came back is not what was sent".to_owned());
    }
    hip.memset(address, 0x5a, SIZE / 2)?;
    let expected: Vec<u8> =
        bytes.iter().enumerate().map(|(at, byte)| if at < SIZE / 2 { 0x5a } else { *byte }).collect();
    if hip.download(address, SIZE)? != expected {
        return Err("the fill is wrong".to_owned());
    }
    hip.free(address)?;
    Ok("copied".to_owned())
}

/// Allocates until memory runs out, frees everything and copies.
fn exhaust(hip: &Hip) -> Result<String> {
    let mut pieces = Vec::new();
    let error = loop {
        match hip.malloc(128 << 20) {
            Ok(piece) => pieces.push(piece),
            Err(error) => break error,
        }
        if pieces.len() > 8 {
            return Err("more was allocated than there is".to_owned());
        }
    };
    for piece in pieces {
        hip.free(piece)?;
    }
    copies(hip)?;
    Ok(error)
}

/// Two fills; the settings inject a fault into the second one's kernel.
fn fills(hip: &Hip) -> Result<String> {
    let address = hip.malloc(SIZE)?;
    hip.memset(address, 1, SIZE)?;
    hip.memset(address, 2, SIZE)?;
    Ok("filled".to_owned())
}

/// Work on two GPUs, and a copy from one to the other.
fn two_gpus(hip: &Hip) -> Result<String> {
    let count = hip.devices()?;
    let mut addresses = Vec::new();
    let mut memory = Vec::new();
    for device in 0..count {
        hip.set_device(device)?;
        addresses.push(hip.pci_address(device)?);
        let address = hip.malloc(SIZE)?;
        hip.memset(address, u8::try_from(device).unwrap_or(0) + 1, SIZE)?;
        memory.push(address);
    }
    for (device, address) in (0..).zip(&memory) {
        hip.set_device(device)?;
        let bytes = hip.download(*address, SIZE)?;
        if bytes.iter().any(|byte| i32::from(*byte) != device + 1) {
            return Err(format!("memory of GPU {device} has another's bytes"));
        }
    }
    let [first, second] = memory[..] else { return Err(format!("{count} GPUs")) };
    hip.copy_peer((second, 1), (first, 0), SIZE)?;
    if hip.download(second, SIZE)?.iter().any(|byte| *byte != 1) {
        return Err("the copy between the GPUs is wrong".to_owned());
    }
    Ok(addresses.join(" "))
}
