/* On the driver of GPU_INTEROP_BACKEND: streams of the application, and a driver that fails to start (`failed`). */
#include "check.h"

static int released, warned;

static void release(void *data) { ++*(int *)data; }

static void listen(int32_t level, const char *target, const char *message, void *data) {
    (void)target, (void)data;
    warned += level == GPI_LOG_WARN && strstr(message, "driver of a backend failed") && strstr(message, "cuInit");
}

/* The CPU does not replace a GPU silently: the reason is in the description, and in the log. */
static int failed(void) {
    OK(gpi_set_log(GPI_LOG_WARN, listen, NULL));
    gpi_backend backend;
    OK(gpi_backend_load("auto", &backend));
    gpi_backend_info info;
    OK(gpi_backend_get_info(backend, &info));
    CHECK(strcmp(info.name, "host") == 0);
    CHECK(strncmp(info.passed_over, "cuda: cuInit", 12) == 0 && strstr(info.passed_over, "\nhip: ") != NULL);
    CHECK(warned == 1);
    OK(gpi_backend_destroy(backend));
    return finish();
}

static void streams(gpi_device device) {
    gpi_stream own, wrapped = {7};
    gpi_buffer buffer;
    uint64_t raw = 0;
    OK(gpi_stream_create(device, &own));
    OK(gpi_stream_get_raw(own, &raw));
    OK(gpi_device_allocate_exportable(device, 4096, &buffer));
    /* The per-thread default stream is another one on every thread. */
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_wrap(device, 2, release, &released, &wrapped));
    SAYS("another stream on every thread");
    SAYS("gpi_stream_create");
    CHECK(released == 0 && wrapped.id == 7);
    /* The driver's default stream, and one of the application. */
    uint64_t accepted[2] = {0, raw};
    for (int i = 0; i < 2; i++) {
        OK(gpi_stream_wrap(device, accepted[i], release, &released, &wrapped));
        OK(gpi_stream_fill(wrapped, gpi_range_all(buffer), (uint8_t)(i + 1)));
        unsigned char bytes[4096];
        OK(gpi_stream_read(wrapped, gpi_range_of(buffer, 0, sizeof bytes), bytes, sizeof bytes));
        CHECK(bytes[0] == i + 1 && bytes[4095] == i + 1);
        OK(gpi_stream_destroy(wrapped));
        OK(gpi_device_collect(device));
        CHECK(released == i + 1);
    }
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_stream_destroy(own));
}

int main(int count, char **arguments) {
    if (count > 1 && strcmp(arguments[1], "failed") == 0) {
        return failed();
    }
    gpi_backend backend;
    gpi_device device;
    OK(gpi_backend_load(NULL, &backend));
    OK(gpi_device_open(backend, 0, &device));
    OK(gpi_backend_destroy(backend));
    streams(device);
    OK(gpi_device_destroy(device));
    return finish();
}
