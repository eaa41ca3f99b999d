/* Imported semaphores, exported ones, and the order that they give to the work of two streams. */
#include "check.h"

static gpi_semaphore import(gpi_device device, gpi_exported_semaphore exported, int32_t kind) {
    gpi_semaphore_import description;
    gpi_semaphore semaphore;
    OK(gpi_exported_semaphore_export(exported, &description));
    CHECK(description.kind == kind && description.fd >= 0);
    OK(gpi_device_import_semaphore(device, &description, &semaphore));
    CHECK(description.fd == -1);
    int32_t found;
    uint64_t raw = 0;
    OK(gpi_semaphore_get_info(semaphore, &found, &raw));
    CHECK(found == kind && raw != 0);
    OK(gpi_semaphore_get_info(semaphore, NULL, NULL));
    return semaphore;
}

static gpi_semaphore_op op(gpi_semaphore semaphore, uint64_t value) {
    gpi_semaphore_op result;
    memset(&result, 0, sizeof result);
    result.semaphore = semaphore;
    result.value = value;
    return result;
}

int main(void) {
    gpi_device device = open_host();
    gpi_stream first, second;
    OK(gpi_stream_create(device, &first));
    OK(gpi_stream_create(device, &second));
    gpi_buffer buffer;
    OK(gpi_device_allocate_exportable(device, 4096, &buffer));

    gpi_exported_semaphore binary, timeline;
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_BINARY, 0, &binary));
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 5, &timeline));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_exported_semaphore_create_host(3, 0, &binary));
    gpi_semaphore imported_binary = import(device, binary, GPI_SEMAPHORE_OPAQUE_FD);
    gpi_semaphore imported_timeline = import(device, timeline, GPI_SEMAPHORE_TIMELINE_FD);

    /* The second stream waits for both, in one batch, before it copies what the first one writes. */
    gpi_semaphore_op waits[2] = {op(imported_binary, 0), op(imported_timeline, 8)};
    OK(gpi_stream_wait(second, waits, 2));
    OK(gpi_stream_copy(second, gpi_range_of(buffer, 2048, 1024), gpi_range_of(buffer, 0, 1024)));
    int32_t idle = 1;
    OK(gpi_stream_query(second, &idle));
    CHECK(!idle);
    FAILS(GPI_ERROR_TIMEOUT, gpi_stream_synchronize(second, SECOND / 50));
    OK(gpi_stream_fill(first, gpi_range_of(buffer, 0, 1024), 9));
    gpi_semaphore_op signals[2] = {op(imported_binary, 0), op(imported_timeline, 8)};
    OK(gpi_stream_signal(first, signals, 2));
    OK(gpi_stream_synchronize(second, 10 * SECOND));
    unsigned char bytes[1024];
    OK(gpi_stream_read(second, gpi_range_of(buffer, 2048, 1024), bytes, 1024));
    for (int i = 0; i < 1024; i++) {
        CHECK(bytes[i] == 9);
    }
    uint64_t value = 0;
    OK(gpi_exported_semaphore_get_value(timeline, &value));
    CHECK(value == 8);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_signal(first, signals + 1, 1)); /* 8 again. */
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_signal(first, signals, 0));

    /* The host on one side. */
    gpi_semaphore_op wait = op(imported_timeline, 9), signal = op(imported_timeline, 10);
    OK(gpi_stream_wait(first, &wait, 1));
    OK(gpi_stream_signal(first, &signal, 1));
    FAILS(GPI_ERROR_TIMEOUT, gpi_exported_semaphore_wait(timeline, 10, SECOND / 50));
    OK(gpi_exported_semaphore_signal(timeline, 9));
    OK(gpi_exported_semaphore_wait(timeline, 10, 10 * SECOND));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_exported_semaphore_signal(timeline, 10));
    gpi_semaphore_op signal_binary = op(imported_binary, 0);
    OK(gpi_stream_signal(first, &signal_binary, 1));
    OK(gpi_exported_semaphore_wait(binary, 0, 10 * SECOND));
    OK(gpi_exported_semaphore_signal(binary, 0));
    OK(gpi_exported_semaphore_wait(binary, 0, SECOND));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_exported_semaphore_get_value(binary, &value));
    uint64_t vk_semaphore;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_exported_semaphore_get_vulkan(binary, &vk_semaphore));

    /* Not imported: closed. */
    gpi_semaphore_import unused;
    OK(gpi_exported_semaphore_export(timeline, &unused));
    OK(gpi_semaphore_import_close(&unused));
    CHECK(unused.fd == -1);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_semaphore(device, &unused, &imported_binary));

    OK(gpi_semaphore_destroy(imported_binary));
    OK(gpi_semaphore_destroy(imported_timeline));
    OK(gpi_exported_semaphore_destroy(binary));
    OK(gpi_exported_semaphore_destroy(timeline));
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_stream_destroy(first));
    OK(gpi_stream_destroy(second));
    OK(gpi_device_destroy(device));
    return finish();
}
