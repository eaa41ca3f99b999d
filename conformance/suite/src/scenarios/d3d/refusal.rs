//! Mismatched devices and malformed requests, rejected before the driver is called.

use gpu_interop::d3d::d3d11::D3d11Interop;
use gpu_interop::d3d::d3d12::{D3d12Interop, ExportableFence, ExportableResource};
use gpu_interop::d3d::{ResourceFlags, Sharing};
use gpu_interop::{DeviceIdentity, ErrorKind, Luid};

use super::{buffer11, open11, open12};
use crate::scenario::scenarios;
use crate::scenarios::{expect_error, rejected};
use crate::{Context, Stop, Verdict, ensure, request};

scenarios! {
    "d3d.foreign_adapter", None,
        "Memory and fences of another adapter or node are rejected before the driver is called, with both identities, and \
         the handles come back.",
        foreign, needs [memory D3d12Resource, memory D3d11Resource];
    "d3d.bad_requests", None,
        "Empty buffers, fences at the greatest value, names for unnamed objects and decreasing signals are rejected.", bad,
        needs [memory D3d12Resource, memory D3d11ResourceKmt];
}

/// The same identity with another LUID or node mask.
fn other_devices(identity: &DeviceIdentity) -> Verdict<[DeviceIdentity; 2]> {
    let luid = identity.luid.ok_or_else(|| Stop::failed("Direct3D's device has no LUID".into()))?;
    let mut bytes = luid.bytes;
    bytes[0] ^= 0xff;
    let with = |luid| identity.clone().with_luid(Some(luid));
    Ok([with(Luid { bytes, ..luid }), with(Luid { node_mask: luid.node_mask << 1, ..luid })])
}

fn foreign(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let buffer = ExportableResource::buffer(gpu.interop(), 4096, ResourceFlags::empty())?;
    let fence = ExportableFence::new(gpu.interop(), 0)?;
    for other in other_devices(gpu.interop().identity())? {
        let request = request::memory_with(buffer.export()?, buffer.size(), true);
        let result = context.device().import_memory(request.exported_by(other.clone()));
        let (error, request) = rejected(result, &[ErrorKind::DeviceMismatch], "memory of another device")?;
        ensure!(error.code().is_none(), "a driver was called: {error}");
        let both = error.mismatch().map(|both| both.exporter.luid);
        ensure!(both == Some(other.luid), "the exporter is not named: {error}");
        // The handle is returned intact: it imports under its own identity.
        let whole = request::memory_with(request.into_handle(), buffer.size(), true);
        context.device().import_memory(whole.exported_by(gpu.interop().identity().clone()))?;

        let request = request::semaphore(fence.export()?).exported_by(other.clone());
        let result = context.device().import_semaphore(request);
        let (_, request) = rejected(result, &[ErrorKind::DeviceMismatch], "a fence of another device")?;
        context.device().import_semaphore(request::semaphore(request.into_handle()))?;

        let device = gpu.interop().device();
        let opened = D3d12Interop::for_importer(device, &other);
        let error = expect_error(opened.map(drop), ErrorKind::DeviceMismatch, "an importer that is another")?;
        ensure!(error.mismatch().is_some_and(|both| both.importer.luid == other.luid), "not named: {error}");
    }
    let eleven = open11(context)?;
    for other in other_devices(eleven.interop().identity())? {
        let opened = D3d11Interop::for_importer(eleven.interop().device(), &other);
        expect_error(opened.map(drop), ErrorKind::DeviceMismatch, "an importer that is another")?;
    }
    Ok(())
}

fn bad(context: &Context) -> Verdict {
    let gpu = open12(context)?;
    let interop = gpu.interop();
    let invalid = ErrorKind::InvalidArgument;
    expect_error(ExportableResource::buffer(interop, 0, ResourceFlags::empty()), invalid, "a buffer of no bytes")?;
    expect_error(ExportableFence::new(interop, u64::MAX), invalid, "a fence at the greatest value")?;
    let fence = ExportableFence::new(interop, 5)?;
    for value in [0, 5, u64::MAX] {
        expect_error(fence.signal(value), invalid, &format!("a signal of {value} at 5"))?;
        expect_error(fence.queue_signal(gpu.queue(), u64::MAX), invalid, "a queue's signal of the greatest value")?;
    }
    ensure!(fence.value()? == 5, "a rejected signal raised the fence to {}", fence.value()?);
    let eleven = open11(context)?;
    let by_number = buffer11(&eleven, 4096, Sharing::Kmt)?;
    let named = by_number.import_request_by_name(&super::name("kmt")?);
    expect_error(named, invalid, "a name for an object with a KMT handle")?;
    expect_error(by_number.keyed_mutex(), invalid, "the keyed mutex of a resource without one")?;
    Ok(())
}
