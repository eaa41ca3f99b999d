//! OpenGL functions and constants that this crate uses, with the names of Khronos' headers.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

/// `glWaitSemaphoreEXT` and `glSignalSemaphoreEXT`.
pub(crate) type SemaphoreFunction =
    unsafe extern "system" fn(c_uint, c_uint, *const c_uint, c_uint, *const c_uint, *const c_uint);

/// `glTexStorageMem1DEXT` and `glTextureStorageMem1DEXT`; the first argument is a target or a name.
pub(crate) type TexStorage1d = unsafe extern "system" fn(c_uint, c_int, c_uint, c_int, c_uint, u64);
/// As [`TexStorage1d`], for two dimensions.
pub(crate) type TexStorage2d = unsafe extern "system" fn(c_uint, c_int, c_uint, c_int, c_int, c_uint, u64);
/// As [`TexStorage1d`], for three dimensions.
pub(crate) type TexStorage3d = unsafe extern "system" fn(c_uint, c_int, c_uint, c_int, c_int, c_int, c_uint, u64);

/// Looks up a function of the current context.
pub(crate) type Loader<'a> = dyn FnMut(&CStr) -> *const c_void + 'a;

/// Reports whether an address is valid. `wglGetProcAddress` of some drivers returns 1, 2, 3 or -1 instead of null.
fn is_found(address: *const c_void) -> bool {
    !matches!(address.addr(), 0..=3 | usize::MAX)
}

pub(crate) const NO_ERROR: c_uint = 0;
pub(crate) const INVALID_ENUM: c_uint = 0x0500;
pub(crate) const INVALID_VALUE: c_uint = 0x0501;
pub(crate) const INVALID_OPERATION: c_uint = 0x0502;
pub(crate) const OUT_OF_MEMORY: c_uint = 0x0505;
pub(crate) const CONTEXT_LOST: c_uint = 0x0507;

pub(crate) const VENDOR: c_uint = 0x1F00;
pub(crate) const RENDERER: c_uint = 0x1F01;
pub(crate) const VERSION: c_uint = 0x1F02;
pub(crate) const EXTENSIONS: c_uint = 0x1F03;
pub(crate) const NUM_EXTENSIONS: c_uint = 0x821D;
pub(crate) const CONTEXT_FLAGS: c_uint = 0x821E;
pub(crate) const CONTEXT_FLAG_NO_ERROR_BIT: c_int = 8;

pub(crate) const COPY_WRITE_BUFFER: c_uint = 0x8F37;

pub(crate) const TEXTURE_1D: c_uint = 0x0DE0;
pub(crate) const TEXTURE_2D: c_uint = 0x0DE1;
pub(crate) const TEXTURE_3D: c_uint = 0x806F;
pub(crate) const TEXTURE_1D_ARRAY: c_uint = 0x8C18;
pub(crate) const TEXTURE_2D_ARRAY: c_uint = 0x8C1A;
pub(crate) const TEXTURE_CUBE_MAP: c_uint = 0x8513;
pub(crate) const TEXTURE_CUBE_MAP_ARRAY: c_uint = 0x9009;
pub(crate) const TEXTURE_BINDING_1D: c_uint = 0x8068;
pub(crate) const TEXTURE_BINDING_2D: c_uint = 0x8069;
pub(crate) const TEXTURE_BINDING_3D: c_uint = 0x806A;
pub(crate) const TEXTURE_BINDING_1D_ARRAY: c_uint = 0x8C1C;
pub(crate) const TEXTURE_BINDING_2D_ARRAY: c_uint = 0x8C1D;
pub(crate) const TEXTURE_BINDING_CUBE_MAP: c_uint = 0x8514;
pub(crate) const TEXTURE_BINDING_CUBE_MAP_ARRAY: c_uint = 0x900A;
pub(crate) const TEXTURE_SWIZZLE_R: c_uint = 0x8E42;
pub(crate) const TEXTURE_SWIZZLE_B: c_uint = 0x8E44;
pub(crate) const RED: c_int = 0x1903;
pub(crate) const BLUE: c_int = 0x1905;

pub(crate) const TEXTURE_TILING_EXT: c_uint = 0x9580;
pub(crate) const DEDICATED_MEMORY_OBJECT_EXT: c_uint = 0x9581;
pub(crate) const OPTIMAL_TILING_EXT: c_int = 0x9584;
pub(crate) const LINEAR_TILING_EXT: c_int = 0x9585;
pub(crate) const NUM_DEVICE_UUIDS_EXT: c_uint = 0x9596;
pub(crate) const DEVICE_UUID_EXT: c_uint = 0x9597;
pub(crate) const DRIVER_UUID_EXT: c_uint = 0x9598;
pub(crate) const UUID_SIZE_EXT: usize = 16;
pub(crate) const DEVICE_LUID_EXT: c_uint = 0x9599;
pub(crate) const DEVICE_NODE_MASK_EXT: c_uint = 0x959A;
pub(crate) const LUID_SIZE_EXT: usize = 8;

