/* A mock of CUDA's driver (-DCUDA) or of AMD's runtime (-DHIP): records every call with all of its arguments, and
 * computes nothing. The backends' tests compare the record with a table made from the vendors' headers.
 *
 * Each call is a line in the file that RECORDER_LOG names: the symbol, then the arguments, structs in braces with every
 * field. Handles that it gives out are different numbers for each type of handle, so that one passed for another shows.
 * The file that RECORDER_CONTROL names, if it is there, changes what calls answer. Its lines are `fail SYMBOL CODE` and
 * `attribute NUMBER VALUE`; `attribute records 0` is a stream that records nothing.
 *
 * Two devices, whose numbers are their ordinals and 100 more.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef CUDA
#define N(cuda, hip) cuda
#else
#define N(cuda, hip) hip
#endif

#ifndef VERSION
#define VERSION N(13000, 70125424)
#endif

const int gpu_interop_simulated = 1;

enum {
    CONTEXT = 0xc1, STREAM = 0x511, EVENT = 0xe11, MEMORY = 0x3e1, MIPMAPPED = 0xa11, LEVEL = 0xa12, SURFACE = 0x5f1,
    TEXTURE = 0x7e1, SEMAPHORE = 0x5e1, MODULE = 0x301, KERNEL = 0x302, GRAPH = 0x901, EXEC = 0x902, PHYSICAL = 0x404,
    MAPPED = 0x70000000, RESERVED = 0x50000000, PINNED = 0x60000000, WORD = 0x61000000, ALLOCATED = 0x62000000,
    GRANULARITY = 65536,
};

static uintptr_t node = 0x903;
static char pinned[4096] __attribute__((aligned(4096)));

static void control(const char *wanted, const char *name, unsigned *value) {
    const char *file = getenv("RECORDER_CONTROL");
    FILE *control = file ? fopen(file, "r") : NULL;
    char what[32], key[128];
    unsigned found;
    while (control && fscanf(control, "%31s %127s %u", what, key, &found) == 3)
        if (!strcmp(what, wanted) && !strcmp(key, name)) *value = found;
    if (control) fclose(control);
}

__attribute__((format(printf, 2, 3))) static unsigned record(const char *function, const char *format, ...) {
    char line[4096];
    int length = snprintf(line, sizeof line, "%s ", function);
    va_list arguments;
    va_start(arguments, format);
    length += vsnprintf(line + length, sizeof line - 1 - (size_t)length, format, arguments);
    va_end(arguments);
    line[length++] = '\n';
    int log = open(getenv("RECORDER_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || write(log, line, (size_t)length) != length) abort();
    close(log);
    unsigned code = 0;
    control("fail", function, &code);
    return code;
}

#define RECORD(...) \
    do { \
        unsigned failed = record(__func__, __VA_ARGS__); \
        if (failed) return failed; \
    } while (0)

static const char *zeros(const void *bytes, size_t length) {
    for (size_t i = 0; i < length; i++)
        if (((const char *)bytes)[i]) return "not 0";
    return "0";
}

/* The runtime and its devices. */

unsigned N(cuInit, hipInit)(unsigned flags) {
    RECORD("%u", flags);
    return 0;
}

unsigned N(cuDriverGetVersion, hipRuntimeGetVersion)(int *version) {
    RECORD("()");
    *version = VERSION;
    return 0;
}

unsigned N(cuDeviceGetCount, hipGetDeviceCount)(int *count) {
    RECORD("()");
    *count = 2;
    return 0;
}

unsigned N(cuDeviceGet, hipDeviceGet)(int *device, int ordinal) {
    RECORD("%d", ordinal);
    *device = 100 + ordinal;
    return 0;
}

unsigned N(cuDeviceGetName, hipDeviceGetName)(char *name, int length, int device) {
    RECORD("%d %d", length, device);
    snprintf(name, (size_t)length, "recorder %d", device);
    return 0;
}

