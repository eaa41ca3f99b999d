//! Macros that call a function of the driver and check its status.

/// Calls a function of the driver and checks its status. Expands inside an `unsafe` block of the caller. `|operation|`
/// binds the function's name in errors, which the arguments may use; an argument may return an error with `?`.
macro_rules! call {
    ($driver:ident.$function:ident |$operation:ident| ($($argument:expr),* $(,)?)) => {{
        let entry = &$driver.functions.$function;
        #[allow(unused_variables, reason = "most arguments cannot fail")]
        let $operation = entry.operation;
        entry.require(&$driver.version).and_then(|function| {
            $driver.check(entry.operation, $crate::trace::DriverFunction::traced(function, entry.operation, ($($argument,)*)))
        })
    }};
    ($driver:ident.$function:ident($($argument:expr),* $(,)?)) => {
        $crate::call::call!($driver.$function |operation| ($($argument),*))
    };
}

/// Calls a required function and yields its name in errors and its unchecked status. Expands inside an `unsafe` block.
macro_rules! status {
    ($driver:ident.$function:ident($($argument:expr),*)) => {{
        let entry = &$driver.functions.$function;
        (entry.operation, $crate::trace::DriverFunction::traced(entry.get(), entry.operation, ($($argument,)*)))
    }};
}

pub(crate) use {call, status};
