// Types and functions of test kernels, with the same results on both processors.
#pragma once

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long u64;
typedef long i64;
typedef _Float16 f16;
typedef float f32;
typedef double f64;

#if defined(__AMDGCN__)
#define GLOBAL __attribute__((address_space(1)))
#define KERNEL __attribute__((amdgpu_kernel, visibility("protected")))
#define LOCAL(axis) __builtin_amdgcn_workitem_id_##axis()
#define GROUP(axis) __builtin_amdgcn_workgroup_id_##axis()
#define SIZE(axis) __builtin_amdgcn_workgroup_size_##axis()
// A kernel of independent work items: `item` is executed for each.
#define ITEMS(name)                                                                                                    \
    static inline void name##_item(const GLOBAL u32 *, GLOBAL u32 *, u32);                                             \
    KERNEL void name(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) { name##_item(in, out, n); }                        \
    static inline void name##_item(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n)
#else
#define GLOBAL
static u32 local_x, local_y, local_z, group_x, group_y, group_z, size_x, size_y, size_z;
#define LOCAL(axis) local_##axis
#define GROUP(axis) group_##axis
#define SIZE(axis) size_##axis
// `shape`: groups, work items of each, and of the last ones, in each dimension.
#define ITEMS(name)                                                                                                    \
    static inline void name##_item(const u32 *, u32 *, u32);                                                           \
    void name(const u32 *in, u32 *out, u32 n, const u32 *shape) {                                                      \
        size_x = shape[3], size_y = shape[4], size_z = shape[5];                                                       \
        for (group_z = 0; group_z < shape[2]; group_z++)                                                               \
            for (group_y = 0; group_y < shape[1]; group_y++)                                                           \
                for (group_x = 0; group_x < shape[0]; group_x++)                                                       \
                    for (local_z = 0; local_z < length(group_z, shape, 2); local_z++)                                  \
                        for (local_y = 0; local_y < length(group_y, shape, 1); local_y++)                              \
                            for (local_x = 0; local_x < length(group_x, shape, 0); local_x++)                          \
                                name##_item(in, out, n);                                                               \
    }                                                                                                                  \
    static inline void name##_item(const u32 *in, u32 *out, u32 n)
static inline u32 length(u32 group, const u32 *shape, int axis) {
    return group + 1 == shape[axis] && shape[axis + 6] ? shape[axis + 6] : shape[axis + 3];
}
#endif

#define CALLED __attribute__((noinline))
#define INDEX (GROUP(x) * SIZE(x) + LOCAL(x))

#define FLOATS(f, u, quiet, one)                                                                                       \
    static inline u bits_##f(f a) {                                                                                    \
        u bits;                                                                                                        \
        __builtin_memcpy(&bits, &a, sizeof a);                                                                         \
        return a == a ? bits : (u)quiet;                                                                               \
    }                                                                                                                  \
    static inline f from_##f(u bits) {                                                                                 \
        f a;                                                                                                           \
        __builtin_memcpy(&a, &bits, sizeof a);                                                                         \
        return a == a ? a : (f)__builtin_nan("");                                                                      \
    }                                                                                                                  \
    static inline f min_##f(f a, f b) { return __builtin_elementwise_min(a, b) + (f)0; }                               \
    static inline f max_##f(f a, f b) { return __builtin_elementwise_max(a, b) + (f)0; }                               \
    static inline f sign_##f(f a, f b) { return __builtin_elementwise_copysign(a, b == b ? b : (f)one); }
FLOATS(f16, u16, 0x7e00, 1)
FLOATS(f32, u32, 0x7fc00000, 1)
FLOATS(f64, u64, 0x7ff8000000000000, 1)

// Conversions that C defines for all values.
#define CONVERT(i, f, least, above)                                                                                    \
    static inline i i##_of_##f(f a) { return a > (f)(least) && a < (f)(above) ? (i)a : (i)7; }
CONVERT(u8, f16, -1, 256) CONVERT(i8, f16, -128, 128) CONVERT(u16, f16, -1, 65504) CONVERT(i16, f16, -32768, 32767)
CONVERT(u32, f16, -1, 65504) CONVERT(i32, f16, -65504, 65504) CONVERT(u64, f16, -1, 65504) CONVERT(i64, f16, -65504, 65504)
CONVERT(u8, f32, -1, 256) CONVERT(i8, f32, -129, 128) CONVERT(u16, f32, -1, 65536) CONVERT(i16, f32, -32769, 32768)
CONVERT(u32, f32, -1, 4294967296.0) CONVERT(i32, f32, -2147483648.0, 2147483648.0)
CONVERT(u64, f32, -1, 18446744073709551616.0) CONVERT(i64, f32, -9223372036854775808.0, 9223372036854775808.0)
CONVERT(u8, f64, -1, 256) CONVERT(i8, f64, -129, 128) CONVERT(u16, f64, -1, 65536) CONVERT(i16, f64, -32769, 32768)
CONVERT(u32, f64, -1, 4294967296.0) CONVERT(i32, f64, -2147483649.0, 2147483648.0)
CONVERT(u64, f64, -1, 18446744073709551616.0) CONVERT(i64, f64, -9223372036854775808.0, 9223372036854775808.0)

