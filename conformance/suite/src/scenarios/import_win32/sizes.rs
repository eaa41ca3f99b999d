//! Sizes at the boundaries of an allocation, and of 32 bits: the system takes sizes and offsets as two halves.

use std::os::windows::io::AsRawHandle;

use gpu_interop::ErrorKind;

use super::super::import_request::works;
use super::{Kept, SIZE, came_back, handle_of};
use crate::scenario::scenarios;
use crate::{Context, Stop, Verdict, ensure, ensure_eq};

scenarios! {
    "import.win32_sizes_within", Any, "Every size up to the allocation's imports and maps with the right data.", within;
    "import.win32_sizes_beyond", Any,
        "Sizes beyond the allocation, near 2^32 and near the address limit are rejected, at the import or at the mapping of \
         the excess; the same handle comes back and works.",
        beyond;
}

/// No driver allocates in units greater than this, bytes.
const UNIT: u64 = 2 << 20;

fn within(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    let stream = context.stream()?;
    for size in [1, 2, 4095, 4096, 4097, SIZE - 1, SIZE, kept.size - 1, kept.size] {
        let memory = context.device().import_memory(kept.request_with(kept.own.try_clone()?, size)?)?;
        ensure_eq!(memory.size(), size, "the size of the import");
        let mapped = memory.map_buffer(0..size)?;
        let known = size.min(SIZE);
        let mut found = vec![0; usize::try_from(known)?];
        stream.read(mapped.slice(..known)?, &mut found)?;
        context.pattern().verify(0, &found, &format!("an import of {size} bytes"))?;
        let error = memory.map_buffer(0..size + 1).err();
        ensure_eq!(
            error.map(|error| error.kind()),
            Some(ErrorKind::InvalidArgument),
            "a mapping of {size} bytes and one"
        );
    }
    kept.check("after all sizes")
}

fn beyond(context: &Context) -> Verdict {
    const GIB_4: u64 = 1 << 32;
    let kept = Kept::new(context)?;
    let end = kept.size.next_multiple_of(UNIT);
    let sizes = [
        end + 1,
        end + 4096,
        GIB_4 - 1,
        GIB_4,
        GIB_4 + 1,
        GIB_4 + kept.size,
        1 << 56,
        (1 << 57) + 1,
        i64::MAX.unsigned_abs(),
        1 << 63,
        u64::MAX,
    ];
    for size in sizes {
        let handle = kept.own.try_clone()?;
        let number = handle.as_raw_handle();
        match context.device().import_memory(kept.request_with(handle, size)?) {
            Err(failure) => {
                let kinds = [ErrorKind::InvalidArgument, ErrorKind::ImportRejected, ErrorKind::OutOfMemory];
                ensure!(kinds.contains(&failure.kind()), "a size of {size}: {failure}");
                ensure!(failure.to_string().contains(&size.to_string()), "the text does not name the size: {failure}");
                let back = handle_of(failure.into_request().into_handle().into_win32())?;
                let back = came_back(back, number, &kept.witness, &format!("a size of {size}"))?;
                works(context, kept.request_with(back, kept.size)?)?;
            }
            Ok(_) if size > 1 << 57 => return Err(Stop::failed(format!("{size} bytes were accepted"))),
            // CUDA's driver trusts the caller.
            Ok(memory) => {
                ensure!(memory.map_buffer(end..size).is_err(), "{size} bytes: a missing range was mapped");
                memory.close()?;
            }
        }
        kept.check(&format!("after a size of {size}"))?;
    }
    Ok(())
}
