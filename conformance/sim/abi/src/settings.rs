//! Settings of the simulators and of the shim: environment variables.
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `GPU_INTEROP_SIM_FAIL` | Faults, separated by commas: `function:use:answer`. Uses are counted from 1; `3+` is the third and every later one, `3%4` the third and every fourth after it, `*` every one. The answer is a code, `null`: success and a null result, `abort`: the process ends there, or `hang`: the call never returns. `cuMemFree_v2:3:700`. The function `*` is every one that touches the device, counted together: `*:57+:719` loses the device at the 57th call | none |
//! | `GPU_INTEROP_SIM_COUNTS` | Linux: a folder, in which the uses of the functions that `GPU_INTEROP_SIM_FAIL` names are counted over all processes: a fault hits once in a run, and a lost device stays lost | none |
//! | `GPU_INTEROP_SIM_LATENCY` | `function:microseconds`, separated by commas; `*` is every function. How long a call sleeps | none |
//! | `GPU_INTEROP_SIM_FD_ON_FAILURE` | What an import that `GPU_INTEROP_SIM_FAIL` fails does with the descriptor: `measured` (CUDA closes it if the code is 999, HIP never), `closed` or `open` | `measured` |
//! | `GPU_INTEROP_SIM_VERSION` | The driver's version. sim-hip behaves as that version of the runtime: as 5.2.3 before 50500000, as 5.7.1 before 60000000, as 6.4.3 before 70200000, else as 7.2.4 | 13000, HIP 60443484 |
//! | `GPU_INTEROP_SIM_DEVICES` | The number of devices. With more than one, sim-cuda dies as driver 580 does on such a host: of an import by `cuImportExternalMemory` of 512 MiB or more that it exported itself | 1 |
//! | `GPU_INTEROP_SIM_ALIKE` | 1: all of them have the UUID and PCI address of the first | 0 |
//! | `CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` | Which of them are visible, by number, and in which order; as the vendors read it, without names | all |
//! | `GPU_MAX_HW_QUEUES` | sim-hip, Linux: hardware queues of each priority, shared by streams | 4 |
//! | `GPU_INTEROP_SIM_NAME` | Their name | `simulated GPU (sim-cuda)` |
//! | `GPU_INTEROP_SIM_UUID` | 32 hexadecimal digits: the exporter's, for both to be on one device. Zeros: unknown. That of the first device; the last byte of each other differs | one of its own |
//! | `GPU_INTEROP_SIM_LUID` | Windows, also sim-d3d: 16 hexadecimal digits: the exporter's. That of the first device, as above | that of sim-d3d |
//! | `GPU_INTEROP_SIM_PCI` | `domain:bus:device`, hexadecimal: the exporter's, as above; each other device has the next bus | `ffff:5a:1f` |
//! | `GPU_INTEROP_SIM_CONTEXT` | CUDA: `foreign`: a foreign context is current on every thread from its beginning; `needed`: the same, and signals and waits need the primary context on every stream; no known driver does | none |
//! | `GPU_INTEROP_SIM_ATTRIBUTES` | `number:value`, separated by commas: device attributes that differ; `number:!code` is a query that fails | none |
//! | `GPU_INTEROP_SIM_CURRENT` | sim-hip: the device that is current on each thread at first. With another than 0 the process ends where a call does not find the other device current, or the call before left that current | 0 |
//! | `GPU_INTEROP_SIM_FAILED_DEVICES` | sim-hip: `number:!code`, separated by commas: devices whose name cannot be queried | none |
//! | `GPU_INTEROP_SIM_EXPORT` | Linux: the layout of exported memory: `lavapipe`, whose header is that of `GPU_INTEROP_SIM_EXPORT_HEADER`; or `plain`: data from the first byte on, which SwiftShader imports | `lavapipe` |
//! | `GPU_INTEROP_SIM_EXPORT_HEADER` | The 16 bytes, hexadecimal, by which lavapipe recognises memory of its own: bytes 16 to 31 of its exports | none |
//! | `GPU_INTEROP_SIM_SEMAPHORES` | HIP, Linux: `stub`, or `abort`: importing one ends the process, as a runtime with assertions does | `stub` |
//! | `GPU_INTEROP_SIM_HIP_LAYOUT` | HIP: 5 or 6: the structs of HIP 5, or of HIP 6 and later | that of the version |
//! | `GPU_ENABLE_PAL` | sim-hip, Windows: the layer beneath the runtime: 0 is ROCr, else PAL | PAL |
//! | `GPU_INTEROP_SIM_ARCH` | HIP: the architecture, which code objects must be built for | `gfx90a:sramecc+:xnack-` |
//! | `GPU_INTEROP_SIM_CUDA_LIBRARY` | hip-on-cuda: the library that it uses as NVIDIA's driver, such as sim-cuda | `libcuda.so.1` |
//! | `GPU_INTEROP_SIM_PTX` | hip-on-cuda: files of PTX, or folders of `*.ptx`, separated by `:`. A code object of another source than the project's is replaced by the first that has all its kernels, by their names | none |
//! | `GPU_INTEROP_SIM_KERNELS` | A library of kernels for the CPU, built from their source in C with `kernels/device/simulated.h`. sim-cuda and sim-hip run them in place of kernels of the same names in images of other sources than the project's | none |
//! | `GPU_INTEROP_SIM_NVSCI` | sim-nvsci: behaviours, as its front page lists them | none |
//! | `GPU_INTEROP_SIM_D3D` | sim-d3d: faults, as its `faults.rs` lists them | none |
//! | `GPU_INTEROP_SIM_AMDGPU_*` | The emulated kernel driver: as its `settings.rs` lists them | |
//! | `GPU_INTEROP_NVSCIBUF_LIBRARY` | sim-cuda: sim-nvsci, whose objects it imports if `GPU_INTEROP_SIM_ATTRIBUTES` has `18:1` | none |
//! | `GPU_INTEROP_SIM_REPORT` | A file that receives lines when the process ends: what is still alive, and how often functions of external semaphores were called | none |
//!
//! The shim reads only `GPU_INTEROP_SIM_FAIL`, `GPU_INTEROP_SIM_LATENCY`, `GPU_INTEROP_SIM_VERSION` and HIP's settings;
//! sim-cuda reads the others if it is the driver below.
//!
//! The environment cannot hide a symbol from `dlsym`: missing symbols are tested with copies of these libraries in
//! which one symbol is renamed.

