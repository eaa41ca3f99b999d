/* Memory and streams of the application, and their release. */
#include "check.h"

static void released(void *data) { ++*(int *)data; }

int main(void) {
    gpi_device device = open_host();
    int memory_released = 0, stream_released = 0;

    /* On the host backend a device address is a pointer. */
    static unsigned char own[4096];
    gpi_buffer buffer;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_wrap_memory(device, 0, 1, released, &memory_released, &buffer));
    FAILS(GPI_ERROR_INVALID_ARGUMENT,
          gpi_device_wrap_memory(device, (uintptr_t)own, 0, released, &memory_released, &buffer));
    CHECK(memory_released == 0);
    OK(gpi_device_wrap_memory(device, (uintptr_t)own, sizeof own, released, &memory_released, &buffer));

    gpi_stream stream, same;
    uint64_t raw = 0, again = 0;
    OK(gpi_stream_create(device, &stream));
    OK(gpi_stream_get_raw(stream, &raw));
    /* 0, the legacy default stream, and the per-thread one: the host has none. */
    for (uint64_t number = 0; number <= 2; number++) {
        FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_wrap(device, number, released, &stream_released, &same));
        SAYS("gpi_stream_create");
    }
    CHECK(stream_released == 0);
    OK(gpi_stream_wrap(device, raw, released, &stream_released, &same));
    OK(gpi_stream_get_raw(same, &again));
    CHECK(raw == again);

    OK(gpi_stream_fill(same, gpi_range_of(buffer, 10, 20), 3));
    OK(gpi_stream_keep(same, gpi_range_all(buffer)));
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_stream_synchronize(same, 10 * SECOND));
    OK(gpi_device_collect(device));
    CHECK(memory_released == 1);
    for (int i = 0; i < 40; i++) {
        CHECK(own[i] == (i >= 10 && i < 30 ? 3 : 0));
    }
    OK(gpi_stream_destroy(same));
    OK(gpi_device_collect(device));
    CHECK(stream_released == 1);
    OK(gpi_stream_synchronize(stream, SECOND)); /* The application's stream is alive. */
    OK(gpi_stream_destroy(stream));
    OK(gpi_device_destroy(device));
    CHECK(memory_released == 1 && stream_released == 1);
    return finish();
}
