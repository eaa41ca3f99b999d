// Memory that the compute device allocated, imported by a second device as another process would, and filled and copied in the
// order of a timeline. Runs on the CPU where there is no GPU.
//
//     c++ -std=c++17 fill.cpp $(pkg-config --cflags --libs gpu_interop) -o fill
#include <gpu_interop.hpp>

#include <cstdio>
#include <vector>

static int run() {
    constexpr std::size_t words = 1024;
    // GPU_INTEROP_BACKEND selects another one.
    auto backend = gpi::backend::load();
    auto producer = backend.open();
    auto consumer = backend.open();
    std::printf("%s on %s\n", producer.info().identity.name, backend.info().name);

    // The exporting side. The import owns the exported descriptor; if it fails, `import_memory` throws, and the descriptor is
    // closed with its description.
    auto shared = producer.allocate_exportable(2 * words * sizeof(std::uint32_t));
    auto imported = consumer.import_memory(shared.export_memory()).map_buffer();

    // One counter, which the streams of both devices signal and wait for.
    auto counter = gpi::exported_semaphore::host_timeline();
    auto produced = producer.create_timeline(counter);
    auto consumed = consumer.create_timeline(counter);

    auto fill = producer.create_stream();
    auto copy = consumer.create_stream();
    constexpr std::uint64_t half = words * sizeof(std::uint32_t);
    // The wait may be enqueued before its signal.
    copy.wait(consumed, 1);
    copy.copy(imported.range(half, half), imported.range(0, half));
    copy.signal(consumed, 2);
    fill.fill_u32(shared.range(0, half), 0xCAFEF00D);
    fill.signal(produced, 1);

    produced.wait(2, std::chrono::seconds(10));
    std::vector<std::uint32_t> data(words);
    fill.read(shared.range(half, half), data.data(), data.size());
    std::size_t right = 0;
    for (auto word : data) {
        right += word == 0xCAFEF00D;
    }
    std::printf("%zu of %zu words\n", right, words);
    return right == words ? 0 : 1;
}

int main() {
    try {
        return run();
    } catch (const gpi::error &error) {
        std::fprintf(stderr, "%s: %s\n", error.kind(), error.what());
        return 1;
    }
}
