/* Exportable memory, imports, mappings, copies and fills, with every byte verified; ownership of descriptors. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SIZE = 1 << 16 };

static int is_open(int fd) { return fcntl(fd, F_GETFD) >= 0; }

static void import_own(gpi_device device, gpi_stream stream) {
    gpi_buffer exported;
    gpi_memory_import import;
    gpi_memory memory;
    OK(gpi_device_allocate_exportable(device, SIZE, &exported));
    OK(gpi_buffer_export(exported, &import));
    CHECK(import.kind == GPI_MEMORY_OPAQUE_FD && import.size >= SIZE);
    CHECK(import.flags == (GPI_IMPORT_NATIVE | GPI_IMPORT_HAS_EXPORTER));
    int fd = import.fd;
    CHECK(is_open(fd));
    OK(gpi_device_import_memory(device, &import, &memory));
    CHECK(import.fd == -1);
    OK(gpi_memory_import_close(&import)); /* Nothing to close. */

    gpi_buffer whole, part;
    OK(gpi_memory_map_buffer(memory, 0, GPI_WHOLE_SIZE, &whole));
    OK(gpi_memory_map_buffer(memory, 4096, 8192, &part));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_memory_map_buffer(memory, 1, GPI_WHOLE_SIZE - 1, &part));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_memory_map_buffer(memory, import.size, 1, &part));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_memory_map_buffer(memory, 0, 0, &part));
    OK(gpi_memory_destroy(memory)); /* The mappings keep the import. */
    gpi_buffer_info info;
    OK(gpi_buffer_get_info(part, &info));
    CHECK(info.offset == 4096 && info.size == 8192 && info.address != 0 && !info.exportable && !info.read_only);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_buffer_export(part, &import));

    OK(gpi_stream_fill_u32(stream, gpi_range_all(exported), 0x01020304));
    OK(gpi_stream_fill(stream, gpi_range_all(part), 0xab));
    OK(gpi_stream_copy(stream, gpi_range_of(whole, 0, 16), gpi_range_of(part, 0, 16)));
    static unsigned char bytes[SIZE], wanted[SIZE];
    for (int i = 0; i < SIZE; i++) {
        wanted[i] = i < 16 || (i >= 4096 && i < 4096 + 8192) ? 0xab : (unsigned char)(4 - i % 4);
    }
    OK(gpi_stream_read(stream, gpi_range_of(whole, 0, SIZE), bytes, SIZE));
    CHECK(memcmp(bytes, wanted, SIZE) == 0);
    for (int i = 0; i < SIZE; i++) {
        wanted[i] = (unsigned char)(i * 7 + i / 256);
    }
    OK(gpi_stream_write(stream, gpi_range_of(whole, 0, SIZE), wanted, SIZE));
    OK(gpi_stream_read(stream, gpi_range_of(exported, 0, SIZE), bytes, SIZE));
    CHECK(memcmp(bytes, wanted, SIZE) == 0);
    memset(bytes, 0, SIZE);
    OK(gpi_stream_read_async(stream, gpi_range_of(part, 100, 1000), bytes));
    OK(gpi_stream_synchronize(stream, 10 * SECOND));
    CHECK(memcmp(bytes, wanted + 4096 + 100, 1000) == 0 && bytes[1000] == 0);
    OK(gpi_stream_write_async(stream, gpi_range_of(part, 0, 1000), wanted));
    OK(gpi_stream_synchronize(stream, GPI_NO_TIMEOUT));
    OK(gpi_stream_read(stream, gpi_range_of(exported, 4096, 1000), bytes, 1000));
    CHECK(memcmp(bytes, wanted, 1000) == 0);

    gpi_range rest = gpi_range_of(part, 8000, GPI_WHOLE_SIZE);
    OK(gpi_stream_read(stream, rest, bytes, 192));
    CHECK(memcmp(bytes, wanted + 4096 + 8000, 192) == 0);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_read(stream, gpi_range_of(part, 8192, GPI_WHOLE_SIZE), bytes, 0));

    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_read(stream, gpi_range_of(whole, 0, 8), bytes, 9));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_read(stream, gpi_range_of(whole, 1, UINT64_MAX - 1), bytes, 9));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_read(stream, gpi_range_of(whole, 0, 8), NULL, 8));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_fill_u32(stream, gpi_range_of(whole, 0, 6), 0));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_stream_copy(stream, gpi_range_of(whole, 0, 8), gpi_range_of(whole, 4, 8)));
    SAYS("overlap");

    /* Work is pending while its memory is destroyed. */
    for (int i = 0; i < 64; i++) {
        OK(gpi_stream_fill(stream, gpi_range_all(part), (uint8_t)i));
    }
    OK(gpi_buffer_destroy(part));
    OK(gpi_buffer_destroy(whole));
    OK(gpi_stream_synchronize(stream, 10 * SECOND));
    OK(gpi_stream_read(stream, gpi_range_of(exported, 4096, 8192), bytes, 8192));
    CHECK(bytes[0] == 63 && bytes[8191] == 63);
    OK(gpi_buffer_destroy(exported));
}