unsigned N(cuDeviceGetAttribute, hipDeviceGetAttribute)(int *value, int attribute, int device) {
    char name[16];
    snprintf(name, sizeof name, "%d", attribute);
    RECORD("%d %d", attribute, device);
    unsigned answer = 1;
    control("attribute", name, &answer);
    *value = (int)answer;
    return 0;
}

static __thread uintptr_t current;

#ifdef CUDA

unsigned cuGetErrorName(unsigned code, const char **name) {
    (void)code;
    *name = "CUDA_ERROR_RECORDED";
    return 0;
}

unsigned cuGetErrorString(unsigned code, const char **text) {
    (void)code;
    *text = "as the test asked for";
    return 0;
}

unsigned cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    RECORD("%d", device);
    for (int i = 0; i < 16; i++) uuid[i] = (unsigned char)(i + 1);
    return 0;
}

unsigned cuDeviceGetLuid(char *luid, unsigned *mask, int device) {
    RECORD("%d", device);
    memset(luid, 7, 8);
    *mask = 1;
    return 0;
}

unsigned cuDevicePrimaryCtxRetain(uintptr_t *context, int device) {
    RECORD("%d", device);
    *context = CONTEXT;
    return 0;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device) {
    RECORD("%d", device);
    return 0;
}

unsigned cuCtxGetCurrent(uintptr_t *context) {
    RECORD("()");
    *context = current;
    return 0;
}

unsigned cuCtxPushCurrent_v2(uintptr_t context) {
    RECORD("%#lx", context);
    current = context;
    return 0;
}

unsigned cuCtxPopCurrent_v2(uintptr_t *context) {
    RECORD("()");
    *context = current;
    current = 0;
    return 0;
}

unsigned cuDeviceGetNvSciSyncAttributes(uintptr_t list, int device, int flags) {
    RECORD("%#lx %d %d", list, device, flags);
    return 0;
}

struct batch_operation {
    unsigned operation, flags;
    uint64_t pad[5];
};

unsigned cuStreamBatchMemOp_v2(uintptr_t stream, unsigned count, const struct batch_operation *operations,
                               unsigned flags) {
    RECORD("%#lx %u {operation %u, flags %u, rest %s} %u", stream, count, operations->operation, operations->flags,
           zeros(operations->pad, sizeof operations->pad), flags);
    return 0;
}

unsigned cuStreamWaitValue32_v2(uintptr_t stream, uint64_t word, uint32_t value, unsigned flags) {
    RECORD("%#lx %#lx %u %u", stream, word, value, flags);
    return 0;
}

unsigned cuStreamWaitValue64_v2(uintptr_t stream, uint64_t word, uint64_t value, unsigned flags) {
    RECORD("%#lx %#lx %lu %u", stream, word, value, flags);
    return 0;
}

#else

const char *hipGetErrorName(unsigned code) {
    (void)code;
    return "hipErrorRecorded";
}

const char *hipGetErrorString(unsigned code) {
    (void)code;
    return "as the test asked for";
}

unsigned hipGetDevice(int *device) {
    RECORD("()");
    *device = (int)current;
    return 0;
}

unsigned hipSetDevice(int device) {
    RECORD("%d", device);
    current = (uintptr_t)device;
    return 0;
}

unsigned hipDeviceGetPCIBusId(char *text, int length, int device) {
    RECORD("%d %d", length, device);
    snprintf(text, (size_t)length, "0001:c3:00.0");
    return 0;
}

unsigned hipGetDevicePropertiesR0600(char *properties, int device) {
    RECORD("%d", device);
    strcpy(properties + 1160, "gfx90a:sramecc+:xnack-");
    return 0;
}

unsigned hipGetDeviceProperties(char *properties, int device) {
    RECORD("%d", device);
    strcpy(properties + 396, "gfx90a:sramecc+:xnack-");
    return 0;
}

unsigned hipExtMallocWithFlags(void **memory, size_t size, unsigned flags) {
    RECORD("%zu %u", size, flags);
    *memory = pinned;
    return 0;
}

