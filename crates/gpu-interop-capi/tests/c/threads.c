/* Threads that use and destroy the same handles. */
#include "check.h"
#include <pthread.h>

#ifndef ROUNDS
#define ROUNDS 200
#endif

enum { THREADS = 4 };

static gpi_device device;
static gpi_stream shared;

static void *work(void *data) {
    unsigned char number = (unsigned char)(uintptr_t)data;
    for (int round = 0; round < ROUNDS; round++) {
        gpi_stream stream;
        gpi_buffer buffer;
        unsigned char bytes[256];
        OK(gpi_stream_create(device, &stream));
        OK(gpi_device_allocate_exportable(device, sizeof bytes, &buffer));
        gpi_range range = gpi_range_of(buffer, 0, sizeof bytes);
        OK(gpi_stream_fill(stream, range, number));
        OK(gpi_stream_read(stream, range, bytes, sizeof bytes));
        CHECK(bytes[0] == number && bytes[255] == number);
        OK(gpi_stream_destroy(stream));
        OK(gpi_buffer_destroy(buffer));
        /* The last error belongs to the thread. */
        CHECK(gpi_stream_destroy(stream) == GPI_ERROR_INVALID_ARGUMENT);
        SAYS("gpi_stream_destroy");
        /* Another thread destroys this one in the middle: used or invalid. */
        gpi_status status = gpi_stream_synchronize(shared, SECOND);
        CHECK(status == GPI_SUCCESS || status == GPI_ERROR_INVALID_ARGUMENT);
        if (number == 1 && round == ROUNDS / 2) {
            OK(gpi_stream_destroy(shared));
        }
    }
    return NULL;
}

int main(void) {
    device = open_host();
    OK(gpi_stream_create(device, &shared));
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, work, (void *)(i + 1)) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK(gpi_last_error_status() == GPI_SUCCESS);
    OK(gpi_device_destroy(device));
    return finish();
}
