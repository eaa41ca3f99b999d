//! Conversion of Direct3D's view dimensions and extents to array shapes.

use std::fmt;

use gpu_interop_core::{ArrayShape, Error, Result};

/// A `D3D12_SRV_DIMENSION` or `D3D11_SRV_DIMENSION`, which have the same numbers; on every operating system. The view
/// dimension of a resource determines the shape of its array.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SrvDimension(pub u32);

/// Table of `NAME = number`; also defines the constants.
macro_rules! dimensions {
    ($($ident:ident = $value:literal;)*) => {
        impl SrvDimension {
            $(
                #[doc = concat!("`SRV_DIMENSION_", stringify!($ident), "`")]
                pub const $ident: Self = Self($value);
            )*

            /// The name in Direct3D's headers, without the prefix `D3D12_` or `D3D11_`; `None` for a number that the
            /// two versions do not share.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$ident => Some(concat!("SRV_DIMENSION_", stringify!($ident))),)*
                    _ => None,
                }
            }
        }
    };
}

dimensions! {
    UNKNOWN = 0;
    BUFFER = 1;
    TEXTURE1D = 2;
    TEXTURE1DARRAY = 3;
    TEXTURE2D = 4;
    TEXTURE2DARRAY = 5;
    TEXTURE2DMS = 6;
    TEXTURE2DMSARRAY = 7;
    TEXTURE3D = 8;
    TEXTURECUBE = 9;
    TEXTURECUBEARRAY = 10;
}

impl fmt::Debug for SrvDimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "SRV_DIMENSION({})", self.0),
        }
    }
}

#[cfg(windows)]
impl From<windows::Win32::Graphics::Direct3D12::D3D12_SRV_DIMENSION> for SrvDimension {
    fn from(dimension: windows::Win32::Graphics::Direct3D12::D3D12_SRV_DIMENSION) -> Self {
        Self(dimension.0.cast_unsigned())
    }
}

#[cfg(windows)]
impl From<windows::Win32::Graphics::Direct3D::D3D_SRV_DIMENSION> for SrvDimension {
    fn from(dimension: windows::Win32::Graphics::Direct3D::D3D_SRV_DIMENSION) -> Self {
        Self(dimension.0.cast_unsigned())
    }
}

