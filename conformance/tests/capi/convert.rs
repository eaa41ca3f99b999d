//! Conversions between Rust's types and C's.

use std::ffi::{CStr, c_char};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use gpu_interop::{
    ArrayShape, ChannelType, DeviceIdentity, DeviceKind, Error, ErrorKind, KernelArg, Luid, MemoryImport,
    MipmappedArrayDesc, PciAddress, Result, SemaphoreImport, SignalParams, Uuid, WaitCondition, WaitParams,
};
use gpu_interop_capi as c;

/// The kind of a status.
pub(crate) fn kind(status: i32) -> ErrorKind {
    match status {
        c::GPI_ERROR_DRIVER_NOT_FOUND => ErrorKind::DriverNotFound,
        c::GPI_ERROR_DRIVER_TOO_OLD => ErrorKind::DriverTooOld,
        c::GPI_ERROR_SYMBOL_MISSING => ErrorKind::SymbolMissing,
        c::GPI_ERROR_NO_DEVICE => ErrorKind::NoDevice,
        c::GPI_ERROR_DEVICE_MISMATCH => ErrorKind::DeviceMismatch,
        c::GPI_ERROR_UNSUPPORTED => ErrorKind::Unsupported,
        c::GPI_ERROR_INVALID_ARGUMENT => ErrorKind::InvalidArgument,
        c::GPI_ERROR_IMPORT_REJECTED => ErrorKind::ImportRejected,
        c::GPI_ERROR_RECONCILIATION_FAILED => ErrorKind::ReconciliationFailed,
        c::GPI_ERROR_OUT_OF_MEMORY => ErrorKind::OutOfMemory,
        c::GPI_ERROR_TIMEOUT => ErrorKind::Timeout,
        c::GPI_ERROR_CANCELLED => ErrorKind::Cancelled,
        c::GPI_ERROR_OVERTAKEN => ErrorKind::Overtaken,
        c::GPI_ERROR_HOST_FUNCTION_PANICKED => ErrorKind::HostFunctionPanicked,
        c::GPI_ERROR_SYSTEM => ErrorKind::System,
        c::GPI_ERROR_DEVICE_LOST => ErrorKind::DeviceLost,
        _ => ErrorKind::Driver,
    }
}

/// A text of a structure.
pub(crate) fn text(array: &[c_char]) -> String {
    // SAFETY: the library ends its texts with NUL.
    unsafe { CStr::from_ptr(array.as_ptr()) }.to_string_lossy().into_owned()
}

/// An identity in C's type, from one in Rust's.
fn to_identity(identity: &DeviceIdentity) -> c::gpi_identity {
    let mut result: c::gpi_identity = zeroed();
    result.kind = match identity.kind {
        DeviceKind::Gpu => c::GPI_DEVICE_GPU,
        DeviceKind::Cpu => c::GPI_DEVICE_CPU,
        _ => c::GPI_DEVICE_UNKNOWN,
    };
    for (unit, byte) in result.name.iter_mut().zip(identity.name.bytes().take(255)) {
        *unit = c_char::from_ne_bytes([byte]);
    }
    if let Some(uuid) = identity.uuid {
        result.fields |= c::GPI_IDENTITY_UUID;
        result.uuid = *uuid.as_bytes();
    }
    if let Some(luid) = identity.luid {
        result.fields |= c::GPI_IDENTITY_LUID;
        (result.luid, result.luid_node_mask) = (luid.bytes, luid.node_mask);
    }
    if let Some(pci) = identity.pci {
        result.fields |= c::GPI_IDENTITY_PCI;
        result.pci_domain = pci.domain;
        (result.pci_bus, result.pci_device, result.pci_function) = (pci.bus, pci.device, pci.function);
    }
    result
}

pub(crate) fn identity(identity: &c::gpi_identity) -> DeviceIdentity {
    let kind = match identity.kind {
        c::GPI_DEVICE_GPU => DeviceKind::Gpu,
        c::GPI_DEVICE_CPU => DeviceKind::Cpu,
        _ => DeviceKind::Unknown,
    };
    let has = |field| identity.fields & field != 0;
    let pci = PciAddress {
        domain: identity.pci_domain,
        bus: identity.pci_bus,
        device: identity.pci_device,
        function: identity.pci_function,
    };
    let luid = Luid { bytes: identity.luid, node_mask: identity.luid_node_mask };
    DeviceIdentity::new(text(&identity.name), kind)
        .with_uuid(Uuid::from_bytes(identity.uuid).filter(|_| has(c::GPI_IDENTITY_UUID)))
        .with_luid(has(c::GPI_IDENTITY_LUID).then_some(luid))
        .with_pci(has(c::GPI_IDENTITY_PCI).then_some(pci))
}

