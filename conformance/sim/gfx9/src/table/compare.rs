//! Comparisons of the vector unit, and classes of numbers. Each has a second form that writes EXEC, too.

use half::f16;

use super::math::{class16, class32, class64};
use super::{Execute, NO_CLAMP, Row, Shape, Target, row};
use crate::lanes;
use crate::value::Value;

macro_rules! compare {
    ($a:ty, $b:ty, $function:expr) => {
        compare!($a, $b, 0, $function)
    };
    ($a:ty, $b:ty, $traits:expr, $function:expr) => {
        (
            Shape::alu(Target::Mask, &[<$a>::KIND, <$b>::KIND], $traits),
            (|unit, fields| lanes::compare::<$a, $b>(unit.wave, fields, $function)) as Execute,
        )
    };
}

macro_rules! class {
    ($type:ty, $function:ident) => {
        compare!($type, u32, NO_CLAMP, |value, classes| $function(value) & classes != 0)
    };
}

pub(super) static CLASSES: &[Row] = &[
    row(0x10, "v_cmp_class_f32", class!(f32, class32)),
    row(0x11, "v_cmpx_class_f32", class!(f32, class32)),
    row(0x12, "v_cmp_class_f64", class!(f64, class64)),
    row(0x13, "v_cmpx_class_f64", class!(f64, class64)),
    row(0x14, "v_cmp_class_f16", class!(f16, class16)),
    row(0x15, "v_cmpx_class_f16", class!(f16, class16)),
];

/// The sixteen comparisons of a floating-point type, from an opcode on, and those that write EXEC.
macro_rules! floats {
    ($name:ident, $first:literal, $type:ty, $suffix:literal) => {
        // A comparison with NaN is false: both forms are needed.
        #[allow(clippy::double_comparisons, clippy::neg_cmp_op_on_partial_ord)]
        pub(super) static $name: &[Row] = &floats!(@rows $first, $type, $suffix;
            0 "f" |_, _| false;
            1 "lt" |a, b| a < b;
            2 "eq" |a, b| a == b;
            3 "le" |a, b| a <= b;
            4 "gt" |a, b| a > b;
            5 "lg" |a, b| a < b || a > b;
            6 "ge" |a, b| a >= b;
            7 "o" |a, b| a == a && b == b;
            8 "u" |a, b| a != a || b != b;
            9 "nge" |a, b| !(a >= b);
            10 "nlg" |a, b| !(a < b || a > b);
            11 "ngt" |a, b| !(a > b);
            12 "nle" |a, b| !(a <= b);
            13 "neq" |a, b| a != b;
            14 "nlt" |a, b| !(a < b);
            15 "tru" |_, _| true;
        );
    };
    (@rows $first:literal, $type:ty, $suffix:literal; $($place:literal $name:literal $function:expr;)*) => {
        [
            $(row($first + $place, concat!("v_cmp_", $name, "_", $suffix), compare!($type, $type, $function)),)*
            $(row($first + 16 + $place, concat!("v_cmpx_", $name, "_", $suffix), compare!($type, $type, $function)),)*
        ]
    };
}

floats!(HALF, 0x20, f16, "f16");
floats!(SINGLE, 0x40, f32, "f32");
floats!(DOUBLE, 0x60, f64, "f64");

macro_rules! integers {
    ($($first:literal $type:ty, $suffix:literal;)*) => {
        &[$(
            integers!(@row $first, 0, "f", $type, $suffix, |_, _| false),
            integers!(@row $first, 1, "lt", $type, $suffix, |a, b| a < b),
            integers!(@row $first, 2, "eq", $type, $suffix, |a, b| a == b),
            integers!(@row $first, 3, "le", $type, $suffix, |a, b| a <= b),
            integers!(@row $first, 4, "gt", $type, $suffix, |a, b| a > b),
            integers!(@row $first, 5, "ne", $type, $suffix, |a, b| a != b),
            integers!(@row $first, 6, "ge", $type, $suffix, |a, b| a >= b),
            integers!(@row $first, 7, "t", $type, $suffix, |_, _| true),
            integers!(@x $first, 0, "f", $type, $suffix, |_, _| false),
            integers!(@x $first, 1, "lt", $type, $suffix, |a, b| a < b),
            integers!(@x $first, 2, "eq", $type, $suffix, |a, b| a == b),
            integers!(@x $first, 3, "le", $type, $suffix, |a, b| a <= b),
            integers!(@x $first, 4, "gt", $type, $suffix, |a, b| a > b),
            integers!(@x $first, 5, "ne", $type, $suffix, |a, b| a != b),
            integers!(@x $first, 6, "ge", $type, $suffix, |a, b| a >= b),
            integers!(@x $first, 7, "t", $type, $suffix, |_, _| true),
        )*]
    };
    (@row $first:literal, $place:literal, $name:literal, $type:ty, $suffix:literal, $function:expr) => {
        row($first + $place, concat!("v_cmp_", $name, "_", $suffix), compare!($type, $type, $function))
    };
    (@x $first:literal, $place:literal, $name:literal, $type:ty, $suffix:literal, $function:expr) => {
        row($first + 16 + $place, concat!("v_cmpx_", $name, "_", $suffix), compare!($type, $type, $function))
    };
}

pub(super) static INTEGERS: &[Row] = integers! {
    0xa0 i16, "i16";
    0xa8 u16, "u16";
    0xc0 i32, "i32";
    0xc8 u32, "u32";
    0xe0 i64, "i64";
    0xe8 u64, "u64";
};
