/* A library that plays AMD's runtime on Linux, for tests on machines without one.
 *
 * It has the C interface that the HIP backend uses, on the CPU's memory: device pointers are host pointers, streams do
 * their work at once. It misbehaves as the runtime's source says: a descriptor is never closed, whatever kind it is said
 * to be of; imports fail with "out of memory" whatever is wrong; whoever touches an external semaphore is aborted; the
 * calling thread's current device is what calls act on. Mappings are addresses in the one mapping of their import, and
 * hipFree knows each address once; before HIP 5.5 the range is ignored, hipFree knows no mapping, and nothing of an import
 * is looked at; before HIP 5.7 its kind is not.
 *
 * Compile-time switches: RUNTIME_VERSION (70125424; with 5 as its major the structs are those of HIP 5),
 * WITHOUT_EXTERNAL (no external memory), WITHOUT_MEMSET (a runtime that is not whole), WITH_IMAGES (mapped images, of which
 * no texel can be had: an image that ends before its levels is aborted).
 * Environment: STAND_IN_INIT is what hipInit answers, STAND_IN_VERSION what hipRuntimeGetVersion does, STAND_IN_IMPORT
 * what hipImportExternalMemory does, STAND_IN_WAIT what waits for words do, STAND_IN_SECOND what device 1 does that is
 * asked for its name; STAND_IN_NULL makes the named function answer success and a null handle; STAND_IN_CURRENT is the
 * current device (0 or 1) of threads that set none. Two devices; whoever calls for one while the other is current, or
 * leaves another current than it found, is aborted. STAND_IN_RECORDS: every stream records a graph (WITH_IMAGES).
 */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef RUNTIME_VERSION
#define RUNTIME_VERSION 70125424
#endif
#define GENERATION_5 (RUNTIME_VERSION < 60000000)

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, NOT_SUPPORTED = 801, UNKNOWN = 999 };

/* Says what this is: the backend reports it. 1: the CPU does the work; 2: a GPU. */
#ifndef STAND_IN_ON
#define STAND_IN_ON 1
#endif
const int gpu_interop_simulated = STAND_IN_ON;

static int null_from(const char *function) {
    const char *named = getenv("STAND_IN_NULL");
    return named && !strcmp(named, function);
}

static unsigned answer(const char *variable) {
    const char *value = getenv(variable);
    return value ? (unsigned)strtoul(value, NULL, 10) : SUCCESS;
}

unsigned hipInit(unsigned flags) {
    return flags ? INVALID_VALUE : answer("STAND_IN_INIT");
}

unsigned hipRuntimeGetVersion(int *version) {
    *version = RUNTIME_VERSION;
    return answer("STAND_IN_VERSION");
}

const char *hipGetErrorName(unsigned code) {
    switch (code) {
    case SUCCESS: return "hipSuccess";
    case INVALID_VALUE: return "hipErrorInvalidValue";
    case OUT_OF_MEMORY: return "hipErrorOutOfMemory";
    case 100: return "hipErrorNoDevice";
    case INVALID_DEVICE: return "hipErrorInvalidDevice";
    case NOT_SUPPORTED: return "hipErrorNotSupported";
    default: return "hipErrorUnknown";
    }
}

const char *hipGetErrorString(unsigned code) {
    return code == OUT_OF_MEMORY ? "out of memory" : hipGetErrorName(code);
}

/* Devices. */

static __thread int current = -1;

static int initial(void) {
    return (int)answer("STAND_IN_CURRENT");
}

static int now(void) {
    return current < 0 ? initial() : current;
}

/* Where another device is current to begin with, the tests work on device 0 alone. */
static void must_be_current(void) {
    if (initial() && now() != 0)
        abort();
}

unsigned hipGetDevice(int *device) {
    /* Each call of the backend asks first, so that this is what the one before left. */
    if (now() != initial())
        abort();
    *device = now();
    return SUCCESS;
}

unsigned hipSetDevice(int device) {
    if (device < 0 || device > 1)
        return INVALID_DEVICE;
    current = device;
    return SUCCESS;
}

unsigned hipGetDeviceCount(int *count) {
    *count = 2;
    return SUCCESS;
}

unsigned hipDeviceGet(int *device, int ordinal) {
    *device = ordinal;
    return ordinal < 0 || ordinal > 1 ? INVALID_DEVICE : SUCCESS;
}

unsigned hipDeviceGetName(char *name, int length, int device) {
    strncpy(name, "stand-in AMD GPU", (size_t)length);
    return device == 1 ? answer("STAND_IN_SECOND") : SUCCESS;
}

unsigned hipDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    *value = 1;
    return attribute == 10013 || (attribute == 89 && !GENERATION_5) ? SUCCESS : INVALID_VALUE;
}

unsigned hipDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, (size_t)length, "%04x:%02x:%02x.0", 1, 0xc3 + device, 0);
    return SUCCESS;
}

