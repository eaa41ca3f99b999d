// Kernels of memory, LDS, atomic operations and waves. For this machine, a kernel's definition.

typedef struct __attribute__((packed)) { u8 a; u16 b; u32 c; u64 d; i8 e; i16 f; } Packed;

ITEMS(unaligned) {
    const GLOBAL Packed *from = (const GLOBAL Packed *)in + INDEX;
    GLOBAL Packed *to = (GLOBAL Packed *)out + INDEX;
    if (INDEX >= n) return;
    to->a = from->a + 1;
    to->b = from->b ^ from->f;
    to->c = from->c * 3;
    to->d = from->d + from->e;
    to->e = from->e - 1;
    to->f = from->f >> 1;
}

ITEMS(places) {
    u32 x = GROUP(x) * SIZE(x) + LOCAL(x), y = GROUP(y) * SIZE(y) + LOCAL(y), z = GROUP(z) * SIZE(z) + LOCAL(z);
    u32 at = (z * 11 + y) * 23 + x;
    out[at] = in[at] + x + y * 1000 + z * 100000;
}

// A private array with a computed index, whose address is given to functions.
static CALLED u32 mixed(u32 *array, u32 count, u32 seed) {
    u32 sum = 0;
    for (u32 i = 0; i < count; i++) {
        array[(seed + i * 7) % 32] ^= seed << (i & 15);
        sum = sum * 31 + array[(seed * 3 + i) % 32];
    }
    return sum;
}

static CALLED u32 recursive(u32 depth, u32 value) {
    volatile u32 kept = value;
    if (depth == 0) return value;
    return recursive(depth - 1, value * 3 + 1) + kept;
}

ITEMS(private_arrays) {
    if (INDEX >= n) return;
    u32 array[32];
    u8 bytes[32];
    u64 wide[8];
    for (u32 i = 0; i < 32; i++) array[i] = in[INDEX] + i, bytes[i] = (u8)(in[INDEX] >> (i & 7));
    u32 sum = mixed(array, (in[INDEX] & 15) + 1, in[INDEX]);
    for (u32 i = 0; i < 8; i++) wide[i] = (u64)array[i] << 32 | array[i + 8];
    bytes[sum % 32] = 77;
    wide[sum % 8] += 5;
    *(volatile u16 *)&array[sum % 16] = 3;
    for (u32 i = 0; i < 32; i++) sum = sum * 17 + array[i] + bytes[(i + sum) % 32];
    for (u32 i = 0; i < 8; i++) sum += (u32)(wide[(i + sum) % 8] >> (sum & 31));
    out[INDEX] = sum + recursive(3, sum);
}

typedef u16 u16x2 __attribute__((ext_vector_type(2)));
typedef i16 i16x2 __attribute__((ext_vector_type(2)));
typedef f16 f16x2 __attribute__((ext_vector_type(2)));

static inline u32 bits_pair(f16x2 a) { return bits_f16(a.x) | (u32)bits_f16(a.y) << 16; }

ITEMS(pairs) {
    if (INDEX >= n) return;
    u32 words[3] = {in[INDEX * 3], in[INDEX * 3 + 1], in[INDEX * 3 + 2]};
    u16x2 a, b, c;
    i16x2 p, q, r;
    __builtin_memcpy(&a, words, 4), __builtin_memcpy(&b, words + 1, 4), __builtin_memcpy(&c, words + 2, 4);
    __builtin_memcpy(&p, words, 4), __builtin_memcpy(&q, words + 1, 4), __builtin_memcpy(&r, words + 2, 4);
    f16x2 f = {from_f16(a.x), from_f16(a.y)}, g = {from_f16(b.x), from_f16(b.y)};
    u16x2 results[] = {
        a + b, a - b, a * b, a * b + c, a << (b & (u16)15), a >> (b & (u16)15), (u16x2)(p >> (q & (i16)15)),
        __builtin_elementwise_min(a, b), __builtin_elementwise_max(a, b), (u16x2)__builtin_elementwise_min(p, q),
        (u16x2)__builtin_elementwise_max(p, q), __builtin_elementwise_add_sat(a, b), __builtin_elementwise_sub_sat(a, b),
        (u16x2)__builtin_elementwise_add_sat(p, q), (u16x2)__builtin_elementwise_sub_sat(p, q), a + (u16)5, a.yx + b,
        a + (u16x2){0, 0x3f80}, a * (u16x2){0x3c00, 0}, (u16x2)(p * r + q), a + (u16x2){0x3c00, 0x3c00}, a - (u16)64,
    };
    GLOBAL u32 *to = out + INDEX * 32;
    for (u32 i = 0; i < sizeof results / sizeof *results; i++) __builtin_memcpy(&words[0], &results[i], 4), to[i] = words[0];
    to[24] = bits_pair(f + g), to[25] = bits_pair(f - g), to[26] = bits_pair(f * g), to[27] = bits_pair(f.yx * g + f);
    to[28] = bits_pair(-f + g), to[29] = bits_pair(f * (f16)1), to[30] = bits_pair(f + (f16x2){0, 1});
    to[31] = bits_pair((f16x2){min_f16(f.x, g.x), max_f16(f.y, g.y)});
}

