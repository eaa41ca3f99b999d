//! Kernels: Rust functions, looked up by name.

use std::any::type_name;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

use gpu_interop_core::{ByValue, DevicePtr, Error, KernelArg, LaunchConfig, Result};
use gpu_interop_kernels::convert::{cpu, plane_sizes};
use gpu_interop_kernels::{FILL_PATTERN, INCREMENT, RGBA_TO_YUV, VERIFY_PATTERN, YUV_TO_RGBA, pattern_word};

type Function = dyn Fn(&KernelCall<'_>) -> Result<(), String> + Send + Sync;

/// Kernel of the host backend.
#[derive(Clone)]
pub struct HostKernel(Arc<Named<Function>>);

/// A function and its name, in one allocation.
struct Named<F: ?Sized> {
    name: CString,
    function: F,
}

impl HostKernel {
    pub(crate) fn new(
        name: CString,
        function: impl Fn(&KernelCall<'_>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Named { name, function }))
    }

    /// Runs the function. Its message gets the kernel's name.
    pub(crate) fn call(&self, call: &KernelCall<'_>) -> Result<(), String> {
        let Named { name, function } = &*self.0;
        function(call).map_err(|message| format!("`{}`: {message}", name.to_string_lossy()))
    }
}

impl fmt::Debug for HostKernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HostKernel").field(&self.0.name).finish()
    }
}

/// Launch of a kernel. The function runs once for the whole grid.
#[derive(Debug)]
pub struct KernelCall<'a> {
    pub(crate) config: &'a LaunchConfig,
    pub(crate) args: &'a [HostArg],
}

/// Methods that give the argument at an index if it has this type, and the names of the types.
macro_rules! arguments {
    ($( $name:ident $variant:ident $what:literal )+) => {
        impl KernelCall<'_> { $(
            #[doc = concat!("Returns the argument at `index`, ", $what, ".")]
            ///
            /// # Errors
            /// A message if the argument is missing or of another type.
            pub fn $name(&self, index: usize) -> Result<$name, String> {
                match self.args.get(index) {
                    Some(HostArg::$variant(value)) => Ok(*value),
                    other => Err(mismatch(index, other, $what)),
                }
            }
        )+ }

        /// Type of an argument, with its article.
        fn type_of(arg: &HostArg) -> &'static str {
            match arg {
                $( HostArg::$variant(_) => $what, )+
                HostArg::Ptr(_) => "a pointer",
                HostArg::Value(_) => "a struct or an array",
            }
        }
    };
}

arguments! {
    u8 U8 "a u8"
    u16 U16 "a u16"
    u32 U32 "a u32"
    u64 U64 "a u64"
    i8 I8 "an i8"
    i16 I16 "an i16"
    i32 I32 "an i32"
    i64 I64 "an i64"
    f32 F32 "an f32"
    f64 F64 "an f64"
}

/// Message for an argument that is missing or of another type than `wanted`.
fn mismatch(index: usize, found: Option<&HostArg>, wanted: &str) -> String {
    match found {
        Some(found) => format!("argument {index} is {}, not {wanted}", type_of(found)),
        None => format!("argument {index} is missing; pass {wanted}"),
    }
}