unsigned hipMalloc(uint64_t *memory, size_t size) {
    RECORD("%zu", size);
    *memory = ALLOCATED;
    return 0;
}

unsigned hipExtStreamCreateWithCUMask(uintptr_t *stream, unsigned words, const uint32_t *mask) {
    unsigned units = 0;
    for (unsigned i = 0; i < words; i++) units += (unsigned)__builtin_popcount(mask[i]);
    RECORD("%u {units %u}", words, units);
    *stream = STREAM + 0x1000;
    return 0;
}

unsigned hipStreamWaitValue32(uintptr_t stream, uint64_t word, uint32_t value, unsigned flags, uint32_t mask) {
    RECORD("%#lx %#lx %u %u %#x", stream, word, value, flags, mask);
    return 0;
}

unsigned hipStreamWaitValue64(uintptr_t stream, uint64_t word, uint64_t value, unsigned flags, uint64_t mask) {
    RECORD("%#lx %#lx %lu %u %#lx", stream, word, value, flags, mask);
    return 0;
}

#endif

/* Streams and events. */

unsigned N(cuStreamCreate, hipStreamCreateWithFlags)(uintptr_t *stream, unsigned flags) {
    RECORD("%u", flags);
    *stream = STREAM;
    return 0;
}

unsigned N(cuStreamDestroy_v2, hipStreamDestroy)(uintptr_t stream) {
    RECORD("%#lx", stream);
    return 0;
}

unsigned N(cuStreamSynchronize, hipStreamSynchronize)(uintptr_t stream) {
    RECORD("%#lx", stream);
    return 0;
}

unsigned N(cuStreamQuery, hipStreamQuery)(uintptr_t stream) {
    RECORD("%#lx", stream);
    return 0;
}

unsigned N(cuStreamWaitEvent, hipStreamWaitEvent)(uintptr_t stream, uintptr_t event, unsigned flags) {
    RECORD("%#lx %#lx %u", stream, event, flags);
    return 0;
}

unsigned N(cuEventCreate, hipEventCreateWithFlags)(uintptr_t *event, unsigned flags) {
    RECORD("%u", flags);
    *event = EVENT;
    return 0;
}

unsigned N(cuEventDestroy_v2, hipEventDestroy)(uintptr_t event) {
    RECORD("%#lx", event);
    return 0;
}

unsigned N(cuEventRecord, hipEventRecord)(uintptr_t event, uintptr_t stream) {
    RECORD("%#lx %#lx", event, stream);
    return 0;
}

unsigned N(cuEventQuery, hipEventQuery)(uintptr_t event) {
    RECORD("%#lx", event);
    return 0;
}

/* Copies, fills, words and functions. */

unsigned N(cuMemFree_v2, hipFree)(uint64_t address) {
    if (address == (uintptr_t)pinned) RECORD("pinned");
    else RECORD("%#lx", address);
    return 0;
}

