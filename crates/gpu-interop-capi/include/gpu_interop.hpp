/*
 * gpu-interop for C++17: owning types over gpu_interop.h, without a library of its own. Licence: MIT OR Apache-2.0.
 *
 * Every type owns its handle: it is moved, not copied, and destroyed with its object. Errors are exceptions of the type
 * gpi::error, whose status is that of C. get() lends the handle to functions of C, release() hands it over. The comments of
 * gpu_interop.h apply: ownership of file descriptors, ordering, threads.
 */
#ifndef GPU_INTEROP_HPP
#define GPU_INTEROP_HPP

#include "gpu_interop.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpi {

/** A failed call. what() is the full message, with values and the next step. */
class error : public std::runtime_error {
public:
    /** The last failure of this thread. */
    explicit error(gpi_status status) : std::runtime_error(gpi_last_error_message()), status_(status) {}

    /** A GPI_ERROR_*. */
    gpi_status status() const noexcept { return status_; }

    /** The name of the status, such as "device mismatch". */
    const char *kind() const noexcept { return gpi_status_name(status_); }

private:
    gpi_status status_;
};

/** Throws the error of a failed call. */
inline void check(gpi_status status) {
    if (status != GPI_SUCCESS) {
        throw error(status);
    }
}

/** A timeout in C's form; negative or absent is none. */
inline std::uint64_t timeout_ns(std::chrono::nanoseconds timeout) {
    return timeout.count() < 0 ? GPI_NO_TIMEOUT : static_cast<std::uint64_t>(timeout.count());
}

/** Never expires. */
constexpr std::chrono::nanoseconds no_timeout{-1};

/** Owner of a handle of C, which `Destroy` destroys. */
template <typename Handle, gpi_status (*Destroy)(Handle)>
class owner {
public:
    owner() noexcept = default;
    explicit owner(Handle handle) noexcept : handle_(handle) {}
    owner(owner &&other) noexcept : handle_(other.release()) {}
    owner &operator=(owner &&other) noexcept {
        if (this != &other) {
            reset();
            handle_ = other.release();
        }
        return *this;
    }
    owner(const owner &) = delete;
    owner &operator=(const owner &) = delete;
    ~owner() { reset(); }

    /** The handle, still owned by this object; null if it is empty. */
    Handle get() const noexcept { return handle_; }
    explicit operator bool() const noexcept { return handle_.id != 0; }

    /** Hands the handle over to the caller. */
    Handle release() noexcept { return std::exchange(handle_, Handle{}); }

    /** Destroys the handle, and ignores an error. */
    void reset() noexcept {
        if (handle_.id != 0) {
            Destroy(release());
        }
    }

    /** Destroys the handle, and throws the driver's error. */
    void close() { check(Destroy(release())); }

protected:
    Handle handle_{};
};

/** Calls a function whose last argument is its result. */
template <typename Result, typename Function, typename... Arguments>
Result made(Function function, Arguments... arguments) {
    Result result{};
    check(function(arguments..., &result));
    return result;
}

/** A description of memory to import, which owns its handle until it is imported. */
class memory_import {
public:
    explicit memory_import(const gpi_memory_import &import) noexcept : import_(import) {}
    memory_import(memory_import &&other) noexcept : import_(other.release()) {}
    memory_import &operator=(memory_import &&other) noexcept {
        std::swap(import_, other.import_);
        return *this;
    }
    memory_import(const memory_import &) = delete;
    memory_import &operator=(const memory_import &) = delete;
    ~memory_import() { gpi_memory_import_close(&import_); }

    gpi_memory_import &get() noexcept { return import_; }

    /** Hands description and handle over to the caller. */
    gpi_memory_import release() noexcept {
        gpi_memory_import import = import_;
        import_.fd = -1;
        import_.object = nullptr;
        return import;
    }

private:
    gpi_memory_import import_;
};