use std::ffi::c_int;
use std::str::FromStr;

/// The value of a variable, unless it is empty.
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The value of a variable as a number.
pub fn number<T: FromStr>(name: &str, default: T) -> T {
    text(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
}

/// The value of a variable as 16 bytes in hexadecimal.
pub fn bytes(name: &str) -> Option<[u8; 16]> {
    let digits: String = text(name)?.chars().filter(|letter| *letter != '-').collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Numbers, each with a value or the code of a failure: `102:0,103:!999`.
pub fn answers(name: &str) -> Vec<(c_int, Result<c_int, u32>)> {
    let answer = |text: &str| {
        let (number, answer) = text.split_once(':')?;
        let answer = match answer.trim().strip_prefix('!') {
            Some(code) => Err(code.parse().ok()?),
            None => Ok(answer.trim().parse().ok()?),
        };
        Some((number.trim().parse().ok()?, answer))
    };
    text(name).iter().flat_map(|text| text.split(',')).filter_map(answer).collect()
}

/// The visible devices, of `count`: all without a list, and none after the first invalid number.
pub fn visible(list: Option<&str>, count: c_int) -> Vec<c_int> {
    let Some(list) = list else { return (0..count).collect() };
    let number = |text: &str| text.trim().parse().ok().filter(|device| (0..count).contains(device));
    list.split(',').map_while(number).collect()
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn lists_show_devices_up_to_the_first_that_is_not_there() {
        assert_eq!(visible(None, 3), [0, 1, 2]);
        assert_eq!(visible(Some("2, 0"), 3), [2, 0]);
        assert_eq!(visible(Some("1,3,0"), 3), [1]);
        assert_eq!(visible(Some("-1"), 3), [0; 0]);
        assert_eq!(visible(Some(""), 3), [0; 0]);
    }
}
