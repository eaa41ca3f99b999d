//! Types of elements.

use gpu_interop::Error;
use pyo3::prelude::*;

use crate::error::exception;

/// A type of elements: its names, and its codes in DLPack and numpy's array interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Dtype {
    pub(crate) name: &'static str,
    /// DLPack's code (`DLDataTypeCode`).
    pub(crate) code: u8,
    /// Bits of an element.
    pub(crate) bits: u8,
    /// numpy's character; `None` for types that numpy's array interface lacks.
    kind: Option<char>,
}

const fn of(name: &'static str, code: u8, bits: u8, kind: Option<char>) -> Dtype {
    Dtype { name, code, bits, kind }
}

const INT: u8 = 0;
const UINT: u8 = 1;
const FLOAT: u8 = 2;
const BFLOAT: u8 = 4;
const COMPLEX: u8 = 5;
const BOOL: u8 = 6;
const FLOAT8_E4M3FN: u8 = 10;
const FLOAT8_E5M2: u8 = 12;

const ALL: [Dtype; 17] = [
    of("bool", BOOL, 8, Some('b')),
    of("int8", INT, 8, Some('i')),
    of("int16", INT, 16, Some('i')),
    of("int32", INT, 32, Some('i')),
    of("int64", INT, 64, Some('i')),
    of("uint8", UINT, 8, Some('u')),
    of("uint16", UINT, 16, Some('u')),
    of("uint32", UINT, 32, Some('u')),
    of("uint64", UINT, 64, Some('u')),
    of("float16", FLOAT, 16, Some('f')),
    of("float32", FLOAT, 32, Some('f')),
    of("float64", FLOAT, 64, Some('f')),
    of("complex64", COMPLEX, 64, Some('c')),
    of("complex128", COMPLEX, 128, Some('c')),
    of("bfloat16", BFLOAT, 16, None),
    of("float8_e4m3fn", FLOAT8_E4M3FN, 8, None),
    of("float8_e5m2", FLOAT8_E5M2, 8, None),
];

impl Dtype {
    /// Bytes of an element.
    pub(crate) fn size(self) -> u64 {
        u64::from(self.bits / 8)
    }

    /// numpy's `typestr`, such as `<f4`; `None` for types that the array interface lacks.
    pub(crate) fn typestr(self) -> Option<String> {
        let order = match self.bits {
            8 => '|',
            _ if cfg!(target_endian = "little") => '<',
            _ => '>',
        };
        self.kind.map(|kind| format!("{order}{kind}{}", self.size()))
    }

    /// Reads a name (`"float32"`), a `typestr` (`"<f4"`), or a type of numpy, torch, CuPy or JAX.
    pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let text = match given.extract::<String>() {
            Ok(text) => text,
            // numpy's dtypes have a name, its scalar types are classes, and torch's types print as `torch.float32`.
            Err(_) => match given.getattr("name").or_else(|_| given.getattr("__name__")) {
                Ok(name) => name.extract()?,
                Err(_) => given.str()?.to_string(),
            },
        };
        let name = text.rsplit('.').next().unwrap_or_default();
        // Aliases of numpy and torch.
        let name = match name {
            "float" => "float32",
            "half" => "float16",
            "double" => "float64",
            "bool_" => "bool",
            other => other,
        };
        let short = |dtype: &Self| {
            dtype.typestr().is_some_and(|typestr| typestr == name || (!name.is_empty() && typestr[1..] == *name))
        };
        ALL.iter().find(|dtype| dtype.name == name || short(dtype)).copied().ok_or_else(|| {
            let names: Vec<_> = ALL.iter().map(|dtype| dtype.name).collect();
            let message = format!("unknown type of elements; use one of {}", names.join(", "));
            exception(&Error::invalid("dtype", message).with_context("given", text))
        })
    }
}