/** A description of a semaphore to import, which owns its handle until it is imported. */
class semaphore_import {
public:
    explicit semaphore_import(const gpi_semaphore_import &import) noexcept : import_(import) {}
    semaphore_import(semaphore_import &&other) noexcept : import_(other.release()) {}
    semaphore_import &operator=(semaphore_import &&other) noexcept {
        std::swap(import_, other.import_);
        return *this;
    }
    semaphore_import(const semaphore_import &) = delete;
    semaphore_import &operator=(const semaphore_import &) = delete;
    ~semaphore_import() { gpi_semaphore_import_close(&import_); }

    gpi_semaphore_import &get() noexcept { return import_; }

    /** Hands description and handle over to the caller. */
    gpi_semaphore_import release() noexcept {
        gpi_semaphore_import import = import_;
        import_.fd = -1;
        import_.object = nullptr;
        return import;
    }

private:
    gpi_semaphore_import import_;
};

/** Linear device memory. Converts to a range of all of it. */
class buffer : public owner<gpi_buffer, gpi_buffer_destroy> {
public:
    using owner::owner;

    gpi_buffer_info info() const { return made<gpi_buffer_info>(gpi_buffer_get_info, get()); }
    std::uint64_t size() const { return info().size; }
    std::uint64_t address() const { return info().address; }
    gpi_range range(std::uint64_t offset, std::uint64_t size) const { return gpi_range_of(get(), offset, size); }
    operator gpi_range() const { return gpi_range_all(get()); }

    /** Exports exportable memory. */
    memory_import export_memory() const { return memory_import(made<gpi_memory_import>(gpi_buffer_export, get())); }
};

/** A mapped image. */
class array : public owner<gpi_array, gpi_array_destroy> {
public:
    using owner::owner;

    gpi_array_desc desc() const {
        gpi_array_desc desc{};
        check(gpi_array_get_desc(get(), &desc, nullptr));
        return desc;
    }

    /** A mip level with all its layers. */
    gpi_array_region level(std::uint32_t level) const {
        gpi_array_region region{};
        region.array = get();
        region.level = level;
        return region;
    }
};

/** Imported memory. */
class memory : public owner<gpi_memory, gpi_memory_destroy> {
public:
    using owner::owner;

    gpi_memory_info info() const { return made<gpi_memory_info>(gpi_memory_get_info, get()); }
    buffer map_buffer(std::uint64_t offset = 0, std::uint64_t size = GPI_WHOLE_SIZE) const {
        return buffer(made<gpi_buffer>(gpi_memory_map_buffer, get(), offset, size));
    }

    /** Maps the image that the exporter declared. */
    array map_array() const {
        return array(made<gpi_array>(gpi_memory_map_array, get(), static_cast<const gpi_array_desc *>(nullptr)));
    }
    array map_array(const gpi_array_desc &desc) const {
        return array(made<gpi_array>(gpi_memory_map_array, get(), &desc));
    }
};

/** An event. */
class event : public owner<gpi_event, gpi_event_destroy> {
public:
    using owner::owner;

    bool complete() const { return made<std::int32_t>(gpi_event_query, get()) != 0; }
};

/** A kernel. */
class kernel : public owner<gpi_kernel, gpi_kernel_destroy> {
public:
    using owner::owner;
};