/// A structure set to 0, as C programs begin.
fn zeroed<T: Copy>() -> T {
    // SAFETY: the structures of C have numbers and pointers only.
    unsafe { std::mem::zeroed() }
}

/// A descriptor of a request, which keeps its own.
fn duplicate(fd: Option<std::os::fd::BorrowedFd<'_>>) -> Result<OwnedFd> {
    let unsupported = || Error::unsupported("gpi import", "the test passes descriptors only");
    fd.ok_or_else(unsupported)?
        .try_clone_to_owned()
        .map_err(|error| Error::new(ErrorKind::System, "dup", "no duplicate of the descriptor").with_source(error))
}

/// Describes a request, with a duplicate of its descriptor, which the structure owns.
pub(crate) fn memory_import(request: &MemoryImport) -> Result<c::gpi_memory_import> {
    let mut import: c::gpi_memory_import = zeroed();
    import.kind = request.handle().kind() as i32 + 1;
    import.size = request.size();
    let flags = [
        (request.is_dedicated(), c::GPI_IMPORT_DEDICATED),
        (request.is_native(), c::GPI_IMPORT_NATIVE),
        (request.is_peer_trusted(), c::GPI_IMPORT_TRUSTED_PEER),
        (request.exporter().is_some(), c::GPI_IMPORT_HAS_EXPORTER),
        (request.image().is_some(), c::GPI_IMPORT_HAS_IMAGE),
    ];
    import.flags = flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
    import.exporter = request.exporter().map_or(zeroed(), to_identity);
    if let Some(image) = request.image() {
        import.image = array_desc(image)?;
    }
    import.fd = duplicate(request.handle().as_fd())?.into_raw_fd();
    Ok(import)
}

/// A description of an array.
pub(crate) fn array_desc(desc: &MipmappedArrayDesc) -> Result<c::gpi_array_desc> {
    let (shape, [width, height, depth]) = match desc.shape {
        ArrayShape::D1 { width } => (c::GPI_SHAPE_1D, [width, 0, 0]),
        ArrayShape::D1Layered { width, layers } => (c::GPI_SHAPE_1D_LAYERED, [width, 0, layers]),
        ArrayShape::D2 { width, height } => (c::GPI_SHAPE_2D, [width, height, 0]),
        ArrayShape::D2Layered { width, height, layers } => (c::GPI_SHAPE_2D_LAYERED, [width, height, layers]),
        ArrayShape::D3 { width, height, depth } => (c::GPI_SHAPE_3D, [width, height, depth]),
        ArrayShape::Cube { width } => (c::GPI_SHAPE_CUBE, [width, 0, 0]),
        ArrayShape::CubeLayered { width, cubes } => (c::GPI_SHAPE_CUBE_LAYERED, [width, 0, cubes]),
        _ => return Err(Error::unsupported("gpi_memory_map_array", "unknown shape")),
    };
    let channel = match desc.format.channel() {
        ChannelType::Uint8 => c::GPI_CHANNEL_UINT8,
        ChannelType::Uint16 => c::GPI_CHANNEL_UINT16,
        ChannelType::Uint32 => c::GPI_CHANNEL_UINT32,
        ChannelType::Sint8 => c::GPI_CHANNEL_SINT8,
        ChannelType::Sint16 => c::GPI_CHANNEL_SINT16,
        ChannelType::Sint32 => c::GPI_CHANNEL_SINT32,
        ChannelType::Float16 => c::GPI_CHANNEL_FLOAT16,
        ChannelType::Float32 => c::GPI_CHANNEL_FLOAT32,
        ChannelType::Unorm8 => c::GPI_CHANNEL_UNORM8,
        ChannelType::Unorm16 => c::GPI_CHANNEL_UNORM16,
        ChannelType::Snorm8 => c::GPI_CHANNEL_SNORM8,
        ChannelType::Snorm16 => c::GPI_CHANNEL_SNORM16,
        ChannelType::Unorm1010102 => c::GPI_CHANNEL_UNORM_10_10_10_2,
        _ => return Err(Error::unsupported("gpi_memory_map_array", "unknown channel")),
    };
    Ok(c::gpi_array_desc {
        offset: desc.offset,
        width,
        height,
        depth,
        shape,
        channel,
        channels: desc.format.channels().into(),
        levels: desc.levels,
        layout_levels: desc.layout_levels.unwrap_or(0),
        usage: desc.usage.bits(),
    })
}