#define INTEGERS(i, u, width, call)                                                                                          \
    static call i div_##i(i a, i b) { return b == 0 ? a : (i)-1 < 0 && b == (i)-1 ? (i)-a : (i)(a / b); }            \
    static call i rem_##i(i a, i b) { return b == 0 ? a : (i)-1 < 0 && b == (i)-1 ? (i)0 : (i)(a % b); }             \
    static inline i shl_##i(i a, i b) { return (i)((u)a << (b & (width - 1))); }                                       \
    static inline i shr_##i(i a, i b) { return (i)(a >> (b & (width - 1))); }                                          \
    static inline i rot_##i(i a, i b) {                                                                                \
        u n = b & (width - 1);                                                                                         \
        return (i)(n == 0 ? (u)a : (u)((u)a << n) | (u)((u)a >> (width - n)));                                         \
    }                                                                                                                  \
    static inline i min_##i(i a, i b) { return a < b ? a : b; }                                                        \
    static inline i max_##i(i a, i b) { return a > b ? a : b; }                                                        \
    static inline i abs_##i(i a) { return (i)(a < 0 ? -a : a); }                                                       \
    static inline i med_##i(i a, i b, i c) { return max_##i(min_##i(a, b), min_##i(max_##i(a, b), c)); }               \
    static inline i sat_add_##i(i a, i b) { return __builtin_elementwise_add_sat(a, b); }                              \
    static inline i sat_sub_##i(i a, i b) { return __builtin_elementwise_sub_sat(a, b); }                              \
    static inline i reverse_##i(i a) { return (i)__builtin_elementwise_bitreverse((u)a); }                             \
    static inline i ones_##i(i a) { return (i)__builtin_popcountll((u)a); }                                            \
    static inline i leading_##i(i a) { return (i)((u)a == 0 ? width : __builtin_clzll((u64)(u)a) - (64 - width)); }    \
    static inline i trailing_##i(i a) { return (i)((u)a == 0 ? width : __builtin_ctzll((u64)(u)a)); }                  \
    static inline i field_##i(i a, i b, i c) {                                                                         \
        u offset = b & (width - 1);                                                                                    \
        return (i)(((u)a >> offset) & (((u)1 << (c & (width - 1))) - 1));                                              \
    }                                                                                                                  \
    static inline i insert_##i(i a, i b, i c) { return (i)((a & b) | (~a & c)); }
INTEGERS(u8, u8, 8, inline) INTEGERS(i8, u8, 8, inline) INTEGERS(u16, u16, 16, inline) INTEGERS(i16, u16, 16, inline)
INTEGERS(u32, u32, 32, inline) INTEGERS(i32, u32, 32, inline) INTEGERS(u64, u64, 64, CALLED) INTEGERS(i64, u64, 64, CALLED)

static inline u8 swap_u8(u8 a) { return a; }
static inline i8 swap_i8(i8 a) { return a; }
static inline u16 swap_u16(u16 a) { return __builtin_bswap16(a); }
static inline i16 swap_i16(i16 a) { return (i16)__builtin_bswap16((u16)a); }
static inline u32 swap_u32(u32 a) { return __builtin_bswap32(a); }
static inline i32 swap_i32(i32 a) { return (i32)__builtin_bswap32((u32)a); }
static inline u64 swap_u64(u64 a) { return __builtin_bswap64(a); }
static inline i64 swap_i64(i64 a) { return (i64)__builtin_bswap64((u64)a); }
static inline u8 high_u8(u8 a, u8 b) { return (u8)((u32)a * b >> 8); }
static inline i8 high_i8(i8 a, i8 b) { return (i8)((i32)a * b >> 8); }
static inline u16 high_u16(u16 a, u16 b) { return (u16)((u32)a * b >> 16); }
static inline i16 high_i16(i16 a, i16 b) { return (i16)((i32)a * b >> 16); }
static inline u32 high_u32(u32 a, u32 b) { return (u32)((u64)a * b >> 32); }
static inline i32 high_i32(i32 a, i32 b) { return (i32)((i64)a * b >> 32); }
static inline u64 high_u64(u64 a, u64 b) { return (u64)((unsigned __int128)a * b >> 64); }
static inline i64 high_i64(i64 a, i64 b) { return (i64)((__int128)a * b >> 64); }

#define ROUND(f) __builtin_elementwise_##f
#define ROOT(type, s) static CALLED type root_##type(type a) { return __builtin_sqrt##s(__builtin_elementwise_abs(a)); }
ROOT(f32, f) ROOT(f64, )
// Without the sign of 0.
static inline f16 narrow(f32 a) { return (f16)a == 0 ? (f16)0 : (f16)a; }
static inline f16 quotient_f16(f16 a, f16 b) { return a / b; }
static inline f32 quotient_f32(f32 a, f32 b) { return a / b; }
static CALLED f64 quotient_f64(f64 a, f64 b) { return a / b; }
static inline f32 fused_f32(f32 a, f32 b, f32 c) { return __builtin_fmaf(a, b, c); }
static inline f64 fused_f64(f64 a, f64 b, f64 c) { return __builtin_fma(a, b, c); }
// A number times a power of two, and its exponent.
static inline f32 scale_f32(f32 a, i32 b) { return __builtin_ldexpf(a, b % 300); }
static inline f64 scale_f64(f64 a, i32 b) { return __builtin_ldexp(a, b % 2200); }
#if defined(__AMDGCN__)
static inline i32 exponent_f32(f32 a) { return __builtin_amdgcn_frexp_expf(a); }
static inline i32 exponent_f64(f64 a) { return __builtin_amdgcn_frexp_exp(a); }
static inline f32 mantissa_f32(f32 a) { return __builtin_amdgcn_frexp_mantf(a); }
static inline f64 mantissa_f64(f64 a) { return __builtin_amdgcn_frexp_mant(a); }
#else
static inline i32 exponent_f64(f64 a) {
    int e = 0;
    if (__builtin_isfinite(a)) __builtin_frexp(a, &e);
    return e;
}
static inline i32 exponent_f32(f32 a) { return exponent_f64(a); }
static inline f64 mantissa_f64(f64 a) { int e; return __builtin_frexp(a, &e); }
static inline f32 mantissa_f32(f32 a) { int e; return __builtin_frexpf(a, &e); }
#endif
