// Kernels whose speed is measured.

#if defined(__AMDGCN__)
KERNEL void arithmetic(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    u32 a = in[INDEX], b = a * 7 + 1;
    f32 x = (f32)(a & 255), y = 0.5f;
    for (u32 i = 0; i < n; i++) {
        a ^= a << 13, a ^= a >> 17, a ^= a << 5;
        b = b * 5 + a;
        x = x * 0.999f + y;
        y = (y - x) * 0.25f;
        b = b > a ? b - 3 : b + 1;
        x = x > 1e6f ? 1.0f : x;
    }
    out[INDEX] = a + b + (u32)(i32)x + (u32)(i32)y;
}

typedef u32 u32x4 __attribute__((ext_vector_type(4)));
KERNEL void copy(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    const GLOBAL u32x4 *from = (const GLOBAL u32x4 *)in + LOCAL(x);
    GLOBAL u32x4 *to = (GLOBAL u32x4 *)out + LOCAL(x);
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < n; i++) to[(i & 7) * 64] = from[(i & 7) * 64];
}

KERNEL void fill(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
#pragma clang loop unroll(disable)
    for (u32 i = 0; i < n; i++) out[LOCAL(x) + (i & 31) * 64] = i;
}

KERNEL void fused(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    f32 x = (f32)(in[INDEX] & 255), y = 0.5f;
    for (u32 i = 0; i < n; i++) x = __builtin_fmaf(x, 0.999f, y), y = __builtin_fmaf(y, -0.5f, x);
    out[INDEX] = (u32)(i32)(x + y);
}
#else
void nothing(void) {}
#endif