static gpi_memory_import description(int fd, uint64_t size) {
    gpi_memory_import import;
    memset(&import, 0, sizeof import);
    import.kind = GPI_MEMORY_OPAQUE_FD;
    import.size = size;
    import.fd = fd;
    return import;
}

static void import_foreign(gpi_device device, gpi_stream stream) {
    int fd = memfd_create("foreign", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    CHECK(fd >= 0 && ftruncate(fd, SIZE) == 0);
    unsigned char *own = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(own != MAP_FAILED);
    own[5] = 55;

    gpi_memory memory;
    gpi_memory_import import = description(fd, SIZE);
    import.flags = GPI_IMPORT_HAS_EXPORTER;
    import.exporter.kind = GPI_DEVICE_GPU;
    import.exporter.fields = GPI_IDENTITY_UUID;
    import.exporter.uuid[0] = 1;
    FAILS(GPI_ERROR_DEVICE_MISMATCH, gpi_device_import_memory(device, &import, &memory));
    CHECK(import.fd == fd && is_open(fd)); /* Still the caller's. */
    import = description(fd, 0);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    import = description(fd, SIZE);
    import.kind = 77;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    import = description(fd, SIZE);
    import.flags = 1u << 20;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    import = description(fd, SIZE);
    import.kind = GPI_MEMORY_D3D12_HEAP;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory)); /* A null handle. */
    import = description(-1, SIZE);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    import = description(9999, SIZE);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_import_memory(device, &import, &memory));
    SAYS("not an open file descriptor");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    import = description(null, SIZE);
    CHECK(gpi_device_import_memory(device, &import, &memory) != GPI_SUCCESS && is_open(null));
    close(null);
    CHECK(is_open(fd));

    import = description(fd, SIZE);
    OK(gpi_device_import_memory(device, &import, &memory));
    CHECK(import.fd == -1);
    gpi_memory_info info;
    OK(gpi_memory_get_info(memory, &info));
    CHECK(info.size == SIZE && info.kind == GPI_MEMORY_OPAQUE_FD && !info.has_image);
    gpi_buffer buffer;
    OK(gpi_memory_map_buffer(memory, 0, SIZE, &buffer));
    unsigned char byte = 0;
    OK(gpi_stream_read(stream, gpi_range_of(buffer, 5, 1), &byte, 1));
    CHECK(byte == 55);
    OK(gpi_stream_fill(stream, gpi_range_of(buffer, 6, 1), 66));
    OK(gpi_stream_synchronize(stream, SECOND));
    CHECK(own[6] == 66 && own[7] == 0);
    gpi_array array;
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_memory_map_array(memory, NULL, &array));
    OK(gpi_buffer_destroy(buffer));
    OK(gpi_memory_destroy(memory));
    munmap(own, SIZE);

    /* A description that is not imported is closed. */
    gpi_buffer exported;
    OK(gpi_device_allocate_exportable(device, 1, &exported));
    OK(gpi_buffer_export(exported, &import));
    int unused = import.fd;
    CHECK(is_open(unused));
    OK(gpi_memory_import_close(&import));
    CHECK(import.fd == -1 && !is_open(unused));
    OK(gpi_buffer_destroy(exported));
}

int main(void) {
    gpi_device device = open_host();
    gpi_stream stream;
    OK(gpi_stream_create(device, &stream));
    import_own(device, stream);
    import_foreign(device, stream);
    OK(gpi_stream_destroy(stream));
    OK(gpi_device_destroy(device));
    return finish();
}
