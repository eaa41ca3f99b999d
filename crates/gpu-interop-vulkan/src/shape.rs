//! Conversion of Vulkan's extents, views and usages to array shapes and usages.

use ash::vk;
use gpu_interop_core::{ArrayShape, ArrayUsage, Error, Result};

/// The array shape of an image with this kind of view, extent of level 0 (texels) and number of layers.
///
/// # Errors
/// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if an extent or the number of layers is
/// 0 or does not match the kind of view: an unused dimension must be 1, only arrays have several layers, a cube is
/// square and has six layers.
pub fn array_shape(view: vk::ImageViewType, extent: vk::Extent3D, layers: u32) -> Result<ArrayShape> {
    let invalid = |message: &str| {
        Err(Error::invalid("array_shape", message)
            .with_context("view", format_args!("{view:?}"))
            .with_context("extent", format_args!("{} x {} x {}", extent.width, extent.height, extent.depth))
            .with_context("layers", layers))
    };
    use vk::ImageViewType as View;
    if [extent.width, extent.height, extent.depth, layers].contains(&0) {
        return invalid("every extent and the number of layers must be at least 1");
    }
    let has_height = !matches!(view, View::TYPE_1D | View::TYPE_1D_ARRAY);
    if !has_height && extent.height != 1 {
        return invalid("an image of one dimension has a height of 1");
    }
    if view != View::TYPE_3D && extent.depth != 1 {
        return invalid("only an image of three dimensions has a depth other than 1");
    }
    if matches!(view, View::TYPE_1D | View::TYPE_2D | View::TYPE_3D) && layers != 1 {
        return invalid("this kind of view has one layer; use an array view for several");
    }
    if matches!(view, View::CUBE | View::CUBE_ARRAY) && extent.width != extent.height {
        return invalid("the faces of a cube are square");
    }
    let [width, height, depth] = [extent.width, extent.height, extent.depth].map(u64::from);
    let layers = u64::from(layers);
    Ok(match view {
        View::TYPE_1D => ArrayShape::D1 { width },
        View::TYPE_1D_ARRAY => ArrayShape::D1Layered { width, layers },
        View::TYPE_2D => ArrayShape::D2 { width, height },
        View::TYPE_2D_ARRAY => ArrayShape::D2Layered { width, height, layers },
        View::TYPE_3D => ArrayShape::D3 { width, height, depth },
        View::CUBE if layers == 6 => ArrayShape::Cube { width },
        View::CUBE => return invalid("a cube has six layers"),
        View::CUBE_ARRAY if layers % 6 == 0 => ArrayShape::CubeLayered { width, cubes: layers / 6 },
        View::CUBE_ARRAY => return invalid("an array of cubes has six layers for each"),
        _ => return invalid("Vulkan 1.0 has no such kind of view"),
    })
}

/// The array usage of an image with this usage. Kernels can write `STORAGE` images, and drivers must know about
/// `COLOR_ATTACHMENT`; other flags have no effect on an array. To let a kernel write an image that Vulkan does not use
/// as `STORAGE`, add [`ArrayUsage::SURFACE_LOAD_STORE`].
#[must_use]
pub fn array_usage(usage: vk::ImageUsageFlags) -> ArrayUsage {
    let used = |flag, bit| if usage.contains(flag) { bit } else { ArrayUsage::empty() };
    used(vk::ImageUsageFlags::STORAGE, ArrayUsage::SURFACE_LOAD_STORE)
        | used(vk::ImageUsageFlags::COLOR_ATTACHMENT, ArrayUsage::COLOR_ATTACHMENT)
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::ErrorKind;
    use vk::ImageViewType as View;

    use super::*;

    fn shape(view: View, [width, height, depth]: [u32; 3], layers: u32) -> Result<ArrayShape> {
        array_shape(view, vk::Extent3D { width, height, depth }, layers)
    }

    #[test]
    fn views_map_to_shapes() {
        let cases = [
            (View::TYPE_1D, [7, 1, 1], 1, ArrayShape::D1 { width: 7 }),
            (View::TYPE_1D_ARRAY, [7, 1, 1], 3, ArrayShape::D1Layered { width: 7, layers: 3 }),
            (View::TYPE_2D, [7, 5, 1], 1, ArrayShape::D2 { width: 7, height: 5 }),
            (View::TYPE_2D_ARRAY, [7, 5, 1], 3, ArrayShape::D2Layered { width: 7, height: 5, layers: 3 }),
            // An array may have one layer; its shape still differs from a single image.
            (View::TYPE_2D_ARRAY, [7, 5, 1], 1, ArrayShape::D2Layered { width: 7, height: 5, layers: 1 }),
            (View::TYPE_3D, [7, 5, 3], 1, ArrayShape::D3 { width: 7, height: 5, depth: 3 }),
            (View::CUBE, [8, 8, 1], 6, ArrayShape::Cube { width: 8 }),
            (View::CUBE_ARRAY, [8, 8, 1], 18, ArrayShape::CubeLayered { width: 8, cubes: 3 }),
        ];
        for (view, extent, layers, expected) in cases {
            assert_eq!(shape(view, extent, layers).expect("a shape"), expected);
        }
    }

    #[test]
    fn extents_that_do_not_match_the_view_are_rejected() {
        let cases = [
            (View::TYPE_2D, [0, 5, 1], 1),
            (View::TYPE_2D, [7, 0, 1], 1),
            (View::TYPE_2D, [7, 5, 0], 1),
            (View::TYPE_2D_ARRAY, [7, 5, 1], 0),
            (View::TYPE_1D, [7, 2, 1], 1),
            (View::TYPE_1D_ARRAY, [7, 2, 1], 3),
            (View::TYPE_1D, [7, 1, 2], 1),
            (View::TYPE_2D, [7, 5, 2], 1),
            (View::CUBE, [8, 8, 2], 6),
            (View::TYPE_1D, [7, 1, 1], 2),
            (View::TYPE_2D, [7, 5, 1], 2),
            (View::TYPE_3D, [7, 5, 3], 2),
            (View::CUBE, [8, 9, 1], 6),
            (View::CUBE, [8, 8, 1], 5),
            (View::CUBE, [8, 8, 1], 12),
            (View::CUBE_ARRAY, [8, 8, 1], 7),
            (View::CUBE_ARRAY, [9, 8, 1], 12),
            (View::from_raw(99), [8, 8, 1], 1),
        ];
        for (view, extent, layers) in cases {
            let error = shape(view, extent, layers).expect_err("rejected");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{view:?} {extent:?} {layers}");
        }
    }

    #[test]
    fn usages_map_to_array_usages() {
        use vk::ImageUsageFlags as Usage;
        assert_eq!(array_usage(Usage::SAMPLED | Usage::TRANSFER_DST | Usage::TRANSFER_SRC), ArrayUsage::empty());
        assert_eq!(array_usage(Usage::STORAGE), ArrayUsage::SURFACE_LOAD_STORE);
        assert_eq!(array_usage(Usage::COLOR_ATTACHMENT | Usage::SAMPLED), ArrayUsage::COLOR_ATTACHMENT);
        assert_eq!(
            array_usage(Usage::from_raw(u32::MAX)),
            ArrayUsage::SURFACE_LOAD_STORE | ArrayUsage::COLOR_ATTACHMENT
        );
    }
}