/// As [`memory_import`], for a semaphore.
pub(crate) fn semaphore_import(request: &SemaphoreImport) -> Result<c::gpi_semaphore_import> {
    let mut import: c::gpi_semaphore_import = zeroed();
    import.kind = request.handle().kind() as i32 + 1;
    import.flags = if request.exporter().is_some() { c::GPI_IMPORT_HAS_EXPORTER } else { 0 };
    import.exporter = request.exporter().map_or(zeroed(), to_identity);
    import.fd = duplicate(request.handle().as_fd())?.into_raw_fd();
    Ok(import)
}

/// The descriptor of an export, which the caller owns.
pub(crate) fn exported_fd(import: &c::gpi_memory_import) -> OwnedFd {
    // SAFETY: the library has exported it, and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(import.fd) };
    assert!(fd.as_raw_fd() >= 0);
    fd
}

/// Operations on semaphores.
pub(crate) fn signal(semaphore: c::gpi_semaphore, params: SignalParams) -> Result<c::gpi_semaphore_op> {
    let mut op: c::gpi_semaphore_op = zeroed();
    op.semaphore = semaphore;
    op.value = match params {
        SignalParams::Binary => 0,
        SignalParams::Value(value) | SignalParams::Key(value) => value,
        _ => return Err(Error::unsupported("gpi_stream_signal", "the test has no fences")),
    };
    Ok(op)
}

pub(crate) fn wait(semaphore: c::gpi_semaphore, params: WaitParams) -> Result<c::gpi_semaphore_op> {
    let mut op: c::gpi_semaphore_op = zeroed();
    (op.semaphore, op.timeout_ns) = (semaphore, c::GPI_NO_TIMEOUT);
    op.value = match params {
        WaitParams::Binary => 0,
        WaitParams::Value(value) | WaitParams::Key { key: value, .. } => value,
        _ => return Err(Error::unsupported("gpi_stream_wait", "the test has no fences")),
    };
    Ok(op)
}

pub(crate) fn condition(condition: WaitCondition) -> i32 {
    match condition {
        WaitCondition::GreaterOrEqual => c::GPI_WAIT_GREATER_OR_EQUAL,
        WaitCondition::Equal => c::GPI_WAIT_EQUAL,
        WaitCondition::And => c::GPI_WAIT_AND,
        WaitCondition::Nor => c::GPI_WAIT_NOR,
    }
}

/// A kernel argument. Negative integers keep their low bits.
pub(crate) fn argument(argument: &KernelArg<'_>) -> Result<c::gpi_kernel_arg> {
    let (kind, bits) = match argument {
        KernelArg::Ptr(address) => (c::GPI_ARG_ADDRESS, address.get()),
        KernelArg::U8(value) => (c::GPI_ARG_U8, u64::from(*value)),
        KernelArg::U16(value) => (c::GPI_ARG_U16, u64::from(*value)),
        KernelArg::U32(value) => (c::GPI_ARG_U32, u64::from(*value)),
        KernelArg::U64(value) => (c::GPI_ARG_U64, *value),
        KernelArg::I8(value) => (c::GPI_ARG_I8, i64::from(*value).cast_unsigned()),
        KernelArg::I16(value) => (c::GPI_ARG_I16, i64::from(*value).cast_unsigned()),
        KernelArg::I32(value) => (c::GPI_ARG_I32, i64::from(*value).cast_unsigned()),
        KernelArg::I64(value) => (c::GPI_ARG_I64, value.cast_unsigned()),
        KernelArg::F32(value) => (c::GPI_ARG_F32, u64::from(value.to_bits())),
        KernelArg::F64(value) => (c::GPI_ARG_F64, value.to_bits()),
        KernelArg::Value(value) => {
            let mut result: c::gpi_kernel_arg = zeroed();
            result.kind = c::GPI_ARG_VALUE;
            (result.value, result.value_size) = (value.as_ptr().cast(), value.size());
            result.value_alignment = u32::try_from(value.align()).expect("small");
            return Ok(result);
        }
        _ => return Err(Error::unsupported("gpi_stream_launch", "unknown kind of argument")),
    };
    let mut result: c::gpi_kernel_arg = zeroed();
    (result.kind, result.bits) = (kind, bits);
    Ok(result)
}