#if defined(__AMDGCN__)
#define LDS __attribute__((address_space(3)))
#define BARRIER                                                                                                        \
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");                                                             \
    __builtin_amdgcn_s_barrier();                                                                                      \
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup")
static LDS u32 words[512] __attribute__((loader_uninitialized));
static LDS u8 octets[1024] __attribute__((loader_uninitialized));
static LDS u64 doubles[256] __attribute__((loader_uninitialized));

// A scan over a workgroup, in LDS.
KERNEL void scan(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    u32 place = LOCAL(x), from = 0;
    words[place] = INDEX < n ? in[INDEX] : 0;
    BARRIER;
    for (u32 step = 1; step < 256; step *= 2, from ^= 256) {
        u32 sum = words[from + place] + (place >= step ? words[from + place - step] : 0);
        words[(from ^ 256) + place] = sum;
        BARRIER;
    }
    if (INDEX < n) out[INDEX] = words[from + place];
}

// Reverses a workgroup's bytes and words of 64 bits, through a generic address too.
static CALLED void store(u64 *to, u64 value) { *to = value; }
KERNEL void reverse(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    u32 place = LOCAL(x);
    for (u32 i = 0; i < 4; i++) octets[place * 4 + i] = (u8)(in[INDEX] >> (8 * i));
    store((u64 *)&doubles[place], (u64)in[INDEX] << 32 | ~in[INDEX]);
    BARRIER;
    u32 all = 0;
    for (u32 i = 0; i < 4; i++) all = all << 8 | octets[1023 - place * 4 - i];
    out[INDEX] = all;
    *((GLOBAL u64 *)(out + n) + INDEX) = doubles[255 - place];
}

