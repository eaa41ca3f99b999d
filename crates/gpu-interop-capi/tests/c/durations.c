/* Every duration is in nanoseconds: a wait that nothing satisfies ends after it, and not after a thousandth or a thousand times
 * of it. */
#include "check.h"
#include <time.h>

enum { MILLISECONDS = 60 };
static const uint64_t SHORT = MILLISECONDS * (SECOND / 1000);

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

/* The call times out after SHORT. The machine may be slow, but not 80 times. */
#define LASTS(call)                                                    \
    do {                                                               \
        uint64_t start = now();                                        \
        FAILS(GPI_ERROR_TIMEOUT, call);                                \
        uint64_t lasted = now() - start;                               \
        CHECK(lasted >= SHORT && lasted < 80 * SHORT);                 \
    } while (0)

/* The duration that the library passes to a function of the application. */
static uint64_t passed;

static gpi_status value_of(void *data, uint64_t *value) {
    *value = *(uint64_t *)data;
    return GPI_SUCCESS;
}

static gpi_status raise_to(void *data, uint64_t value) {
    *(uint64_t *)data = value;
    return GPI_SUCCESS;
}

static gpi_status wait_for(void *data, uint64_t value, uint64_t timeout_ns) {
    passed = timeout_ns;
    return *(uint64_t *)data >= value ? GPI_SUCCESS : GPI_ERROR_TIMEOUT;
}

int main(void) {
    gpi_device device = open_host();
    gpi_exported_semaphore exported, binary;
    gpi_timeline timeline;
    gpi_stream stream;
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 0, &exported));
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_BINARY, 0, &binary));
    OK(gpi_timeline_create(device, exported, GPI_TIMELINE_AUTO, &timeline));
    OK(gpi_stream_create(device, &stream));
    OK(gpi_stream_wait_timeline(stream, timeline, 1));
    LASTS(gpi_stream_synchronize(stream, SHORT));
    LASTS(gpi_timeline_wait(timeline, 1, SHORT));
    LASTS(gpi_exported_semaphore_wait(exported, 1, SHORT));
    LASTS(gpi_exported_semaphore_wait(binary, 0, SHORT));
    OK(gpi_timeline_signal(timeline, 1));
    OK(gpi_stream_synchronize(stream, GPI_NO_TIMEOUT));

    uint64_t counter = 0;
    gpi_timeline_functions functions = {&counter, value_of, raise_to, wait_for, NULL};
    gpi_exported_semaphore application;
    OK(gpi_exported_semaphore_wrap_functions(&functions, &application));
    FAILS(GPI_ERROR_TIMEOUT, gpi_exported_semaphore_wait(application, 1, SHORT));
    CHECK(passed == SHORT);
    OK(gpi_exported_semaphore_destroy(application));

    /* Destroying the device with a wait that nothing satisfies takes two seconds at most. */
    OK(gpi_stream_wait_timeline(stream, timeline, 2));
    OK(gpi_timeline_destroy(timeline));
    OK(gpi_exported_semaphore_destroy(exported));
    OK(gpi_exported_semaphore_destroy(binary));
    OK(gpi_stream_destroy(stream));
    uint64_t start = now();
    OK(gpi_device_destroy(device));
    CHECK(now() - start < 3 * SECOND);
    return finish();
}
