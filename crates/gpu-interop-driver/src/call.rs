//! Calls of the driver's functions, whose status is looked at.

/// Calls a function of the driver, and looks at its status. The arguments may use the name that the function has in errors,
/// which comes after the bar, and end with an error themselves. In an unsafe block.
macro_rules! call {
    ($driver:ident.$function:ident |$operation:ident| ($($argument:expr),* $(,)?)) => {{
        let entry = &$driver.functions.$function;
        #[allow(unused_variables, reason = "most arguments have no errors")]
        let $operation = entry.operation;
        entry.require(&$driver.version).and_then(|function| {
            $driver.check(entry.operation, $crate::trace::DriverFunction::traced(function, entry.operation, ($($argument,)*)))
        })
    }};
    ($driver:ident.$function:ident($($argument:expr),* $(,)?)) => {
        $crate::call::call!($driver.$function |operation| ($($argument),*))
    };
}

/// Calls a function that every driver has: its name in errors, and what it answers. In an unsafe block.
macro_rules! answer {
    ($driver:ident.$function:ident($($argument:expr),*)) => {{
        let entry = &$driver.functions.$function;
        (entry.operation, $crate::trace::DriverFunction::traced(entry.get(), entry.operation, ($($argument,)*)))
    }};
}

pub(crate) use {answer, call};
