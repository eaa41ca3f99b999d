//! Macros that define the functions of the fake driver.

/// Defines functions, each with its type in the headers: those that create an object from a structure and write a
/// handle of this type, those that end an object, and others.
macro_rules! functions {
    (
        create { $($create_type:ident $create:ident($info:ident) -> $created:ident $type_number:literal;)* }
        destroy { $($destroy_type:ident $destroy:ident($destroyed:ident);)* }
        $($type:ident $function:ident($($argument:ident: $of:ty),* $(,)?) -> $write_result:ty $body:block)*
    ) => {
        $(
            #[allow(non_snake_case, reason = "Vulkan's own")]
            unsafe extern "system" fn $create(
                _: vk::Device,
                info: *const vk::$info<'_>,
                _: *const vk::AllocationCallbacks<'_>,
                to: *mut vk::$created,
            ) -> vk::Result {
                record(stringify!($create), formatted!(info));
                new_handle($type_number, to)
            }
        )*
        $(
            #[allow(non_snake_case, reason = "Vulkan's own")]
            unsafe extern "system" fn $destroy(
                _: vk::Device,
                object: vk::$destroyed,
                _: *const vk::AllocationCallbacks<'_>,
            ) {
                record(stringify!($destroy), format!("{:#x}", object.as_raw()));
            }
        )*
        $(
            #[allow(non_snake_case, unused_variables, clippy::too_many_arguments, reason = "Vulkan's own")]
            unsafe extern "system" fn $function($($argument: $of),*) -> $write_result $body
        )*

        /// The function with this name; null if this module lacks it.
        pub(super) fn address(name: &CStr) -> *const c_void {
            match name.to_str().unwrap_or_default() {
                $(stringify!($create) => {
                    let function: vk::$create_type = $create;
                    function as *const c_void
                })*
                $(stringify!($destroy) => {
                    let function: vk::$destroy_type = $destroy;
                    function as *const c_void
                })*
                $(stringify!($function) => {
                    let function: vk::$type = $function;
                    function as *const c_void
                })*
                _ => std::ptr::null(),
            }
        }
    };
}

/// Formats a chain of structures.
macro_rules! formatted {
    ($first:expr) => {
        // SAFETY: the library passes structures that are live for the call.
        unsafe { crate::format::structures($first.cast()) }
    };
}

/// Formats an array of structures.
macro_rules! formatted_all {
    ($first:expr, $count:expr) => {{
        // SAFETY: the library passes an array of `$count` structures.
        let all = unsafe { crate::format::elements($first, $count) };
        all.iter().map(|one| formatted!(std::ptr::from_ref(one))).collect::<Vec<_>>().join(", ")
    }};
}

macro_rules! write_result {
    ($to:expr, $value:expr) => {
        // SAFETY: the library passes a pointer for one value of this type.
        unsafe { $to.write($value) }
    };
}

pub(super) use {formatted, formatted_all, functions, write_result};
