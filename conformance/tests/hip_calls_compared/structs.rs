//! HIP's structs by their names in scripts, with the layouts of AMD's headers: for HIP 6 and later from the generated
//! bindings, and for HIP 5 where the stride of a caller's arrays differs.

use std::mem::{offset_of, size_of};

use cubecl_hip_sys as hip;

/// A field: its name, offset and size.
type Field = (&'static str, usize, usize);

/// A struct.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    name: &'static str,
    size: usize,
    fields: &'static [Field],
}

type Memory = hip::hipExternalMemoryHandleDesc_st;
type Range = hip::hipExternalMemoryBufferDesc_st;
type Semaphore = hip::hipExternalSemaphoreHandleDesc_st;
type Signal = hip::hipExternalSemaphoreSignalParams_st;
type Node = hip::hipExternalSemaphoreSignalNodeParams;
type Prop = hip::hipMemAllocationProp;
type Access = hip::hipMemAccessDesc;
type Copy = hip::HIP_MEMCPY3D;

/// Of HIP 6 and later.
const LAYOUTS: &[Layout] = &[
    Layout {
        name: "memory",
        size: size_of::<Memory>(),
        fields: &[
            ("type", offset_of!(Memory, type_), 4),
            ("fd", offset_of!(Memory, handle), 4),
            ("name", offset_of!(Memory, handle) + 8, 8),
            ("size", offset_of!(Memory, size), 8),
            ("flags", offset_of!(Memory, flags), 4),
        ],
    },
    Layout {
        name: "range",
        size: size_of::<Range>(),
        fields: &[
            ("offset", offset_of!(Range, offset), 8),
            ("size", offset_of!(Range, size), 8),
            ("flags", offset_of!(Range, flags), 4),
        ],
    },
    Layout {
        name: "semaphore",
        size: size_of::<Semaphore>(),
        fields: &[
            ("type", offset_of!(Semaphore, type_), 4),
            ("fd", offset_of!(Semaphore, handle), 4),
            ("name", offset_of!(Semaphore, handle) + 8, 8),
            ("flags", offset_of!(Semaphore, flags), 4),
        ],
    },
    Layout {
        name: "params",
        size: size_of::<Signal>(),
        fields: &[("value", offset_of!(Signal, params), 8), ("flags", offset_of!(Signal, flags), 4)],
    },
    Layout {
        name: "node",
        size: size_of::<Node>(),
        fields: &[
            ("semaphores", offset_of!(Node, extSemArray), 8),
            ("params", offset_of!(Node, paramsArray), 8),
            ("count", offset_of!(Node, numExtSems), 4),
        ],
    },
    Layout {
        name: "prop",
        size: size_of::<Prop>(),
        fields: &[
            ("type", offset_of!(Prop, type_), 4),
            ("handles", offset_of!(Prop, __bindgen_anon_1), 4),
            ("location", offset_of!(Prop, location), 4),
            ("device", offset_of!(Prop, location) + 4, 4),
        ],
    },
    Layout {
        name: "access",
        size: size_of::<Access>(),
        fields: &[
            ("location", offset_of!(Access, location), 4),
            ("device", offset_of!(Access, location) + 4, 4),
            ("flags", offset_of!(Access, flags), 4),
        ],
    },
    Layout {
        name: "copy",
        size: size_of::<Copy>(),
        fields: &[
            ("from_kind", offset_of!(Copy, srcMemoryType), 4),
            ("from_host", offset_of!(Copy, srcHost), 8),
            ("from", offset_of!(Copy, srcDevice), 8),
            ("from_pitch", offset_of!(Copy, srcPitch), 8),
            ("from_height", offset_of!(Copy, srcHeight), 8),
            ("to_kind", offset_of!(Copy, dstMemoryType), 4),
            ("to_host", offset_of!(Copy, dstHost), 8),
            ("to", offset_of!(Copy, dstDevice), 8),
            ("to_pitch", offset_of!(Copy, dstPitch), 8),
            ("to_height", offset_of!(Copy, dstHeight), 8),
            ("width", offset_of!(Copy, WidthInBytes), 8),
            ("height", offset_of!(Copy, Height), 8),
            ("depth", offset_of!(Copy, Depth), 8),
        ],
    },
];

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