impl KernelCall<'_> {
    /// Dimensions of the launch.
    #[must_use]
    pub fn config(&self) -> &LaunchConfig {
        self.config
    }

    /// Number of arguments.
    #[must_use]
    pub fn arguments(&self) -> usize {
        self.args.len()
    }

    /// Returns the buffer or address at `index` as a pointer to its first byte, valid until the kernel returns.
    ///
    /// The length is not passed: pass it as another argument. While the kernel runs, another stream, the exporting API
    /// or the host may access the memory only if all accesses are atomic.
    ///
    /// # Errors
    /// A message if the argument is missing or not a pointer.
    pub fn ptr(&self, index: usize) -> Result<*mut u8, String> {
        match self.args.get(index) {
            Some(HostArg::Ptr(address)) => host_ptr(*address),
            other => Err(mismatch(index, other, "a pointer")),
        }
    }

    /// Returns the struct or array at `index` ([`KernelArg::by_value`](gpu_interop_core::KernelArg::by_value)).
    ///
    /// # Errors
    /// A message if the argument is missing, or if its size or alignment differs from those of `T`.
    ///
    /// # Safety
    /// The kernel was launched with a `T` at `index`.
    pub unsafe fn value<T: Copy>(&self, index: usize) -> Result<T, String> {
        match self.args.get(index) {
            Some(HostArg::Value(value)) => {
                // SAFETY: the caller's promise.
                unsafe { value.read() }.ok_or_else(|| {
                    let (name, size, align) = (type_name::<T>(), size_of::<T>(), align_of::<T>());
                    format!(
                        "argument {index} differs in size or alignment from {name} ({size} bytes, aligned to {align})"
                    )
                })
            }
            other => Err(mismatch(index, other, "a struct or an array")),
        }
    }

    /// Returns a slice of 32-bit words: their address at `index`, their number at `index + 1`.
    fn words(&self, index: usize) -> Result<&[AtomicU32], String> {
        let ptr = self.ptr(index)?.cast::<AtomicU32>();
        let count = usize::try_from(self.u64(index + 1)?).map_err(|error| error.to_string())?;
        if ptr.is_null() || !ptr.is_aligned() {
            return Err(format!("argument {index} is null or not aligned to 4 bytes"));
        }
        if count > isize::MAX.unsigned_abs() / size_of::<AtomicU32>() {
            return Err(format!("argument {} is more words than the address space has", index + 1));
        }
        // SAFETY: the caller of `Stream::launch` promises that the address holds this many words until the kernel has
        // run. Atomics permit concurrent access by an exporter.
        Ok(unsafe { std::slice::from_raw_parts(ptr, count) })
    }

    /// Returns the planes of a conversion and its 32-bit arguments, which follow the three addresses.
    fn planes<const N: usize>(&self) -> Result<([&[AtomicU8]; 3], [u32; N]), String> {
        let pointers = [self.ptr(0)?, self.ptr(1)?, self.ptr(2)?];
        let mut numbers = [0; N];
        for (number, index) in numbers.iter_mut().zip(3..) {
            *number = self.u32(index)?;
        }
        let sizes = plane_sizes(&numbers).unwrap_or([0; 3]);
        let mut planes: [&[AtomicU8]; 3] = [&[]; 3];
        for (index, ((plane, ptr), size)) in planes.iter_mut().zip(pointers).zip(sizes).enumerate() {
            let size = usize::try_from(size).ok().filter(|size| isize::try_from(*size).is_ok());
            let size = size.ok_or_else(|| format!("the plane of argument {index} is larger than the address space"))?;
            if ptr.is_null() {
                return Err(format!("argument {index} is null"));
            }
            // SAFETY: the caller of `Stream::launch` promises that the address holds the plane until the kernel has run.
            // Atomics permit concurrent access by an exporter.
            *plane = unsafe { std::slice::from_raw_parts(ptr.cast(), size) };
        }
        Ok((planes, numbers))
    }
}

/// Converts a device address of this backend to a pointer.
pub(crate) fn host_ptr(address: DevicePtr) -> Result<*mut u8, String> {
    usize::try_from(address.get()).map(std::ptr::with_exposed_provenance_mut).map_err(|error| error.to_string())
}

