//! Macros for methods that several types of both Direct3D versions have.

/// Export methods of a type with `interop`, `share(name)`, which creates an NT handle, and `request(handle)`.
macro_rules! nt_exports {
    ($type:ident, $object:literal, $function:literal, $handle:ident::$variant:ident, $request:ident, $contents:literal) => {
        impl $type {
            #[doc = concat!("Exports the ", $object, ". Every call returns a new handle, owned by the caller, that keeps")]
            #[doc = concat!("the ", $object, " alive. Calls `", $function, "`.")]
            ///
            /// # Errors
            /// [`ErrorKind::Unsupported`](gpu_interop_core::ErrorKind::Unsupported) if this implementation of Direct3D
            /// does not support sharing; otherwise the driver's error. No handle is left open.
            pub fn export(&self) -> Result<$handle> {
                Ok($handle::$variant(self.share(None)?.into()))
            }

            #[doc = concat!("Exports the ", $object, " as an import request: ", $contents, ".")]
            ///
            /// # Errors
            /// As [`export`](Self::export).
            pub fn import_request(&self) -> Result<$request> {
                Ok(self.request(self.export()?))
            }

            #[doc = concat!("Exports the ", $object, " under a name, and returns a request with the name instead of the")]
            /// handle. The name is valid in this and other processes of the session until the returned handle and all
            /// other handles to the object are closed; the request keeps one open until it is dropped.
            ///
            /// # Errors
            /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) if the name is taken or
            /// longer than 260 UTF-16 code units; otherwise as [`export`](Self::export).
            pub fn import_request_by_name(&self, name: &ObjectName) -> Result<(NtHandle, $request)> {
                let handle = self.share(Some(name))?;
                let request = self.request($handle::$variant(name.clone().into()));
                let request =
                    keep_handle(&handle, request, $request::keeping).map_err(|error| self.interop.failed(error))?;
                Ok((handle, request))
            }
        }
    };
}

/// Methods of a fence with `interop`, `raw` and `counter`, and its
/// [`ExporterTimeline`](gpu_interop_core::ExporterTimeline) with the documentation, the handle kind `$variant` and the
/// method `signal` given.
macro_rules! fence_methods {
    ($interface:ident, $variant:ident, $(#[$doc:meta])* timeline { $signal:item }) => {
        impl ExportableFence {
            /// The fence.
            #[must_use]
            pub fn as_raw(&self) -> &$interface {
                &self.raw
            }

            pub(crate) fn fence(&self) -> &Fence {
                self.counter.fence()
            }

            #[doc = concat!("The current value. Calls `", stringify!($interface), "::GetCompletedValue`.")]
            ///
            /// # Errors
            /// [`ErrorKind::DeviceLost`](gpu_interop_core::ErrorKind::DeviceLost) with the reason if the device is
            /// lost.
            pub fn value(&self) -> Result<u64> {
                self.fence().value().map_err(|error| self.interop.failed(error))
            }

            /// Blocks until the value is at least `value`.
            #[doc = concat!("Calls `", stringify!($interface), "::SetEventOnCompletion`.")]
            ///
            /// # Errors
            /// [`ErrorKind::Timeout`](gpu_interop_core::ErrorKind::Timeout) after `timeout`; the wait may be repeated.
            /// [`ErrorKind::InvalidArgument`](gpu_interop_core::ErrorKind::InvalidArgument) for 2^64 - 1; otherwise as
            /// [`value`](Self::value).
            pub fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
                self.counter.wait(value, timeout).map_err(|error| self.interop.failed(error))
            }

            /// Builds the request for a handle that was just exported from this fence.
            fn request(&self, handle: SemaphoreHandle) -> SemaphoreImport {
                // SAFETY: Direct3D just shared this fence as the handle, or under the name in it, for which the caller
                // adds a handle to the request. The variant is that of such a fence. The exporting device is named.
                let request = unsafe { SemaphoreImport::new(handle) };
                request.exported_by(self.interop.identity().clone())
            }
        }

        $(#[$doc])*
        impl ExporterTimeline for ExportableFence {
            fn value(&self) -> Result<u64> {
                Self::value(self)
            }

            $signal

            fn wait(&self, value: u64, timeout: Duration) -> Result<()> {
                Self::wait(self, value, timeout)
            }

            fn handle_kind(&self) -> Option<SemaphoreHandleKind> {
                Some(SemaphoreHandleKind::$variant)
            }

            fn export(&self) -> Result<SemaphoreImport> {
                self.import_request()
            }

            fn waiter(&self) -> Result<Box<dyn TimelineWaiter>> {
                Ok(Box::new(Waiter::new()?))
            }

            fn describe(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!("fence {:p} (", stringify!($interface), ")"), windows::core::Interface::as_raw(&self.raw))
            }
        }
    };
}
