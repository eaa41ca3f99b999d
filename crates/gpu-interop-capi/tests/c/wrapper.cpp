// The types of gpu_interop.hpp: ownership by moves, exceptions, data.
#include <gpu_interop.hpp>

#include <cstdio>
#include <cstdlib>
#include <type_traits>

#define CHECK(condition) \
    ((condition) ? (void)0 : (std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition), std::exit(1)))

static_assert(!std::is_copy_constructible_v<gpi::stream> && std::is_nothrow_move_constructible_v<gpi::stream>);
static_assert(!std::is_copy_assignable_v<gpi::memory_import> && std::is_nothrow_move_assignable_v<gpi::buffer>);

static void run() {
    auto backend = gpi::backend::load("host");
    CHECK(backend.devices().size() == 1 && backend.devices()[0].kind == GPI_DEVICE_CPU);
    auto device = backend.open_matching(backend.devices()[0]);
    backend.close();
    CHECK(!backend);
    CHECK(device.supports("feature.kernels") && !device.supports("feature.textures"));

    auto exported = device.allocate_exportable(4096);
    auto stream = device.create_stream();
    auto buffer = device.import_memory(exported.export_memory()).map_buffer();
    CHECK(buffer.size() >= 4096);
    stream.fill_u32(buffer, 0xcafef00d);
    std::vector<std::uint32_t> words(1024);
    stream.read(exported.range(0, 4096), words.data(), words.size());
    for (auto word : words) {
        CHECK(word == 0xcafef00d);
    }

    // Failed imports keep their handle, and an exception has the status.
    auto import = exported.export_memory();
    auto size = std::exchange(import.get().size, 0);
    try {
        device.import_memory(std::move(import));
        CHECK(false);
    } catch (const gpi::error &error) {
        CHECK(error.status() == GPI_ERROR_INVALID_ARGUMENT && std::strstr(error.what(), "size is 0"));
        CHECK(std::strcmp(error.kind(), "invalid argument") == 0);
    }
    CHECK(import.get().fd >= 0);
    import.get().size = size;
    gpi::memory memory = device.import_memory(std::move(import));
    CHECK(import.get().fd == -1);
    gpi::memory other = std::move(memory);
    CHECK(!memory && other);
    other = gpi::memory();

    auto semaphore = gpi::exported_semaphore::host_timeline(3);
    auto imported = device.import_semaphore(semaphore.export_semaphore());
    auto timeline = device.create_timeline(semaphore, GPI_TIMELINE_BRIDGE);
    stream.signal({imported.op(4)});
    stream.wait(timeline, 4);
    stream.signal(timeline, 5);
    timeline.wait(5, std::chrono::seconds(10));
    CHECK(semaphore.value() == 5 && timeline.strategy() == GPI_TIMELINE_BRIDGE);
    CHECK(gpi::timeout_ns(std::chrono::milliseconds(60)) == 60000000 && gpi::timeout_ns(gpi::no_timeout) == GPI_NO_TIMEOUT);
    stream.wait(timeline, 6);
    try {
        stream.synchronize(std::chrono::milliseconds(20));
        CHECK(false);
    } catch (const gpi::error &error) {
        CHECK(error.status() == GPI_ERROR_TIMEOUT);
    }
    semaphore.signal(6);
    stream.synchronize();
    CHECK(stream.idle());

    auto increment = device.load_module(GPI_MODULE_BUILTIN, nullptr, 0).kernel("increment");
    gpi_launch_config config{{4, 1, 1}, {256, 1, 1}, 0};
    stream.launch(increment, config, {gpi::arg(buffer), gpi::arg(std::uint64_t{1024})});
    stream.read(exported.range(0, 4096), words.data(), words.size());
    CHECK(words[0] == 0xcafef00e && words[1023] == 0xcafef00e);

    // Every type of integer, also those that have no name of a size: `CUsurfObject` is an `unsigned long long`.
    auto is = [](gpi_kernel_arg arg, std::int32_t kind, std::uint64_t bits) { return arg.kind == kind && arg.bits == bits; };
    CHECK(is(gpi::arg(7ull), GPI_ARG_U64, 7) && is(gpi::arg(7ul), sizeof(long) == 8 ? GPI_ARG_U64 : GPI_ARG_U32, 7));
    CHECK(is(gpi::arg(-7ll), GPI_ARG_I64, ~std::uint64_t{6}) && is(gpi::arg(-7), GPI_ARG_I32, 0xfffffff9));
    CHECK(is(gpi::arg(-7l), sizeof(long) == 8 ? GPI_ARG_I64 : GPI_ARG_I32, ~0ul - 6));
    CHECK(is(gpi::arg(7u), GPI_ARG_U32, 7) && is(gpi::arg(true), GPI_ARG_U8, 1));
    CHECK(is(gpi::arg(std::uint8_t{200}), GPI_ARG_U8, 200) && is(gpi::arg(std::int8_t{-7}), GPI_ARG_I8, 0xf9));
    CHECK(is(gpi::arg(std::uint16_t{60000}), GPI_ARG_U16, 60000) && is(gpi::arg(std::int16_t{-7}), GPI_ARG_I16, 0xfff9));
    CHECK(is(gpi::arg('a'), std::is_signed_v<char> ? GPI_ARG_I8 : GPI_ARG_U8, 97) && is(gpi::arg(u'a'), GPI_ARG_U16, 97));
    enum mode : std::int16_t { off = -1, on };
    enum class level : std::uint8_t { low, high };
    enum plain { none, some };
    CHECK(is(gpi::arg(off), GPI_ARG_I16, 0xffff) && is(gpi::arg(level::high), GPI_ARG_U8, 1));
    CHECK(gpi::arg(some).bits == 1 && (gpi::arg(some).kind == GPI_ARG_U32 || gpi::arg(some).kind == GPI_ARG_I32));

    // A structure arrives as one, which this kernel does not take.
    struct alignas(16) parameters { float x[4]; std::uint32_t n; } structure{};
    auto argument = gpi::arg(structure);
    CHECK(argument.kind == GPI_ARG_VALUE && argument.value_size == 32 && argument.value_alignment == 16);
    CHECK(gpi::arg(buffer.get()).kind == GPI_ARG_RANGE && gpi::arg(buffer.get()).range.buffer.id == buffer.get().id);
    stream.launch(increment, config, {gpi::arg(buffer), argument});
    try {
        stream.synchronize();
        CHECK(false);
    } catch (const gpi::error &error) {
        CHECK(std::strstr(error.what(), "argument 1 is a struct or an array") != nullptr);
    }
}

int main() {
    run();
    CHECK(gpi_live_handles() == 0);
    return 0;
}