/// Returns the array shape of a texture with this view dimension, width, height and depth or array size (texels; the
/// array size of a cube counts faces), as in Direct3D's descriptions.
///
/// # Errors
/// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) for view dimensions that are not arrays:
/// buffers, multisampled textures, acceleration structures, and unknown numbers.
/// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if an extent is 0 or does not match the
/// view dimension: an extent that the view lacks must be 1, only arrays have several layers, a cube is square and has
/// six faces.
pub fn array_shape(
    dimension: impl Into<SrvDimension>,
    width: u64,
    height: u32,
    depth_or_array_size: u32,
) -> Result<ArrayShape> {
    const OPERATION: &str = "array_shape";
    use SrvDimension as View;
    let dimension = dimension.into();
    let describe = |error: Error| {
        error
            .with_context("dimension", format_args!("{dimension:?}"))
            .with_context("extent", format_args!("{width} x {height} x {depth_or_array_size}"))
    };
    let bad = |message: &str| Err(describe(Error::invalid(OPERATION, message)));
    let unsupported = |message: &str| Err(describe(Error::unsupported(OPERATION, message)));
    match dimension {
        View::TEXTURE1D
        | View::TEXTURE1DARRAY
        | View::TEXTURE2D
        | View::TEXTURE2DARRAY
        | View::TEXTURE3D
        | View::TEXTURECUBE
        | View::TEXTURECUBEARRAY => {}
        View::BUFFER => return unsupported("a buffer is not an array; map it as a buffer"),
        View::TEXTURE2DMS | View::TEXTURE2DMSARRAY => {
            return unsupported(
                "arrays have one sample per texel; resolve the texture into a single-sampled one first",
            );
        }
        _ => return unsupported("arrays have no such view dimension"),
    }
    if width == 0 || height == 0 || depth_or_array_size == 0 {
        return bad("width, height and depth or array size must be at least 1");
    }
    if matches!(dimension, View::TEXTURE1D | View::TEXTURE1DARRAY) && height != 1 {
        return bad("a one-dimensional texture has a height of 1");
    }
    if matches!(dimension, View::TEXTURE1D | View::TEXTURE2D) && depth_or_array_size != 1 {
        return bad("this view dimension has one layer; use an array dimension for several");
    }
    let rows = u64::from(height);
    if matches!(dimension, View::TEXTURECUBE | View::TEXTURECUBEARRAY) && width != rows {
        return bad("the faces of a cube are square");
    }
    let (height, layers) = (rows, u64::from(depth_or_array_size));
    Ok(match dimension {
        View::TEXTURE1D => ArrayShape::D1 { width },
        View::TEXTURE1DARRAY => ArrayShape::D1Layered { width, layers },
        View::TEXTURE2D => ArrayShape::D2 { width, height },
        View::TEXTURE2DARRAY => ArrayShape::D2Layered { width, height, layers },
        View::TEXTURECUBE if layers == 6 => ArrayShape::Cube { width },
        View::TEXTURECUBE => return bad("a cube has six faces"),
        View::TEXTURECUBEARRAY if layers % 6 == 0 => ArrayShape::CubeLayered { width, cubes: layers / 6 },
        View::TEXTURECUBEARRAY => return bad("a cube array has six faces per cube"),
        _ => ArrayShape::D3 { width, height, depth: layers },
    })
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;

    use super::SrvDimension as View;
    use super::*;

    #[test]
    fn extents_match_the_cuda_guide() {
        // View dimension, (width, height, depth or array size), and the extent that CUDA's programming guide gives.
        let cases = [
            (View::TEXTURE1D, (7, 1, 1), [7, 0, 0]),
            (View::TEXTURE2D, (7, 5, 1), [7, 5, 0]),
            (View::TEXTURE3D, (7, 5, 3), [7, 5, 3]),
            (View::TEXTURECUBE, (8, 8, 6), [8, 8, 6]),
            (View::TEXTURE1DARRAY, (7, 1, 3), [7, 0, 3]),
            (View::TEXTURE2DARRAY, (7, 5, 3), [7, 5, 3]),
            (View::TEXTURECUBEARRAY, (8, 8, 18), [8, 8, 18]),
        ];
        for (view, (width, height, depth), extent) in cases {
            let shape = array_shape(view, width, height, depth).expect("a shape");
            assert_eq!(shape.driver_extent(), extent, "{view:?}");
        }
    }

    #[test]
    fn layers_faces_and_depth_are_distinguished() {
        let shape = |view, height, depth| array_shape(view, 8, height, depth).expect("a shape");
        assert_eq!(shape(View::TEXTURE2DARRAY, 8, 6), ArrayShape::D2Layered { width: 8, height: 8, layers: 6 });
        assert_eq!(shape(View::TEXTURE3D, 8, 6), ArrayShape::D3 { width: 8, height: 8, depth: 6 });
        assert_eq!(shape(View::TEXTURECUBE, 8, 6), ArrayShape::Cube { width: 8 });
        assert_eq!(shape(View::TEXTURECUBEARRAY, 8, 6), ArrayShape::CubeLayered { width: 8, cubes: 1 });
        // An array of one layer differs from a texture without layers.
        assert_eq!(shape(View::TEXTURE1DARRAY, 1, 1), ArrayShape::D1Layered { width: 8, layers: 1 });
    }

    #[test]
    fn unsupported_views_are_rejected_by_name() {
        let array = [2, 3, 4, 5, 8, 9, 10];
        for number in (0..=13).chain([u32::MAX]).filter(|number| !array.contains(number)) {
            let error = array_shape(View(number), 8, 8, 6).expect_err("not an array");
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{number}");
            let (key, value) = &error.context()[0];
            assert_eq!((*key, value.as_str()), ("dimension", format!("{:?}", View(number)).as_str()));
        }
        let message = |view| array_shape(view, 8, 8, 6).expect_err("not an array").message().to_owned();
        assert!(message(View::BUFFER).contains("as a buffer"));
        assert!(message(View::TEXTURE2DMS).contains("resolve"));
        assert_eq!(
            format!("{:?} {:?}", View::TEXTURE2DMSARRAY, View(11)),
            "SRV_DIMENSION_TEXTURE2DMSARRAY SRV_DIMENSION(11)"
        );
    }

    #[test]
    fn extents_that_do_not_match_the_view_are_rejected() {
        let cases = [
            (View::TEXTURE2D, 0, 5, 1),
            (View::TEXTURE2D, 7, 0, 1),
            (View::TEXTURE2DARRAY, 7, 5, 0),
            (View::TEXTURE1D, 7, 2, 1),
            (View::TEXTURE1DARRAY, 7, 2, 3),
            (View::TEXTURE1D, 7, 1, 2),
            (View::TEXTURE2D, 7, 5, 2),
            (View::TEXTURE3D, 7, 5, 0),
            (View::TEXTURECUBE, 8, 9, 6),
            (View::TEXTURECUBE, 8, 8, 5),
            (View::TEXTURECUBE, 8, 8, 12),
            (View::TEXTURECUBE, (1 << 32) + 8, 8, 6),
            (View::TEXTURECUBEARRAY, 8, 8, 7),
            (View::TEXTURECUBEARRAY, 9, 8, 12),
        ];
        for (view, width, height, depth) in cases {
            let error = array_shape(view, width, height, depth).expect_err("invalid extent");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{view:?} {width} {height} {depth}");
        }
    }
}
