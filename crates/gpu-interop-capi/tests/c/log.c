/* The library's log. */
#include "check.h"

static int messages, selected, inner;

static void listen(int32_t level, const char *target, const char *message, void *data) {
    CHECK(data == &messages && level >= GPI_LOG_ERROR && level <= GPI_LOG_DEBUG);
    messages++;
    selected += strstr(target, "gpu_interop") != NULL && strstr(message, "selected") != NULL;
    /* From inside, the log cannot be changed, and calls cause no messages. */
    inner = gpi_set_log(GPI_LOG_OFF, NULL, NULL);
}

static void load(void) {
    gpi_backend backend;
    OK(gpi_backend_load("host", &backend));
    OK(gpi_backend_destroy(backend));
}

int main(void) {
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_set_log(6, listen, &messages));
    OK(gpi_set_log(GPI_LOG_OFF, NULL, NULL));
    load();
    CHECK(messages == 0);
    OK(gpi_set_log(GPI_LOG_DEBUG, listen, &messages));
    load();
    CHECK(messages > 0 && selected > 0 && inner == GPI_ERROR_INVALID_ARGUMENT);
    OK(gpi_set_log(GPI_LOG_ERROR, listen, &messages));
    messages = 0;
    load();
    CHECK(messages == 0);
    OK(gpi_set_log(GPI_LOG_DEBUG, listen, &messages));
    load();
    CHECK(messages > 0);
    messages = 0;
    OK(gpi_set_log(GPI_LOG_DEBUG, NULL, NULL));
    load();
    CHECK(messages == 0);
    return finish();
}
