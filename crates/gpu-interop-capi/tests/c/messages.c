/* Messages name the functions and types of C: check.h examines the message of every call that fails. */
#include "check.h"

/* A call that fails with any status. */
#define WRONG(call) (CHECK((call) != GPI_SUCCESS), no_names_of_rust(__FILE__, __LINE__))

static gpi_status never(void *data, uint64_t *value) {
    (void)data;
    *value = 0;
    return GPI_SUCCESS;
}
static gpi_status ignore(void *data, uint64_t value) { return (void)data, (void)value, GPI_SUCCESS; }
static gpi_status expire(void *data, uint64_t value, uint64_t timeout_ns) {
    return (void)data, (void)value, (void)timeout_ns, GPI_ERROR_TIMEOUT;
}

/* A timeout lists the timelines that the stream waits for. */
static void timeouts(gpi_device device) {
    gpi_timeline_functions functions = {0};
    functions.value = never;
    functions.signal = ignore;
    functions.wait = expire;
    int32_t strategies[] = {GPI_TIMELINE_NATIVE, GPI_TIMELINE_BRIDGE, GPI_TIMELINE_BRIDGE};
    for (int i = 0; i < 3; i++) {
        gpi_exported_semaphore exporter;
        gpi_timeline timeline;
        gpi_stream stream;
        if (i == 2) {
            OK(gpi_exported_semaphore_wrap_functions(&functions, &exporter));
        } else {
            OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 0, &exporter));
        }
        OK(gpi_timeline_create(device, exporter, strategies[i], &timeline));
        OK(gpi_stream_create(device, &stream));
        OK(gpi_stream_wait_timeline(stream, timeline, 5));
        FAILS(GPI_ERROR_TIMEOUT, gpi_stream_synchronize(stream, SECOND / 50));
        SAYS(i == 2 ? "waits for: a timeline of the application: value 5; it is 0" : "waits for: timeline 0x");
        SAYS("value 5; it is 0, and was last signalled here to 0");
        FAILS(GPI_ERROR_TIMEOUT, gpi_timeline_wait(timeline, 5, 0));
        WRONG(gpi_stream_signal_timeline(stream, timeline, 0));
        OK(gpi_timeline_abandon(timeline, "gone"));
        FAILS(GPI_ERROR_CANCELLED, gpi_timeline_wait(timeline, 9, 0));
        FAILS(GPI_ERROR_CANCELLED, gpi_stream_wait_timeline(stream, timeline, 9));
        FAILS(GPI_ERROR_CANCELLED, gpi_stream_signal_timeline(stream, timeline, 9));
        OK(gpi_stream_destroy(stream));
        OK(gpi_timeline_destroy(timeline));
        OK(gpi_exported_semaphore_destroy(exporter));
    }
    gpi_exported_semaphore binary;
    gpi_timeline timeline;
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_BINARY, 0, &binary));
    WRONG(gpi_timeline_create(device, binary, GPI_TIMELINE_AUTO, &timeline));
    WRONG(gpi_timeline_create(device, binary, 77, &timeline));
    uint64_t value;
    WRONG(gpi_exported_semaphore_get_value(binary, &value));
    OK(gpi_exported_semaphore_destroy(binary));
}

