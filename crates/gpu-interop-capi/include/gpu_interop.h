/*
 * gpu-interop: memory and semaphores of Vulkan, Direct3D and NvSci in CUDA, HIP or the CPU.
 *
 * Generated from the sources of the crate gpu-interop-capi. Licence: MIT OR Apache-2.0.
 *
 * Status. Every function that can fail returns a gpi_status. A failed function has changed nothing: its results are not written,
 * and handles of the operating system still belong to the caller. gpi_last_error_message() has the error of the calling thread
 * with its values and the next step.
 *
 * Handles. A gpi_* handle is a number, not an address. A null handle (all zero), a destroyed one, one of another type and an
 * arbitrary number are GPI_ERROR_INVALID_ARGUMENT, never a crash. An object lives until its handle is destroyed and nothing else
 * uses it: objects keep those alive that they were made from, and objects in use by a stream are freed when its work has
 * completed. gpi_live_handles() counts them.
 *
 * Pointers. A null or misaligned pointer is GPI_ERROR_INVALID_ARGUMENT unless the function allows null. Any other pointer must
 * point to what is documented. Structures that this library reads must be set to 0 before their fields are set.
 *
 * Threads. Every function may be called from any thread, also concurrently with the same handles. A handle that another thread
 * destroys meanwhile is either still used or invalid.
 *
 * Forks. No driver works in a child of fork(): functions that need the parent's objects fail with GPI_ERROR_SYSTEM there. The
 * child may destroy the parent's handles, without effect on the parent. Fork before the first use of this library, or call
 * exec at once.
 *
 * Functions of the application, which this library calls, must return: an exception or longjmp that leaves one ends the process.
 * A function that a stream calls (gpi_host_function) must not wait. gpi_host_function says what it may call.
 *
 * Ordering. Work on a stream is asynchronous. This library does not order Vulkan's work with a stream's: the application does,
 * by semaphores, timelines or waits on the host, and it releases and acquires ownership in Vulkan.
 */

#ifndef GPU_INTEROP_H
#define GPU_INTEROP_H


#include <stddef.h>
#include <stdint.h>
#include <string.h>

/**
 * Version of the interface: the number changes when a program compiled with an older header would not work.
 */
#define GPI_ABI_VERSION 1

/**
 * Version of this header and library, such as 0x000100 for 0.1.0: major, minor and patch, 8 bits each.
 */
#define GPI_VERSION 256

/**
 * Size that stands for all bytes up to the end of the memory.
 */
#define GPI_WHOLE_SIZE 18446744073709551615ull

/**
 * Timeout in nanoseconds that never expires.
 */
#define GPI_NO_TIMEOUT 18446744073709551615ull

/**
 * Kind of processor: not reported.
 */
#define GPI_DEVICE_UNKNOWN 0

/**
 * Kind of processor: a GPU.
 */
#define GPI_DEVICE_GPU 1

/**
 * Kind of processor: the CPU, as used by lavapipe, SwiftShader and the host backend.
 */
#define GPI_DEVICE_CPU 2

/**
 * Field of `gpi_identity` that is known: `uuid`.
 */
#define GPI_IDENTITY_UUID 1

/**
 * Field of `gpi_identity` that is known: `luid` and `luid_node_mask`.
 */
#define GPI_IDENTITY_LUID 2

/**
 * Field of `gpi_identity` that is known: the PCI address.
 */
#define GPI_IDENTITY_PCI 4

/**
 * Support: implemented by the driver.
 */
#define GPI_SUPPORT_NATIVE 0

/**
 * Support: emulated by this library.
 */
#define GPI_SUPPORT_EMULATED 1

/**
 * Not supported.
 */
#define GPI_SUPPORT_NONE 2

/**
 * Not supported by this version of the driver.
 */
#define GPI_SUPPORT_DRIVER_TOO_OLD 3

/**
 * Not supported because the driver lacks a function that its version should have.
 */
#define GPI_SUPPORT_SYMBOL_MISSING 4

/**
 * Shape: one dimension.
 */
#define GPI_SHAPE_1D 1

/**
 * Shape: layers of one dimension; `depth` is their number.
 */
#define GPI_SHAPE_1D_LAYERED 2

/**
 * Shape: two dimensions.
 */
#define GPI_SHAPE_2D 3

/**
 * Shape: layers of two dimensions; `depth` is their number.
 */
#define GPI_SHAPE_2D_LAYERED 4

/**
 * Shape: three dimensions.
 */
#define GPI_SHAPE_3D 5

/**
 * Shape: six square faces of `width`.
 */
#define GPI_SHAPE_CUBE 6

/**
 * Shape: several cubes; `depth` is their number.
 */
#define GPI_SHAPE_CUBE_LAYERED 7

/**
 * Channel: 8-bit unsigned integer.
 */
#define GPI_CHANNEL_UINT8 1

/**
 * Channel: 16-bit unsigned integer.
 */
#define GPI_CHANNEL_UINT16 2

/**
 * Channel: 32-bit unsigned integer.
 */
#define GPI_CHANNEL_UINT32 3

/**
 * Channel: 8-bit signed integer.
 */
#define GPI_CHANNEL_SINT8 4

/**
 * Channel: 16-bit signed integer.
 */
#define GPI_CHANNEL_SINT16 5

/**
 * Channel: 32-bit signed integer.
 */
#define GPI_CHANNEL_SINT32 6

/**
 * Channel: 16-bit float.
 */
#define GPI_CHANNEL_FLOAT16 7

/**
 * Channel: 32-bit float.
 */
#define GPI_CHANNEL_FLOAT32 8

/**
 * Channel: 8 bits read as 0 to 1.
 */
#define GPI_CHANNEL_UNORM8 9

/**
 * Channel: 16 bits read as 0 to 1.
 */
#define GPI_CHANNEL_UNORM16 10

/**
 * Channel: 8 bits read as -1 to 1.
 */
#define GPI_CHANNEL_SNORM8 11

/**
 * Channel: 16 bits read as -1 to 1.
 */
#define GPI_CHANNEL_SNORM16 12

/**
 * Channel: four channels in 32 bits, read as 0 to 1: ten bits each for red (the lowest), green and blue, two for alpha.
 */
#define GPI_CHANNEL_UNORM_10_10_10_2 13

/**
 * Usage of an array: kernels read and write it as a surface.
 */
#define GPI_ARRAY_SURFACE_LOAD_STORE 1

/**
 * Usage of an array: kernels gather from it.
 */
#define GPI_ARRAY_TEXTURE_GATHER 2

/**
 * Usage of an array: the exporter may render to it (`VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT`).
 */
#define GPI_ARRAY_COLOR_ATTACHMENT 4

/**
 * Kind of memory `opaque_fd`: a file descriptor from `vkGetMemoryFdKHR` with OPAQUE_FD, or of exportable memory of this
 * library.
 */
#define GPI_MEMORY_OPAQUE_FD 1

/**
 * Kind of memory `opaque_win32`: an NT handle or name from `vkGetMemoryWin32HandleKHR`.
 */
#define GPI_MEMORY_OPAQUE_WIN32 2

/**
 * Kind of memory `opaque_win32_kmt`: a KMT handle from `vkGetMemoryWin32HandleKHR`.
 */
#define GPI_MEMORY_OPAQUE_WIN32_KMT 3

/**
 * Kind of memory `d3d12_heap`: a shared `ID3D12Heap`, by NT handle or name.
 */
#define GPI_MEMORY_D3D12_HEAP 4

/**
 * Kind of memory `d3d12_resource`: a shared committed `ID3D12Resource`, by NT handle or name. Always dedicated.
 */
#define GPI_MEMORY_D3D12_RESOURCE 5

/**
 * Kind of memory `d3d11_resource`: a shared `ID3D11Resource`, by NT handle or name. Always dedicated.
 */
#define GPI_MEMORY_D3D11_RESOURCE 6

/**
 * Kind of memory `d3d11_resource_kmt`: a shared `ID3D11Resource`, by KMT handle. Always dedicated.
 */
#define GPI_MEMORY_D3D11_RESOURCE_KMT 7

/**
 * Kind of memory `nv_sci_buf`: an `NvSciBufObj`.
 */
#define GPI_MEMORY_NVSCIBUF 8

/**
 * Kind of memory `dma_buf_fd`: a dma-buf's file descriptor.
 */
#define GPI_MEMORY_DMABUF_FD 9

/**
 * Flag of `gpi_memory_import`: the allocation is dedicated (`VkMemoryDedicatedAllocateInfo`, a committed resource).
 */
#define GPI_IMPORT_DEDICATED 1

/**
 * Flag of `gpi_memory_import`: the memory is exportable memory of the importing backend itself, in this process or another.
 */
#define GPI_IMPORT_NATIVE 2

/**
 * Flag of `gpi_memory_import`: no process truncates the memory's file while it is imported. Used by the host backend.
 */
#define GPI_IMPORT_TRUSTED_PEER 4

/**
 * Flag of both import structures: `exporter` is the device that exported the object; other devices are rejected.
 */
#define GPI_IMPORT_HAS_EXPORTER 8

/**
 * Flag of `gpi_memory_import`: `image` is the only image in the memory; others are rejected when an array is mapped.
 */
#define GPI_IMPORT_HAS_IMAGE 16

/**
 * Kind of semaphore `opaque_fd`: a binary semaphore's file descriptor from `vkGetSemaphoreFdKHR` with OPAQUE_FD.
 */
#define GPI_SEMAPHORE_OPAQUE_FD 1

/**
 * Kind of semaphore `opaque_win32`: a binary semaphore's NT handle or name.
 */
#define GPI_SEMAPHORE_OPAQUE_WIN32 2

/**
 * Kind of semaphore `opaque_win32_kmt`: a binary semaphore's KMT handle.
 */
#define GPI_SEMAPHORE_OPAQUE_WIN32_KMT 3

/**
 * Kind of semaphore `d3d12_fence`: a shared `ID3D12Fence`, by NT handle or name.
 */
#define GPI_SEMAPHORE_D3D12_FENCE 4

/**
 * Kind of semaphore `d3d11_fence`: a shared `ID3D11Fence`, by NT handle or name.
 */
#define GPI_SEMAPHORE_D3D11_FENCE 5

/**
 * Kind of semaphore `nv_sci_sync`: an `NvSciSyncObj`.
 */
#define GPI_SEMAPHORE_NVSCISYNC 6

/**
 * Kind of semaphore `d3d11_keyed_mutex`: the `IDXGIKeyedMutex` of a shared resource, by the resource's NT handle or name.
 */
#define GPI_SEMAPHORE_D3D11_KEYED_MUTEX 7

/**
 * Kind of semaphore `d3d11_keyed_mutex_kmt`: the same, by the resource's KMT handle.
 */
#define GPI_SEMAPHORE_D3D11_KEYED_MUTEX_KMT 8

/**
 * Kind of semaphore `timeline_fd`: a timeline semaphore's file descriptor.
 */
#define GPI_SEMAPHORE_TIMELINE_FD 9

/**
 * Kind of semaphore `timeline_win32`: a timeline semaphore's NT handle or name.
 */
#define GPI_SEMAPHORE_TIMELINE_WIN32 10

/**
 * Use of an NvSciSync object by a device: it signals.
 */
#define GPI_NVSCISYNC_SIGNAL 1

/**
 * Use of an NvSciSync object by a device: it waits.
 */
#define GPI_NVSCISYNC_WAIT 2

/**
 * Condition: the word has reached the value, with wrap-around. HIP compares without wrap-around.
 */
#define GPI_WAIT_GREATER_OR_EQUAL 0

/**
 * Condition: the word equals the value.
 */
#define GPI_WAIT_EQUAL 1

