/* A library that plays NVIDIA's driver, for tests on machines without one.
 *
 * It has the C interface that the CUDA backend uses, on the CPU's memory: device pointers are host pointers, streams
 * do their work at once, memory and semaphores are memory files. It misbehaves as driver 580.159.04 was measured to:
 * it takes handles of the wrong sort and sizes of any size, closes a descriptor on some failures and not on others,
 * lets timelines go backwards, and dies of a second destruction.
 *
 * Compile-time switches: DRIVER_VERSION (13000), WITHOUT_EXTERNAL (as before CUDA 10), WITHOUT_VIRTUAL_MEMORY (as
 * before CUDA 10.2), WITHOUT_MEMSET (a driver that is not whole).
 * Environment: STAND_IN_INIT is what cuInit answers, STAND_IN_VERSION what cuDriverGetVersion does,
 * STAND_IN_INTEGRATED what the question does whether the GPU is integrated; STAND_IN_NULL makes the named function
 * answer success and a null handle.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef DRIVER_VERSION
#define DRIVER_VERSION 13000
#endif

enum { SUCCESS = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_SUPPORTED = 801, UNKNOWN = 999 };

/* Says what this is: the backend reports it. */
const int gpu_interop_simulated = 1;

static int null_from(const char *function) {
    const char *named = getenv("STAND_IN_NULL");
    return named && !strcmp(named, function);
}

static unsigned answer(const char *variable) {
    const char *value = getenv(variable);
    return value ? (unsigned)strtoul(value, NULL, 10) : SUCCESS;
}

unsigned cuInit(unsigned flags) {
    return flags ? INVALID_VALUE : answer("STAND_IN_INIT");
}

unsigned cuDriverGetVersion(int *version) {
    *version = DRIVER_VERSION;
    return answer("STAND_IN_VERSION");
}

unsigned cuGetErrorName(unsigned code, const char **name) {
    switch (code) {
    case SUCCESS: *name = "CUDA_SUCCESS"; return SUCCESS;
    case INVALID_VALUE: *name = "CUDA_ERROR_INVALID_VALUE"; return SUCCESS;
    case OUT_OF_MEMORY: *name = "CUDA_ERROR_OUT_OF_MEMORY"; return SUCCESS;
    case 34: *name = "CUDA_ERROR_STUB_LIBRARY"; return SUCCESS;
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; return SUCCESS;
    case NOT_SUPPORTED: *name = "CUDA_ERROR_NOT_SUPPORTED"; return SUCCESS;
    case UNKNOWN: *name = "CUDA_ERROR_UNKNOWN"; return SUCCESS;
    default: *name = NULL; return INVALID_VALUE;
    }
}

unsigned cuGetErrorString(unsigned code, const char **text) {
    return cuGetErrorName(code, text);
}

/* Devices and contexts. */

unsigned cuDeviceGetCount(int *count) {
    *count = 1;
    return SUCCESS;
}

unsigned cuDeviceGet(int *device, int ordinal) {
    *device = 0;
    return ordinal ? INVALID_VALUE : SUCCESS;
}

unsigned cuDeviceGetName(char *name, int length, int device) {
    (void)device;
    strncpy(name, "stand-in GPU", (size_t)length);
    return SUCCESS;
}

unsigned cuDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case 18: *value = 0; return answer("STAND_IN_INTEGRATED");
    case 102: case 103: case 114: case 122: *value = 1; return SUCCESS;
    default: *value = 0; return SUCCESS;
    }
}

unsigned cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    (void)device;
    memset(uuid, 0x5a, 16);
    return SUCCESS;
}

static char context;
static __thread void *current;
static __thread void *below;

unsigned cuDevicePrimaryCtxRetain(void **out, int device) {
    (void)device;
    *out = null_from("cuDevicePrimaryCtxRetain") ? NULL : &context;
    return SUCCESS;
}

unsigned cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, SUCCESS; }

unsigned cuCtxGetCurrent(void **out) {
    *out = current;
    return SUCCESS;
}

unsigned cuCtxSetCurrent(void *to) {
    current = to;
    return SUCCESS;
}

unsigned cuCtxPushCurrent_v2(void *pushed) {
    below = current;
    current = pushed;
    return SUCCESS;
}

unsigned cuCtxPopCurrent_v2(void **popped) {
    *popped = current;
    current = below;
    return SUCCESS;
}

unsigned cuCtxSynchronize(void) {
    return SUCCESS;
}

/* Streams and events: all work is done when the call returns. */

static unsigned make(void **out, const char *function) {
    *out = null_from(function) ? NULL : malloc(1);
    return SUCCESS;
}

unsigned cuStreamCreate(void **stream, unsigned flags) {
    (void)flags;
    return make(stream, "cuStreamCreate");
}

unsigned cuStreamDestroy_v2(void *stream) {
    free(stream);
    return SUCCESS;
}

unsigned cuStreamSynchronize(void *stream) { return (void)stream, SUCCESS; }