/** A kernel argument from an integer of any type, `bool` and characters included, with its own size and sign. */
template <typename Value, std::enable_if_t<std::is_integral_v<Value>, int> = 0>
gpi_kernel_arg arg(Value value) {
    static_assert(sizeof(Value) <= 8, "pass a structure for a wider integer");
    if constexpr (std::is_signed_v<Value>) {
        switch (sizeof(Value)) {
        case 1: return gpi_arg_i8(static_cast<std::int8_t>(value));
        case 2: return gpi_arg_i16(static_cast<std::int16_t>(value));
        case 4: return gpi_arg_i32(static_cast<std::int32_t>(value));
        default: return gpi_arg_i64(static_cast<std::int64_t>(value));
        }
    } else {
        switch (sizeof(Value)) {
        case 1: return gpi_arg_u8(static_cast<std::uint8_t>(value));
        case 2: return gpi_arg_u16(static_cast<std::uint16_t>(value));
        case 4: return gpi_arg_u32(static_cast<std::uint32_t>(value));
        default: return gpi_arg_u64(static_cast<std::uint64_t>(value));
        }
    }
}
/** A kernel argument from an enumeration, as its underlying integer. */
template <typename Value, std::enable_if_t<std::is_enum_v<Value>, int> = 0>
gpi_kernel_arg arg(Value value) {
    return arg(static_cast<std::underlying_type_t<Value>>(value));
}
/** A kernel argument from another scalar, from memory, or from a structure, which launching copies. */
inline gpi_kernel_arg arg(float value) { return gpi_arg_f32(value); }
inline gpi_kernel_arg arg(double value) { return gpi_arg_f64(value); }
inline gpi_kernel_arg arg(gpi_range range) { return gpi_arg_range(range); }
inline gpi_kernel_arg arg(const buffer &memory) { return gpi_arg_buffer(memory.get()); }
inline gpi_kernel_arg arg(gpi_buffer memory) { return gpi_arg_buffer(memory); }
/** Handles of other types are no arguments, and not structures either. */
gpi_kernel_arg arg(gpi_memory) = delete;
gpi_kernel_arg arg(gpi_array) = delete;
template <typename Value, typename = std::enable_if_t<std::is_class_v<Value> && std::is_trivially_copyable_v<Value>>>
gpi_kernel_arg arg(const Value &value) {
    return gpi_arg_value(&value, sizeof(Value), alignof(Value));
}

/** A module of kernels. */
class kernel_module : public owner<gpi_module, gpi_module_destroy> {
public:
    using owner::owner;

    gpi::kernel kernel(const char *name) const {
        return gpi::kernel(made<gpi_kernel>(gpi_module_get_kernel, get(), name));
    }
};

/** An imported semaphore. */
class semaphore : public owner<gpi_semaphore, gpi_semaphore_destroy> {
public:
    using owner::owner;

    /** A signal or wait: with a value for timelines and fences, with a key for keyed mutexes. */
    gpi_semaphore_op op(std::uint64_t value = 0) const {
        gpi_semaphore_op op{};
        op.semaphore = get();
        op.value = value;
        op.timeout_ns = GPI_NO_TIMEOUT;
        return op;
    }
};

/** The exporter's side of a semaphore. */
class exported_semaphore : public owner<gpi_exported_semaphore, gpi_exported_semaphore_destroy> {
public:
    using owner::owner;

    static exported_semaphore host_timeline(std::uint64_t initial = 0) {
        return exported_semaphore(made<gpi_exported_semaphore>(
            gpi_exported_semaphore_create_host, static_cast<std::int32_t>(GPI_PAYLOAD_TIMELINE), initial));
    }
    static exported_semaphore host_binary() {
        return exported_semaphore(made<gpi_exported_semaphore>(
            gpi_exported_semaphore_create_host, static_cast<std::int32_t>(GPI_PAYLOAD_BINARY), std::uint64_t{0}));
    }

    semaphore_import export_semaphore() const {
        return semaphore_import(made<gpi_semaphore_import>(gpi_exported_semaphore_export, get()));
    }
    std::uint64_t value() const { return made<std::uint64_t>(gpi_exported_semaphore_get_value, get()); }
    void signal(std::uint64_t value = 0) const { check(gpi_exported_semaphore_signal(get(), value)); }
    void wait(std::uint64_t value, std::chrono::nanoseconds timeout) const {
        check(gpi_exported_semaphore_wait(get(), value, timeout_ns(timeout)));
    }

    /** The VkSemaphore. */
    std::uint64_t vulkan() const { return made<std::uint64_t>(gpi_exported_semaphore_get_vulkan, get()); }
};

/** A counter that streams and an exporter share. */
class timeline : public owner<gpi_timeline, gpi_timeline_destroy> {
public:
    using owner::owner;

