//! Modules, which both libraries have alike.

/// Declares `Module`, an open module of the library whose table is `libraries.$table`, and its public handle.
macro_rules! module {
    ($(#[$doc:meta])* $handle:ident of $table:ident: $library:literal) => {
        #[derive(Debug)]
        pub(crate) struct Module {
            nv_sci: $crate::library::NvSci,
            pub(super) raw: $crate::sys::Handle,
        }

        impl Drop for Module {
            fn drop(&mut self) {
                // SAFETY: opened once, closed once; whatever was made from the module holds this, so nothing is left.
                unsafe { (self.functions().module_close)(self.raw) };
            }
        }

        impl Module {
            pub(crate) fn functions(&self) -> &$crate::sys::$table::Functions {
                &self.nv_sci.libraries.$table
            }

            pub(crate) fn lists(&self) -> $crate::list::ListFunctions {
                let functions = self.functions();
                $crate::list::ListFunctions {
                    create: (concat!($library, "AttrListCreate"), functions.list_create),
                    free: functions.list_free,
                    set: (concat!($library, "AttrListSetAttrs"), functions.list_set),
                    get: (concat!($library, "AttrListGetAttrs"), functions.list_get),
                    reconcile: (concat!($library, "AttrListReconcile"), functions.list_reconcile),
                }
            }
        }

        $(#[$doc])*
        #[derive(Debug, Clone)]
        pub struct $handle {
            pub(crate) inner: std::sync::Arc<Module>,
        }

        impl $handle {
            pub(crate) fn open(nv_sci: &$crate::library::NvSci) -> gpu_interop_core::Result<Self> {
                use gpu_interop_driver::DriverFunction;
                const NAME: &str = concat!($library, "ModuleOpen");
                let mut raw = 0;
                // SAFETY: the pointer is valid for the call.
                let result = unsafe { nv_sci.libraries.$table.module_open.traced(NAME, (&raw mut raw,)) };
                $crate::error::check(NAME, result)?;
                let raw = $crate::error::not_null(NAME, raw)?.addr().get();
                Ok(Self { inner: std::sync::Arc::new(Module { nv_sci: nv_sci.clone(), raw }) })
            }

            #[doc = concat!("The library's object (`", $library, "Module`).")]
            ///
            /// Valid while `self` or anything made from it lives.
            #[must_use]
            pub fn as_raw(&self) -> usize {
                self.inner.raw
            }
        }
    };
}
pub(crate) use module;