unsigned cuStreamQuery(void *stream) { return (void)stream, SUCCESS; }

unsigned cuStreamWaitEvent(void *stream, void *event, unsigned flags) {
    return (void)stream, (void)event, (void)flags, SUCCESS;
}

unsigned cuEventCreate(void **event, unsigned flags) {
    (void)flags;
    return make(event, "cuEventCreate");
}

unsigned cuEventDestroy_v2(void *event) {
    free(event);
    return SUCCESS;
}

unsigned cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, SUCCESS; }

unsigned cuEventQuery(void *event) { return (void)event, SUCCESS; }

/* Copies and fills. */

unsigned cuMemcpyDtoDAsync_v2(uint64_t target, uint64_t source, size_t size, void *stream) {
    (void)stream;
    memcpy((void *)target, (void *)source, size);
    return SUCCESS;
}

unsigned cuMemcpyDtoHAsync_v2(void *target, uint64_t source, size_t size, void *stream) {
    return cuMemcpyDtoDAsync_v2((uint64_t)target, source, size, stream);
}

unsigned cuMemcpyHtoDAsync_v2(uint64_t target, const void *source, size_t size, void *stream) {
    return cuMemcpyDtoDAsync_v2(target, (uint64_t)source, size, stream);
}

unsigned cuMemsetD8_v2(uint64_t target, unsigned char value, size_t count) {
    memset((void *)target, value, count);
    return SUCCESS;
}

unsigned cuMemsetD8Async(uint64_t target, unsigned char value, size_t count, void *stream) {
    (void)stream;
    return cuMemsetD8_v2(target, value, count);
}

#ifndef WITHOUT_MEMSET
unsigned cuMemsetD32Async(uint64_t target, unsigned value, size_t count, void *stream) {
    (void)stream;
    for (size_t i = 0; i < count; i++) ((unsigned *)target)[i] = value;
    return SUCCESS;
}
#endif

/* Imported memory. Kept after its end, so that a second destruction is noticed. */

struct memory {
    char *base;
    uint64_t size;
    int users; /* the import, if it was not destroyed, and its mappings */
    int destroyed;
};

struct mapping {
    uint64_t address;
    struct memory *memory; /* NULL for an allocation */
    struct mapping *next;
};

static struct mapping *mappings;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(uint64_t address, struct memory *memory) {
    struct mapping *mapping = malloc(sizeof *mapping);
    mapping->address = address;
    mapping->memory = memory;
    pthread_mutex_lock(&lock);
    mapping->next = mappings;
    mappings = mapping;
    pthread_mutex_unlock(&lock);
}

static void leave(struct memory *memory) {
    if (__atomic_sub_fetch(&memory->users, 1, __ATOMIC_ACQ_REL) == 0) munmap(memory->base, memory->size);
}

unsigned cuMemAlloc_v2(uint64_t *address, size_t size) {
    *address = (uint64_t)calloc(1, size);
    remember(*address, NULL);
    return SUCCESS;
}

