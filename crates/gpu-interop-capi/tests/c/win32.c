/* Memory and semaphores by NT handle and by name, on Windows. */
#include <windows.h>

#include "check.h"

enum { BYTES = 1 << 16 };

static int is_open(HANDLE handle) {
    DWORD flags;
    return GetHandleInformation(handle, &flags) != 0;
}

static void verify(gpi_stream stream, gpi_buffer buffer, unsigned char value) {
    static unsigned char bytes[BYTES];
    OK(gpi_stream_read(stream, gpi_range_of(buffer, 0, BYTES), bytes, BYTES));
    for (int i = 0; i < BYTES; i++) {
        CHECK(bytes[i] == value);
    }
}

static void by_handle(gpi_device device, gpi_stream stream) {
    gpi_buffer exported, buffer;
    gpi_memory_import import;
    gpi_memory memory;
    OK(gpi_device_allocate_exportable(device, BYTES, &exported));
    OK(gpi_buffer_export(exported, &import));
    HANDLE handle = import.object;
    CHECK(import.kind == GPI_MEMORY_OPAQUE_WIN32 && import.fd == -1 && is_open(handle));
    uint64_t size = import.size;
    import.size = 0;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    CHECK(import.object == handle && is_open(handle)); /* Still the caller's. */
    import.size = size;
    OK(gpi_device_import_memory(device, &import, &memory));
    CHECK(import.object == NULL);
    OK(gpi_memory_map_buffer(memory, 0, BYTES, &buffer));
    OK(gpi_stream_fill(stream, gpi_range_all(buffer), 0x5a));
    verify(stream, exported, 0x5a);
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_memory_destroy(memory));

    OK(gpi_buffer_export(exported, &import));
    handle = import.object;
    OK(gpi_memory_import_close(&import));
    CHECK(import.object == NULL && !is_open(handle));
    OK(gpi_buffer_destroy(exported));
}

static void by_name(gpi_device device, gpi_stream stream) {
    const wchar_t *name = L"Local\\gpu-interop-capi-test";
    HANDLE file = CreateFileMappingW(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, BYTES, name);
    CHECK(file != NULL);
    unsigned char *own = MapViewOfFile(file, FILE_MAP_ALL_ACCESS, 0, 0, BYTES);
    CHECK(own != NULL);
    gpi_memory_import import;
    memset(&import, 0, sizeof import);
    import.kind = GPI_MEMORY_OPAQUE_WIN32;
    import.size = BYTES;
    import.name = (const uint16_t *)L"Local\\no-such-object";
    gpi_memory memory;
    CHECK(gpi_device_import_memory(device, &import, &memory) != GPI_SUCCESS);
    SAYS("no-such-object");
    import.name = (const uint16_t *)name;
    OK(gpi_device_import_memory(device, &import, &memory));
    gpi_buffer buffer;
    OK(gpi_memory_map_buffer(memory, 0, BYTES, &buffer));
    memset(own, 0x11, BYTES);
    verify(stream, buffer, 0x11);
    OK(gpi_stream_fill(stream, gpi_range_all(buffer), 0x22));
    OK(gpi_stream_synchronize(stream, 10 * SECOND));
    CHECK(own[0] == 0x22 && own[BYTES - 1] == 0x22);
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_memory_destroy(memory));
    UnmapViewOfFile(own);
    CloseHandle(file);
}

static void semaphores(gpi_device device, gpi_stream stream) {
    gpi_exported_semaphore exported;
    gpi_semaphore_import import;
    gpi_semaphore semaphore;
    OK(gpi_exported_semaphore_create_host(GPI_PAYLOAD_TIMELINE, 3, &exported));
    OK(gpi_exported_semaphore_export(exported, &import));
    CHECK(import.kind == GPI_SEMAPHORE_TIMELINE_WIN32 && is_open(import.object));
    OK(gpi_device_import_semaphore(device, &import, &semaphore));
    CHECK(import.object == NULL);
    gpi_semaphore_op op;
    memset(&op, 0, sizeof op);
    op.semaphore = semaphore;
    op.value = 4;
    OK(gpi_stream_signal(stream, &op, 1));
    OK(gpi_exported_semaphore_wait(exported, 4, 10 * SECOND));
    OK(gpi_semaphore_destroy(semaphore));
    OK(gpi_exported_semaphore_destroy(exported));
}

int main(void) {
    gpi_device device = open_host();
    gpi_stream stream;
    OK(gpi_stream_create(device, &stream));
    by_handle(device, stream);
    by_name(device, stream);
    semaphores(device, stream);
    OK(gpi_stream_destroy(stream));
    OK(gpi_device_destroy(device));
    return finish();
}