#define ADD(to, value) __scoped_atomic_fetch_add(to, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
#define EACH(to, wide, value)                                                                                          \
    ADD(to + 0, value);                                                                                                \
    __scoped_atomic_fetch_sub(to + 1, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                                 \
    __scoped_atomic_fetch_and(to + 2, value | 0xf0, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                          \
    __scoped_atomic_fetch_or(to + 3, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                                  \
    __scoped_atomic_fetch_xor(to + 4, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                                 \
    __scoped_atomic_fetch_min(to + 5, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                                 \
    __scoped_atomic_fetch_max(to + 6, value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                                 \
    __scoped_atomic_fetch_min((wide)(to + 7), value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);                         \
    __scoped_atomic_fetch_max((wide)(to + 8), value, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE)
// The words 0 to 15 and the double words from 16 on are changed by all; word 64 + i by one item each.
KERNEL void atomics(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    if (INDEX >= n) return;
    u32 value = in[INDEX];
    u64 wide = (u64)value << 32 | ~value;
    GLOBAL u64 *doubles = (GLOBAL u64 *)(out + 16);
    EACH(out, GLOBAL i32 *, value);
    EACH(doubles, GLOBAL i64 *, wide);
    // A loop of compare and swap: a sum of squares.
    u32 old = out[9];
    while (!__scoped_atomic_compare_exchange_n(out + 9, &old, old + value * value, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED,
                                               __MEMORY_SCOPE_DEVICE));
    u64 wide_old = doubles[9];
    while (!__scoped_atomic_compare_exchange_n(doubles + 9, &wide_old, wide_old ^ wide << 1, 0, __ATOMIC_RELAXED,
                                               __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE));
    // Tickets: each number once.
    u32 ticket = ADD(out + 10, 1);
    __scoped_atomic_exchange_n(out + 64 + ticket, ticket * 2 + 1, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    __builtin_amdgcn_atomic_inc32(out + 11, 6, __ATOMIC_RELAXED, "agent");
    __builtin_amdgcn_atomic_dec32(out + 12, 6, __ATOMIC_RELAXED, "agent");
}

KERNEL void shared_atomics(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    u32 place = LOCAL(x);
    for (u32 i = place; i < 64; i += 256) words[i] = 5, doubles[i] = 5;
    BARRIER;
    if (INDEX < n) {
        u32 value = in[INDEX];
        u64 wide = (u64)value << 32 | ~value;
        EACH(words, LDS i32 *, value);
        EACH(doubles, LDS i64 *, wide);
        u32 ticket = ADD(words + 10, 1);
        __scoped_atomic_exchange_n(words + 256 + (ticket & 255), value ? 1 : 2, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
        __scoped_atomic_fetch_add((LDS f32 *)words + 11, 1.0f, __ATOMIC_RELAXED, __MEMORY_SCOPE_DEVICE);
    }
    BARRIER;
    if (place < 12) out[GROUP(x) * 64 + place] = words[place];
    if (place < 9) *(GLOBAL u64 *)(out + GROUP(x) * 64 + 16 + place * 2) = doubles[place];
}

// Exchanges between the lanes of a wave.
KERNEL void waves(const GLOBAL u32 *in, GLOBAL u32 *out, u32 n) {
    if (INDEX >= n) return;
    u32 value = in[INDEX], lane = __builtin_amdgcn_mbcnt_hi(-1, __builtin_amdgcn_mbcnt_lo(-1, 0));
    GLOBAL u32 *to = out + INDEX * 24;
    u64 ballot = __builtin_amdgcn_ballot_w64(value & 1);
    to[0] = lane, to[1] = (u32)ballot, to[2] = (u32)(ballot >> 32);
    to[3] = __builtin_amdgcn_readfirstlane(value);
    to[4] = __builtin_amdgcn_readlane(value, 37);
    to[5] = __builtin_amdgcn_ds_bpermute(lane * 20 & 255, value);
    to[6] = __builtin_amdgcn_ds_permute((lane ^ 21) * 4, value);
    to[7] = __builtin_amdgcn_ds_swizzle(value, 0x7c | 9 << 10);
    to[8] = __builtin_amdgcn_ds_swizzle(value, 0x8000 | 0x1b);
    to[9] = __builtin_amdgcn_update_dpp(7, value, 0x1b, 15, 15, 0);
    to[10] = __builtin_amdgcn_update_dpp(7, value, 0x103, 15, 15, 0);
    to[11] = __builtin_amdgcn_update_dpp(7, value, 0x115, 15, 15, 1);
    to[12] = __builtin_amdgcn_update_dpp(7, value, 0x12b, 5, 15, 0);
    to[13] = __builtin_amdgcn_update_dpp(7, value, 0x130, 15, 15, 0);
    to[14] = __builtin_amdgcn_update_dpp(7, value, 0x134, 15, 15, 0);
    to[15] = __builtin_amdgcn_update_dpp(7, value, 0x138, 15, 3, 0);
    to[16] = __builtin_amdgcn_update_dpp(7, value, 0x13c, 15, 15, 0);
    to[17] = __builtin_amdgcn_update_dpp(7, value, 0x140, 15, 15, 0);
    to[18] = __builtin_amdgcn_update_dpp(7, value, 0x141, 15, 15, 0);
    to[19] = __builtin_amdgcn_update_dpp(7, value, 0x142, 10, 15, 0);
    to[20] = __builtin_amdgcn_update_dpp(7, value, 0x143, 12, 15, 0);
    u32 odd = 0;
    if (value & 2) odd = (u32)__builtin_popcountll(__builtin_amdgcn_ballot_w64(1)) + __builtin_amdgcn_readfirstlane(lane);
    to[21] = odd;
    to[22] = __builtin_amdgcn_mbcnt_hi((u32)(ballot >> 32), __builtin_amdgcn_mbcnt_lo((u32)ballot, 3));
    to[23] = __builtin_amdgcn_mov_dpp(value, 0x4e, 15, 15, 1);
}
#else
void scan(const u32 *in, u32 *out, u32 n, const u32 *shape) {
    for (u32 i = 0; i < n; i++) out[i] = in[i] + (i % 256 ? out[i - 1] : 0);
}

void reverse(const u32 *in, u32 *out, u32 n, const u32 *shape) {
    for (u32 i = 0; i < n; i++) {
        u32 other = i / 256 * 256 + 255 - i % 256;
        out[i] = swap_u32(swap_u32(in[other])), out[i] = in[other];
        u64 wide = (u64)in[other] << 32 | ~in[other];
        __builtin_memcpy(out + n + 2 * i, &wide, 8);
    }
}

#define EACH(to, signed, value)                                                                                        \
    to[0] += value, to[1] -= value, to[2] &= value | 0xf0, to[3] |= value, to[4] ^= value;                             \
    to[5] = value < to[5] ? value : to[5], to[6] = value > to[6] ? value : to[6];                                      \
    to[7] = (signed)value < (signed)to[7] ? value : to[7], to[8] = (signed)value > (signed)to[8] ? value : to[8]
void atomics(const u32 *in, u32 *out, u32 n, const u32 *shape) {
    u64 *doubles = (u64 *)(out + 16);
    for (u32 i = 0; i < n; i++) {
        u32 value = in[i];
        u64 wide = (u64)value << 32 | ~value;
        EACH(out, i32, value);
        EACH(doubles, i64, wide);
        out[9] += value * value, doubles[9] ^= wide << 1;
        u32 ticket = out[10]++;
        out[64 + ticket] = ticket * 2 + 1;
        out[11] = out[11] >= 6 ? 0 : out[11] + 1;
        out[12] = out[12] == 0 || out[12] > 6 ? 6 : out[12] - 1;
    }
}

void shared_atomics(const u32 *in, u32 *out, u32 n, const u32 *shape) {
    for (u32 group = 0; group < shape[0]; group++) {
        u32 words[16];
        u64 doubles[16];
        for (u32 i = 0; i < 16; i++) words[i] = 5, doubles[i] = 5;
        for (u32 i = group * 256; i < n && i < group * 256 + 256; i++) {
            u32 value = in[i];
            u64 wide = (u64)value << 32 | ~value;
            EACH(words, i32, value);
            EACH(doubles, i64, wide);
            words[10]++;
            words[11] = bits_f32(from_f32(words[11]) + 1.0f);
        }
        __builtin_memcpy(out + group * 64, words, 48);
        __builtin_memcpy(out + group * 64 + 16, doubles, 72);
    }
}

static u32 moved(const u32 *in, u32 active, u32 from, u32 valid, u32 zero) {
    return valid && from < active ? in[from] : zero ? 0 : 7;
}

void waves(const u32 *all_in, u32 *all_out, u32 n, const u32 *shape) {
    for (u32 first = 0; first < n; first += 64) {
        const u32 *in = all_in + first;
        u32 active = n - first < 64 ? n - first : 64;
        u64 ballot = 0, twos = 0;
        for (u32 i = 0; i < active; i++) ballot |= (u64)(in[i] & 1) << i, twos |= (u64)(in[i] >> 1 & 1) << i;
        for (u32 i = 0; i < active; i++) {
            u32 *to = all_out + (first + i) * 24, row = i / 16, place = i % 16, bank = place / 4, from;
            to[0] = i, to[1] = (u32)ballot, to[2] = (u32)(ballot >> 32), to[3] = in[0];
            to[4] = active > 37 ? in[37] : to[4];
            from = (i * 20 & 255) / 4, to[5] = from < active ? in[from] : 0;
            from = i ^ 21, to[6] = from < active ? in[from] : 0;
            from = (i & 32) | (((i & 28) | 3) ^ 9), to[7] = from < active ? in[from] : 0;
            from = i / 4 * 4 + 3 - i % 4, to[8] = from < active ? in[from] : 0;
            to[9] = moved(in, active, from, 1, 0);
            to[10] = moved(in, active, i + 3, place + 3 < 16, 0);
            to[11] = moved(in, active, i - 5, place >= 5, 1);
            to[12] = row == 0 || row == 2 ? moved(in, active, row * 16 + (place + 5) % 16, 1, 0) : 7;
            to[13] = moved(in, active, i + 1, i < 63, 0), to[14] = moved(in, active, (i + 1) % 64, 1, 0);
            to[15] = bank < 2 ? moved(in, active, i - 1, i > 0, 0) : 7, to[16] = moved(in, active, (i + 63) % 64, 1, 0);
            to[17] = moved(in, active, row * 16 + 15 - place, 1, 0);
            to[18] = moved(in, active, i / 8 * 8 + 7 - i % 8, 1, 0);
            to[19] = row & 1 ? moved(in, active, row * 16 - 1, 1, 0) : 7;
            to[20] = row >= 2 ? moved(in, active, 31, 1, 0) : 7;
            to[21] = in[i] & 2 ? (u32)(__builtin_popcountll(twos) + __builtin_ctzll(twos)) : 0;
            to[22] = 3 + (u32)__builtin_popcountll(ballot & (((u64)1 << i) - 1));
            from = i ^ 2, to[23] = from < active ? in[from] : 0;
        }
    }
}
#endif