unsigned N(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(uint64_t target, uint64_t source, size_t size, uintptr_t stream) {
    RECORD("%#lx %#lx %zu %#lx", target, source, size, stream);
    return 0;
}

unsigned N(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(uintptr_t target, uint64_t source, size_t size, uintptr_t stream) {
    RECORD("%#lx %#lx %zu %#lx", target, source, size, stream);
    return 0;
}

unsigned N(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(uint64_t target, uintptr_t source, size_t size, uintptr_t stream) {
    RECORD("%#lx %s%#lx %zu %#lx", target, size == 65536 ? "values " : "", size == 65536 ? 0 : source, size, stream);
    return 0;
}

unsigned N(cuMemsetD8Async, hipMemsetD8Async)(uint64_t target, unsigned char value, size_t size, uintptr_t stream) {
    RECORD("%#lx %u %zu %#lx", target, value, size, stream);
    return 0;
}

unsigned N(cuMemsetD32Async, hipMemsetD32Async)(uint64_t target, unsigned value, size_t words, uintptr_t stream) {
    RECORD("%#lx %u %zu %#lx", target, value, words, stream);
    return 0;
}

unsigned N(cuStreamWriteValue32_v2, hipStreamWriteValue32)(uintptr_t stream, uint64_t word, uint32_t value,
                                                          unsigned flags) {
    RECORD("%#lx %#lx %u %u", stream, word, value, flags);
    return 0;
}

unsigned N(cuStreamWriteValue64_v2, hipStreamWriteValue64)(uintptr_t stream, uint64_t word, uint64_t value,
                                                          unsigned flags) {
    RECORD("%#lx %#lx %lu %u", stream, word, value, flags);
    return 0;
}

static void *registered;

unsigned N(cuMemHostRegister_v2, hipHostRegister)(void *memory, size_t size, unsigned flags) {
    RECORD("%s %zu %#x", (uintptr_t)memory % 4096 ? "part of a page" : "page", size, flags);
    registered = memory;
    return 0;
}

unsigned N(cuMemHostGetDevicePointer_v2, hipHostGetDevicePointer)(uint64_t *address, void *memory, unsigned flags) {
    RECORD("%s %u", memory == registered ? "page" : "other memory", flags);
    *address = PINNED;
    return 0;
}

unsigned N(cuMemHostUnregister, hipHostUnregister)(void *memory) {
    RECORD("%s", memory == registered ? "page" : "other memory");
    return 0;
}

unsigned N(cuLaunchHostFunc, hipLaunchHostFunc)(uintptr_t stream, void (*function)(void *), void *data) {
    RECORD("%#lx", stream);
    function(data);
    return 0;
}

/* Imported memory. */

union handle {
    int fd;
    struct {
        uintptr_t handle;
        const uint16_t *name;
    } win32;
};

/* A descriptor by what a test knows of it; a name by its letters. */
static const char *shown(const union handle *handle, int is_fd, char text[256]) {
    if (is_fd) {
        struct stat status = {0};
        int flags = fcntl(handle->fd, F_GETFD);
        if (fstat(handle->fd, &status)) status.st_size = -1;
        snprintf(text, 256, "fd of %ld bytes, close-on-exec %d, rest %s", (long)status.st_size, flags & FD_CLOEXEC,
                 zeros((const char *)handle + sizeof(int), sizeof *handle - sizeof(int)));
        return text;
    }
    int length = snprintf(text, 256, "handle %#lx", handle->win32.handle);
    if (handle->win32.name) {
        length += snprintf(text + length, 256 - (size_t)length, ", name ");
        for (const uint16_t *at = handle->win32.name; *at && length < 250; at++) text[length++] = (char)*at;
        text[length] = 0;
    }
    return text;
}

struct memory_desc {
    unsigned type;
    union handle handle;
    uint64_t size;
    unsigned flags, reserved[16];
};

unsigned N(cuImportExternalMemory, hipImportExternalMemory)(uintptr_t *memory, const struct memory_desc *desc) {
    char text[256];
    RECORD("{type %u, %s, size %lu, flags %u, reserved %s}", desc->type,
           shown(&desc->handle, desc->type == 1 || desc->type == 9, text), desc->size, desc->flags,
           zeros(desc->reserved, sizeof desc->reserved));
#ifdef CUDA
    if (desc->type == 1 || desc->type == 9) close(desc->handle.fd);
#endif
    *memory = MEMORY;
    return 0;
}

struct buffer_desc {
    uint64_t offset, size;
    unsigned flags, reserved[16];
};

unsigned N(cuExternalMemoryGetMappedBuffer, hipExternalMemoryGetMappedBuffer)(uint64_t *address, uintptr_t memory,
                                                                              const struct buffer_desc *desc) {
    RECORD("%#lx {offset %lu, size %lu, flags %u, reserved %s}", memory, desc->offset, desc->size, desc->flags,
           zeros(desc->reserved, sizeof desc->reserved));
    *address = MAPPED + desc->offset;
    return 0;
}

struct image_desc {
    uint64_t offset;
#ifdef CUDA
    struct {
        size_t extent[3];
        unsigned format, channels, flags;
    } array;
    unsigned levels, reserved[16];
#else
    int bits[4];
    unsigned kind;
    size_t extent[3];
    unsigned flags, levels;
#endif
};

unsigned N(cuExternalMemoryGetMappedMipmappedArray, hipExternalMemoryGetMappedMipmappedArray)(
    uintptr_t *array, uintptr_t memory, const struct image_desc *desc) {
#ifdef CUDA
    RECORD("%#lx {offset %lu, extent %zu %zu %zu, format %#x, channels %u, flags %#x, levels %u, reserved %s}", memory,
           desc->offset, desc->array.extent[0], desc->array.extent[1], desc->array.extent[2], desc->array.format,
           desc->array.channels, desc->array.flags, desc->levels, zeros(desc->reserved, sizeof desc->reserved));
#else
    RECORD("%#lx {offset %lu, extent %zu %zu %zu, bits %d %d %d %d, kind %u, flags %#x, levels %u}", memory,
           desc->offset, desc->extent[0], desc->extent[1], desc->extent[2], desc->bits[0], desc->bits[1], desc->bits[2],
           desc->bits[3], desc->kind, desc->flags, desc->levels);
#endif
    *array = MIPMAPPED;
    return 0;
}

unsigned N(cuDestroyExternalMemory, hipDestroyExternalMemory)(uintptr_t memory) {
    RECORD("%#lx", memory);
    return 0;
}

unsigned N(cuMipmappedArrayGetLevel, hipMipmappedArrayGetLevel)(uintptr_t *level, uintptr_t array, unsigned number) {
    RECORD("%#lx %u", array, number);
    *level = LEVEL;
    return 0;
}

unsigned N(cuMipmappedArrayDestroy, hipMipmappedArrayDestroy)(uintptr_t array) {
    RECORD("%#lx", array);
    return 0;
}

#ifdef HIP
unsigned hipArrayDestroy(uintptr_t array) {
    RECORD("%#lx", array);
    return 0;
}
#endif

struct side {
    size_t origin[3], level;
    unsigned type;
    uintptr_t host;
    uint64_t device;
    uintptr_t array;
#ifdef CUDA
    void *reserved;
#endif
    size_t pitch, height;
};

static const char *side(const struct side *side, char text[256]) {
    snprintf(text, 256,
             "{origin %zu %zu %zu, level %zu, type %u, host %#lx, device %#lx, array %#lx, pitch %zu, height %zu}",
             side->origin[0], side->origin[1], side->origin[2], side->level, side->type, side->host, side->device,
             side->array, side->pitch, side->height);
#ifdef CUDA
    if (side->reserved) abort();
#endif
    return text;
}

struct copy_desc {
    struct side source, target;
    size_t extent[3];
};

unsigned N(cuMemcpy3DAsync_v2, hipDrvMemcpy3DAsync)(const struct copy_desc *copy, uintptr_t stream) {
    char source[256], target[256];
    RECORD("from %s to %s extent %zu %zu %zu %#lx", side(&copy->source, source), side(&copy->target, target),
           copy->extent[0], copy->extent[1], copy->extent[2], stream);
    return 0;
}

/* Surfaces and textures. */

struct resource_desc {
    unsigned type;
    uint64_t array, rest[15];
    unsigned flags;
};

static const char *resource(const struct resource_desc *desc, char text[256]) {
    snprintf(text, 256, "{type %u, array %#lx, rest %s, flags %u}", desc->type, desc->array,
             zeros(desc->rest, sizeof desc->rest), desc->flags);
    return text;
}

unsigned N(cuSurfObjectCreate, hipCreateSurfaceObject)(uint64_t *surface, const struct resource_desc *desc) {
    char text[256];
    RECORD("%s", resource(desc, text));
    *surface = SURFACE;
    return 0;
}

unsigned N(cuSurfObjectDestroy, hipDestroySurfaceObject)(uint64_t surface) {
    RECORD("%#lx", surface);
    return 0;
}

struct texture_desc {
    unsigned address[3], filter, flags, anisotropy, mip_filter;
    float bias, first, last, border[4];
    int reserved[12];
};

unsigned N(cuTexObjectCreate, hipTexObjectCreate)(uint64_t *texture, const struct resource_desc *desc,
                                                  const struct texture_desc *how, const void *view) {
    char text[256];
    RECORD("%s {address %u %u %u, filter %u, flags %#x, anisotropy %u, mip filter %u, bias %g, levels %g to %g, "
           "border %g %g %g %g, reserved %s} %s",
           resource(desc, text), how->address[0], how->address[1], how->address[2], how->filter, how->flags,
           how->anisotropy, how->mip_filter, (double)how->bias, (double)how->first, (double)how->last,
           (double)how->border[0], (double)how->border[1], (double)how->border[2], (double)how->border[3],
           zeros(how->reserved, sizeof how->reserved), view ? "a view" : "no view");
    *texture = TEXTURE;
    return 0;
}

unsigned N(cuTexObjectDestroy, hipTexObjectDestroy)(uint64_t texture) {
    RECORD("%#lx", texture);
    return 0;
}

/* Semaphores. */

struct semaphore_desc {
    unsigned type;
    union handle handle;
    unsigned flags, reserved[16];
};

unsigned N(cuImportExternalSemaphore, hipImportExternalSemaphore)(uintptr_t *semaphore,
                                                                  const struct semaphore_desc *desc) {
    char text[256];
    RECORD("{type %u, %s, flags %u, reserved %s}", desc->type,
           shown(&desc->handle, desc->type == 1 || desc->type == 9, text), desc->flags,
           zeros(desc->reserved, sizeof desc->reserved));
#ifdef CUDA
    if (desc->type == 1 || desc->type == 9) close(desc->handle.fd);
#endif
    *semaphore = SEMAPHORE;
    return 0;
}

unsigned N(cuDestroyExternalSemaphore, hipDestroyExternalSemaphore)(uintptr_t semaphore) {
    RECORD("%#lx", semaphore);
    return 0;
}

struct signal_params {
    uint64_t value;
    uintptr_t fence;
    uint64_t key;
    unsigned reserved[12], flags, more[16];
};

struct wait_params {
    uint64_t value;
    uintptr_t fence;
    uint64_t key;
    unsigned timeout, reserved[11], flags, more[16];
};

static const char *signals(const uintptr_t *semaphores, const struct signal_params *params, unsigned count,
                           char text[2048]) {
    int length = 0;
    for (unsigned i = 0; i < count && length < 1800; i++)
        length += snprintf(text + length, 2048 - (size_t)length,
                           "{%#lx, value %lu, fence %#lx, key %lu, flags %u, reserved %s %s}", semaphores[i],
                           params[i].value, params[i].fence, params[i].key, params[i].flags,
                           zeros(params[i].reserved, sizeof params[i].reserved),
                           zeros(params[i].more, sizeof params[i].more));
    return text;
}

static const char *waits(const uintptr_t *semaphores, const struct wait_params *params, unsigned count,
                           char text[2048]) {
    int length = 0;
    for (unsigned i = 0; i < count && length < 1800; i++)
        length += snprintf(text + length, 2048 - (size_t)length,
                           "{%#lx, value %lu, fence %#lx, key %lu, timeout %u, flags %u, reserved %s %s}",
                           semaphores[i], params[i].value, params[i].fence, params[i].key, params[i].timeout, params[i].flags,
                           zeros(params[i].reserved, sizeof params[i].reserved),
                           zeros(params[i].more, sizeof params[i].more));
    return text;
}

unsigned N(cuSignalExternalSemaphoresAsync, hipSignalExternalSemaphoresAsync)(
    const uintptr_t *semaphores, const struct signal_params *params, unsigned count, uintptr_t stream) {
    char text[2048] = "";
    RECORD("%s %u %#lx", signals(semaphores, params, count, text), count, stream);
    return 0;
}

unsigned N(cuWaitExternalSemaphoresAsync, hipWaitExternalSemaphoresAsync)(
    const uintptr_t *semaphores, const struct wait_params *params, unsigned count, uintptr_t stream) {
    char text[2048] = "";
    RECORD("%s %u %#lx", waits(semaphores, params, count, text), count, stream);
    return 0;
}

/* Modules and graphs. */

unsigned N(cuModuleLoadData, hipModuleLoadData)(uintptr_t *module, const unsigned char *image) {
    RECORD("%02x%02x%02x%02x", image[0], image[1], image[2], image[3]);
    *module = MODULE;
    return 0;
}

unsigned N(cuModuleUnload, hipModuleUnload)(uintptr_t module) {
    RECORD("%#lx", module);
    return 0;
}

unsigned N(cuModuleGetFunction, hipModuleGetFunction)(uintptr_t *kernel, uintptr_t module, const char *name) {
    RECORD("%#lx %s", module, name);
    *kernel = KERNEL;
    return 0;
}

/* The test's kernel takes an address, two integers of 32 and 64 bits, and a float. */
unsigned N(cuLaunchKernel, hipModuleLaunchKernel)(uintptr_t kernel, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                                  unsigned by, unsigned bz, unsigned shared, uintptr_t stream,
                                                  void **params, void **extra) {
    RECORD("%#lx %u %u %u %u %u %u %u %#lx {%#lx %u %lu %g} %s", kernel, gx, gy, gz, bx, by, bz, shared, stream,
           *(uint64_t *)params[0], *(uint32_t *)params[1], *(uint64_t *)params[2], (double)*(float *)params[3],
           extra ? "extra" : "no extra");
    return 0;
}

static __thread unsigned mode;

unsigned N(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(unsigned *exchanged) {
    RECORD("%u", *exchanged);
    unsigned before = mode;
    mode = *exchanged;
    *exchanged = before;
    return 0;
}

unsigned N(cuStreamBeginCapture_v2, hipStreamBeginCapture)(uintptr_t stream, unsigned how) {
    RECORD("%#lx %u", stream, how);
    return 0;
}

unsigned N(cuStreamEndCapture, hipStreamEndCapture)(uintptr_t stream, uintptr_t *graph) {
    RECORD("%#lx", stream);
    *graph = GRAPH;
    return 0;
}

unsigned N(cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2)(
    uintptr_t stream, unsigned *status, uint64_t *id, uintptr_t *graph, const uintptr_t **nodes, size_t *count) {
    RECORD("%#lx", stream);
    unsigned records = 1;
    control("attribute", "records", &records);
    *status = records, *id = 17, *graph = GRAPH, *nodes = &node, *count = 1;
    return 0;
}

unsigned N(cuGraphInstantiateWithFlags, hipGraphInstantiateWithFlags)(uintptr_t *exec, uintptr_t graph,
                                                                      uint64_t flags) {
    RECORD("%#lx %lu", graph, flags);
    *exec = EXEC;
    return 0;
}

unsigned N(cuGraphLaunch, hipGraphLaunch)(uintptr_t exec, uintptr_t stream) {
    RECORD("%#lx %#lx", exec, stream);
    return 0;
}

unsigned N(cuGraphExecDestroy, hipGraphExecDestroy)(uintptr_t exec) {
    RECORD("%#lx", exec);
    return 0;
}

unsigned N(cuGraphDestroy, hipGraphDestroy)(uintptr_t graph) {
    RECORD("%#lx", graph);
    return 0;
}

/* The parameters of a node, and the function that changes them. */
#define SET_PARAMS(Sort, sort)                                                                                         \
    struct sort##_node {                                                                                               \
        const uintptr_t *semaphores;                                                                                   \
        const struct sort##_params *params;                                                                            \
        unsigned count;                                                                                                \
    };                                                                                                                 \
    unsigned N(cuGraphExecExternalSemaphores##Sort##NodeSetParams,                                                     \
               hipGraphExecExternalSemaphores##Sort##NodeSetParams)(uintptr_t exec, uintptr_t in,                      \
                                                                    const struct sort##_node *to) {                    \
        char text[2048] = "";                                                                                          \
        RECORD("%#lx %#lx %s %u", exec, in, sort##s(to->semaphores, to->params, to->count, text), to->count);          \
        return 0;                                                                                                      \
    }
SET_PARAMS(Signal, signal)
SET_PARAMS(Wait, wait)

/* Exportable memory. */

struct allocation {
    unsigned type, handle_types, location_type;
    int location;
    void *win32;
    char flags[8];
};

static const char *allocation(const struct allocation *of, char text[256]) {
    snprintf(text, 256, "{type %u, handle types %u, location %u %d, win32 %s, flags %s}", of->type, of->handle_types,
             of->location_type, of->location, of->win32 ? "set" : "null", zeros(of->flags, sizeof of->flags));
    return text;
}

unsigned N(cuMemGetAllocationGranularity, hipMemGetAllocationGranularity)(
    size_t *granularity, const struct allocation *of, unsigned option) {
    char text[256];
    RECORD("%s %u", allocation(of, text), option);
    *granularity = GRANULARITY;
    return 0;
}

unsigned N(cuMemCreate, hipMemCreate)(uint64_t *physical, size_t size, const struct allocation *of, uint64_t flags) {
    char text[256];
    RECORD("%zu %s %lu", size, allocation(of, text), flags);
    *physical = PHYSICAL;
    return 0;
}

unsigned N(cuMemRelease, hipMemRelease)(uint64_t physical) {
    RECORD("%#lx", physical);
    return 0;
}

unsigned N(cuMemAddressReserve, hipMemAddressReserve)(uint64_t *address, size_t size, size_t alignment, uint64_t at,
                                                      uint64_t flags) {
    RECORD("%zu %zu %#lx %lu", size, alignment, at, flags);
    *address = RESERVED;
    return 0;
}

unsigned N(cuMemAddressFree, hipMemAddressFree)(uint64_t address, size_t size) {
    RECORD("%#lx %zu", address, size);
    return 0;
}

unsigned N(cuMemMap, hipMemMap)(uint64_t address, size_t size, size_t offset, uint64_t physical, uint64_t flags) {
    RECORD("%#lx %zu %zu %#lx %lu", address, size, offset, physical, flags);
    return 0;
}

unsigned N(cuMemUnmap, hipMemUnmap)(uint64_t address, size_t size) {
    RECORD("%#lx %zu", address, size);
    return 0;
}

struct access {
    unsigned location_type;
    int location;
    unsigned flags;
};

unsigned N(cuMemSetAccess, hipMemSetAccess)(uint64_t address, size_t size, const struct access *access, size_t count) {
    RECORD("%#lx %zu {location %u %d, flags %u} %zu", address, size, access->location_type, access->location,
           access->flags, count);
    return 0;
}

/* Without close-on-exec, which drivers need not set. */
unsigned N(cuMemExportToShareableHandle, hipMemExportToShareableHandle)(int *fd, uint64_t physical, unsigned type,
                                                                        uint64_t flags) {
    RECORD("%#lx %u %lu", physical, type, flags);
    *fd = memfd_create("exported", 0);
    return ftruncate(*fd, GRANULARITY) ? 999 : 0;
}

/* The descriptor is passed as an address. */
unsigned N(cuMemImportFromShareableHandle, hipMemImportFromShareableHandle)(uint64_t *physical, void *exported,
                                                                            unsigned type) {
    struct stat status = {0};
    int fd = (int)(uintptr_t)exported;
    if (fstat(fd, &status)) status.st_size = -1;
    RECORD("fd of %ld bytes, close-on-exec %d, rest %lu, type %u", (long)status.st_size, fcntl(fd, F_GETFD) & FD_CLOEXEC,
           (uintptr_t)exported >> 32, type);
    *physical = PHYSICAL;
    return 0;
}
