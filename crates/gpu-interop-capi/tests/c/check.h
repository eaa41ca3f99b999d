/* Checks of the test programs: every one ends the program with its place and the library's error. */
#ifndef CHECK_H
#define CHECK_H

#include <gpu_interop.h>
#include <stdio.h>
#include <stdlib.h>

static inline void fail(const char *file, int line, const char *what) {
    fprintf(stderr, "%s:%d: %s\nlast error: %s\n", file, line, what, gpi_last_error_message());
    exit(1);
}

#define CHECK(condition) ((condition) ? (void)0 : fail(__FILE__, __LINE__, #condition))
#define OK(call) CHECK((call) == GPI_SUCCESS)
/* The last error's message has no name of Rust: no path, no dump of a structure, no type. */
static inline void no_names_of_rust(const char *file, int line) {
    static const char *const names[] = {"::", " { ", "DevicePtr", "Raw", "Some(", "Semaphore {", "Owned", "External",
                                        "Mipmapped", "ArrayShape", "ArrayUsage", "MemoryImport", " map_mipmapped",
                                        " map_image_bytes", "`Timeline`", "`native`", "`dedicated`", "StreamFaults"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *found = strstr(gpi_last_error_message(), names[i]);
        if (found != NULL && strncmp(found - 4, "gpi_", 4) != 0) {
            fprintf(stderr, "the message has a name of Rust, %s\n", names[i]);
            fail(file, line, "a message of C");
        }
    }
}
/* The call fails with this status, which is also that of the last error. */
#define FAILS(status, call) \
    (CHECK((call) == (status)), CHECK(gpi_last_error_status() == (status)), no_names_of_rust(__FILE__, __LINE__))
/* The last error's message contains a text. */
#define SAYS(text) CHECK(strstr(gpi_last_error_message(), (text)) != NULL)

#define SECOND 1000000000ull

/* The host backend and its device, without leaks at the end. */
static inline gpi_device open_host(void) {
    gpi_backend backend;
    gpi_device device;
    OK(gpi_backend_load("host", &backend));
    OK(gpi_device_open(backend, 0, &device));
    OK(gpi_backend_destroy(backend));
    return device;
}

static inline int finish(void) {
    CHECK(gpi_live_handles() == 0);
    return 0;
}

#endif
