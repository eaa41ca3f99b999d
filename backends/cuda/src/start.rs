//! Status codes of a driver or device that this process cannot use, with their remedies.

use gpu_interop_core::ErrorKind;
use gpu_interop_driver::Status;

const TOO_OLD: &str = "the installed driver is older than the library requires; install a newer driver, or give the \
                       container the machine's library";

/// Code, kind of the error, and message: cause and remedy. Returned by `cuInit`, `cuDeviceGetCount` and
/// `cuDevicePrimaryCtxRetain`.
const CODES: &[(u32, ErrorKind, &str)] = &[
    (
        3,
        ErrorKind::System,
        "the driver cannot be used in this process, usually because the process was forked after this or another library had \
         used it; start the process without a fork (Python: the start method `spawn`), or fork before the first use",
    ),
    (35, ErrorKind::DriverTooOld, TOO_OLD),
    (36, ErrorKind::DriverTooOld, TOO_OLD),
    (
        46,
        ErrorKind::Driver,
        "the device is busy, or its compute mode admits one process or none; end the other process, or set the mode with \
         `nvidia-smi -c DEFAULT`",
    ),
    (
        101,
        ErrorKind::Driver,
        "the driver has no such device; check CUDA_VISIBLE_DEVICES and, on a GPU with MIG, that the named instance exists \
         (`nvidia-smi -L`)",
    ),
    (
        216,
        ErrorKind::Driver,
        "another process uses the device, whose compute mode is exclusive; end that process, share the device by MPS, or \
         set the mode with `nvidia-smi -c DEFAULT`",
    ),
    (
        304,
        ErrorKind::Driver,
        "the operating system refused a call of the driver; check that this process may open /dev/nvidia* (in a container: \
         its devices and its cgroup)",
    ),
    (
        802,
        ErrorKind::Driver,
        "the GPU's NVLink fabric is not ready; start the fabric manager of the driver's version (`systemctl start \
         nvidia-fabricmanager`) on the host, and wait until `nvidia-smi -q` reports the fabric's state as completed",
    ),
    (
        805,
        ErrorKind::Driver,
        "the MPS control daemon cannot be reached; start it with `nvidia-cuda-mps-control -d` as this user and with this \
         CUDA_MPS_PIPE_DIRECTORY, or set the compute mode with `nvidia-smi -c DEFAULT`",
    ),
    (
        806,
        ErrorKind::Driver,
        "the MPS server failed; restart it: `echo quit | nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`",
    ),
    (
        807,
        ErrorKind::Driver,
        "the MPS server is not ready, as while it starts, or after a fault of another client; try again, or restart it: \
         `echo quit | nvidia-cuda-mps-control`, then `nvidia-cuda-mps-control -d`",
    ),
    (808, ErrorKind::Driver, "the MPS server has its maximum number of clients; end another client"),
    (809, ErrorKind::Driver, "the MPS server has its maximum number of connections to devices; end another client"),
    (
        999,
        ErrorKind::Driver,
        "the driver does not say why it failed; check that the kernel modules are loaded and of its version \
         (`nvidia-modprobe -u`, /proc/driver/nvidia/version), and the kernel's log for NVRM",
    ),
];

/// Kind and message of the error for a code that is returned while a driver or device is opened.
pub(crate) fn meaning(code: Status) -> Option<(ErrorKind, &'static str)> {
    CODES.iter().find(|(number, ..)| *number == code.0).map(|(_, kind, message)| (*kind, *message))
}

#[cfg(test)]
mod tests {
    use cudarc::driver::sys::cudaError_enum as E;

    use super::*;

    #[test]
    fn codes_are_those_of_the_header() {
        let header = [
            (3, E::CUDA_ERROR_NOT_INITIALIZED),
            (36, E::CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER),
            (46, E::CUDA_ERROR_DEVICE_UNAVAILABLE),
            (101, E::CUDA_ERROR_INVALID_DEVICE),
            (216, E::CUDA_ERROR_CONTEXT_ALREADY_IN_USE),
            (304, E::CUDA_ERROR_OPERATING_SYSTEM),
            (802, E::CUDA_ERROR_SYSTEM_NOT_READY),
            (805, E::CUDA_ERROR_MPS_CONNECTION_FAILED),
            (806, E::CUDA_ERROR_MPS_RPC_FAILURE),
            (807, E::CUDA_ERROR_MPS_SERVER_NOT_READY),
            (808, E::CUDA_ERROR_MPS_MAX_CLIENTS_REACHED),
            (809, E::CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED),
            (999, E::CUDA_ERROR_UNKNOWN),
        ];
        // The driver's header has no 35: it is the runtime's `cudaErrorInsufficientDriver`, which drivers return, too.
        let ours: Vec<u32> = CODES.iter().map(|(code, ..)| *code).filter(|code| *code != 35).collect();
        assert_eq!(ours, header.map(|(code, _)| code));
        for (code, theirs) in header {
            assert_eq!(code, theirs as u32);
        }
    }
}