    std::int32_t strategy() const { return made<std::int32_t>(gpi_timeline_get_strategy, get()); }
    std::uint64_t value() const { return made<std::uint64_t>(gpi_timeline_get_value, get()); }
    void wait(std::uint64_t value, std::chrono::nanoseconds timeout) const {
        check(gpi_timeline_wait(get(), value, timeout_ns(timeout)));
    }
    void signal(std::uint64_t value) const { check(gpi_timeline_signal(get(), value)); }
    void abandon(const char *reason) const { check(gpi_timeline_abandon(get(), reason)); }
};

/** A queue of work. */
class stream : public owner<gpi_stream, gpi_stream_destroy> {
public:
    using owner::owner;

    std::uint64_t raw() const { return made<std::uint64_t>(gpi_stream_get_raw, get()); }
    void synchronize(std::chrono::nanoseconds timeout = no_timeout) const {
        check(gpi_stream_synchronize(get(), timeout_ns(timeout)));
    }
    bool idle() const { return made<std::int32_t>(gpi_stream_query, get()) != 0; }

    void fill(gpi_range dst, std::uint8_t value) const { check(gpi_stream_fill(get(), dst, value)); }
    void fill_u32(gpi_range dst, std::uint32_t value) const { check(gpi_stream_fill_u32(get(), dst, value)); }
    void copy(gpi_range dst, gpi_range src) const { check(gpi_stream_copy(get(), dst, src)); }

    /** Copies to the host; blocks. The elements are plain data. */
    template <typename Element>
    void read(gpi_range src, Element *dst, std::size_t count) const {
        check(gpi_stream_read(get(), src, dst, count * sizeof(Element)));
    }
    /** Copies from the host; blocks. */
    template <typename Element>
    void write(gpi_range dst, const Element *src, std::size_t count) const {
        check(gpi_stream_write(get(), dst, src, count * sizeof(Element)));
    }

    void signal(std::initializer_list<gpi_semaphore_op> ops) const {
        check(gpi_stream_signal(get(), ops.begin(), ops.size()));
    }
    void wait(std::initializer_list<gpi_semaphore_op> ops) const {
        check(gpi_stream_wait(get(), ops.begin(), ops.size()));
    }
    void signal(const timeline &timeline, std::uint64_t value) const {
        check(gpi_stream_signal_timeline(get(), timeline.get(), value));
    }
    void wait(const timeline &timeline, std::uint64_t value) const {
        check(gpi_stream_wait_timeline(get(), timeline.get(), value));
    }
    void record(const event &event) const { check(gpi_stream_record_event(get(), event.get())); }
    void wait(const event &event) const { check(gpi_stream_wait_event(get(), event.get())); }

    /** Number and types of the arguments must match the kernel's parameters. */
    void launch(const kernel &kernel, const gpi_launch_config &config,
                std::initializer_list<gpi_kernel_arg> arguments) const {
        check(gpi_stream_launch(get(), kernel.get(), &config, arguments.begin(), arguments.size()));
    }
};

/** An opened device. */
class device : public owner<gpi_device, gpi_device_destroy> {
public:
    using owner::owner;

    /** The device that exported the memory, on the backend that supports it. */
    static device open_for(const gpi_identity &exporter) {
        return device(made<gpi_device>(gpi_device_open_for, &exporter));
    }

    gpi_device_info info() const { return made<gpi_device_info>(gpi_device_get_info, get()); }
    gpi_support support(const char *name) const {
        return made<gpi_support>(gpi_device_get_support, get(), name);
    }
    bool supports(const char *name) const { return support(name).level <= GPI_SUPPORT_EMULATED; }