#[cfg(unix)]
pub(crate) const HANDLE_TYPE_OPAQUE_FD_EXT: c_uint = 0x9586;
pub(crate) const HANDLE_TYPE_OPAQUE_WIN32_EXT: c_uint = 0x9587;
pub(crate) const HANDLE_TYPE_OPAQUE_WIN32_KMT_EXT: c_uint = 0x9588;
pub(crate) const HANDLE_TYPE_D3D12_TILEPOOL_EXT: c_uint = 0x9589;
pub(crate) const HANDLE_TYPE_D3D12_RESOURCE_EXT: c_uint = 0x958A;
pub(crate) const HANDLE_TYPE_D3D11_IMAGE_EXT: c_uint = 0x958B;
pub(crate) const HANDLE_TYPE_D3D11_IMAGE_KMT_EXT: c_uint = 0x958C;
pub(crate) const HANDLE_TYPE_D3D12_FENCE_EXT: c_uint = 0x9594;

/// `GL_D3D12_FENCE_VALUE_EXT`, equal to `GL_TIMELINE_SEMAPHORE_VALUE_NV`.
pub(crate) const SEMAPHORE_VALUE: c_uint = 0x9595;
pub(crate) const SEMAPHORE_TYPE_NV: c_uint = 0x95B3;
pub(crate) const SEMAPHORE_TYPE_TIMELINE_NV: c_int = 0x95B5;

