/* Modules, kernels, events, host functions and words in memory. */
#include "check.h"

enum { WORDS = 4096 };

static gpi_stream of_callback;
static gpi_status in_callback;
/* A callback that waits for its own stream would wait for itself. */
static void waits(void *data) {
    (void)data;
    in_callback = gpi_stream_synchronize(of_callback, 0);
    if (in_callback == GPI_ERROR_INVALID_ARGUMENT) {
        in_callback = gpi_stream_synchronize(of_callback, GPI_NO_TIMEOUT);
    }
}

static void store(void *data) { __atomic_store_n((int *)data, 1, __ATOMIC_SEQ_CST); }

int main(void) {
    gpi_device device = open_host();
    gpi_stream stream, other;
    gpi_module module;
    gpi_kernel fill, increment;
    gpi_buffer buffer;
    OK(gpi_stream_create(device, &stream));
    OK(gpi_stream_create(device, &other));
    OK(gpi_device_allocate_exportable(device, WORDS * 4, &buffer));
    OK(gpi_module_load(device, GPI_MODULE_BUILTIN, NULL, 0, &module));
    OK(gpi_module_get_kernel(module, "fill_pattern", &fill));
    OK(gpi_module_get_kernel(module, "increment", &increment));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_module_get_kernel(module, "missing", &fill));
    SAYS("missing");
    gpi_module bad;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_module_load(device, GPI_MODULE_PTX, "no NUL", 6, &bad));
    FAILS(GPI_ERROR_UNSUPPORTED, gpi_module_load(device, GPI_MODULE_PTX, "ptx", 4, &bad));
    SAYS("load GPI_MODULE_BUILTIN");
    CHECK(strstr(gpi_last_error_message(), "::") == NULL);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_module_load(device, GPI_MODULE_BINARY, NULL, 0, &bad));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_module_load(device, 9, NULL, 0, &bad));
    OK(gpi_module_destroy(module)); /* The kernels keep it loaded. */

    gpi_launch_config config = {{WORDS / 256, 1, 1}, {256, 1, 1}, 0};
    gpi_kernel_arg fill_args[3] = {gpi_arg_buffer(buffer), gpi_arg_u64(WORDS), gpi_arg_u32(17)};
    gpi_kernel_arg increment_args[2] = {gpi_arg_range(gpi_range_of(buffer, 0, 4 * 100)), gpi_arg_u64(100)};
    static uint32_t pattern[WORDS], words[WORDS];
    OK(gpi_stream_launch(stream, fill, &config, fill_args, 3));
    OK(gpi_stream_read(stream, gpi_range_of(buffer, 0, sizeof pattern), pattern, sizeof pattern));
    CHECK(pattern[0] != pattern[1] && pattern[1] != pattern[2]);

    of_callback = stream;
    OK(gpi_stream_launch_host_function(stream, waits, NULL));
    OK(gpi_stream_synchronize(stream, 20 * SECOND));
    CHECK(in_callback == GPI_ERROR_INVALID_ARGUMENT);

    gpi_event event;
    OK(gpi_event_create(device, &event));
    int32_t complete = 0;
    OK(gpi_event_query(event, &complete));
    CHECK(complete);
    OK(gpi_stream_launch(stream, increment, &config, increment_args, 2));
    OK(gpi_stream_record_event(stream, event));
    OK(gpi_stream_wait_event(other, event));
    OK(gpi_stream_read(other, gpi_range_of(buffer, 0, sizeof words), words, sizeof words));
    for (int i = 0; i < WORDS; i++) {
        CHECK(words[i] == pattern[i] + (i < 100));
    }
    OK(gpi_event_query(event, &complete));
    CHECK(complete);
    OK(gpi_event_destroy(event));

    /* A wrong type of argument is an error of the kernel, reported by the next synchronisation. */
    increment_args[1] = gpi_arg_f32(1.5f);
    OK(gpi_stream_launch(stream, increment, &config, increment_args, 2));
    CHECK(gpi_stream_synchronize(stream, SECOND) != GPI_SUCCESS);
    struct { float x, y; } structure = {1, 2};
    increment_args[1] = gpi_arg_value(&structure, sizeof structure, 4);
    OK(gpi_stream_launch(stream, increment, &config, increment_args, 2));
    CHECK(gpi_stream_synchronize(stream, SECOND) != GPI_SUCCESS);
    increment_args[1] = gpi_arg_value(&structure, 7, 4);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch(stream, increment, &config, increment_args, 2));
    increment_args[1] = gpi_arg_value(NULL, 8, 4);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch(stream, increment, &config, increment_args, 2));
    increment_args[1].kind = 99;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch(stream, increment, &config, increment_args, 2));
    config.grid[1] = 0;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch(stream, increment, &config, fill_args, 2));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_launch(stream, increment, NULL, fill_args, 2));

    /* A host function behind a word that another stream writes. */
    int called = 0;
    gpi_range word = gpi_range_of(buffer, 8, 8), half = gpi_range_of(buffer, 0, 4);
    OK(gpi_stream_fill(stream, gpi_range_of(buffer, 0, 64), 0));
    OK(gpi_stream_synchronize(stream, SECOND));
    OK(gpi_stream_wait_value_u64(stream, word, 1ull << 40, GPI_WAIT_GREATER_OR_EQUAL));
    OK(gpi_stream_wait_value_u32(stream, half, 6, GPI_WAIT_AND));
    OK(gpi_stream_launch_host_function(stream, store, &called));
    FAILS(GPI_ERROR_TIMEOUT, gpi_stream_synchronize(stream, SECOND / 50));
    CHECK(!__atomic_load_n(&called, __ATOMIC_SEQ_CST));
    OK(gpi_stream_write_value_u64(other, word, 1ull << 41));
    FAILS(GPI_ERROR_TIMEOUT, gpi_stream_synchronize(stream, SECOND / 50)); /* The other word has no bit of 6. */
    OK(gpi_stream_write_value_u32(other, half, 2));
    OK(gpi_stream_synchronize(stream, 10 * SECOND));
    CHECK(called);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_wait_value_u64(stream, half, 0, GPI_WAIT_EQUAL));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_wait_value_u32(stream, half, 0, 4));

    OK(gpi_kernel_destroy(fill));
    OK(gpi_kernel_destroy(increment));
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_stream_destroy(stream));
    OK(gpi_stream_destroy(other));
    OK(gpi_device_destroy(device));
    return finish();
}