/// Built-in kernels: CPU versions of the kernels of `gpu-interop-kernels` that use no image.
pub(crate) fn builtin() -> BTreeMap<CString, HostKernel> {
    fn fill_pattern(call: &KernelCall<'_>) -> Result<(), String> {
        let seed = call.u32(2)?;
        for (word, index) in call.words(0)?.iter().zip(0..) {
            word.store(pattern_word(seed, index), Ordering::Relaxed);
        }
        Ok(())
    }
    fn verify_pattern(call: &KernelCall<'_>) -> Result<(), String> {
        let seed = call.u32(2)?;
        let differing = call
            .words(0)?
            .iter()
            .zip(0..)
            .filter(|(word, index)| word.load(Ordering::Relaxed) != pattern_word(seed, *index));
        let count = u32::try_from(differing.count()).unwrap_or(u32::MAX);
        let counter = call.ptr(3)?.cast::<u32>();
        if !counter.is_aligned() {
            return Err("argument 3 is not aligned to 4 bytes".into());
        }
        // SAFETY: the caller of `Stream::launch` promises that the address holds a 32-bit counter.
        unsafe { AtomicU32::from_ptr(counter) }.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }
    fn increment(call: &KernelCall<'_>) -> Result<(), String> {
        for word in call.words(0)? {
            word.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
    fn yuv_to_rgba(call: &KernelCall<'_>) -> Result<(), String> {
        let (planes, numbers) = call.planes()?;
        cpu::yuv_to_rgba(planes, &numbers);
        Ok(())
    }
    fn rgba_to_yuv(call: &KernelCall<'_>) -> Result<(), String> {
        let (planes, numbers) = call.planes()?;
        cpu::rgba_to_yuv(planes, &numbers);
        Ok(())
    }
    [
        HostKernel::new(YUV_TO_RGBA.name.to_owned(), yuv_to_rgba),
        HostKernel::new(RGBA_TO_YUV.name.to_owned(), rgba_to_yuv),
        HostKernel::new(FILL_PATTERN.name.to_owned(), fill_pattern),
        HostKernel::new(VERIFY_PATTERN.name.to_owned(), verify_pattern),
        HostKernel::new(INCREMENT.name.to_owned(), increment),
    ]
    .map(|kernel| (kernel.0.name.clone(), kernel))
    .into()
}

/// The strictest alignment of an argument: that of CUDA's and HIP's vector types.
type Block = MaybeUninit<u128>;

/// Declares the arguments: numbers and addresses as in [`KernelArg`], and copies of everything else.
macro_rules! host_args {
    ($($variant:ident($value:ty))+) => {
        /// An argument that outlives the call which enqueued the kernel.
        #[derive(Debug, Clone)]
        pub(crate) enum HostArg { $($variant($value),)+ Value(Value) }

        impl HostArg {
            pub(crate) fn new(operation: &'static str, arg: KernelArg<'_>) -> Result<Self> {
                Ok(match arg {
                    $(KernelArg::$variant(value) => Self::$variant(value),)+
                    KernelArg::Value(value) => Self::Value(Value::copy(operation, value)?),
                    _ => return Err(Error::unsupported(operation, "there are no kernel arguments of this sort")),
                })
            }
        }
    };
}

host_args! { Ptr(DevicePtr) U8(u8) U16(u16) U32(u32) U64(u64) I8(i8) I16(i16) I32(i32) I64(i64) F32(f32) F64(f64) }

/// A copy of a struct or an array.
#[derive(Debug, Clone)]
pub(crate) struct Value {
    blocks: Box<[Block]>,
    size: usize,
    align: usize,
}

impl Value {
    fn copy(operation: &'static str, value: ByValue<'_>) -> Result<Self> {
        let (size, align) = (value.size(), value.align());
        if align > align_of::<Block>() {
            return Err(Error::invalid(operation, "kernel arguments of this alignment are not supported")
                .with_context("alignment", align));
        }
        let mut blocks = vec![Block::uninit(); size.div_ceil(size_of::<Block>())].into_boxed_slice();
        // SAFETY: the value has this many bytes, and the blocks have at least as many; they are a new allocation.
        unsafe { value.as_ptr().copy_to_nonoverlapping(blocks.as_mut_ptr().cast(), size) };
        Ok(Self { blocks, size, align })
    }

    /// # Safety
    /// The argument was of this type.
    pub(crate) unsafe fn read<T: Copy>(&self) -> Option<T> {
        // SAFETY: as many bytes as `T` has, of a `T`, aligned to 16 bytes, which was seen to be enough for it.
        (self.size == size_of::<T>() && self.align == align_of::<T>())
            .then(|| unsafe { self.blocks.as_ptr().cast::<T>().read() })
    }
}

#[cfg(test)]
mod tests {
    use gpu_interop_core::DevicePtr;
    use gpu_interop_kernels::{KERNELS, ParameterType};

    use super::*;

    /// The CPU version of each kernel accepts exactly the arguments of the GPU version.
    #[test]
    fn cpu_versions_have_the_signatures_of_the_kernels() {
        let builtin = builtin();
        let kernels: Vec<_> = KERNELS.iter().filter(|kernel| builtin.contains_key(kernel.name)).collect();
        assert_eq!(kernels.len(), builtin.len());
        assert!(KERNELS.iter().all(|kernel| kernel.nvidia_only != builtin.contains_key(kernel.name)));
        let config = LaunchConfig::linear(0);
        for kernel in kernels {
            let mut word = 0_u32;
            let address = DevicePtr::new(std::ptr::from_mut(&mut word).expose_provenance() as u64);
            let mut args: Vec<HostArg> = kernel
                .parameters
                .iter()
                .map(|parameter| match parameter.ty {
                    ParameterType::U32 => HostArg::U32(0),
                    ParameterType::U64 => HostArg::U64(0),
                    _ => HostArg::Ptr(address),
                })
                .collect();
            let cpu_version = &builtin[kernel.name];
            assert_eq!(cpu_version.call(&KernelCall { config: &config, args: &args }), Ok(()), "{:?}", kernel.name);
            for index in 0..args.len() {
                let right = std::mem::replace(&mut args[index], HostArg::F32(0.0));
                let message = cpu_version.call(&KernelCall { config: &config, args: &args }).expect_err("a float");
                let name = kernel.name.to_str().expect("ASCII");
                assert!(message.starts_with(&format!("`{name}`: argument {index} is an f32, not a")), "{message}");
                args[index] = right;
            }
            let last = args.pop().expect("an argument");
            let message = cpu_version.call(&KernelCall { config: &config, args: &args }).expect_err("one too few");
            let wanted = type_of(&last);
            assert!(message.ends_with(&format!("argument {} is missing; pass {wanted}", args.len())), "{message}");
        }
    }

    /// A slice at address 0 or larger than the address space is an error.
    #[test]
    fn word_slices_out_of_range_are_an_error() {
        let mut word = 0_u32;
        let config = LaunchConfig::linear(0);
        let address = DevicePtr::new(std::ptr::from_mut(&mut word).expose_provenance() as u64);
        for (address, count, argument) in [(DevicePtr::new(0), 0, 0), (address, u64::MAX / 4, 1)] {
            let args = [HostArg::Ptr(address), HostArg::U64(count)];
            let error = KernelCall { config: &config, args: &args }.words(0).expect_err("no slice");
            assert!(error.starts_with(&format!("argument {argument} is ")), "{error}");
        }
    }
}