static unsigned properties(char *out, size_t size, size_t architecture) {
    memset(out, 0xee, size);
    strcpy(out + architecture, "gfx90a:sramecc+:xnack-");
    return SUCCESS;
}

unsigned hipGetDeviceProperties(void *out, int device) {
    (void)device;
    return properties(out, 792, 396);
}

#if !GENERATION_5
unsigned hipGetDevicePropertiesR0600(void *out, int device) {
    (void)device;
    return properties(out, 1472, 1160);
}
#endif

/* External memory. */

struct memory_desc {
    unsigned type;
    union {
        int fd;
        void *win32[2];
    } handle;
    unsigned long long size;
    unsigned flags;
#if !GENERATION_5
    unsigned reserved[16];
#endif
};

struct buffer_desc {
    unsigned long long offset, size;
    unsigned flags;
#if !GENERATION_5
    unsigned reserved[16];
#endif
};

_Static_assert(sizeof(struct memory_desc) == (GENERATION_5 ? 40 : 104), "hipExternalMemoryHandleDesc");
_Static_assert(sizeof(struct buffer_desc) == (GENERATION_5 ? 24 : 88), "hipExternalMemoryBufferDesc");

struct memory {
    char *bytes;
    unsigned long long size;
};

/* What hipFree knows. The tests have few at a time. */

#define FREES_MAPPINGS (RUNTIME_VERSION >= 50500000)

static void *entries[16];

static void **entry_of(void *address) {
    for (size_t i = 0; i < sizeof(entries) / sizeof(*entries); i++)
        if (entries[i] == address)
            return &entries[i];
    return NULL;
}

static inline unsigned note(void *address) {
    if (entry_of(address))
        return SUCCESS;
    void **entry = entry_of(NULL);
    if (!entry)
        return OUT_OF_MEMORY;
    *entry = address;
    return SUCCESS;
}

#ifndef WITHOUT_EXTERNAL
unsigned hipImportExternalMemory(struct memory **out, const struct memory_desc *desc) {
    must_be_current();
    if (answer("STAND_IN_IMPORT"))
        return answer("STAND_IN_IMPORT");
    if (null_from("hipImportExternalMemory")) {
        *out = NULL;
        return SUCCESS;
    }
    if (RUNTIME_VERSION >= 50500000 && (!desc->size || desc->flags > 1))
        return INVALID_VALUE;
    if (RUNTIME_VERSION >= 50700000 && (desc->type < 1 || desc->type > 7))
        return INVALID_VALUE;
    char *bytes = mmap(NULL, desc->size, PROT_READ | PROT_WRITE, MAP_SHARED, desc->handle.fd, 0);
    if (bytes == MAP_FAILED)
        return OUT_OF_MEMORY;
    *out = malloc(sizeof(**out));
    (*out)->bytes = bytes;
    (*out)->size = desc->size;
    return SUCCESS;
}

unsigned hipExternalMemoryGetMappedBuffer(void **address, struct memory *memory, const struct buffer_desc *desc) {
    must_be_current();
    if (FREES_MAPPINGS && (desc->flags || desc->offset + desc->size > memory->size))
        return INVALID_VALUE;
    if (null_from("hipExternalMemoryGetMappedBuffer")) {
        *address = NULL;
        return SUCCESS;
    }
    *address = memory->bytes + (FREES_MAPPINGS ? desc->offset : 0);
    return FREES_MAPPINGS ? note(*address) : SUCCESS;
}

unsigned hipDestroyExternalMemory(struct memory *memory) {
    must_be_current();
    munmap(memory->bytes, memory->size);
    free(memory);
    return SUCCESS;
}
#endif

#ifdef WITH_IMAGES
/* Each level is an object of its own, made at each call. */
struct image {
    unsigned live;
};

struct level {
    struct image *image;
};

unsigned hipExternalMemoryGetMappedMipmappedArray(struct image **out, struct memory *memory, const void *desc) {
    (void)memory, (void)desc;
    must_be_current();
    *out = calloc(1, sizeof(**out));
    return SUCCESS;
}

unsigned hipMipmappedArrayGetLevel(struct level **out, struct image *image, unsigned level) {
    (void)level;
    must_be_current();
    *out = malloc(sizeof(**out));
    (*out)->image = image;
    image->live++;
    return SUCCESS;
}

unsigned hipArrayDestroy(struct level *level) {
    must_be_current();
    level->image->live--;
    free(level);
    return SUCCESS;
}

unsigned hipMipmappedArrayDestroy(struct image *image) {
    must_be_current();
    if (image->live)
        abort();
    free(image);
    return SUCCESS;
}

unsigned hipDrvMemcpy3DAsync(const void *copy, void *stream) {
    (void)copy, (void)stream;
    must_be_current();
    return SUCCESS;
}

