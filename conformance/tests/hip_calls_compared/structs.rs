//! HIP's structs by their names in scripts, with the layouts of AMD's headers: for HIP 6 and later from the generated
//! bindings, and for HIP 5 where the stride of a caller's arrays differs.

use std::mem::{offset_of, size_of};

use cubecl_hip_sys as hip;

/// A field: its name, offset and size.
type Field = (&'static str, usize, usize);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    name: &'static str,
    size: usize,
    fields: &'static [Field],
}

/// Layouts: `"name": TYPE { "field": member, bytes; ... }`. A field may be so many bytes behind the start of a member.
macro_rules! layouts {
    ($($name:literal: $type:ty { $($field:literal: $of:ident $(+ $more:literal)?, $length:literal;)* })*) => {
        &[$(Layout {
            name: $name,
            size: size_of::<$type>(),
            fields: &[$(($field, offset_of!($type, $of) $(+ $more)?, $length)),*],
        }),*]
    };
}

/// Of HIP 6 and later.
const LAYOUTS: &[Layout] = layouts! {
    "memory": hip::hipExternalMemoryHandleDesc_st {
        "type": type_, 4; "fd": handle, 4; "name": handle + 8, 8; "size": size, 8; "flags": flags, 4;
    }
    "range": hip::hipExternalMemoryBufferDesc_st {
        "offset": offset, 8; "size": size, 8; "flags": flags, 4;
    }
    "semaphore": hip::hipExternalSemaphoreHandleDesc_st {
        "type": type_, 4; "fd": handle, 4; "name": handle + 8, 8; "flags": flags, 4;
    }
    "params": hip::hipExternalSemaphoreSignalParams_st {
        "value": params, 8; "flags": flags, 4;
    }
    "node": hip::hipExternalSemaphoreSignalNodeParams {
        "semaphores": extSemArray, 8; "params": paramsArray, 8; "count": numExtSems, 4;
    }
    "prop": hip::hipMemAllocationProp {
        "type": type_, 4; "handles": __bindgen_anon_1, 4; "location": location, 4; "device": location + 4, 4;
    }
    "access": hip::hipMemAccessDesc {
        "location": location, 4; "device": location + 4, 4; "flags": flags, 4;
    }
    "copy": hip::HIP_MEMCPY3D {
        "from_kind": srcMemoryType, 4; "from_host": srcHost, 8; "from": srcDevice, 8; "from_pitch": srcPitch, 8;
        "from_height": srcHeight, 8; "to_kind": dstMemoryType, 4; "to_host": dstHost, 8; "to": dstDevice, 8;
        "to_pitch": dstPitch, 8; "to_height": dstHeight, 8; "width": WidthInBytes, 8; "height": Height, 8;
        "depth": Depth, 8;
    }
};

/// Signals and waits of HIP 5, as printed by a C program with its headers.
const PARAMS_5: Layout = Layout { name: "params", size: 136, fields: &[("value", 0, 8), ("flags", 64, 4)] };

/// The layout of this name in a major version of HIP.
pub(crate) fn layout(name: &str, major: u32) -> Option<Layout> {
    if name == PARAMS_5.name && major < 6 {
        return Some(PARAMS_5);
    }
    LAYOUTS.iter().find(|layout| layout.name == name).copied()
}

impl Layout {
    /// The struct with these fields, and zeros.
    pub(crate) fn bytes(&self, values: &[(String, u64)]) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; self.size];
        for (name, value) in values {
            let field = self.fields.iter().find(|(field, ..)| field == name);
            let &(_, offset, length) = field.ok_or_else(|| format!("{} has no {name}", self.name))?;
            bytes[offset..offset + length].copy_from_slice(&value.to_le_bytes()[..length]);
        }
        Ok(bytes)
    }
}