/// Declares tables of functions, each of which a context has all of or none of.
macro_rules! functions {
    ($(
        $(#[$meta:meta])* $table:ident { $( $field:ident = $symbol:literal ($($argument:ty),*) $(-> $result:ty)?; )+ }
    )+) => { $(
        $(#[$meta])*
        pub(crate) struct $table {
            $( pub(crate) $field: unsafe extern "system" fn($($argument),*) $(-> $result)?, )+
        }

        impl $table {
            /// Loads all functions; the error is the name of the first missing one.
            ///
            /// # Safety
            /// `load` must return the OpenGL function of the name, or an address that [`is_found`] rejects.
            pub(crate) unsafe fn load(load: &mut Loader<'_>) -> Result<Self, &'static CStr> {
                Ok(Self {
                    $( $field: {
                        let address = load($symbol);
                        if !is_found(address) {
                            return Err($symbol);
                        }
                        // SAFETY: the address is that of the named function, by the caller's promise, and the header
                        // declares this type. Object and function pointers have the same size on every platform with
                        // run-time loading of OpenGL.
                        unsafe {
                            std::mem::transmute::<
                                *const c_void,
                                unsafe extern "system" fn($($argument),*) $(-> $result)?,
                            >(address)
                        }
                    }, )+
                })
            }
        }
    )+ };
}

functions! {
    /// Functions of every context of OpenGL 3.0 or OpenGL ES 3.0 and later.
    Base {
        get_error = c"glGetError" () -> c_uint;
        get_string = c"glGetString" (c_uint) -> *const c_char;
        get_string_i = c"glGetStringi" (c_uint, c_uint) -> *const c_char;
        get_integer_v = c"glGetIntegerv" (c_uint, *mut c_int);
        flush = c"glFlush" ();
        gen_buffers = c"glGenBuffers" (c_int, *mut c_uint);
        bind_buffer = c"glBindBuffer" (c_uint, c_uint);
        delete_buffers = c"glDeleteBuffers" (c_int, *const c_uint);
        gen_textures = c"glGenTextures" (c_int, *mut c_uint);
        bind_texture = c"glBindTexture" (c_uint, c_uint);
        delete_textures = c"glDeleteTextures" (c_int, *const c_uint);
        tex_parameter_i = c"glTexParameteri" (c_uint, c_uint, c_int);
    }

    /// Functions that `GL_EXT_memory_object` and `GL_EXT_semaphore` have in common.
    Uuids {
        get_unsigned_byte_v = c"glGetUnsignedBytevEXT" (c_uint, *mut u8);
        get_unsigned_byte_i_v = c"glGetUnsignedBytei_vEXT" (c_uint, c_uint, *mut u8);
    }

    /// `GL_EXT_memory_object` through binding points.
    MemoryObject {
        create = c"glCreateMemoryObjectsEXT" (c_int, *mut c_uint);
        delete = c"glDeleteMemoryObjectsEXT" (c_int, *const c_uint);
        parameter_iv = c"glMemoryObjectParameterivEXT" (c_uint, c_uint, *const c_int);
        buffer_storage = c"glBufferStorageMemEXT" (c_uint, isize, c_uint, u64);
        tex_storage_2d = c"glTexStorageMem2DEXT" (c_uint, c_int, c_uint, c_int, c_int, c_uint, u64);
        tex_storage_3d = c"glTexStorageMem3DEXT" (c_uint, c_int, c_uint, c_int, c_int, c_int, c_uint, u64);
    }

    /// The part of `GL_EXT_memory_object` that OpenGL ES lacks.
    MemoryObject1d {
        tex_storage_1d = c"glTexStorageMem1DEXT" (c_uint, c_int, c_uint, c_int, c_uint, u64);
    }

    /// `GL_EXT_memory_object` with direct state access, and the creation of names: OpenGL 4.5 or
    /// `GL_ARB_direct_state_access`.
    DirectAccess {
        create_buffers = c"glCreateBuffers" (c_int, *mut c_uint);
        create_textures = c"glCreateTextures" (c_uint, c_int, *mut c_uint);
        texture_parameter_i = c"glTextureParameteri" (c_uint, c_uint, c_int);
        buffer_storage = c"glNamedBufferStorageMemEXT" (c_uint, isize, c_uint, u64);
        tex_storage_1d = c"glTextureStorageMem1DEXT" (c_uint, c_int, c_uint, c_int, c_uint, u64);
        tex_storage_2d = c"glTextureStorageMem2DEXT" (c_uint, c_int, c_uint, c_int, c_int, c_uint, u64);
        tex_storage_3d = c"glTextureStorageMem3DEXT" (c_uint, c_int, c_uint, c_int, c_int, c_int, c_uint, u64);
    }

    /// `GL_EXT_memory_object_fd`.
    #[cfg_attr(not(unix), allow(dead_code))]
    MemoryFd {
        import = c"glImportMemoryFdEXT" (c_uint, u64, c_uint, c_int);
    }

    /// `GL_EXT_memory_object_win32`.
    MemoryWin32 {
        import_handle = c"glImportMemoryWin32HandleEXT" (c_uint, u64, c_uint, *mut c_void);
        import_name = c"glImportMemoryWin32NameEXT" (c_uint, u64, c_uint, *const c_void);
    }

    /// `GL_EXT_semaphore`.
    Semaphore {
        generate = c"glGenSemaphoresEXT" (c_int, *mut c_uint);
        delete = c"glDeleteSemaphoresEXT" (c_int, *const c_uint);
        parameter_ui64_v = c"glSemaphoreParameterui64vEXT" (c_uint, c_uint, *const u64);
        wait = c"glWaitSemaphoreEXT" (c_uint, c_uint, *const c_uint, c_uint, *const c_uint, *const c_uint);
        signal = c"glSignalSemaphoreEXT" (c_uint, c_uint, *const c_uint, c_uint, *const c_uint, *const c_uint);
    }

    /// `GL_EXT_semaphore_fd`.
    #[cfg_attr(not(unix), allow(dead_code))]
    SemaphoreFd {
        import = c"glImportSemaphoreFdEXT" (c_uint, c_uint, c_int);
    }

    /// `GL_EXT_semaphore_win32`.
    SemaphoreWin32 {
        import_handle = c"glImportSemaphoreWin32HandleEXT" (c_uint, c_uint, *mut c_void);
        import_name = c"glImportSemaphoreWin32NameEXT" (c_uint, c_uint, *const c_void);
    }

    /// `GL_NV_timeline_semaphore`.
    TimelineSemaphore {
        create = c"glCreateSemaphoresNV" (c_int, *mut c_uint);
        parameter_iv = c"glSemaphoreParameterivNV" (c_uint, c_uint, *const c_int);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_addresses_are_not_functions() {
        unsafe extern "system" fn get_error() -> c_uint {
            NO_ERROR
        }
        for invalid in [0, 1, 2, 3, usize::MAX] {
            let mut names = Vec::new();
            let mut load = |name: &CStr| {
                names.push(name.to_owned());
                match name.to_bytes() {
                    b"glGetError" => get_error as *const c_void,
                    _ => std::ptr::without_provenance(invalid),
                }
            };
            // SAFETY: returns a function of the type of `glGetError`, otherwise no valid address.
            let missing = unsafe { Base::load(&mut load) }.err();
            assert_eq!(missing, Some(c"glGetString"), "{invalid:#x}");
            assert_eq!(names.len(), 2, "loading stops at the first missing function");
        }
        assert!(is_found(std::ptr::without_provenance(4)) && is_found(std::ptr::without_provenance(usize::MAX - 1)));
    }
}