    /** Imports memory. If it throws, the description still owns its handle. */
    memory import_memory(memory_import &&import) const {
        return memory(made<gpi_memory>(gpi_device_import_memory, get(), &import.get()));
    }
    /** Imports a semaphore. If it throws, the description still owns its handle. */
    semaphore import_semaphore(semaphore_import &&import) const {
        return semaphore(made<gpi_semaphore>(gpi_device_import_semaphore, get(), &import.get()));
    }
    buffer allocate_exportable(std::uint64_t size) const {
        return buffer(made<gpi_buffer>(gpi_device_allocate_exportable, get(), size));
    }
    stream create_stream() const { return stream(made<gpi_stream>(gpi_stream_create, get())); }
    event create_event() const { return event(made<gpi_event>(gpi_event_create, get())); }
    timeline create_timeline(const exported_semaphore &exporter,
                             std::int32_t strategy = GPI_TIMELINE_AUTO) const {
        return timeline(made<gpi_timeline>(gpi_timeline_create, get(), exporter.get(), strategy));
    }
    kernel_module load_module(std::int32_t kind, const void *data, std::size_t size) const {
        return kernel_module(made<gpi_module>(gpi_module_load, get(), kind, data, size));
    }
    void collect() const { check(gpi_device_collect(get())); }
};

/** A loaded driver. */
class backend : public owner<gpi_backend, gpi_backend_destroy> {
public:
    using owner::owner;

    /** "cuda", "hip", "host" or "auto"; null reads GPU_INTEROP_BACKEND. */
    static backend load(const char *name = nullptr) { return backend(made<gpi_backend>(gpi_backend_load, name)); }

    gpi_backend_info info() const { return made<gpi_backend_info>(gpi_backend_get_info, get()); }
    std::vector<gpi_identity> devices() const {
        std::vector<gpi_identity> devices(info().device_count);
        for (std::uint32_t i = 0; i < devices.size(); ++i) {
            check(gpi_backend_get_device(get(), i, &devices[i]));
        }
        return devices;
    }
    device open(std::uint32_t ordinal = 0) const { return device(made<gpi_device>(gpi_device_open, get(), ordinal)); }
    device open_matching(const gpi_identity &identity) const {
        return device(made<gpi_device>(gpi_device_open_matching, get(), &identity));
    }
};

/** An exportable Vulkan buffer. */
class vulkan_buffer : public owner<gpi_vulkan_buffer, gpi_vulkan_buffer_destroy> {
public:
    using owner::owner;

    gpi_vulkan_memory_info info() const { return made<gpi_vulkan_memory_info>(gpi_vulkan_buffer_get_info, get()); }
    memory_import export_memory() const {
        return memory_import(made<gpi_memory_import>(gpi_vulkan_buffer_export, get()));
    }
};

/** An exportable Vulkan image. */
class vulkan_image : public owner<gpi_vulkan_image, gpi_vulkan_image_destroy> {
public:
    using owner::owner;

    gpi_vulkan_memory_info info() const { return made<gpi_vulkan_memory_info>(gpi_vulkan_image_get_info, get()); }
    memory_import export_memory() const {
        return memory_import(made<gpi_memory_import>(gpi_vulkan_image_export, get()));
    }
};

/** The application's Vulkan device, which this neither owns nor destroys. */
class vulkan : public owner<gpi_vulkan, gpi_vulkan_destroy> {
public:
    using owner::owner;

    /** The application keeps instance and device until everything made from this is destroyed. */
    static vulkan wrap(const gpi_vulkan_device &device) {
        return vulkan(made<gpi_vulkan>(gpi_vulkan_wrap, &device, gpi_release_function{}, static_cast<void *>(nullptr)));
    }

    gpi_identity identity() const { return made<gpi_identity>(gpi_vulkan_get_identity, get()); }
    vulkan_buffer create_buffer(const gpi_vulkan_buffer_options &options) const {
        return vulkan_buffer(made<gpi_vulkan_buffer>(gpi_vulkan_buffer_create, get(), &options));
    }
    vulkan_image create_image(const gpi_vulkan_image_options &options) const {
        return vulkan_image(made<gpi_vulkan_image>(gpi_vulkan_image_create, get(), &options));
    }
    exported_semaphore create_timeline(std::uint64_t initial = 0) const {
        return exported_semaphore(made<gpi_exported_semaphore>(
            gpi_exported_semaphore_create_vulkan, get(), static_cast<std::int32_t>(GPI_PAYLOAD_TIMELINE), initial));
    }
};

} // namespace gpi

#endif
