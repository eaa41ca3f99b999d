//! What the simulators read from the environment. All of it, with the defaults.
//!
//! | variable | meaning |
//! |---|---|
//! | `SIM_FAIL` | faults, separated by commas: `function:use:answer`. The use is counted from 1; `3+` is the third and every later one, `*` every one. The answer is a code, `null`: success and a null result, `abort`: the process ends there, or `hang`: it never returns. `cuMemFree_v2:3:700`. The function `*` is every one that touches the device, counted together: `*:57+:719` loses the device at the 57th call |
//! | `SIM_LATENCY` | `function:microseconds`, separated by commas; `*` is every function. How long a call sleeps |
//! | `SIM_FD_ON_FAILURE` | what an import that `SIM_FAIL` fails does with the descriptor: `measured` (the default: CUDA closes it if the answer is 999, HIP never), `closed` or `open` |
//! | `SIM_VERSION` | what the driver says of its version: 13000, HIP 60443484. sim-hip answers as that version: as 5.2.3 before 50500000, as 5.7.1 before 60000000, as 6.4.3 before 70200000, else as 7.2.4 |
//! | `SIM_DEVICES` | how many devices there are: 1. With more than one sim-cuda dies as driver 580 does on such a host: of an import by `cuImportExternalMemory` of 512 MiB or more that it exported itself |
//! | `SIM_ALIKE` | 1: all of them have the UUID and PCI address of the first |
//! | `CUDA_VISIBLE_DEVICES`, `HIP_VISIBLE_DEVICES` | which of them there are, by number, and in which order; as the vendors read it, without names |
//! | `GPU_MAX_HW_QUEUES` | sim-hip, Linux: how many hardware queues there are of each priority, which streams share: 4 |
//! | `SIM_NAME` | their name |
//! | `SIM_UUID` | 32 hexadecimal digits. The exporter's, to be the device that it runs on. Zeros: not known. That of the first device: each other's last byte differs |
//! | `SIM_LUID` | Windows: 16 hexadecimal digits, the exporter's. That of the first device, as above |
//! | `SIM_PCI` | `domain:bus:device`, hexadecimal: `ffff:5a:1f`. The exporter's, as above; each other device has the next bus |
//! | `SIM_CONTEXT` | CUDA: `foreign`: somebody else's context is current on every thread from its beginning |
//! | `SIM_ATTRIBUTES` | `number:value`, separated by commas: device attributes that differ; `number:!code` is a query that fails |
//! | `SIM_CURRENT` | sim-hip: the device that is current on each thread at first: 0. With another one, the process ends where a call does not find the other device current, or the call before left that current |
//! | `SIM_FAILED_DEVICES` | sim-hip: `number:!code`, separated by commas: devices whose name cannot be queried |
//! | `SIM_EXPORT` | Linux: how exported memory looks: `lavapipe` (the default), whose header is read from `SIM_EXPORT_HEADER`; or `plain`: data from the first byte on, which SwiftShader imports |
//! | `SIM_EXPORT_HEADER` | the 16 bytes, hexadecimal, by which lavapipe recognises memory of its own: bytes 16 to 31 of what it exports |
//! | `SIM_SEMAPHORES` | HIP, Linux: `stub` (the default), or `abort`: importing one ends the process, as a runtime with assertions does |
//! | `SIM_HIP_LAYOUT` | HIP: 5 or 6: the structs of HIP 5, or of HIP 6 and later. Those of `SIM_VERSION` by default |
//! | `GPU_ENABLE_PAL` | sim-hip, Windows: what the runtime is above: 0 is ROCr, else PAL |
//! | `SIM_ARCH` | HIP: the architecture, which code objects must be built for: `gfx90a:sramecc+:xnack-` |
//! | `HIP_ON_CUDA_LIBRARY` | hip-on-cuda: the library that it takes for NVIDIA's driver: `libcuda.so.1`. sim-cuda will do |
//! | `SIM_NVSCI` | sim-nvsci: what is unusual about it, as its front page says |
//! | `GPU_INTEROP_NVSCIBUF_LIBRARY` | sim-cuda: sim-nvsci, whose objects it imports if `SIM_ATTRIBUTES` has `18:1` |
//! | `SIM_REPORT` | a file that gets lines when the process ends: what is still alive, and how often functions of external semaphores were called |
//!
//! Of a library that does not work on the CPU only `SIM_FAIL`, `SIM_LATENCY`, `SIM_VERSION` and what is marked as HIP's are
//! read; the rest is for the library behind it, if that is a simulator of CUDA.
//!
//! The environment hides no symbol from `dlsym`: missing symbols are tested with copies of these libraries in which a
//! symbol has another name.

use std::ffi::c_int;
use std::str::FromStr;

/// The value of a variable, unless it is empty.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.is_empty())
}

/// The value of a variable as a number.
#[must_use]
pub fn number<T: FromStr>(name: &str, default: T) -> T {
    text(name).and_then(|text| text.trim().parse().ok()).unwrap_or(default)
}

/// The value of a variable as 16 bytes in hexadecimal.
#[must_use]
pub fn bytes(name: &str) -> Option<[u8; 16]> {
    let digits: String = text(name)?.chars().filter(|letter| *letter != '-').collect();
    u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes)
}

/// Numbers, each with a value or with the code of a failure: `102:0,103:!999`.
#[must_use]
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

/// The devices that a list of numbers shows, of `count`: all without a list, and none after the first that there is not.
#[must_use]
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
        assert_eq!(visible(Some("-1"), 3), []);
        assert_eq!(visible(Some(""), 3), []);
    }
}