unsigned hipStreamGetCaptureInfo_v2(void *stream, unsigned *status, unsigned long long *id, void **graph, void ***nodes,
                                    size_t *count) {
    (void)stream, (void)id, (void)graph, (void)nodes, (void)count;
    must_be_current();
    *status = answer("STAND_IN_RECORDS");
    return SUCCESS;
}
#endif

/* What is allocated stays until the process ends: hipFree only forgets the address. */
unsigned hipMalloc(void **out, size_t size) {
    must_be_current();
    *out = malloc(size);
    return *out ? note(*out) : OUT_OF_MEMORY;
}

unsigned hipFree(void *address) {
    must_be_current();
    void **entry = entry_of(address);
    if (!address || !entry)
        return address ? INVALID_VALUE : SUCCESS;
    *entry = NULL;
    return SUCCESS;
}

/* External semaphores: "should not reach here". */

unsigned hipImportExternalSemaphore(void **out, const void *desc) {
    (void)out, (void)desc;
    abort();
}

unsigned hipSignalExternalSemaphoresAsync(void *const *all, const void *params, unsigned count, void *stream) {
    (void)all, (void)params, (void)count, (void)stream;
    abort();
}

unsigned hipWaitExternalSemaphoresAsync(void *const *all, const void *params, unsigned count, void *stream) {
    return hipSignalExternalSemaphoresAsync(all, params, count, stream);
}

unsigned hipDestroyExternalSemaphore(void *semaphore) {
    (void)semaphore;
    abort();
}

/* Streams, events and copies, all done at once. */

static char stream_of_all, event_of_all;

unsigned hipStreamCreateWithFlags(void **out, unsigned flags) {
    must_be_current();
    *out = null_from("hipStreamCreateWithFlags") ? NULL : &stream_of_all;
    return flags == 1 ? SUCCESS : INVALID_VALUE;
}

unsigned hipEventCreateWithFlags(void **out, unsigned flags) {
    must_be_current();
    *out = &event_of_all;
    return flags == 2 ? SUCCESS : INVALID_VALUE;
}

#define ON_STREAM(name) \
    unsigned name(void *stream) { \
        must_be_current(); \
        return stream == &stream_of_all || stream == &event_of_all ? SUCCESS : INVALID_VALUE; \
    }
ON_STREAM(hipStreamDestroy)
ON_STREAM(hipStreamSynchronize)
ON_STREAM(hipStreamQuery)
ON_STREAM(hipEventDestroy)
ON_STREAM(hipEventQuery)

unsigned hipEventRecord(void *event, void *stream) {
    (void)event;
    return hipStreamQuery(stream);
}

unsigned hipStreamWaitEvent(void *stream, void *event, unsigned flags) {
    (void)event;
    return flags ? INVALID_VALUE : hipStreamQuery(stream);
}

#define COPY(name) \
    unsigned name(void *target, void *source, size_t size, void *stream) { \
        memmove(target, source, size); \
        return hipStreamQuery(stream); \
    }
COPY(hipMemcpyDtoDAsync)
COPY(hipMemcpyDtoHAsync)
COPY(hipMemcpyHtoDAsync)

unsigned hipMemsetD8Async(void *target, unsigned char value, size_t count, void *stream) {
    memset(target, value, count);
    return hipStreamQuery(stream);
}

#ifndef WITHOUT_MEMSET
unsigned hipMemsetD32Async(void *target, int value, size_t count, void *stream) {
    for (size_t i = 0; i < count; i++)
        ((int *)target)[i] = value;
    return hipStreamQuery(stream);
}
#endif

/* Words in memory. The mask comes fifth, and 0 would make every wait end at once or never. */

unsigned hipStreamWaitValue32(void *stream, uint32_t *word, uint32_t value, unsigned flags, uint32_t mask) {
    if (answer("STAND_IN_WAIT"))
        return answer("STAND_IN_WAIT");
    if (mask != UINT32_MAX || flags > 3 || (flags == 1 && *word != value))
        return UNKNOWN;
    return hipStreamQuery(stream);
}

unsigned hipStreamWaitValue64(void *stream, uint64_t *word, uint64_t value, unsigned flags, uint64_t mask) {
    if (answer("STAND_IN_WAIT"))
        return answer("STAND_IN_WAIT");
    if (mask != UINT64_MAX || flags > 3 || (flags == 1 && *word != value))
        return UNKNOWN;
    return hipStreamQuery(stream);
}

unsigned hipStreamWriteValue32(void *stream, uint32_t *word, uint32_t value, unsigned flags) {
    *word = value;
    return flags ? INVALID_VALUE : hipStreamQuery(stream);
}

unsigned hipStreamWriteValue64(void *stream, uint64_t *word, uint64_t value, unsigned flags) {
    *word = value;
    return flags ? INVALID_VALUE : hipStreamQuery(stream);
}