unsigned cuMemFree_v2(uint64_t address) {
    struct mapping *found = NULL;
    pthread_mutex_lock(&lock);
    for (struct mapping **at = &mappings; *at; at = &(*at)->next) {
        if ((*at)->address == address) {
            found = *at;
            *at = found->next;
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    if (!found) return INVALID_VALUE;
    if (found->memory) leave(found->memory);
    else free((void *)address);
    free(found);
    return SUCCESS;
}

#ifndef WITHOUT_EXTERNAL

/* As an access to a bad address does. The handler of Rust's runtime would return from a signal that is only raised. */
static void die(void) {
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

struct handle_desc { /* of memory; a semaphore's has its flags at 24 */
    unsigned type;
    union { int fd; void *pair[2]; } handle;
    uint64_t size;
    unsigned flags;
    unsigned reserved[16];
};

struct semaphore_desc {
    unsigned type;
    union { int fd; void *pair[2]; } handle;
    unsigned flags;
    unsigned reserved[16];
};

/* The file behind a descriptor, mapped and the descriptor closed; or an error, and closed as the real driver does. */
static unsigned open_file(int fd, char **base, uint64_t *size) {
    struct stat status;
    if (fstat(fd, &status)) return UNKNOWN;
    *base = MAP_FAILED;
    if (S_ISREG(status.st_mode) && status.st_size > 0)
        *base = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    *size = (uint64_t)status.st_size;
    close(fd);
    return *base == MAP_FAILED ? UNKNOWN : SUCCESS;
}

unsigned cuImportExternalMemory(void **out, const struct handle_desc *desc) {
    if (!out || !desc || !desc->size || desc->flags > 1 || desc->type < 1 || desc->type > 9) return INVALID_VALUE;
    if (desc->type != 1) return NOT_SUPPORTED;
    struct memory *memory = calloc(1, sizeof *memory);
    unsigned opened = open_file(desc->handle.fd, &memory->base, &memory->size);
    if (opened) {
        free(memory);
        return opened;
    }
    memory->users = 1;
    *out = null_from("cuImportExternalMemory") ? NULL : memory;
    return SUCCESS;
}

unsigned cuDestroyExternalMemory(struct memory *memory) {
    if (memory->destroyed) die();
    memory->destroyed = 1;
    leave(memory);
    return SUCCESS;
}

struct buffer_desc {
    uint64_t offset, size;
    unsigned flags;
    unsigned reserved[16];
};

unsigned cuExternalMemoryGetMappedBuffer(uint64_t *address, struct memory *memory, const struct buffer_desc *desc) {
    if (desc->flags || !desc->size || desc->offset >= memory->size || desc->size > memory->size - desc->offset)
        return INVALID_VALUE;
    if (null_from("cuExternalMemoryGetMappedBuffer")) {
        *address = 0;
        return SUCCESS;
    }
    __atomic_add_fetch(&memory->users, 1, __ATOMIC_ACQ_REL);
    *address = (uint64_t)(memory->base + desc->offset);
    remember(*address, memory);
    return SUCCESS;
}

struct array_desc {
    uint64_t offset;
    struct {
        size_t width, height, depth;
        unsigned format, channels, flags;
    } array;
    unsigned levels;
    unsigned reserved[16];
};

unsigned cuExternalMemoryGetMappedMipmappedArray(void **array, struct memory *memory, const struct array_desc *desc) {
    (void)array, (void)memory;
    if (!desc->levels) abort();
    return desc->levels > 15 ? INVALID_VALUE : NOT_SUPPORTED;
}

/* There is never an array to have these. */

unsigned cuMipmappedArrayGetLevel(void **level, void *array, unsigned number) {
    (void)level, (void)array, (void)number;
    return NOT_SUPPORTED;
}

unsigned cuMipmappedArrayDestroy(void *array) {
    (void)array;
    return NOT_SUPPORTED;
}

/* Semaphores: those of this project's host backend, as far as the words that are needed. */

struct words {
    uint64_t magic;
    uint32_t payload, waiters;
    uint64_t value;
    uint32_t sequence;
};

struct semaphore {
    struct words *words;
    uint64_t size;
};

static int is_host_semaphore(const struct semaphore *semaphore) {
    return semaphore->size >= sizeof(struct words) && !memcmp(semaphore->words, "gpuisem\x01", 8);
}

unsigned cuImportExternalSemaphore(void **out, const struct semaphore_desc *desc) {
    if (!out || !desc || desc->flags || desc->type < 1 || desc->type > 10) return INVALID_VALUE;
    if (desc->type != 1 && desc->type != 9) return NOT_SUPPORTED;
    struct semaphore *semaphore = calloc(1, sizeof *semaphore);
    char *base;
    unsigned opened = open_file(desc->handle.fd, &base, &semaphore->size);
    if (opened) {
        free(semaphore);
        return opened;
    }
    semaphore->words = (struct words *)base;
    *out = null_from("cuImportExternalSemaphore") ? NULL : semaphore;
    return SUCCESS;
}

unsigned cuDestroyExternalSemaphore(struct semaphore *semaphore) {
    munmap(semaphore->words, semaphore->size);
    free(semaphore);
    return SUCCESS;
}

struct params {
    uint64_t value;
    char rest[136];
};

unsigned cuSignalExternalSemaphoresAsync(struct semaphore *const *semaphores, const struct params *params,
                                         unsigned count, void *stream) {
    (void)stream;
    if (!semaphores || !params || !count) return INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (!semaphores[i]) die();
        struct words *words = semaphores[i]->words;
        if (!is_host_semaphore(semaphores[i])) continue;
        /* Backwards too. */
        __atomic_store_n(&words->value, words->payload == 1 ? 1 : params[i].value, __ATOMIC_SEQ_CST);
        /* Waiters look again by themselves, a little later. */
        __atomic_add_fetch(&words->sequence, 1, __ATOMIC_SEQ_CST);
    }
    return SUCCESS;
}

unsigned cuWaitExternalSemaphoresAsync(struct semaphore *const *semaphores, const struct params *params,
                                       unsigned count, void *stream) {
    (void)stream;
    if (!semaphores || !params || !count) return INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        if (!semaphores[i]) die();
        struct words *words = semaphores[i]->words;
        if (!is_host_semaphore(semaphores[i])) continue;
        uint64_t wanted = words->payload == 1 ? 1 : params[i].value;
        for (int turn = 0; __atomic_load_n(&words->value, __ATOMIC_SEQ_CST) < wanted; turn++) {
            if (turn == 5000) return UNKNOWN;
            usleep(1000);
        }
        if (words->payload == 1) __atomic_store_n(&words->value, 0, __ATOMIC_SEQ_CST);
    }
    return SUCCESS;
}

#endif

#ifndef WITHOUT_VIRTUAL_MEMORY
#include "stand_in_cuda_virtual_memory.h"
#endif
