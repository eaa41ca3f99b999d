//! Conversion of CUDA's status codes to HIP's.

use cubecl_hip_sys as hip;
use cudarc::driver::sys::cudaError_enum as Code;

pub(crate) use gpu_interop_sim_abi::code::{INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED, OUT_OF_MEMORY};

/// `CUDA_SUCCESS`.
const SUCCESS: u32 = Code::CUDA_SUCCESS as u32;

/// Codes with the same meaning. Most have the same number, too, which the table does not rely on.
const SAME: &[(Code, hip::hipError_t)] = &[
    (Code::CUDA_ERROR_INVALID_VALUE, hip::hipError_t_hipErrorInvalidValue),
    (Code::CUDA_ERROR_OUT_OF_MEMORY, hip::hipError_t_hipErrorOutOfMemory),
    (Code::CUDA_ERROR_NOT_INITIALIZED, hip::hipError_t_hipErrorNotInitialized),
    (Code::CUDA_ERROR_DEINITIALIZED, hip::hipError_t_hipErrorDeinitialized),
    (Code::CUDA_ERROR_STUB_LIBRARY, hip::hipError_t_hipErrorNoDevice),
    (Code::CUDA_ERROR_NO_DEVICE, hip::hipError_t_hipErrorNoDevice),
    (Code::CUDA_ERROR_INVALID_DEVICE, hip::hipError_t_hipErrorInvalidDevice),
    (Code::CUDA_ERROR_INVALID_IMAGE, hip::hipError_t_hipErrorInvalidImage),
    (Code::CUDA_ERROR_INVALID_CONTEXT, hip::hipError_t_hipErrorInvalidContext),
    (Code::CUDA_ERROR_MAP_FAILED, hip::hipError_t_hipErrorMapFailed),
    (Code::CUDA_ERROR_UNMAP_FAILED, hip::hipError_t_hipErrorUnmapFailed),
    (Code::CUDA_ERROR_ALREADY_MAPPED, hip::hipError_t_hipErrorAlreadyMapped),
    (Code::CUDA_ERROR_NO_BINARY_FOR_GPU, hip::hipError_t_hipErrorNoBinaryForGpu),
    (Code::CUDA_ERROR_NOT_MAPPED, hip::hipError_t_hipErrorNotMapped),
    (Code::CUDA_ERROR_ECC_UNCORRECTABLE, hip::hipError_t_hipErrorECCNotCorrectable),
    (Code::CUDA_ERROR_INVALID_PTX, hip::hipError_t_hipErrorInvalidKernelFile),
    (Code::CUDA_ERROR_INVALID_SOURCE, hip::hipError_t_hipErrorInvalidSource),
    (Code::CUDA_ERROR_OPERATING_SYSTEM, hip::hipError_t_hipErrorOperatingSystem),
    (Code::CUDA_ERROR_INVALID_HANDLE, hip::hipError_t_hipErrorInvalidHandle),
    (Code::CUDA_ERROR_ILLEGAL_STATE, hip::hipError_t_hipErrorIllegalState),
    (Code::CUDA_ERROR_NOT_FOUND, hip::hipError_t_hipErrorNotFound),
    (Code::CUDA_ERROR_NOT_READY, hip::hipError_t_hipErrorNotReady),
    (Code::CUDA_ERROR_ILLEGAL_ADDRESS, hip::hipError_t_hipErrorIllegalAddress),
    (Code::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, hip::hipError_t_hipErrorLaunchOutOfResources),
    (Code::CUDA_ERROR_LAUNCH_TIMEOUT, hip::hipError_t_hipErrorLaunchTimeOut),
    (Code::CUDA_ERROR_CONTEXT_IS_DESTROYED, hip::hipError_t_hipErrorContextIsDestroyed),
    (Code::CUDA_ERROR_ASSERT, hip::hipError_t_hipErrorAssert),
    (Code::CUDA_ERROR_LAUNCH_FAILED, hip::hipError_t_hipErrorLaunchFailure),
    (Code::CUDA_ERROR_NOT_SUPPORTED, hip::hipError_t_hipErrorNotSupported),
    (Code::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, hip::hipError_t_hipErrorInsufficientDriver),
];

/// HIP's code for a CUDA code; codes without an equivalent are `hipErrorUnknown`.
pub(crate) fn check(answer: u32) -> Result<(), u32> {
    if answer == SUCCESS {
        return Ok(());
    }
    let same = SAME.iter().find(|(cuda, _)| *cuda as u32 == answer);
    Err(same.map_or(hip::hipError_t_hipErrorUnknown, |(_, hip)| *hip))
}

#[cfg(test)]
mod tests {
    use gpu_interop_sim_abi::hip::error;

    use super::*;

    #[test]
    fn codes_are_translated_and_others_are_unknown() {
        assert_eq!(check(0), Ok(()));
        assert_eq!(check(719), Err(hip::hipError_t_hipErrorLaunchFailure));
        assert_eq!(check(803), Err(hip::hipError_t_hipErrorInsufficientDriver));
        assert_eq!([check(54321), check(u32::MAX), check(999), check(34567)], [Err(999); 4]);
        for (cuda, hip) in SAME {
            assert_ne!(error::name(*hip), c"hipErrorUnknown", "{cuda:?} has a name in HIP");
        }
    }
}
