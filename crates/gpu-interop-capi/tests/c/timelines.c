/* Timelines: native, over the bridge, and over functions of the application. */
#include "check.h"
#include <pthread.h>
#include <time.h>

/* A timeline of the application. */
typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t value;
    int released;
} counter;

static gpi_status counter_value(void *data, uint64_t *value) {
    counter *own = data;
    pthread_mutex_lock(&own->lock);
    *value = own->value;
    pthread_mutex_unlock(&own->lock);
    return GPI_SUCCESS;
}

static gpi_status counter_signal(void *data, uint64_t value) {
    counter *own = data;
    pthread_mutex_lock(&own->lock);
    own->value = value;
    pthread_cond_broadcast(&own->changed);
    pthread_mutex_unlock(&own->lock);
    return GPI_SUCCESS;
}

static gpi_status counter_wait(void *data, uint64_t value, uint64_t timeout_ns) {
    counter *own = data;
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    uint64_t seconds = timeout_ns / SECOND > 1000 ? 1000 : timeout_ns / SECOND;
    end.tv_sec += (time_t)seconds;
    end.tv_nsec += (long)(timeout_ns % SECOND);
    if (end.tv_nsec >= (long)SECOND) {
        end.tv_nsec -= (long)SECOND;
        end.tv_sec++;
    }
    int result = 0;
    pthread_mutex_lock(&own->lock);
    while (own->value < value && result == 0) {
        result = pthread_cond_timedwait(&own->changed, &own->lock, &end);
    }
    gpi_status status = own->value >= value ? GPI_SUCCESS : GPI_ERROR_TIMEOUT;
    pthread_mutex_unlock(&own->lock);
    return status;
}

static void counter_release(void *data) { __atomic_store_n(&((counter *)data)->released, 1, __ATOMIC_SEQ_CST); }

/* The host signals 1; a stream waits for it, fills, and signals 2; the host waits for that. */
static void round_trip(gpi_device device, gpi_exported_semaphore exporter, int32_t strategy, int32_t wanted) {
    gpi_timeline timeline;
    gpi_stream stream;
    gpi_buffer buffer;
    uint64_t base = 0, value = 0;
    OK(gpi_exported_semaphore_get_value(exporter, &base));
    OK(gpi_timeline_create(device, exporter, strategy, &timeline));
    int32_t found = 0;
    OK(gpi_timeline_get_strategy(timeline, &found));
    CHECK(found == wanted);
    OK(gpi_stream_create(device, &stream));
    OK(gpi_device_allocate_exportable(device, 4096, &buffer));
    for (uint64_t round = 0; round < 100; round++) {
        uint64_t next = base + 2 * round + 1;
        OK(gpi_stream_wait_timeline(stream, timeline, next));
        OK(gpi_stream_fill_u32(stream, gpi_range_all(buffer), (uint32_t)next));
        OK(gpi_stream_signal_timeline(stream, timeline, next + 1));
        OK(gpi_timeline_get_value(timeline, &value));
        CHECK(value < next);
        OK(gpi_exported_semaphore_signal(exporter, next));
        OK(gpi_timeline_wait(timeline, next + 1, 10 * SECOND));
        uint32_t word = 0;
        OK(gpi_stream_read(stream, gpi_range_of(buffer, 4092, 4), &word, 4));
        CHECK(word == (uint32_t)next);
    }
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_signal_timeline(stream, timeline, base + 1));
    FAILS(GPI_ERROR_TIMEOUT, gpi_timeline_wait(timeline, base + 1000, SECOND / 100));
    OK(gpi_timeline_signal(timeline, base + 1000));
    OK(gpi_timeline_wait(timeline, base + 1000, SECOND));

    /* Abandoned: the stream is released, and every later use fails. */
    OK(gpi_stream_wait_timeline(stream, timeline, base + 2000));
    FAILS(GPI_ERROR_TIMEOUT, gpi_stream_synchronize(stream, SECOND / 50));
    OK(gpi_timeline_abandon(timeline, "the renderer is gone"));
    FAILS(GPI_ERROR_CANCELLED, gpi_stream_synchronize(stream, 10 * SECOND));
    SAYS("gpi_stream_synchronize: cancelled: the timeline failed before: the renderer is gone");
    int32_t idle = 0;
    OK(gpi_stream_query(stream, &idle));
    CHECK(idle);
    FAILS(GPI_ERROR_CANCELLED, gpi_timeline_wait(timeline, base + 3000, SECOND));
    SAYS("the renderer is gone");

    OK(gpi_timeline_destroy(timeline));
    OK(gpi_stream_destroy(stream));
    OK(gpi_buffer_destroy(buffer));
}

int main(void) {
    counter own = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 41, 0};
    gpi_timeline_functions functions = {&own, counter_value, counter_signal, counter_wait, counter_release};
    gpi_device device = open_host();
    gpi_exported_semaphore host, application, binary;
    gpi_timeline none;
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 0, &host));
    round_trip(device, host, GPI_TIMELINE_AUTO, GPI_TIMELINE_NATIVE);
    OK(gpi_exported_semaphore_destroy(host));
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 7, &host));
    round_trip(device, host, GPI_TIMELINE_BRIDGE, GPI_TIMELINE_BRIDGE);
    OK(gpi_exported_semaphore_destroy(host));

    OK(gpi_exported_semaphore_wrap_functions(&functions, &application));
    FAILS(GPI_ERROR_UNSUPPORTED, gpi_timeline_create(device, application, GPI_TIMELINE_NATIVE, &none));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_timeline_create(device, application, 9, &none));
    round_trip(device, application, GPI_TIMELINE_AUTO, GPI_TIMELINE_BRIDGE);
    OK(gpi_exported_semaphore_destroy(application));

    functions.wait = NULL;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_exported_semaphore_wrap_functions(&functions, &application));
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_BINARY, 0, &binary));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_timeline_create(device, binary, GPI_TIMELINE_AUTO, &none));
    OK(gpi_exported_semaphore_destroy(binary));

    /* Closing the device ends the bridge, which releases the application's timeline. */
    OK(gpi_device_destroy(device));
    for (int wait = 0; wait < 1000 && !__atomic_load_n(&own.released, __ATOMIC_SEQ_CST); wait++) {
        struct timespec pause = {0, 10000000};
        nanosleep(&pause, NULL);
    }
    CHECK(own.released);
    return finish();
}
