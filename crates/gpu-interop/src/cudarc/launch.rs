//! Shared slices as arguments of cudarc's kernels.

use ::cudarc::driver::{LaunchArgs, PushKernelArg};

use super::element::AnyBits;
use super::slice::SharedSlice;

// SAFETY: pushes the argument of the slice's view, which lives as long: the address of its device pointer.
unsafe impl<'a, 'b: 'a, T: AnyBits> PushKernelArg<&'b SharedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b SharedSlice<T>) -> &mut Self {
        self.arg(arg.view())
    }
}

// SAFETY: as above.
unsafe impl<'a, 'b: 'a, T: AnyBits> PushKernelArg<&'b mut SharedSlice<T>> for LaunchArgs<'a> {
    #[inline(always)]
    fn arg(&mut self, arg: &'b mut SharedSlice<T>) -> &mut Self {
        self.arg(arg.view_mut())
    }
}
