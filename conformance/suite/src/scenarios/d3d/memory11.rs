//! Buffers and textures of Direct3D 11, by NT and KMT handle and by name.

use gpu_interop::ErrorKind;
use gpu_interop::d3d::d3d11::ExportableResource;
use gpu_interop::d3d::{BindFlags, DxgiFormat, Sharing, SrvDimension, TextureSpec};

use super::{SIZE, buffer11, import_sized, map_array, name, open11};
use crate::scenario::scenarios;
use crate::scenarios::expect_error;
use crate::{Context, Verdict, ensure, ensure_eq};

scenarios! {
    "d3d.buffer_11", None,
        "Buffers of Direct3D 11 by NT and KMT handle, with and without a keyed mutex, import as dedicated; data goes both \
         ways.",
        buffers, needs [memory D3d11Resource, memory D3d11ResourceKmt],
        mirrors("CUDA C++ Programming Guide: Direct3D 11 interoperability, importing memory objects");
    "d3d.buffer_11_by_name", None, "A buffer of Direct3D 11 imports by the name that it was shared under.", by_name,
        needs [memory D3d11Resource, NamedMemory];
    "d3d.texture_11", None,
        "Textures of Direct3D 11 by NT and KMT handle map as arrays, every texel in both directions, for the formats that \
         the device supports.",
        textures, needs [memory D3d11Resource, memory D3d11ResourceKmt, MappedMipmappedArray],
        mirrors("cuda-samples: simpleD3D11Texture");
}

fn buffers(context: &Context) -> Verdict {
    let gpu = open11(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    for sharing in Sharing::ALL {
        let buffer = buffer11(&gpu, SIZE, sharing)?;
        // A new mutex is released with key 0.
        let mutex = sharing.semaphore_handle_kind().map(|_| buffer.keyed_mutex()).transpose()?;
        mutex.iter().try_for_each(|mutex| gpu.acquire(mutex, 0, Some(crate::outcome::PATIENCE)))?;
        let request = buffer.import_request()?;
        ensure!(request.is_dedicated(), "{sharing:?}: the request lacks the dedicated flag");
        ensure_eq!(request.handle().kind(), sharing.memory_handle_kind(), "the kind of handle, {sharing:?}");
        let mapped = import_sized(context, request, SIZE)?;
        gpu.write(buffer.resource(), &pattern.bytes(0, SIZE))?;
        // Returns after the context's work.
        gpu.read(buffer.resource(), SIZE)?;
        pattern.verify(0, &context.read(&stream, &mapped)?, &format!("{sharing:?}: Direct3D's data"))?;
        stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
        let found = gpu.read(buffer.resource(), SIZE)?;
        pattern.other().verify(0, &found, &format!("{sharing:?}: the device's data"))?;
        mutex.iter().try_for_each(|mutex| gpu.release(mutex, 0))?;
    }
    Ok(())
}

fn by_name(context: &Context) -> Verdict {
    let gpu = open11(context)?;
    let buffer = buffer11(&gpu, SIZE, Sharing::NtHandle)?;
    let name = name("buffer-11")?;
    let (kept, request) = buffer.import_request_by_name(&name)?;
    let mapped = import_sized(context, request, SIZE)?;
    // The import keeps the memory.
    drop(kept);
    let (pattern, stream) = (context.pattern(), context.stream()?);
    gpu.write(buffer.resource(), &pattern.bytes(0, SIZE))?;
    gpu.read(buffer.resource(), SIZE)?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "Direct3D's data")?;
    stream.write(&mapped, &pattern.other().bytes(0, SIZE))?;
    pattern.other().verify(0, &gpu.read(buffer.resource(), SIZE)?, "the device's data")?;
    mapped.close()?;
    let gone = gpu.interop().open_resource_by_name(&name);
    expect_error(gone, ErrorKind::InvalidArgument, "a name whose handles and imports are closed")?;
    Ok(())
}

fn textures(context: &Context) -> Verdict {
    const SHARINGS: [Sharing; 2] = [Sharing::NtHandle, Sharing::Kmt];
    const EXTENT: (u64, u32, u16) = (67, 45, 1);
    let gpu = open11(context)?;
    let (pattern, stream) = (context.pattern(), context.stream()?);
    let mut mapped_some = false;
    for (format, texel) in [
        (DxgiFormat::R8G8B8A8_UNORM, 4),
        (DxgiFormat::R16G16_UINT, 4),
        (DxgiFormat::R32G32B32A32_FLOAT, 16),
        (DxgiFormat::R8_UNORM, 1),
    ] {
        for sharing in SHARINGS {
            let what = format!("{sharing:?}, {format:?}");
            let spec = TextureSpec::new(SrvDimension::TEXTURE2D, EXTENT, format);
            let texture = ExportableResource::texture(gpu.interop(), &spec, BindFlags::SHADER_RESOURCE, sharing)?;
            let mapped = map_array(context, texture.import_request()?, &texture.array_desc()?, &what)?;
            let Some(array) = mapped else { continue };
            mapped_some = true;
            let (row, rows) = (67 * texel, 45);
            let data = pattern.bytes(0, row * rows);
            gpu.write_texture(texture.resource(), &data)?;
            gpu.read_texture(texture.resource())?;
            let mut found = vec![0; row * rows];
            stream.read_array(array.level(0)?, &mut found)?;
            pattern.verify(0, &found, &format!("{what}: Direct3D's data"))?;
            stream.write_array(array.level(0)?, &pattern.other().bytes(0, row * rows))?;
            let found = gpu.read_texture(texture.resource())?;
            pattern.other().verify(0, &found, &format!("{what}: the device's data"))?;
        }
    }
    ensure!(mapped_some, "the device maps none of these formats");
    Ok(())
}
