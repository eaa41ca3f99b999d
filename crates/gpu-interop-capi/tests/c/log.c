/* The library's log. */
#include "check.h"

static int messages, selected, bridged, inner;

static void listen(int32_t level, const char *target, const char *message, void *data) {
    CHECK(data == &messages && level >= GPI_LOG_ERROR && level <= GPI_LOG_DEBUG);
    messages++;
    selected += strstr(target, "gpu_interop") != NULL && strstr(message, "selected") != NULL;
    bridged += level == GPI_LOG_INFO && strstr(message, "the host bridge transfers its values") != NULL;
    /* From inside, the log cannot be changed, and calls cause no messages. */
    inner = gpi_set_log(GPI_LOG_OFF, NULL, NULL);
}

static void load(void) {
    gpi_backend backend;
    OK(gpi_backend_load("host", &backend));
    OK(gpi_backend_destroy(backend));
}

/* A timeline that its exporter cannot export, so that a bridge transfers its values. */
static gpi_status no_value(void *data, uint64_t *value) {
    (void)data;
    *value = 0;
    return GPI_SUCCESS;
}

static gpi_status no_signal(void *data, uint64_t value) {
    (void)data, (void)value;
    return GPI_SUCCESS;
}

static gpi_status no_wait(void *data, uint64_t value, uint64_t timeout_ns) {
    (void)data, (void)value, (void)timeout_ns;
    return GPI_ERROR_TIMEOUT;
}

static void create_bridge(void) {
    gpi_timeline_functions functions = {NULL, no_value, no_signal, no_wait, NULL};
    gpi_device device = open_host();
    gpi_exported_semaphore exporter;
    gpi_timeline timeline;
    OK(gpi_exported_semaphore_wrap_functions(&functions, &exporter));
    OK(gpi_timeline_create(device, exporter, GPI_TIMELINE_AUTO, &timeline));
    OK(gpi_timeline_destroy(timeline));
    OK(gpi_exported_semaphore_destroy(exporter));
    OK(gpi_device_destroy(device));
}

int main(void) {
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_set_log(6, listen, &messages));
    OK(gpi_set_log(GPI_LOG_OFF, NULL, NULL));
    load();
    CHECK(messages == 0);
    OK(gpi_set_log(GPI_LOG_DEBUG, listen, &messages));
    load();
    CHECK(messages > 0 && selected > 0 && inner == GPI_ERROR_INVALID_ARGUMENT);
    OK(gpi_set_log(GPI_LOG_INFO, listen, &messages));
    create_bridge();
    CHECK(bridged == 1);
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
