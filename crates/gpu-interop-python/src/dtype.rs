//! Types of elements.

use gpu_interop::Error;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt};

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

    /// The type with DLPack's code, bits and lanes.
    pub(crate) fn of_dlpack(code: u8, bits: u8, lanes: u16) -> Option<Self> {
        ALL.into_iter().find(|dtype| (dtype.code, dtype.bits, 1) == (code, bits, lanes))
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

    /// Reads a name (`"float32"`), a `typestr` (`"<f4"`), or a type of numpy, torch, CuPy, JAX or Python.
    pub(crate) fn parse(given: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (text, order) = match (builtin(given), given.extract::<String>()) {
            (Some(name), _) => (name.to_owned(), None),
            (None, Ok(text)) => (text, None),
            // numpy's dtypes have a name, its scalar types are classes, and torch's types print as `torch.float32`.
            (None, Err(_)) => {
                let text = |attribute| given.getattr(attribute)?.extract::<String>();
                match text("name").or_else(|_| text("__name__")) {
                    Ok(name) => (name, byte_order(given)),
                    Err(_) => (given.str()?.to_string(), None),
                }
            }
        };
        let reject = |message: String| Err(exception(&Error::invalid("dtype", message).with_context("given", &text)));
        let name = text.rsplit('.').next().unwrap_or_default();
        // Aliases of numpy and torch.
        let name = match name {
            "float" if text == "torch.float" => "float32",
            "int" if text == "torch.int" => "int32",
            "float" | "int" => {
                return reject(format!(
                    "this name has different sizes in torch and numpy; pass \"{name}32\" as in torch, or \"{name}64\" as in \
                     numpy"
                ));
            }
            "half" => "float16",
            "double" => "float64",
            "bool_" => "bool",
            other => other,
        };
        let (order, found) = match name.strip_prefix(['<', '>', '=', '|']) {
            Some(short) => (name.chars().next(), ALL.iter().find(|dtype| dtype.is_short(short))),
            None => (order, ALL.iter().find(|dtype| dtype.name == name || dtype.is_short(name))),
        };
        match found {
            // A byte has no order.
            Some(dtype) if order == Some(OTHER_ORDER) && dtype.bits > 8 => {
                let message = "the elements do not have the byte order of this machine, as those of tensors do; pass \
                               dtype.newbyteorder(\"=\") or a name with \"=\", and convert arrays before their bytes are copied here: \
                               array.astype(array.dtype.newbyteorder(\"=\"))";
                let shown = given.str()?;
                Err(exception(&Error::invalid("dtype", message).with_context("given", shown)))
            }
            Some(dtype) => Ok(*dtype),
            None => {
                let names: Vec<_> = ALL.iter().map(|dtype| dtype.name).collect();
                reject(format!("unknown type of elements; use one of {}", names.join(", ")))
            }
        }
    }

    /// True for the end of the `typestr`, without the byte order.
    fn is_short(&self, text: &str) -> bool {
        self.typestr().is_some_and(|typestr| !text.is_empty() && typestr[1..] == *text)
    }
}

/// The byte order that this machine does not have, in numpy's characters.
const OTHER_ORDER: char = if cfg!(target_endian = "little") { '>' } else { '<' };

/// The byte order of a dtype of numpy; `None` for types without.
fn byte_order(given: &Bound<'_, PyAny>) -> Option<char> {
    given.getattr("byteorder").ok()?.extract::<char>().ok()
}

/// The name of a type of Python, as in numpy.
fn builtin(given: &Bound<'_, PyAny>) -> Option<&'static str> {
    let py = given.py();
    let types = [
        (py.get_type::<PyFloat>(), "float64"),
        (py.get_type::<PyInt>(), "int64"),
        (py.get_type::<PyBool>(), "bool"),
        (py.get_type::<PyComplex>(), "complex128"),
    ];
    types.into_iter().find(|(class, _)| given.is(class)).map(|(_, name)| name)
}
