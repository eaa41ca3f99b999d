/* Statuses, messages, null pointers, and handles that are null, destroyed, of another type or arbitrary. */
#include "check.h"

static void messages(void) {
    CHECK(gpi_abi_version() == GPI_ABI_VERSION && gpi_version() == GPI_VERSION);
    CHECK(gpi_last_error_status() == GPI_SUCCESS && gpi_last_error_message()[0] == 0);
    CHECK(strcmp(gpi_status_name(GPI_ERROR_DEVICE_MISMATCH), "device mismatch") == 0);
    CHECK(strcmp(gpi_status_name(12345), "unknown status") == 0);
    gpi_backend backend = {7};
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_backend_load("vulkan", &backend));
    SAYS("vulkan");
    SAYS("cuda, hip, host");
    CHECK(backend.id == 7); /* A failed call writes nothing. */
    CHECK(strlen(gpi_last_error_reason()) < strlen(gpi_last_error_message()));
    CHECK(strcmp(gpi_last_error_operation(), "gpi_backend_load") == 0);
    int64_t code = 3;
    CHECK(gpi_last_error_driver_code(&code) == 0 && code == 3 && gpi_last_error_driver_code_name()[0] == 0);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_backend_load("ho\xff", &backend));
}

static void pointers(gpi_device device) {
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_backend_load("host", NULL));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_create(device, NULL));
    SAYS("null");
    char bytes[64];
    gpi_stream *crooked = (gpi_stream *)(void *)(((uintptr_t)bytes | 7) - 4);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_create(device, crooked));
    SAYS("aligned");
    gpi_memory memory;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, NULL, &memory));
    gpi_support support;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_get_support(device, NULL, &support));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_get_support(device, "feature.magic", &support));
    gpi_stream stream;
    OK(gpi_stream_create(device, &stream));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_signal(stream, NULL, 0));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_signal(stream, NULL, 1));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_wait(stream, NULL, SIZE_MAX));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch_host_function(stream, NULL, NULL));
    OK(gpi_stream_destroy(stream));
}

static void handles(gpi_device device) {
    gpi_stream stream, null = {0}, other_type = {device.id}, arbitrary = {0x1234567890abcdefull};
    OK(gpi_stream_create(device, &stream));
    OK(gpi_stream_synchronize(stream, SECOND));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_synchronize(null, SECOND));
    SAYS("null");
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_synchronize(other_type, SECOND));
    SAYS("is a gpi_device, not a gpi_stream");
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_destroy(other_type));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_synchronize(arbitrary, SECOND));
    OK(gpi_stream_destroy(stream));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_destroy(stream));
    SAYS("destroyed");
    /* A new object does not take the number of a destroyed one. */
    for (int round = 0; round < 1000; round++) {
        gpi_stream next;
        OK(gpi_stream_create(device, &next));
        CHECK(next.id != stream.id);
        OK(gpi_stream_destroy(next));
        CHECK(gpi_stream_synchronize(stream, SECOND) == GPI_ERROR_INVALID_ARGUMENT);
    }
}

int main(void) {
    messages();
    gpi_device device = open_host();
    pointers(device);
    handles(device);
    OK(gpi_device_destroy(device));
    return finish();
}