static void imports(gpi_device device, gpi_buffer buffer) {
    gpi_memory_import good, import;
    gpi_memory memory;
    gpi_buffer mapped;
    OK(gpi_buffer_export(buffer, &good));
    import = good;
    import.size = 0;
    WRONG(gpi_device_import_memory(device, &import, &memory));
    import.size = 1 << 24;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    import = good;
    import.kind = 77;
    WRONG(gpi_device_import_memory(device, &import, &memory));
    import.kind = GPI_MEMORY_NVSCIBUF;
    WRONG(gpi_device_import_memory(device, &import, &memory));
    import = good;
    import.flags |= GPI_IMPORT_HAS_EXPORTER;
    import.exporter.fields = GPI_IDENTITY_UUID;
    import.exporter.kind = GPI_DEVICE_GPU;
    import.exporter.uuid[0] = 9;
    FAILS(GPI_ERROR_DEVICE_MISMATCH, gpi_device_import_memory(device, &import, &memory));
    import.exporter.kind = 77;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    SAYS("kind: 77");
    import.exporter.kind = GPI_DEVICE_CPU;
    import.exporter.fields = 64;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    SAYS("fields: 0x40");
    gpi_device other;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_open_for(&import.exporter, &other));

    /* An image of optimal tiling. */
    import = good;
    import.flags = GPI_IMPORT_HAS_IMAGE;
    import.image.shape = GPI_SHAPE_2D;
    import.image.width = import.image.height = 16;
    import.image.channel = GPI_CHANNEL_UNORM8;
    import.image.channels = 4;
    import.image.levels = 1;
    OK(gpi_device_import_memory(device, &import, &memory));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, &mapped));
    SAYS("image: 2D, 16 x 16, 4 x Unorm8, 1 mip level");
    gpi_array array;
    gpi_array_desc desc = import.image;
    WRONG(gpi_memory_map_array(memory, &desc, &array));
    desc.width = 15;
    WRONG(gpi_memory_map_array(memory, &desc, &array));
    desc.levels = 99;
    WRONG(gpi_memory_map_array(memory, &desc, &array));
    desc.width = 0;
    WRONG(gpi_memory_map_array(memory, &desc, &array));
    OK(gpi_memory_destroy(memory));
}

static void work(gpi_device device, gpi_buffer buffer) {
    gpi_stream stream;
    OK(gpi_stream_create(device, &stream));
    FAILS(GPI_ERROR_INVALID_ARGUMENT,
          gpi_stream_copy(stream, gpi_range_of(buffer, 0, 64), gpi_range_of(buffer, 32, 64)));
    SAYS("dst: 0x");
    WRONG(gpi_stream_copy(stream, gpi_range_of(buffer, 0, 64), gpi_range_of(buffer, 64, 32)));
    WRONG(gpi_stream_fill_u32(stream, gpi_range_of(buffer, 1, 8), 7));
    SAYS("address: 0x");
    WRONG(gpi_stream_fill(stream, gpi_range_of(buffer, 0, 1 << 20), 7));
    WRONG(gpi_stream_wait_value_u32(stream, gpi_range_of(buffer, 1, 4), 7, GPI_WAIT_EQUAL));
    WRONG(gpi_stream_wait_value_u64(stream, gpi_range_of(buffer, 4, 8), 7, 99));
    WRONG(gpi_stream_write_value_u64(stream, gpi_range_of(buffer, 4, 8), 7));
    uint32_t word;
    WRONG(gpi_stream_read(stream, gpi_range_all(buffer), &word, sizeof word));
    gpi_module module;
    gpi_kernel kernel;
    WRONG(gpi_module_load(device, GPI_MODULE_PTX, "", 1, &module));
    WRONG(gpi_module_load(device, 77, NULL, 0, &module));
    OK(gpi_module_load(device, GPI_MODULE_BUILTIN, NULL, 0, &module));
    WRONG(gpi_module_get_kernel(module, "no such kernel", &kernel));
    OK(gpi_module_get_kernel(module, "increment", &kernel));
    gpi_launch_config config = {0};
    WRONG(gpi_stream_launch(stream, kernel, &config, NULL, 0));
    OK(gpi_kernel_destroy(kernel));
    OK(gpi_module_destroy(module));
    OK(gpi_stream_destroy(stream));
}

int main(void) {
    gpi_device device = open_host();
    gpi_buffer buffer, other;
    OK(gpi_device_allocate_exportable(device, 8192, &buffer));
    WRONG(gpi_device_allocate_exportable(device, 0, &other));
    WRONG(gpi_device_allocate_exportable(device, UINT64_MAX, &other));
    WRONG(gpi_device_wrap_memory(device, 0, 4096, NULL, NULL, &other));
    WRONG(gpi_device_wrap_memory(device, 4096, 0, NULL, NULL, &other));
    WRONG(gpi_device_wrap_memory(device, UINT64_MAX - 3, 4096, NULL, NULL, &other));
    gpi_backend backend;
    WRONG(gpi_backend_load("hosts", &backend));
    WRONG(gpi_backend_load("cpu", &backend));
    gpi_identity identity;
    WRONG(gpi_identity_from_uuid("zzz", &identity));
    timeouts(device);
    imports(device, buffer);
    work(device, buffer);
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_device_destroy(device));
    return finish();
}