/**
 * Condition: the word and the value have a common bit.
 */
#define GPI_WAIT_AND 2

/**
 * Condition: a bit is set neither in the word nor in the value.
 */
#define GPI_WAIT_NOR 3

/**
 * Module image: kernels built into the backend. Only the host backend has any. `data` is null.
 */
#define GPI_MODULE_BUILTIN 0

/**
 * Module image: PTX source for CUDA, which ends with NUL inside `size`.
 */
#define GPI_MODULE_PTX 1

/**
 * Module image: a cubin or fat binary for CUDA, a code object for HIP.
 */
#define GPI_MODULE_BINARY 2

/**
 * Argument: a range of device memory; the kernel gets its address, and the memory stays mapped until the kernel has
 * completed.
 */
#define GPI_ARG_RANGE 0

/**
 * Argument: a device address in `bits`, whose memory the caller keeps valid until the kernel has completed.
 */
#define GPI_ARG_ADDRESS 1

/**
 * Argument: an unsigned 8-bit integer in `bits`; also `bool`.
 */
#define GPI_ARG_U8 2

/**
 * Argument: an unsigned 16-bit integer in `bits`.
 */
#define GPI_ARG_U16 3

/**
 * Argument: an unsigned 32-bit integer in `bits`.
 */
#define GPI_ARG_U32 4

/**
 * Argument: an unsigned 64-bit integer in `bits`; also a surface or texture object.
 */
#define GPI_ARG_U64 5

/**
 * Argument: a signed 8-bit integer in `bits`.
 */
#define GPI_ARG_I8 6

/**
 * Argument: a signed 16-bit integer in `bits`.
 */
#define GPI_ARG_I16 7

/**
 * Argument: a signed 32-bit integer in `bits`.
 */
#define GPI_ARG_I32 8

/**
 * Argument: a signed 64-bit integer in `bits`.
 */
#define GPI_ARG_I64 9

/**
 * Argument: the bits of a 32-bit float in `bits`.
 */
#define GPI_ARG_F32 10

/**
 * Argument: the bits of a 64-bit float in `bits`.
 */
#define GPI_ARG_F64 11

/**
 * Argument: a structure or array, `value_size` bytes at `value`, which launching copies. It has the layout of the kernel's
 * parameter.
 */
#define GPI_ARG_VALUE 12

/**
 * Payload of a semaphore: signalled or not; one wait consumes one signal.
 */
#define GPI_PAYLOAD_BINARY 1

/**
 * Payload of a semaphore: a 64-bit counter that only grows.
 */
#define GPI_PAYLOAD_TIMELINE 2

/**
 * Strategy: native where the driver imports the timeline, else the bridge; or that of the environment variable
 * GPU_INTEROP_TIMELINE.
 */
#define GPI_TIMELINE_AUTO 0

/**
 * Strategy: the compute driver imports the timeline.
 */
#define GPI_TIMELINE_NATIVE 1

/**
 * Strategy: a host thread carries the values.
 */
#define GPI_TIMELINE_BRIDGE 2

/**
 * Log level: nothing.
 */
#define GPI_LOG_OFF 0

/**
 * Log level: failures that no function returns.
 */
#define GPI_LOG_ERROR 1

/**
 * Log level: also failures that the library works around, and driver objects that it leaks.
 */
#define GPI_LOG_WARN 2

/**
 * Log level: also the use of the host bridge where the driver cannot import a timeline.
 */
#define GPI_LOG_INFO 3

/**
 * Log level: also the selection of backends, and ignored failures.
 */
#define GPI_LOG_DEBUG 4

/**
 * Log level: also every driver call with arguments, result and duration (target "gpu_interop::driver_call").
 */
#define GPI_LOG_TRACE 5

/**
 * Placement of Vulkan memory: device-local.
 */
#define GPI_VULKAN_DEVICE_LOCAL 0

/**
 * Placement of Vulkan memory: host-visible and coherent; it stays mapped.
 */
#define GPI_VULKAN_HOST_VISIBLE 1

/**
 * Result of a function: `GPI_SUCCESS` or a `GPI_ERROR_*`. Later versions may add codes.
 */
typedef int32_t gpi_status;

/**
 * Identity of a physical device, in terms shared by Vulkan, CUDA, HIP and Direct3D. Plain data: it may be copied and sent
 * to another process. All zero is the identity of an unknown device.
 */
typedef struct gpi_identity {
    /**
     * Marketing name, UTF-8, ends with NUL. Never compared.
     */
    char name[256];
    /**
     * A `GPI_DEVICE_*`.
     */
    int32_t kind;
    /**
     * Known fields: `GPI_IDENTITY_*`.
     */
    uint32_t fields;
    /**
     * Device UUID: `VkPhysicalDeviceIDProperties::deviceUUID`, `cuDeviceGetUuid`.
     */
    uint8_t uuid[16];
    /**
     * Adapter LUID, on Windows.
     */
    uint8_t luid[8];
    /**
     * Node mask of the LUID.
     */
    uint32_t luid_node_mask;
    /**
     * PCI domain.
     */
    uint32_t pci_domain;
    /**
     * PCI bus.
     */
    uint8_t pci_bus;
    /**
     * PCI device.
     */
    uint8_t pci_device;
    /**
     * PCI function.
     */
    uint8_t pci_function;
    /**
     * Must be 0.
     */
    uint8_t reserved;
} gpi_identity;

/**
 * A loaded driver: CUDA, HIP or the CPU. All zero is the null handle, which no function accepts; the same holds for every
 * type of handle. Free it with `gpi_backend_destroy`.
 */
typedef struct gpi_backend {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_backend;

/**
 * Name and driver of a backend.
 */
typedef struct gpi_backend_info {
    /**
     * "cuda", "hip" or "host".
     */
    char name[32];
    /**
     * Driver version in the vendor's notation.
     */
    char driver[256];
    /**
     * Path of the loaded library; empty if there is none.
     */
    char library[512];
    /**
     * 1 if the driver is a simulator, a shim, a fake or a mock; else 0.
     */
    int32_t simulated;
    /**
     * Number of devices.
     */
    uint32_t device_count;
    /**
     * Backends that were tried first, one per line, each with the reason why it was not used.
     */
    char passed_over[2048];
} gpi_backend_info;

/**
 * An opened device. Objects made from it keep it open. Free it with `gpi_device_destroy`.
 */
typedef struct gpi_device {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_device;

/**
 * Properties of a device.
 */
typedef struct gpi_device_info {
    /**
     * Identity of the device.
     */
    struct gpi_identity identity;
    /**
     * "cuda", "hip" or "host".
     */
    char backend[32];
    /**
     * Architecture that compiled images must be built for, such as "gfx90a:sramecc+:xnack-"; empty if the driver compiles
     * code itself, as CUDA's does.
     */
    char architecture[128];
    /**
     * The driver's context (`CUcontext`), valid while the device is open; 0 for backends without contexts.
     */
    uint64_t context;
    /**
     * Position in the backend's order: CUDA's and HIP's device ordinal.
     */
    uint32_t ordinal;
    /**
     * 0.
     */
    uint32_t reserved;
} gpi_device_info;

/**
 * Support of a feature or a kind of handle by one device.
 */
typedef struct gpi_support {
    /**
     * A `GPI_SUPPORT_*`: supported are `GPI_SUPPORT_NATIVE` and `GPI_SUPPORT_EMULATED`.
     */
    int32_t level;
    /**
     * How it is emulated, or why it is not supported. UTF-8, ends with NUL.
     */
    char detail[508];
} gpi_support;

/**
 * An image in imported memory. It must be the exporter's image, with all of its mip levels.
 */
typedef struct gpi_array_desc {
    /**
     * Offset of the image in the imported memory, in bytes.
     */
    uint64_t offset;
    /**
     * Texels in a row of level 0.
     */
    uint64_t width;
    /**
     * Rows of level 0, for shapes of two and three dimensions; else 0.
     */
    uint64_t height;
    /**
     * Slices of three dimensions, or the number of layers or cubes; else 0.
     */
    uint64_t depth;
    /**
     * A `GPI_SHAPE_*`.
     */
    int32_t shape;
    /**
     * A `GPI_CHANNEL_*`.
     */
    int32_t channel;
    /**
     * Number of channels: 1, 2 or 4.
     */
    uint32_t channels;
    /**
     * Number of mip levels, at least 1.
     */
    uint32_t levels;
    /**
     * Number of levels in the memory layout of each layer, if that is not `levels`; else 0. The functions that export set
     * it where NVIDIA's driver needs it.
     */
    uint32_t layout_levels;
    /**
     * `GPI_ARRAY_*`, beyond sampling.
     */
    uint32_t usage;
} gpi_array_desc;

/**
 * Memory to import: a handle and the exporter's description of it. Set everything to 0 first. The functions that export
 * fill it completely, so that it can be imported as it is, or sent to another process with its handle.
 *
 * The description must be true: drivers cannot check it, and crash or corrupt memory otherwise. The handle refers to
 * memory of the API that `kind` names; the size is that of the exporter's allocation; the flags are the exporter's.
 */
typedef struct gpi_memory_import {
    /**
     * A `GPI_MEMORY_*`.
     */
    int32_t kind;
    /**
     * `GPI_IMPORT_*`.
     */
    uint32_t flags;
    /**
     * Size of the exporter's allocation in bytes (`VkMemoryAllocateInfo::allocationSize`), not of the payload.
     */
    uint64_t size;
    /**
     * The file descriptor, for kinds that are file descriptors. A successful import owns it and sets this to -1.
     */
    int32_t fd;
    /**
     * Must be 0.
     */
    uint32_t reserved;
    /**
     * The NT handle, the KMT handle or the NvSciBufObj. A successful import owns an NT handle and sets this to null; the
     * caller keeps KMT handles, which are not owned, and NvSciBufObjs, which must live as long as the import.
     */
    void *object;
    /**
     * Instead of an NT handle: the object's name, UTF-16, ends with NUL. Borrowed for the call. The caller keeps the object
     * alive until the import has returned.
     */
    const uint16_t *name;
    /**
     * The exporting device, with `GPI_IMPORT_HAS_EXPORTER`.
     */
    struct gpi_identity exporter;
    /**
     * The image in the memory, with `GPI_IMPORT_HAS_IMAGE`.
     */
    struct gpi_array_desc image;
} gpi_memory_import;

/**
 * Imported memory. Its buffers and arrays keep it alive. Free it with `gpi_memory_destroy`.
 */
typedef struct gpi_memory {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_memory;

/**
 * A semaphore to import: a handle and the exporter's description of it. Set everything to 0 first. The functions that export
 * fill it completely. The description must be true, as that of `gpi_memory_import`.
 */
typedef struct gpi_semaphore_import {
    /**
     * A `GPI_SEMAPHORE_*`.
     */
    int32_t kind;
    /**
     * 0 or `GPI_IMPORT_HAS_EXPORTER`.
     */
    uint32_t flags;
    /**
     * The file descriptor, for kinds that are file descriptors. A successful import owns it and sets this to -1.
     */
    int32_t fd;
    /**
     * Must be 0.
     */
    uint32_t reserved;
    /**
     * The NT handle, the KMT handle or the NvSciSyncObj, owned as in `gpi_memory_import`.
     */
    void *object;
    /**
     * Instead of an NT handle: the object's name, UTF-16, ends with NUL. Borrowed for the call.
     */
    const uint16_t *name;
    /**
     * The exporting device, with `GPI_IMPORT_HAS_EXPORTER`.
     */
    struct gpi_identity exporter;
} gpi_semaphore_import;

/**
 * An imported semaphore. Free it with `gpi_semaphore_destroy`.
 */
typedef struct gpi_semaphore {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_semaphore;

/**
 * Properties of imported memory.
 */
typedef struct gpi_memory_info {
    /**
     * Size of the import in bytes.
     */
    uint64_t size;
    /**
     * The driver's object (`CUexternalMemory`), valid while the memory or a mapping of it lives.
     */
    uint64_t raw;
    /**
     * The `GPI_MEMORY_*` of the imported handle.
     */
    int32_t kind;
    /**
     * 1 if the exporter declared the image in the memory, else 0.
     */
    int32_t has_image;
    /**
     * The image in the memory, if it is declared: pass it to `gpi_memory_map_array`.
     */
    struct gpi_array_desc image;
} gpi_memory_info;

/**
 * Linear device memory: a mapped range of imported memory, exportable memory, or memory of the application. Free it with
 * `gpi_buffer_destroy`.
 */
typedef struct gpi_buffer {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_buffer;

/**
 * An image in imported memory, mapped as a mipmapped array. Free it with `gpi_array_destroy`.
 */
typedef struct gpi_array {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_array;

/**
 * Called once, when the library no longer uses an object of the application; on any thread, also one of the library. May
 * be null. It must not call a GPU API or wait for one.
 */
typedef void (*gpi_release_function)(void *data);

/**
 * Properties of a buffer.
 */
typedef struct gpi_buffer_info {
    /**
     * Device address of the first byte (`CUdeviceptr`), valid while the buffer lives. On the host backend, a pointer.
     */
    uint64_t address;
    /**
     * Size in bytes. Of exportable memory: at least the requested size; its importer must pass this size.
     */
    uint64_t size;
    /**
     * Offset in the imported memory, in bytes; 0 for other buffers.
     */
    uint64_t offset;
    /**
     * 1 if the exporter allows reads only, else 0.
     */
    int32_t read_only;
    /**
     * 1 if `gpi_buffer_export` works, else 0.
     */
    int32_t exportable;
} gpi_buffer_info;

/**
 * Properties of one mip level of an array.
 */
typedef struct gpi_array_level_info {
    /**
     * The driver's array of the level (`CUarray`), valid while the array lives; owned by it.
     */
    uint64_t raw;
    /**
     * Texels in each dimension; the third counts slices, layers, or the faces of cubes.
     */
    uint64_t extent[3];
    /**
     * Size of all texels without gaps, in bytes.
     */
    uint64_t size;
} gpi_array_level_info;

/**
 * A queue of work that runs in order, asynchronously to the host. Free it with `gpi_stream_destroy`.
 */
typedef struct gpi_stream {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_stream;

/**
 * A range of linear device memory, the operand of copies, fills and kernels.
 */
typedef struct gpi_range {
    /**
     * The memory.
     */
    struct gpi_buffer buffer;
    /**
     * Offset of the first byte.
     */
    uint64_t offset;
    /**
     * Size in bytes, at least 1. `GPI_WHOLE_SIZE` is everything from `offset` on.
     */
    uint64_t size;
} gpi_range;

/**
 * Function of the application that a stream calls on a thread of the driver. It may destroy handles, and signal timelines by
 * `gpi_timeline_signal`. It must not call other functions of this library or a compute driver, must not wait for other work,
 * and must not unwind: drivers share the thread among streams. `gpi_stream_synchronize` and the blocking reads and writes fail
 * in it with `GPI_ERROR_INVALID_ARGUMENT`, because they would never end.
 */
typedef void (*gpi_host_function)(void *data);

/**
 * A marker in a stream's work. Free it with `gpi_event_destroy`.
 */
typedef struct gpi_event {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_event;

/**
 * Texels in linear memory, row by row and slice by slice.
 */
typedef struct gpi_texels {
    /**
     * The memory.
     */
    struct gpi_range range;
    /**
     * Bytes from row to row (`VkSubresourceLayout::rowPitch`). 0, with `rows` of 0: no gaps, and the range has exactly the
     * size of the region.
     */
    uint64_t row_pitch;
    /**
     * Rows from slice to slice.
     */
    uint64_t rows;
} gpi_texels;

/**
 * A box of texels in one mip level.
 */
typedef struct gpi_array_region {
    /**
     * The array.
     */
    struct gpi_array array;
    /**
     * The mip level.
     */
    uint32_t level;
    /**
     * Must be 0.
     */
    uint32_t reserved;
    /**
     * First texel; the third dimension counts slices, layers, or the faces of cubes.
     */
    uint64_t offset[3];
    /**
     * Texels in each dimension. All 0 is the whole level; `offset` must then be 0.
     */
    uint64_t extent[3];
} gpi_array_region;

/**
 * A loaded module of kernels. Free it with `gpi_module_destroy`.
 */
typedef struct gpi_module {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_module;

/**
 * A kernel, which keeps its module loaded. Free it with `gpi_kernel_destroy`.
 */
typedef struct gpi_kernel {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_kernel;

/**
 * Grid, block and dynamic shared memory of a launch.
 */
typedef struct gpi_launch_config {
    /**
     * Blocks in each dimension, at least 1.
     */
    uint32_t grid[3];
    /**
     * Threads per block in each dimension, at least 1.
     */
    uint32_t block[3];
    /**
     * Dynamic shared memory per block, in bytes.
     */
    uint32_t shared_memory;
} gpi_launch_config;

/**
 * A kernel argument, passed by value. The functions `gpi_arg_*` of this header make them.
 */
typedef struct gpi_kernel_arg {
    /**
     * A `GPI_ARG_*`.
     */
    int32_t kind;
    /**
     * Alignment of the structure of `GPI_ARG_VALUE`: 1, 2, 4, 8 or 16 bytes.
     */
    uint32_t value_alignment;
    /**
     * The value; the low bits of a narrower type.
     */
    uint64_t bits;
    /**
     * The range of `GPI_ARG_RANGE`.
     */
    struct gpi_range range;
    /**
     * The structure of `GPI_ARG_VALUE`, borrowed for the launch.
     */
    const void *value;
    /**
     * Its size in bytes: a multiple of the alignment, at most 64 times.
     */
    size_t value_size;
} gpi_kernel_arg;

/**
 * One signal or wait. Its meaning follows from the kind of the imported semaphore; unused fields are ignored.
 */
typedef struct gpi_semaphore_op {
    /**
     * The semaphore.
     */
    struct gpi_semaphore semaphore;
    /**
     * Timeline semaphores and fences: the value. Keyed mutexes: the key.
     */
    uint64_t value;
    /**
     * Waits for a keyed mutex: the timeout in nanoseconds, rounded up to milliseconds; `GPI_NO_TIMEOUT` for none.
     */
    uint64_t timeout_ns;
    /**
     * NvSciSync: the `NvSciSyncFence` to write (signal) or to wait for, valid during the call.
     */
    void *fence;
    /**
     * NvSciSync: 1 skips the synchronisation of NvSciBuf imports, else 0.
     */
    int32_t skip_memsync;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} gpi_semaphore_op;

/**
 * The exporter's side of a semaphore: Vulkan's, the host backend's, or one behind callbacks of the application. Free it
 * with `gpi_exported_semaphore_destroy`.
 */
typedef struct gpi_exported_semaphore {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_exported_semaphore;

/**
 * A timeline of another API, which the application implements: a counter that only grows. A bridge carries its values
 * between the API and streams. The functions may be called on any thread, also concurrently; they must not call this
 * library or the compute driver, and none but `wait` may block.
 */
typedef struct gpi_timeline_functions {
    /**
     * Passed to each function.
     */
    void *data;
    /**
     * Writes the current value to `*value`. Returns a `gpi_status`: an error is permanent.
     */
    gpi_status (*value)(void *data, uint64_t *value);
    /**
     * Raises the counter to `value` from the host.
     */
    gpi_status (*signal)(void *data, uint64_t value);
    /**
     * Blocks until the counter is at least `value`, or `timeout_ns` nanoseconds have passed: `GPI_ERROR_TIMEOUT`.
     */
    gpi_status (*wait)(void *data, uint64_t value, uint64_t timeout_ns);
    /**
     * Called once, when the library no longer uses the timeline. May be null.
     */
    gpi_release_function release;
} gpi_timeline_functions;

/**
 * A counter that streams and an exporter share. Free it with `gpi_timeline_destroy`.
 */
typedef struct gpi_timeline {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_timeline;

/**
 * Called for each message, on any thread, including threads of the driver. `target` is the Rust module, or
 * "gpu_interop::driver_call"; `message` is the text, followed by its values as " name=value". Both are UTF-8 and valid during
 * the call only. The function must not call this library.
 */
typedef void (*gpi_log_function)(int32_t level, const char *target, const char *message, void *data);

/**
 * The application's Vulkan objects.
 */
typedef struct gpi_vulkan_device {
    /**
     * `VkInstance`, created for Vulkan 1.1 or later (`VkApplicationInfo::apiVersion`).
     */
    void *instance;
    /**
     * `VkPhysicalDevice` of the instance.
     */
    void *physical_device;
    /**
     * `VkDevice` of the physical device, with the extensions of `gpi_vulkan_get_extension`. For timelines it has the feature
     * `timelineSemaphore`, of Vulkan 1.2 or `VK_KHR_timeline_semaphore`; the library cannot query enabled features. Ignored
     * by `gpi_vulkan_get_physical_device_identity`.
     */
    void *device;
    /**
     * `vkGetInstanceProcAddr`, cast. Null: that of the system's Vulkan loader.
     */
    void (*get_instance_proc_addr)(void);
} gpi_vulkan_device;

/**
 * The application's Vulkan device. Free it with `gpi_vulkan_destroy`.
 */
typedef struct gpi_vulkan {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_vulkan;

/**
 * Vulkan's side of a transfer of ownership: the queue family and Vulkan's accesses.
 */
typedef struct gpi_vulkan_transfer {
    /**
     * The family of the queue that the command buffer is submitted to.
     */
    uint32_t queue_family;
    /**
     * `VkPipelineStageFlags` of the accesses before a release, or after an acquire. 0, with `access` of 0: all commands and
     * all memory accesses, always correct and rarely slower.
     */
    uint32_t stages;
    /**
     * `VkAccessFlags` of the accesses before a release, or after an acquire. A release needs its writes only; reads may be
     * named too, and add nothing.
     */
    uint32_t access;
} gpi_vulkan_transfer;

/**
 * An exportable image of Vulkan. Free it with `gpi_vulkan_image_destroy`.
 */
typedef struct gpi_vulkan_image {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_vulkan_image;

/**
 * Properties of a buffer to create. Set everything to 0 first.
 */
typedef struct gpi_vulkan_buffer_options {
    /**
     * Size in bytes. The allocation may be larger.
     */
    uint64_t size;
    /**
     * `VkBufferUsageFlags`.
     */
    uint32_t usage;
    /**
     * 1 requests a dedicated allocation, 0 leaves it to the driver.
     */
    int32_t dedicated;
    /**
     * `GPI_VULKAN_DEVICE_LOCAL` or `GPI_VULKAN_HOST_VISIBLE`.
     */
    int32_t placement;
    /**
     * The `GPI_MEMORY_*` of the exports; 0 is an opaque fd, on Windows an NT handle.
     */
    int32_t kind;
} gpi_vulkan_buffer_options;

/**
 * An exportable buffer of Vulkan. Free it with `gpi_vulkan_buffer_destroy`.
 */
typedef struct gpi_vulkan_buffer {
    /**
     * Number of the object.
     */
    uint64_t id;
} gpi_vulkan_buffer;

/**
 * Properties of a Vulkan buffer or image.
 */
typedef struct gpi_vulkan_memory_info {
    /**
     * `VkBuffer` or `VkImage`, valid while the object lives.
     */
    uint64_t object;
    /**
     * `VkDeviceMemory`, valid while the object lives.
     */
    uint64_t memory;
    /**
     * Size of the allocation in bytes, which an importer needs.
     */
    uint64_t allocation_size;
    /**
     * Offset of the object in its memory, in bytes.
     */
    uint64_t offset;
    /**
     * Address of the first byte of host-visible memory; else null.
     */
    void *mapped;
    /**
     * 1 if the allocation is dedicated, else 0.
     */
    int32_t dedicated;
    /**
     * 0.
     */
    uint32_t reserved;
} gpi_vulkan_memory_info;

/**
 * Properties of an image to create. Set everything to 0 first. The enums and flags are those of Vulkan.
 */
typedef struct gpi_vulkan_image_options {
    /**
     * `VkImageViewType`: dimensions, cube, array of these.
     */
    int32_t view;
    /**
     * `VkFormat`.
     */
    int32_t format;
    /**
     * Width, height and depth of level 0 in texels. An unused dimension is 1.
     */
    uint32_t extent[3];
    /**
     * Number of array layers; six per cube. 0 is 1, or 6 for a cube.
     */
    uint32_t layers;
    /**
     * Number of mip levels. 0 is 1.
     */
    uint32_t levels;
    /**
     * `VkImageUsageFlags`.
     */
    uint32_t usage;
    /**
     * `VkImageTiling`: `OPTIMAL` (0), mapped as an array, or `LINEAR` (1), mapped as a buffer.
     */
    int32_t tiling;
    /**
     * `VkImageCreateFlags` beside those of the view: `MUTABLE_FORMAT`, `2D_ARRAY_COMPATIBLE`.
     */
    uint32_t flags;
    /**
     * Minimum offset of the image in its memory, in bytes.
     */
    uint64_t offset;
    /**
     * 1 requests a dedicated allocation, 0 leaves it to the driver.
     */
    int32_t dedicated;
    /**
     * `GPI_VULKAN_DEVICE_LOCAL` or `GPI_VULKAN_HOST_VISIBLE`.
     */
    int32_t placement;
    /**
     * The `GPI_MEMORY_*` of the exports; 0 is an opaque fd, on Windows an NT handle.
     */
    int32_t kind;
    /**
     * Must be 0.
     */
    uint32_t reserved;
} gpi_vulkan_image_options;

/**
 * Layout of one mip level and layer of an image with linear tiling, with the image's offset in its memory.
 */
typedef struct gpi_vulkan_row_layout {
    /**
     * Offset of the first texel in the memory, in bytes.
     */
    uint64_t offset;
    /**
     * Bytes from row to row.
     */
    uint64_t row_pitch;
    /**
     * Bytes from slice to slice of an image of three dimensions; else 0.
     */
    uint64_t depth_pitch;
    /**
     * Bytes from layer to layer of an image with several layers; else 0.
     */
    uint64_t array_pitch;
    /**
     * Size in bytes, with padding.
     */
    uint64_t size;
} gpi_vulkan_row_layout;

/**
 * The function did what it says.
 */
#define GPI_SUCCESS 0

/**
 * No driver library could be loaded; the message lists every path tried with the reason of its failure.
 */
#define GPI_ERROR_DRIVER_NOT_FOUND 1

/**
 * The driver is older than the operation requires.
 */
#define GPI_ERROR_DRIVER_TOO_OLD 2

/**
 * The driver library lacks a function that the operation requires.
 */
#define GPI_ERROR_SYMBOL_MISSING 3

/**
 * The driver has no usable device.
 */
#define GPI_ERROR_NO_DEVICE 4

/**
 * The handle was exported by another device than the importing one; the message has both.
 */
#define GPI_ERROR_DEVICE_MISMATCH 5

/**
 * The operating system, backend or device lacks this feature. Permanent: retrying does not help.
 */
#define GPI_ERROR_UNSUPPORTED 6

/**
 * The request violates a documented rule: a null pointer, a null or freed handle, a range past the end. Detected before
 * the driver is called.
 */
#define GPI_ERROR_INVALID_ARGUMENT 7

/**
 * The request is valid, but the driver rejected the handle.
 */
#define GPI_ERROR_IMPORT_REJECTED 8

/**
 * The requirements of several users of one object conflict; the message lists them.
 */
#define GPI_ERROR_RECONCILIATION_FAILED 9

/**
 * Host or device memory ran out.
 */
#define GPI_ERROR_OUT_OF_MEMORY 10

/**
 * A bounded wait timed out. The wait may be repeated.
 */
#define GPI_ERROR_TIMEOUT 11

/**
 * The work was abandoned because its device was closed, or a timeline failed: abandoned, or its watched process ended.
 */
#define GPI_ERROR_CANCELLED 12

/**
 * A timeline had passed the value before the stream signalled it, so waits for the value ended too early. Use one
 * timeline for each direction.
 */
#define GPI_ERROR_OVERTAKEN 13

/**
 * A host function enqueued on a stream panicked.
 */
#define GPI_ERROR_HOST_FUNCTION_PANICKED 14

/**
 * A call of the operating system failed (descriptor limit, mapping limit, ...).
 */
#define GPI_ERROR_SYSTEM 15

/**
 * The driver reports that no work runs on the device any more. Every later operation fails; most drivers require a new
 * process.
 */
#define GPI_ERROR_DEVICE_LOST 16

/**
 * A driver failure without a more specific code; see `gpi_last_error_driver_code`.
 */
#define GPI_ERROR_DRIVER 17

/**
 * A defect of this library: a panic inside it. Report it with the message.
 */
#define GPI_ERROR_INTERNAL 1000

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns `GPI_ABI_VERSION` of the loaded library. Compare it with the header's before any other call.
 */
uint32_t gpi_abi_version(void);

/**
 * Returns `GPI_VERSION` of the loaded library.
 */
uint32_t gpi_version(void);

/**
 * Returns the name of a status code in English, such as "device mismatch"; "unknown status" for other numbers. The text
 * is static: it is never freed.
 */
const char *gpi_status_name(gpi_status status);

/**
 * Returns the status of the calling thread's last failed function; `GPI_SUCCESS` if none has failed. Successful functions
 * do not change it.
 */
gpi_status gpi_last_error_status(void);

/**
 * Returns the full message of the calling thread's last failure: the operation, the driver's code, the values involved,
 * the next step, and the causes on further lines. UTF-8; empty if no function has failed.
 *
 * The text belongs to the library and is valid until the next failure on this thread, or the thread's end.
 */
const char *gpi_last_error_message(void);

/**
 * Returns the sentence of `gpi_last_error_message` without operation, code and values. Valid as long as that.
 */
const char *gpi_last_error_reason(void);

/**
 * Returns the function that failed: the driver's function where one was called (`cuImportExternalMemory`), else one of this
 * library. Valid as long as the result of `gpi_last_error_message`.
 */
const char *gpi_last_error_operation(void);

/**
 * Returns 1 and writes the driver's code of the calling thread's last failure to `*code`; returns 0, and writes nothing,
 * if the failure has none. `code` may be null.
 *
 * Requires: `code` is null, or points to an `int64_t`.
 */
int32_t gpi_last_error_driver_code(int64_t *code);

/**
 * Returns the driver's name of that code (`CUDA_ERROR_INVALID_VALUE`); empty if it has none. Valid as long as the result of
 * `gpi_last_error_message`.
 */
const char *gpi_last_error_driver_code_name(void);

/**
 * Returns the number of live handles of this process, for leak checks: 0 if every handle was destroyed.
 */
size_t gpi_live_handles(void);

/**
 * Writes the identity of the device with a UUID to `*identity`, for `gpi_device_open_matching` and `gpi_device_open_for`:
 * 32 hexadecimal digits with or without dashes, or the text of `nvidia-smi -L` (`GPU-...`, `MIG-...`). Other fields are
 * unknown.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for another text, or one of zeros.
 *
 * Requires: `text` is null or a text that ends with NUL.
 */
gpi_status gpi_identity_from_uuid(const char *text,
                                  struct gpi_identity *identity);

/**
 * Loads a backend that has at least one device, and writes it to `*backend`, owned by the caller.
 *
 * `name` is "cuda", "hip", "host" or "auto" (the first that has a device; the CPU last). A null `name` reads the environment
 * variable GPU_INTEROP_BACKEND, and is "auto" if that is not set.
 *
 * The CPU never replaces a GPU silently: `passed_over` of `gpi_backend_get_info` has the backends that were tried first, with
 * their reasons, and each one whose driver is there but failed is a message of level `GPI_LOG_WARN`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for another name; `GPI_ERROR_NO_DEVICE` with every backend that was tried; for a
 * named backend the error of loading it.
 *
 * Requires: `name` is null or a text that ends with NUL.
 */
gpi_status gpi_backend_load(const char *name,
                            struct gpi_backend *backend);

/**
 * Describes a backend.
 */
gpi_status gpi_backend_get_info(struct gpi_backend backend, struct gpi_backend_info *info);

/**
 * Writes the identity of the device at `ordinal`, counted from 0, in the driver's order.
 *
 * Errors: `GPI_ERROR_NO_DEVICE` if there is no such device.
 */
gpi_status gpi_backend_get_device(struct gpi_backend backend,
                                  uint32_t ordinal,
                                  struct gpi_identity *identity);

/**
 * Destroys the handle. Devices opened through it stay open.
 */
gpi_status gpi_backend_destroy(struct gpi_backend backend);

/**
 * Opens the device at `ordinal`, counted from 0, and writes it to `*device`, owned by the caller.
 *
 * Errors: `GPI_ERROR_NO_DEVICE` if there is no such device; otherwise the driver's error.
 */
gpi_status gpi_device_open(struct gpi_backend backend, uint32_t ordinal, struct gpi_device *device);

/**
 * Opens the device of a backend that `identity` describes, and writes it to `*device`, owned by the caller.
 *
 * Errors: `GPI_ERROR_NO_DEVICE` if no device is known to be the same; the message lists the available devices.
 */
gpi_status gpi_device_open_matching(struct gpi_backend backend,
                                    const struct gpi_identity *identity,
                                    struct gpi_device *device);

/**
 * Opens the device that `exporter` describes on the backend that supports it: an NVIDIA GPU through CUDA, an AMD GPU through
 * HIP, a CPU renderer's device on the CPU. The environment variable GPU_INTEROP_BACKEND restricts the backends. Writes it to
 * `*device`, owned by the caller.
 *
 * Errors: `GPI_ERROR_NO_DEVICE` if no backend has the device; the message has the failure of each backend.
 */
gpi_status gpi_device_open_for(const struct gpi_identity *exporter,
                               struct gpi_device *device);

/**
 * Describes a device.
 */
gpi_status gpi_device_get_info(struct gpi_device device, struct gpi_device_info *info);

/**
 * Frees objects that were destroyed while work used them and whose work has completed. Called implicitly when an object is
 * destroyed and when a stream is created or synchronised. Needed only for the release functions of borrowed objects.
 */
gpi_status gpi_device_collect(struct gpi_device device);

/**
 * Destroys the handle. The device is closed with the last object made from it. The destruction of that one waits for pending
 * work: after a second it is cancelled, and after another one its objects are leaked.
 */
gpi_status gpi_device_destroy(struct gpi_device device);

/**
 * Writes the support of a capability, by name:
 *
 * * "memory." and the name of a kind, for imports, which the documentation of each `GPI_MEMORY_*` begins with:
 *   "memory.opaque_fd";
 * * "semaphore." and the name of a kind, as at each `GPI_SEMAPHORE_*`;
 * * "feature." and `mapped_buffer`, `mapped_mipmapped_array`, `surfaces`, `textures`, `exportable_memory`,
 *   `stream_memory_operations32`, `stream_memory_operations64`, `signal_memory`, `host_functions`, `kernels`, `graphs`,
 *   `graph_kernels`, `graph_semaphores`, `graph_memory_operations`, `named_memory`, `named_semaphores`,
 *   `nv_sci_sync_attributes`;
 * * "timeline": timelines of the system's usual kind, natively or over the bridge.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for another name.
 *
 * Requires: `name` is null or a text that ends with NUL.
 */
gpi_status gpi_device_get_support(struct gpi_device device,
                                  const char *name,
                                  struct gpi_support *support);

/**
 * Writes the driver defect at `index`, counted from 0, that the backend cannot work around, as one sentence, to `text` of
 * `capacity` bytes, and ends it with NUL; a longer one loses its end. 1,024 bytes suffice.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if there are no more.
 *
 * Requires: `text` is null, or points to `capacity` bytes.
 */
gpi_status gpi_device_get_known_defect(struct gpi_device device,
                                       uint32_t index,
                                       char *text,
                                       size_t capacity);

/**
 * Imports memory that another API exported, and writes it to `*memory`, owned by the caller.
 *
 * On success the import owns the handle: `import->fd` is set to -1, or `import->object` of an NT handle to null. On failure
 * the structure is unchanged, and the handle is open and belongs to the caller.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED`, `GPI_ERROR_INVALID_ARGUMENT` (size 0, a closed descriptor, a file that is no memory) and
 * `GPI_ERROR_DEVICE_MISMATCH` are detected before the driver is called; `GPI_ERROR_IMPORT_REJECTED` comes from the driver.
 *
 * Requires: The description is true (`gpi_memory_import`). No other thread closes the handle meanwhile.
 */
gpi_status gpi_device_import_memory(struct gpi_device device,
                                    struct gpi_memory_import *import,
                                    struct gpi_memory *memory);

/**
 * Closes the handle of a description that was not imported: a file descriptor or an NT handle, which the caller owns. Sets
 * `fd` to -1 and `object` to null. A description without a handle is unchanged.
 *
 * Requires: The handle is open, or there is none, and nothing else closes it.
 */
gpi_status gpi_memory_import_close(struct gpi_memory_import *import);

/**
 * Imports a semaphore that another API exported, and writes it to `*semaphore`, owned by the caller. The handle is owned as
 * by `gpi_device_import_memory`: by the import on success, by the caller on failure.
 *
 * Errors: as `gpi_device_import_memory`.
 *
 * Requires: The description is true (`gpi_semaphore_import`). No other thread closes the handle meanwhile.
 */
gpi_status gpi_device_import_semaphore(struct gpi_device device,
                                       struct gpi_semaphore_import *import,
                                       struct gpi_semaphore *semaphore);

/**
 * Closes the handle of a description that was not imported, as `gpi_memory_import_close`.
 *
 * Requires: The handle is open, or there is none, and nothing else closes it.
 */
gpi_status gpi_semaphore_import_close(struct gpi_semaphore_import *import);

/**
 * Fills an unreconciled `NvSciSyncAttrList` with the requirements of the device (`cuDeviceGetNvSciSyncAttributes`). `uses` are
 * `GPI_NVSCISYNC_*`: every later use of the object. The caller keeps the list, also after a failure.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where the device lacks NvSciSync; `GPI_ERROR_INVALID_ARGUMENT` for a null list or no uses;
 * otherwise the driver's error.
 *
 * Requires: The list is valid, and nothing else uses it during the call.
 */
gpi_status gpi_device_fill_nvscisync_attributes(struct gpi_device device,
                                                void *list,
                                                uint32_t uses);

/**
 * Describes imported memory.
 */
gpi_status gpi_memory_get_info(struct gpi_memory memory, struct gpi_memory_info *info);

/**
 * Maps `size` bytes at `offset` as linear device memory, and writes the mapping to `*buffer`, owned by the caller. A size of
 * `GPI_WHOLE_SIZE` is everything from `offset` on. The buffer keeps the import alive.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the range is empty or past the end, or contains an image of optimal tiling that the
 * exporter declared, whose bytes are not rows of texels; `GPI_ERROR_UNSUPPORTED`; otherwise the driver's error.
 */
gpi_status gpi_memory_map_buffer(struct gpi_memory memory,
                                 uint64_t offset,
                                 uint64_t size,
                                 struct gpi_buffer *buffer);

/**
 * Maps `size` bytes at `offset` of memory that contains an image of optimal tiling, as the driver stores them: neither rows of
 * texels nor the same on every device. Otherwise as `gpi_memory_map_buffer`.
 *
 * Errors: those of `gpi_memory_map_buffer`, but for the image.
 */
gpi_status gpi_memory_map_image_bytes(struct gpi_memory memory,
                                      uint64_t offset,
                                      uint64_t size,
                                      struct gpi_buffer *buffer);

/**
 * Maps an image as a mipmapped array, and writes it to `*array`, owned by the caller. The array keeps the import alive.
 *
 * `desc` must be the exporter's image: drivers cannot check it. It is checked against the image that the exporter declared,
 * if it did; a null `desc` is that image.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where the device maps no images; `GPI_ERROR_INVALID_ARGUMENT` for another image than the
 * declared one, or a null `desc` without one; otherwise the driver's error.
 *
 * Requires: The description is the exporter's image.
 */
gpi_status gpi_memory_map_array(struct gpi_memory memory,
                                const struct gpi_array_desc *desc,
                                struct gpi_array *array);

/**
 * Destroys the handle. The import is destroyed with its last buffer or array, and after pending work that uses it.
 *
 * Errors: the driver's error of destroying the import; the handle is destroyed in either case.
 */
gpi_status gpi_memory_destroy(struct gpi_memory memory);

/**
 * Allocates at least `size` bytes of device memory that another API can import, and writes it to `*buffer`, owned by the
 * caller.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a size of 0, `GPI_ERROR_UNSUPPORTED` where the device cannot export,
 * `GPI_ERROR_OUT_OF_MEMORY`.
 */
gpi_status gpi_device_allocate_exportable(struct gpi_device device,
                                          uint64_t size,
                                          struct gpi_buffer *buffer);

/**
 * Wraps `size` bytes of device memory at `address` that the application or another library allocated (`cuMemAlloc`, torch,
 * ...), and writes a buffer to `*buffer`, owned by the caller. Destroying it does not free the memory.
 *
 * `release(data)` is called once, when the buffer has been destroyed and the work of this library's streams that uses it
 * has completed. If this function fails, it is not called.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for address 0, size 0, or a range past the end of the address space.
 *
 * Requires: Streams of the device may read and write the range, and it stays allocated until `release` is called; if `release` is
 * null, until the buffer has been destroyed, that work has completed, and `gpi_device_collect` has been called.
 */
gpi_status gpi_device_wrap_memory(struct gpi_device device,
                                  uint64_t address,
                                  uint64_t size,
                                  gpi_release_function release,
                                  void *data,
                                  struct gpi_buffer *buffer);

/**
 * Describes a buffer.
 */
gpi_status gpi_buffer_get_info(struct gpi_buffer buffer, struct gpi_buffer_info *info);

/**
 * Exports exportable memory as a description that a device of this backend imports, in this process or another. Every call
 * writes a new handle, owned by the caller: import it, close it with `gpi_memory_import_close`, or send it to another
 * process. It keeps the memory alive. For an import by Vulkan, take its handle and `size`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a buffer that is not from `gpi_device_allocate_exportable`; otherwise the driver's
 * error.
 */
gpi_status gpi_buffer_export(struct gpi_buffer buffer,
                             struct gpi_memory_import *import);

/**
 * Destroys the buffer: unmaps or frees its memory, after pending work that uses it has completed. Memory of the application
 * is released.
 *
 * Errors: the driver's error of unmapping or freeing it; the handle is destroyed in either case.
 */
gpi_status gpi_buffer_destroy(struct gpi_buffer buffer);

/**
 * Writes the description with which the array was mapped to `*desc` and the driver's object (`CUmipmappedArray`), valid
 * while the array lives, to `*raw`. Each may be null.
 */
gpi_status gpi_array_get_desc(struct gpi_array array,
                              struct gpi_array_desc *desc,
                              uint64_t *raw);

/**
 * Describes a mip level with all its layers.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the level does not exist; otherwise the driver's error.
 */
gpi_status gpi_array_get_level(struct gpi_array array, uint32_t level, struct gpi_array_level_info *info);

/**
 * Destroys the array: unmaps it, after pending work that uses it has completed.
 *
 * Errors: the driver's error of unmapping it; the handle is destroyed in either case.
 */
gpi_status gpi_array_destroy(struct gpi_array array);

/**
 * Creates a stream, and writes it to `*stream`, owned by the caller. It does not synchronise with the driver's default
 * stream.
 */
gpi_status gpi_stream_create(struct gpi_device device,
                             struct gpi_stream *stream);

/**
 * Wraps a stream of the application (`CUstream`, `hipStream_t`; 0 is the driver's default stream), and writes it to
 * `*stream`, owned by the caller. Destroying it does not destroy the driver's stream.
 *
 * `release(data)` is called once, when the returned stream has been destroyed and its work has completed. If this function
 * fails, it is not called.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for 2, the per-thread default stream (`CU_STREAM_PER_THREAD`,
 * `hipStreamPerThread`), which is another stream on every thread; for 0, 1 and 2 on the host backend, which has no default
 * stream; and for a stream on which a graph is being captured. Otherwise the driver's error.
 *
 * Requires: `raw` is a stream of the device (on the host backend: the result of `gpi_stream_get_raw`), live until `release` is called;
 * if `release` is null, until the returned stream has been destroyed, its work has completed, and `gpi_device_collect` has
 * been called. It captures no graph meanwhile.
 */
gpi_status gpi_stream_wrap(struct gpi_device device,
                           uint64_t raw,
                           gpi_release_function release,
                           void *data,
                           struct gpi_stream *stream);

/**
 * Writes the driver's stream (`CUstream`), valid while the stream lives, to `*raw`. Other libraries may enqueue work on it.
 */
gpi_status gpi_stream_get_raw(struct gpi_stream stream,
                              uint64_t *raw);

/**
 * Blocks until all enqueued work has completed, or `timeout_ns` nanoseconds have passed; `GPI_NO_TIMEOUT` waits forever. Also
 * returns a failure of the enqueued work since the last call.
 *
 * Errors: `GPI_ERROR_TIMEOUT` if work is pending; it continues, the call may be repeated, and the message lists the timelines
 * that the stream waits for. With 0 nanoseconds the stream is queried once, as by `gpi_stream_query`. `GPI_ERROR_CANCELLED` if
 * `gpi_timeline_abandon` or `gpi_timeline_watch_process` released a wait of the stream: the work ran without the data that it
 * waited for. For `GPI_TIMELINE_NATIVE` that holds for the last 4 timelines that the stream waited for.
 * `GPI_ERROR_INVALID_ARGUMENT` inside a `gpi_host_function`. Otherwise the failure of the work.
 */
gpi_status gpi_stream_synchronize(struct gpi_stream stream,
                                  uint64_t timeout_ns);

/**
 * Writes to `*idle` 1 if all enqueued work has completed, else 0. Does not block. On HIP the first call after new work
 * may write 0 although the work has completed; `gpi_event_query` of an event behind the work is exact.
 *
 * Errors: the driver's error; a failure of enqueued work may be returned here.
 */
gpi_status gpi_stream_query(struct gpi_stream stream,
                            int32_t *idle);

/**
 * Records that work on this stream uses a range, where the library cannot detect it: a kernel that gets its address, or work
 * that another library enqueues. A buffer that is destroyed stays mapped until that work has completed.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a buffer of another device.
 */
gpi_status gpi_stream_keep(struct gpi_stream stream,
                           struct gpi_range used);

/**
 * Calls `function(data)` on a thread of the driver, in stream order: after all work enqueued before, and before later work.
 * If the device is closed first, the function is not called.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where host functions are not supported; `GPI_ERROR_INVALID_ARGUMENT` for a null function;
 * otherwise the driver's error. After an error the function is not called.
 *
 * Requires: The function may be called with `data` on another thread, until the stream has completed the call.
 */
gpi_status gpi_stream_launch_host_function(struct gpi_stream stream,
                                           gpi_host_function function,
                                           void *data);

/**
 * Destroys the stream. Does not wait: work already enqueued still runs.
 *
 * Errors: the driver's error; the handle is destroyed in either case.
 */
gpi_status gpi_stream_destroy(struct gpi_stream stream);

/**
 * Makes later work wait until the 32-bit word of a range satisfies a `GPI_WAIT_*` (`cuStreamWaitValue32`).
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where streams lack it; `GPI_ERROR_INVALID_ARGUMENT` unless the range is 4 bytes, aligned to
 * 4 bytes, and of the stream's device; otherwise the driver's error.
 */
gpi_status gpi_stream_wait_value_u32(struct gpi_stream stream,
                                     struct gpi_range word,
                                     uint32_t value,
                                     int32_t wait);

/**
 * As `gpi_stream_wait_value_u32`, for a 64-bit word (`cuStreamWaitValue64`).
 */
gpi_status gpi_stream_wait_value_u64(struct gpi_stream stream,
                                     struct gpi_range word,
                                     uint64_t value,
                                     int32_t wait);

/**
 * Writes the 32-bit word of a range after all work enqueued before has completed (`cuStreamWriteValue32`).
 *
 * Errors: as `gpi_stream_wait_value_u32`.
 */
gpi_status gpi_stream_write_value_u32(struct gpi_stream stream, struct gpi_range word, uint32_t value);

/**
 * As `gpi_stream_write_value_u32`, for a 64-bit word (`cuStreamWriteValue64`).
 */
gpi_status gpi_stream_write_value_u64(struct gpi_stream stream, struct gpi_range word, uint64_t value);

/**
 * Creates an event without timing, and writes it to `*event`, owned by the caller.
 */
gpi_status gpi_event_create(struct gpi_device device, struct gpi_event *event);

/**
 * Writes to `*complete` 1 if all work before the event's last record has completed or it was never recorded, else 0. Does not
 * block.
 */
gpi_status gpi_event_query(struct gpi_event event,
                           int32_t *complete);

/**
 * Writes the driver's event (`CUevent`), valid while the event lives, to `*raw`.
 */
gpi_status gpi_event_get_raw(struct gpi_event event, uint64_t *raw);

/**
 * Records an event after all work enqueued on the stream so far.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for an event of another device; otherwise the driver's error.
 */
gpi_status gpi_stream_record_event(struct gpi_stream stream, struct gpi_event event);

/**
 * Makes later work of the stream wait for an event's last record.
 *
 * Errors: as `gpi_stream_record_event`.
 */
gpi_status gpi_stream_wait_event(struct gpi_stream stream, struct gpi_event event);

/**
 * Destroys the event, which may be pending.
 */
gpi_status gpi_event_destroy(struct gpi_event event);

/**
 * Copies `src` to `dst`, asynchronously.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for sizes that differ, ranges that overlap, or memory of another device than the
 * stream's; otherwise the driver's error.
 */
gpi_status gpi_stream_copy(struct gpi_stream stream,
                           struct gpi_range dst,
                           struct gpi_range src);

/**
 * Copies a range to `size` bytes of host memory. Blocks until the copy and all work enqueued before have completed.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if `size` is not that of the range, or for memory of another device; otherwise the
 * driver's error.
 *
 * Requires: `dst` is null, or points to `size` bytes that nothing else uses during the call.
 */
gpi_status gpi_stream_read(struct gpi_stream stream,
                           struct gpi_range src,
                           void *dst,
                           size_t size);

/**
 * Copies `size` bytes of host memory to a range. Blocks until the copy and all work enqueued before have completed.
 *
 * Errors: as `gpi_stream_read`.
 *
 * Requires: `src` is null, or points to `size` bytes that nothing writes during the call.
 */
gpi_status gpi_stream_write(struct gpi_stream stream,
                            struct gpi_range dst,
                            const void *src,
                            size_t size);

/**
 * Copies a range to host memory, asynchronously. `dst` is complete once the stream has completed the copy.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null `dst` or memory of another device; otherwise the driver's error.
 *
 * Requires: `dst` points to as many bytes as the range has, valid and not used otherwise until the copy has completed.
 */
gpi_status gpi_stream_read_async(struct gpi_stream stream,
                                 struct gpi_range src,
                                 void *dst);

/**
 * Copies host memory to a range, asynchronously. `src` is read until the stream has completed the copy.
 *
 * Errors: as `gpi_stream_read_async`.
 *
 * Requires: `src` points to as many bytes as the range has, valid and not written until the copy has completed.
 */
gpi_status gpi_stream_write_async(struct gpi_stream stream, struct gpi_range dst, const void *src);

/**
 * Sets every byte of a range, asynchronously.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for memory of another device; otherwise the driver's error.
 */
gpi_status gpi_stream_fill(struct gpi_stream stream, struct gpi_range dst, uint8_t value);

/**
 * Sets every 32-bit word of a range, asynchronously.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if address or size are not multiples of 4, or for memory of another device; otherwise
 * the driver's error.
 */
gpi_status gpi_stream_fill_u32(struct gpi_stream stream,
                               struct gpi_range dst,
                               uint32_t value);

/**
 * Copies a region of an image to linear memory, asynchronously.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the memory does not have the size of the region, or is too small with its pitches;
 * otherwise the driver's error.
 */
gpi_status gpi_stream_copy_from_array(struct gpi_stream stream,
                                      struct gpi_texels dst,
                                      struct gpi_array_region src);

/**
 * Copies linear memory to a region of an image, asynchronously.
 *
 * Errors: as `gpi_stream_copy_from_array`.
 */
gpi_status gpi_stream_copy_to_array(struct gpi_stream stream,
                                    struct gpi_array_region dst,
                                    struct gpi_texels src);

/**
 * Copies a region of an image to another of the same extent and texel size, asynchronously. Texels are not converted.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the regions differ, or overlap in one level; otherwise the driver's error.
 */
gpi_status gpi_stream_copy_array(struct gpi_stream stream,
                                 struct gpi_array_region dst,
                                 struct gpi_array_region src);

/**
 * Copies a region of an image to `size` bytes of host memory, without gaps. Blocks until the copy and all work enqueued
 * before have completed.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if `size` is not that of the region; otherwise the driver's error.
 *
 * Requires: `dst` is null, or points to `size` bytes that nothing else uses during the call.
 */
gpi_status gpi_stream_read_array(struct gpi_stream stream,
                                 struct gpi_array_region src,
                                 void *dst,
                                 size_t size);

/**
 * Copies `size` bytes of host memory without gaps to a region of an image. Blocks until the copy and all work enqueued
 * before have completed.
 *
 * Errors: as `gpi_stream_read_array`.
 *
 * Requires: `src` is null, or points to `size` bytes that nothing writes during the call.
 */
gpi_status gpi_stream_write_array(struct gpi_stream stream,
                                  struct gpi_array_region dst,
                                  const void *src,
                                  size_t size);

/**
 * Loads a module of kernels, and writes it to `*module`, owned by the caller. The image is copied.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where the device supports no kernels, or not this kind of image;
 * `GPI_ERROR_INVALID_ARGUMENT` for PTX without NUL; otherwise the driver's error.
 *
 * Requires: `data` points to `size` bytes. A binary image is complete and well-formed: drivers trust its headers.
 */
gpi_status gpi_module_load(struct gpi_device device,
                           int32_t kind,
                           const void *data,
                           size_t size,
                           struct gpi_module *module);

/**
 * Looks up a kernel by name, and writes it to `*kernel`, owned by the caller. It keeps its module loaded.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the module has no such kernel; otherwise the driver's error.
 *
 * Requires: `name` is null or a text that ends with NUL.
 */
gpi_status gpi_module_get_kernel(struct gpi_module module, const char *name, struct gpi_kernel *kernel);

/**
 * Writes the driver's kernel (`CUfunction`), valid while the kernel lives, to `*raw`.
 */
gpi_status gpi_kernel_get_raw(struct gpi_kernel kernel, uint64_t *raw);

/**
 * Enqueues a kernel with `count` arguments.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a kernel or memory of another device, or a launch without threads; otherwise the
 * driver's error.
 *
 * Requires: Number, types and layouts of the arguments match the kernel's parameters, structures are live, and the kernel accesses only
 * memory that is valid until it has completed.
 */
gpi_status gpi_stream_launch(struct gpi_stream stream,
                             struct gpi_kernel kernel,
                             const struct gpi_launch_config *config,
                             const struct gpi_kernel_arg *args,
                             size_t count);

/**
 * Destroys the kernel's handle.
 */
gpi_status gpi_kernel_destroy(struct gpi_kernel kernel);

/**
 * Destroys the module's handle. It is unloaded with its last kernel, after pending launches.
 */
gpi_status gpi_module_destroy(struct gpi_module module);

/**
 * Signals `count` semaphores after all work enqueued before has completed.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for an empty batch, a semaphore of another device, or a timeline value not greater than
 * the last one signalled through the same semaphore; otherwise the driver's error. After an error nothing is enqueued.
 *
 * Requires: `ops` points to `count` operations; fences are valid.
 */
gpi_status gpi_stream_signal(struct gpi_stream stream,
                             const struct gpi_semaphore_op *ops,
                             size_t count);

/**
 * Makes later work wait for `count` semaphores. The wait itself has no timeout, except for keyed mutexes: bound it with
 * `gpi_stream_synchronize`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for an empty batch or a semaphore of another device; otherwise the driver's error. After
 * an error nothing is enqueued.
 *
 * Requires: As for `gpi_stream_signal`.
 */
gpi_status gpi_stream_wait(struct gpi_stream stream,
                           const struct gpi_semaphore_op *ops,
                           size_t count);

/**
 * Writes the `GPI_SEMAPHORE_*` of the imported handle to `*kind`, and the driver's object (`CUexternalSemaphore`), valid while
 * the semaphore lives, to `*raw`. Each may be null.
 */
gpi_status gpi_semaphore_get_info(struct gpi_semaphore semaphore,
                                  int32_t *kind,
                                  uint64_t *raw);

/**
 * Destroys the import, after pending signals and waits.
 *
 * Errors: the driver's error; the handle is destroyed in either case.
 */
gpi_status gpi_semaphore_destroy(struct gpi_semaphore semaphore);

/**
 * Creates a semaphore of the host backend (shared memory, also between processes), and writes it to `*semaphore`, owned by the
 * caller. `initial` is the value of a timeline; a binary semaphore is created unsignalled.
 *
 * Errors: `GPI_ERROR_SYSTEM` or `GPI_ERROR_OUT_OF_MEMORY` if the system cannot create shared memory.
 */
gpi_status gpi_exported_semaphore_create_host(int32_t payload,
                                              uint64_t initial,
                                              struct gpi_exported_semaphore *semaphore);

/**
 * Wraps a timeline of another API that the application implements by functions, and writes it to `*semaphore`, owned by the
 * caller. If this function fails, `functions->release` is not called.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null function.
 *
 * Requires: The functions keep the contract of `gpi_timeline_functions`, until `release` is called; if it is null, to the end of the
 * process.
 */
gpi_status gpi_exported_semaphore_wrap_functions(const struct gpi_timeline_functions *functions,
                                                 struct gpi_exported_semaphore *semaphore);

/**
 * Exports the semaphore as a description that a device imports. Every call writes a new handle, owned by the caller: import
 * it, close it with `gpi_semaphore_import_close`, or send it to another process.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` for a timeline that only a bridge carries; otherwise the driver's error.
 */
gpi_status gpi_exported_semaphore_export(struct gpi_exported_semaphore semaphore,
                                         struct gpi_semaphore_import *import);

/**
 * Writes the current value of a timeline to `*value`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a binary semaphore; otherwise the exporter's error.
 */
gpi_status gpi_exported_semaphore_get_value(struct gpi_exported_semaphore semaphore, uint64_t *value);

/**
 * Signals from the host: raises a timeline to `value`, or signals a binary semaphore of the host backend, which ignores
 * `value`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a value not greater than the current one, or a binary semaphore that is signalled
 * already; `GPI_ERROR_UNSUPPORTED` for a binary semaphore of Vulkan.
 */
gpi_status gpi_exported_semaphore_signal(struct gpi_exported_semaphore semaphore,
                                         uint64_t value);

/**
 * Blocks until a timeline is at least `value`, or a binary semaphore of the host backend is signalled, which this resets. At
 * most `timeout_ns` nanoseconds.
 *
 * Errors: `GPI_ERROR_TIMEOUT`; `GPI_ERROR_UNSUPPORTED` for a binary semaphore of Vulkan; otherwise the exporter's error.
 */
gpi_status gpi_exported_semaphore_wait(struct gpi_exported_semaphore semaphore,
                                       uint64_t value,
                                       uint64_t timeout_ns);

/**
 * Writes the `VkSemaphore`, valid while the semaphore lives, to `*vk_semaphore`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if the semaphore is not Vulkan's.
 */
gpi_status gpi_exported_semaphore_get_vulkan(struct gpi_exported_semaphore semaphore, uint64_t *vk_semaphore);

/**
 * Destroys the handle. A semaphore that Vulkan created here is destroyed unless a timeline uses it: no submitted work may use
 * it any more. Handles that were exported stay valid.
 */
gpi_status gpi_exported_semaphore_destroy(struct gpi_exported_semaphore semaphore);

/**
 * Shares a timeline of the exporter with the streams of a device, and writes it to `*timeline`, owned by the caller.
 * `exporter` may be destroyed afterwards: the timeline keeps the semaphore.
 *
 * Use one timeline for each direction if more than one frame is in flight.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` where the strategy, a `GPI_TIMELINE_*`, is not supported; `GPI_ERROR_INVALID_ARGUMENT` for a
 * binary semaphore; otherwise the driver's error.
 */
gpi_status gpi_timeline_create(struct gpi_device device,
                               struct gpi_exported_semaphore exporter,
                               int32_t strategy,
                               struct gpi_timeline *timeline);

/**
 * Writes the strategy of the timeline, `GPI_TIMELINE_NATIVE` or `GPI_TIMELINE_BRIDGE`, to `*strategy`.
 */
gpi_status gpi_timeline_get_strategy(struct gpi_timeline timeline, int32_t *strategy);

/**
 * Writes the current value to `*value`.
 *
 * Errors: the failure of the timeline, if any; `GPI_ERROR_OVERTAKEN` if the value is smaller than one observed before;
 * otherwise the exporter's error.
 */
gpi_status gpi_timeline_get_value(struct gpi_timeline timeline,
                                  uint64_t *value);

/**
 * Blocks until the timeline is at least `value`, at most `timeout_ns` nanoseconds.
 *
 * Errors: `GPI_ERROR_TIMEOUT`; the call may be repeated. `GPI_ERROR_CANCELLED` if the process that
 * `gpi_timeline_watch_process` watches has ended; otherwise the exporter's error.
 */
gpi_status gpi_timeline_wait(struct gpi_timeline timeline, uint64_t value, uint64_t timeout_ns);

/**
 * Raises the timeline to `value` from the host, immediately.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` if `value` is not greater than the current one and every one signalled through this
 * timeline; the failure of the timeline, if any; otherwise the exporter's error.
 */
gpi_status gpi_timeline_signal(struct gpi_timeline timeline,
                               uint64_t value);

/**
 * Fails the timeline once process `id`, which signals it, has ended, because a killed process signals nothing. Call it before
 * any host wait. Later host waits then fail with `GPI_ERROR_CANCELLED`; pending waits of streams are released, and the next
 * `gpi_stream_synchronize` of these streams fails with `GPI_ERROR_CANCELLED`.
 *
 * A bridge checks the process itself. With `GPI_TIMELINE_NATIVE` only `gpi_timeline_wait` checks it. If only streams wait
 * natively, bound `gpi_stream_synchronize`, and call `gpi_timeline_wait` with a timeout of 0 after each of its timeouts, or
 * `gpi_timeline_abandon`.
 *
 * Errors: `GPI_ERROR_SYSTEM` if the process does not exist, `GPI_ERROR_INVALID_ARGUMENT` if one is watched already,
 * `GPI_ERROR_UNSUPPORTED` if the kernel lacks `pidfd_open` (Linux 5.3).
 */
gpi_status gpi_timeline_watch_process(struct gpi_timeline timeline,
                                      uint32_t id);

/**
 * Abandons the timeline, because it will not be signalled any more: pending waits of streams are released, and later uses
 * fail with `reason`. Released streams continue without the data that they waited for, and their next
 * `gpi_stream_synchronize` fails with `GPI_ERROR_CANCELLED`. With `GPI_TIMELINE_NATIVE` that holds for the last 4 timelines that
 * the stream waited for, and not for a stream that waits for a released stream by an event.
 *
 * Errors: the exporter's error. The call may be repeated.
 *
 * Requires: `reason` is null or a text that ends with NUL.
 */
gpi_status gpi_timeline_abandon(struct gpi_timeline timeline,
                                const char *reason);

/**
 * Makes later work of the stream wait until a timeline is at least `value`. The signal may come later. The wait has no
 * timeout: bound it with `gpi_stream_synchronize`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a timeline of another device; the failure of the timeline, if any; otherwise the
 * driver's error. After an error nothing is enqueued.
 */
gpi_status gpi_stream_wait_timeline(struct gpi_stream stream,
                                    struct gpi_timeline timeline,
                                    uint64_t value);

/**
 * Raises a timeline to `value` after all work enqueued on the stream before has completed. The application orders its signals:
 * the value must be greater than the timeline's at that time.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a timeline of another device, or a value not greater than the last one signalled
 * through the same timeline; the failure of the timeline, if any; otherwise the driver's error. After an error nothing is
 * enqueued.
 */
gpi_status gpi_stream_signal_timeline(struct gpi_stream stream,
                                      struct gpi_timeline timeline,
                                      uint64_t value);

/**
 * Destroys the handle. Does not wait: enqueued work stays valid and keeps the exporter's timeline alive.
 */
gpi_status gpi_timeline_destroy(struct gpi_timeline timeline);

/**
 * Sets the function that receives the library's messages up to `level`, a `GPI_LOG_*`. A null function, or `GPI_LOG_OFF`,
 * disables the log. Waits for running calls of the previous function, which is not called after this returns.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for an unknown level, or inside the application's function; `GPI_ERROR_SYSTEM` if
 * the program, written in Rust, has a subscriber of its own.
 *
 * Requires: Calling `function` with `data` is valid on any thread until a later call of `gpi_set_log` returns.
 */
gpi_status gpi_set_log(int32_t level,
                       gpi_log_function function,
                       void *data);

/**
 * Writes the identity of a physical device to `*identity`; `device->device` is ignored.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle; `GPI_ERROR_DRIVER_NOT_FOUND` without a Vulkan loader.
 *
 * Requires: The instance is live and for Vulkan 1.1 or later, and the physical device is one of its devices.
 */
gpi_status gpi_vulkan_get_physical_device_identity(const struct gpi_vulkan_device *device,
                                                   struct gpi_identity *identity);

/**
 * Returns the name of the device extension at `index`, counted from 0: first the required ones, then those for semaphores and
 * dma-bufs, which are enabled where the device lists them. Null past the end. `*required`, unless `required` is null, is set
 * to 1 or 0. The text is static.
 *
 * Requires: `required` is null or points to an `int32_t`.
 */
const char *gpi_vulkan_get_extension(uint32_t index,
                                     int32_t *required);

/**
 * Wraps the application's device, and writes it to `*vulkan`, owned by the caller. It owns neither instance nor device.
 *
 * `release(data)` is called once, when nothing made from it uses the device any more, which may be after
 * `gpi_vulkan_destroy`: destroy device and instance there, or destroy everything made from them first. If this function
 * fails, it is not called.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle or an instance of Vulkan 1.0; `GPI_ERROR_DRIVER_TOO_OLD`;
 * `GPI_ERROR_UNSUPPORTED` if a required extension is not enabled.
 *
 * Requires: Instance, physical device and device belong together, and are live until `release` is called, or, if it is null, until
 * everything made from this object is destroyed and the compute devices that use its timelines are closed. If timelines are
 * used, the feature `timelineSemaphore` is enabled.
 */
gpi_status gpi_vulkan_wrap(const struct gpi_vulkan_device *device,
                           gpi_release_function release,
                           void *data,
                           struct gpi_vulkan *vulkan);

/**
 * Writes the identity of the device to `*identity`: pass it to `gpi_device_open_for`.
 */
gpi_status gpi_vulkan_get_identity(struct gpi_vulkan vulkan, struct gpi_identity *identity);

/**
 * Destroys the handle. Objects made from it stay usable.
 */
gpi_status gpi_vulkan_destroy(struct gpi_vulkan vulkan);

/**
 * Records the release of a whole `VkBuffer` to the other side: after Vulkan's last access, before the other side's first one.
 * Submit it with a signal that the other side waits for.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle, or a transfer that names no queue family or no stage; nothing is
 * recorded then.
 *
 * Requires: `vk_command_buffer` is of this device, recording, outside a render pass, and submitted to a queue of the transfer's family,
 * which owns the buffer. The buffer has sharing mode EXCLUSIVE and lives until the commands have completed. No other thread
 * records into the command buffer or its pool.
 */
gpi_status gpi_vulkan_record_buffer_release(struct gpi_vulkan vulkan,
                                            void *vk_command_buffer,
                                            uint64_t vk_buffer,
                                            const struct gpi_vulkan_transfer *transfer);

/**
 * Records the acquire of a whole `VkBuffer` from the other side: after the other side's last access, before Vulkan's first one.
 * Submit it with a wait for the other side's signal.
 *
 * Errors: as `gpi_vulkan_record_buffer_release`.
 *
 * Requires: As for `gpi_vulkan_record_buffer_release`, except that the other side owns the buffer.
 */
gpi_status gpi_vulkan_record_buffer_acquire(struct gpi_vulkan vulkan,
                                            void *vk_command_buffer,
                                            uint64_t vk_buffer,
                                            const struct gpi_vulkan_transfer *transfer);

/**
 * Records the release of a whole colour image, which is in the `VkImageLayout` `layout`, to the other side, and its transition
 * to `VK_IMAGE_LAYOUT_GENERAL`.
 *
 * Errors: as `gpi_vulkan_record_buffer_release`; also for a `layout` of `UNDEFINED`.
 *
 * Requires: As for `gpi_vulkan_record_buffer_release`; all of the image is in `layout` when the commands execute.
 */
gpi_status gpi_vulkan_record_image_release(struct gpi_vulkan vulkan,
                                           void *vk_command_buffer,
                                           uint64_t vk_image,
                                           const struct gpi_vulkan_transfer *transfer,
                                           int32_t layout);

/**
 * Records the acquire of a whole colour image from the other side, and its transition from `VK_IMAGE_LAYOUT_GENERAL` to the
 * `VkImageLayout` `layout`.
 *
 * Errors: as `gpi_vulkan_record_image_release`.
 *
 * Requires: As for `gpi_vulkan_record_buffer_acquire`; the other side leaves the image in GENERAL, as APIs without layouts do.
 */
gpi_status gpi_vulkan_record_image_acquire(struct gpi_vulkan vulkan,
                                           void *vk_command_buffer,
                                           uint64_t vk_image,
                                           const struct gpi_vulkan_transfer *transfer,
                                           int32_t layout);

/**
 * Records the first use of a new image, or a reuse that discards its contents: the transition of all of it from UNDEFINED to
 * `VK_IMAGE_LAYOUT_GENERAL`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null handle.
 *
 * Requires: `vk_command_buffer` as for `gpi_vulkan_record_buffer_release`; the image is not destroyed, and not used otherwise, until the
 * commands have completed.
 */
gpi_status gpi_vulkan_record_image_initialize(struct gpi_vulkan_image image,
                                              void *vk_command_buffer);

/**
 * Creates a buffer whose memory can be exported, and writes it to `*buffer`, owned by the caller. Vulkan owns its contents:
 * release it (`gpi_vulkan_record_buffer_release`) before the other side uses it, even if that writes first.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` if the device does not export such buffers; `GPI_ERROR_INVALID_ARGUMENT` for a size of 0 or no
 * usage; `GPI_ERROR_OUT_OF_MEMORY`.
 */
gpi_status gpi_vulkan_buffer_create(struct gpi_vulkan vulkan,
                                    const struct gpi_vulkan_buffer_options *options,
                                    struct gpi_vulkan_buffer *buffer);

/**
 * Describes a buffer.
 */
gpi_status gpi_vulkan_buffer_get_info(struct gpi_vulkan_buffer buffer, struct gpi_vulkan_memory_info *info);

/**
 * Exports the memory as a complete description to import, and writes it to `*import`. Every call writes a new handle, owned by
 * the caller, that keeps the memory alive.
 *
 * Errors: `GPI_ERROR_SYSTEM` if the process is out of descriptors; otherwise the driver's error.
 */
gpi_status gpi_vulkan_buffer_export(struct gpi_vulkan_buffer buffer,
                                    struct gpi_memory_import *import);

/**
 * Destroys the buffer and its memory: no submitted work may use them any more. Imports and handles of the memory stay valid.
 */
gpi_status gpi_vulkan_buffer_destroy(struct gpi_vulkan_buffer buffer);

/**
 * Exports memory that the application allocated as a complete description to import: handle, size, dedicated flag, device.
 * Writes it to `*import`, whose new handle belongs to the caller and keeps the memory alive. `size` is
 * `VkMemoryAllocateInfo::allocationSize`, `dedicated` is 1 if the memory was allocated with `VkMemoryDedicatedAllocateInfo`
 * and else 0, `kind` is `GPI_MEMORY_OPAQUE_FD`, `GPI_MEMORY_DMABUF_FD` or `GPI_MEMORY_OPAQUE_WIN32`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for null memory or a size of 0; `GPI_ERROR_UNSUPPORTED` for another kind; otherwise the
 * driver's error.
 *
 * Requires: The memory is live, of this device, and was allocated with this size and dedicated flag and with
 * `VkExportMemoryAllocateInfo::handleTypes` that contains the kind. On Windows, no NT handle was exported from it before.
 */
gpi_status gpi_vulkan_export_memory(struct gpi_vulkan vulkan,
                                    uint64_t vk_device_memory,
                                    uint64_t size,
                                    int32_t dedicated,
                                    int32_t kind,
                                    struct gpi_memory_import *import);

/**
 * Exports a semaphore that the application created as a complete description to import, and writes it to `*import`, whose new
 * handle belongs to the caller. `kind` is `GPI_SEMAPHORE_TIMELINE_FD` or `GPI_SEMAPHORE_TIMELINE_WIN32` for a timeline, else
 * `GPI_SEMAPHORE_OPAQUE_FD` or `GPI_SEMAPHORE_OPAQUE_WIN32`.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null semaphore; `GPI_ERROR_UNSUPPORTED` if the device does not export such
 * semaphores; otherwise the driver's error.
 *
 * Requires: The semaphore is live, of this device, a timeline exactly if `kind` is, and was created with
 * `VkExportSemaphoreCreateInfo::handleTypes` that contains OPAQUE_FD or OPAQUE_WIN32. On Windows, no NT handle was exported
 * from it before.
 */
gpi_status gpi_vulkan_export_semaphore(struct gpi_vulkan vulkan,
                                       uint64_t vk_semaphore,
                                       int32_t kind,
                                       struct gpi_semaphore_import *import);

/**
 * Creates an image whose memory can be exported, and writes it to `*image`, owned by the caller. It has no layout: record
 * `gpi_vulkan_record_image_initialize` and then `gpi_vulkan_record_image_release` before the other side uses it.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` if no array has the format, or the device does not export such an image;
 * `GPI_ERROR_INVALID_ARGUMENT` for impossible dimensions, levels or layers, or no usage; `GPI_ERROR_OUT_OF_MEMORY`.
 */
gpi_status gpi_vulkan_image_create(struct gpi_vulkan vulkan,
                                   const struct gpi_vulkan_image_options *options,
                                   struct gpi_vulkan_image *image);

/**
 * Describes an image.
 */
gpi_status gpi_vulkan_image_get_info(struct gpi_vulkan_image image, struct gpi_vulkan_memory_info *info);

/**
 * Writes the layout of a mip level and layer of an image with linear tiling.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` for optimal tiling; `GPI_ERROR_INVALID_ARGUMENT` if the image lacks the level or the
 * layer.
 */
gpi_status gpi_vulkan_image_get_row_layout(struct gpi_vulkan_image image,
                                           uint32_t level,
                                           uint32_t layer,
                                           struct gpi_vulkan_row_layout *layout);

/**
 * Exports the memory as a complete description to import, with the image for optimal tiling, and writes it to `*import`. Every
 * call writes a new handle, owned by the caller, that keeps the memory alive.
 *
 * Errors: as `gpi_vulkan_buffer_export`.
 */
gpi_status gpi_vulkan_image_export(struct gpi_vulkan_image image,
                                   struct gpi_memory_import *import);

/**
 * Destroys the image and its memory: no submitted work may use them any more. Imports and handles of the memory stay valid.
 */
gpi_status gpi_vulkan_image_destroy(struct gpi_vulkan_image image);

/**
 * Creates a Vulkan semaphore with a `GPI_PAYLOAD_*`, and writes it to `*semaphore`, owned by the caller. `initial` is the value
 * of a timeline. It is exportable where the device exports such semaphores; a timeline elsewhere needs a bridge, which
 * `gpi_timeline_create` chooses.
 *
 * Errors: `GPI_ERROR_UNSUPPORTED` if the device exports no binary semaphores, or has no timelines.
 */
gpi_status gpi_exported_semaphore_create_vulkan(struct gpi_vulkan vulkan,
                                                int32_t payload,
                                                uint64_t initial,
                                                struct gpi_exported_semaphore *semaphore);

/**
 * Wraps a timeline semaphore that the application created, and writes it to `*semaphore`, owned by the caller. Destroying it
 * does not destroy the `VkSemaphore`. `exportable` is 1 if it was created with `VkExportSemaphoreCreateInfo::handleTypes` that
 * contains OPAQUE_FD, on Windows OPAQUE_WIN32, and else 0: a bridge then carries its values.
 *
 * `release(data)` is called once, when the library no longer uses the semaphore. If this function fails, it is not called.
 *
 * Errors: `GPI_ERROR_INVALID_ARGUMENT` for a null semaphore; `GPI_ERROR_UNSUPPORTED` if the device has no timelines, or does not
 * export them.
 *
 * Requires: The semaphore is a timeline of this device, live until `release` is called; if `release` is null, until the compute
 * devices that use it are closed. Host signals through this object and signals of submitted work raise its value in order.
 */
gpi_status gpi_exported_semaphore_wrap_vulkan(struct gpi_vulkan vulkan,
                                              uint64_t vk_semaphore,
                                              int32_t exportable,
                                              gpi_release_function release,
                                              void *data,
                                              struct gpi_exported_semaphore *semaphore);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

/* Arguments of kernels. */

static inline gpi_kernel_arg gpi_arg_bits(int32_t kind, uint64_t bits) {
    gpi_kernel_arg arg;
    memset(&arg, 0, sizeof arg);
    arg.kind = kind;
    arg.bits = bits;
    return arg;
}

static inline gpi_kernel_arg gpi_arg_range(gpi_range range) {
    gpi_kernel_arg arg = gpi_arg_bits(GPI_ARG_RANGE, 0);
    arg.range = range;
    return arg;
}

static inline gpi_kernel_arg gpi_arg_buffer(gpi_buffer buffer) {
    gpi_range range;
    range.buffer = buffer;
    range.offset = 0;
    range.size = GPI_WHOLE_SIZE;
    return gpi_arg_range(range);
}

static inline gpi_kernel_arg gpi_arg_address(uint64_t address) { return gpi_arg_bits(GPI_ARG_ADDRESS, address); }
static inline gpi_kernel_arg gpi_arg_u8(uint8_t value) { return gpi_arg_bits(GPI_ARG_U8, value); }
static inline gpi_kernel_arg gpi_arg_u16(uint16_t value) { return gpi_arg_bits(GPI_ARG_U16, value); }
static inline gpi_kernel_arg gpi_arg_u32(uint32_t value) { return gpi_arg_bits(GPI_ARG_U32, value); }
static inline gpi_kernel_arg gpi_arg_u64(uint64_t value) { return gpi_arg_bits(GPI_ARG_U64, value); }
static inline gpi_kernel_arg gpi_arg_i8(int8_t value) { return gpi_arg_bits(GPI_ARG_I8, (uint8_t)value); }
static inline gpi_kernel_arg gpi_arg_i16(int16_t value) { return gpi_arg_bits(GPI_ARG_I16, (uint16_t)value); }
static inline gpi_kernel_arg gpi_arg_i32(int32_t value) { return gpi_arg_bits(GPI_ARG_I32, (uint32_t)value); }
static inline gpi_kernel_arg gpi_arg_i64(int64_t value) { return gpi_arg_bits(GPI_ARG_I64, (uint64_t)value); }

static inline gpi_kernel_arg gpi_arg_f32(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return gpi_arg_bits(GPI_ARG_F32, bits);
}

static inline gpi_kernel_arg gpi_arg_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return gpi_arg_bits(GPI_ARG_F64, bits);
}

/* A structure of C, which launching copies: gpi_arg_value(&params, sizeof params, _Alignof(params_type)). */
static inline gpi_kernel_arg gpi_arg_value(const void *value, size_t size, size_t alignment) {
    gpi_kernel_arg arg = gpi_arg_bits(GPI_ARG_VALUE, 0);
    arg.value = value;
    arg.value_size = size;
    arg.value_alignment = (uint32_t)alignment;
    return arg;
}

/* All of a buffer, as the operand of a copy or fill. */
static inline gpi_range gpi_range_all(gpi_buffer buffer) { return gpi_arg_buffer(buffer).range; }

/* Bytes of a buffer. */
static inline gpi_range gpi_range_of(gpi_buffer buffer, uint64_t offset, uint64_t size) {
    gpi_range range = gpi_range_all(buffer);
    range.offset = offset;
    range.size = size;
    return range;
}

#endif /* GPU_INTEROP_H */
