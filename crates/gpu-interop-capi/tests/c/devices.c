/* Backends, devices, identities and capabilities. */
#include "check.h"

static int32_t level(gpi_device device, const char *name) {
    gpi_support support;
    OK(gpi_device_get_support(device, name, &support));
    CHECK(support.level <= GPI_SUPPORT_EMULATED || support.detail[0] != 0);
    return support.level;
}

int main(void) {
    gpi_backend backend;
    OK(gpi_backend_load("host", &backend));
    gpi_backend_info about;
    OK(gpi_backend_get_info(backend, &about));
    CHECK(strcmp(about.name, "host") == 0 && about.device_count == 1 && about.driver[0] != 0 && !about.simulated);

    gpi_identity cpu;
    OK(gpi_backend_get_device(backend, 0, &cpu));
    CHECK(cpu.kind == GPI_DEVICE_CPU && cpu.fields == 0 && strcmp(cpu.name, "host CPU") == 0);
    FAILS(GPI_ERROR_NO_DEVICE, gpi_backend_get_device(backend, 1, &cpu));
    gpi_device device, same;
    FAILS(GPI_ERROR_NO_DEVICE, gpi_device_open(backend, 1, &device));
    OK(gpi_device_open(backend, 0, &device));
    OK(gpi_device_open_matching(backend, &cpu, &same));
    gpi_identity gpu = cpu;
    gpu.kind = GPI_DEVICE_GPU;
    gpu.fields = GPI_IDENTITY_UUID | GPI_IDENTITY_PCI;
    memset(gpu.uuid, 7, sizeof gpu.uuid);
    gpu.pci_bus = 0x17;
    gpi_device none;
    FAILS(GPI_ERROR_NO_DEVICE, gpi_device_open_matching(backend, &gpu, &none));
    SAYS("07070707-0707-0707-0707-070707070707");
    SAYS("0000:17:00.0");
    /* As `nvidia-smi -L` prints it. */
    gpi_identity named;
    OK(gpi_identity_from_uuid("GPU-07070707-0707-0707-0707-070707070707", &named));
    CHECK(named.fields == GPI_IDENTITY_UUID && memcmp(named.uuid, gpu.uuid, sizeof gpu.uuid) == 0);
    FAILS(GPI_ERROR_NO_DEVICE, gpi_device_open_matching(backend, &named, &none));
    OK(gpi_identity_from_uuid("MIG-07070707-0707-0707-0707-070707070708", &named));
    CHECK(named.fields == GPI_IDENTITY_UUID && named.uuid[15] == 8);
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_identity_from_uuid("GPU-7", &named));
    SAYS("nvidia-smi -L");
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_identity_from_uuid(NULL, &named));
    CHECK(named.uuid[15] == 8);
    OK(gpi_backend_destroy(backend));

    gpi_device_info info;
    OK(gpi_device_get_info(device, &info));
    CHECK(strcmp(info.backend, "host") == 0 && info.ordinal == 0 && info.context == 0);
    CHECK(memcmp(&info.identity, &cpu, sizeof cpu) == 0);

    CHECK(level(device, "feature.mapped_buffer") == GPI_SUPPORT_NATIVE);
    CHECK(level(device, "feature.mapped_mipmapped_array") == GPI_SUPPORT_NONE);
    CHECK(level(device, "memory.nv_sci_buf") == GPI_SUPPORT_NONE);
    CHECK(level(device, "timeline") == GPI_SUPPORT_NATIVE);
#ifdef _WIN32
    CHECK(level(device, "semaphore.timeline_win32") == GPI_SUPPORT_NATIVE);
#else
    CHECK(level(device, "semaphore.timeline_fd") == GPI_SUPPORT_NATIVE);
#endif
    char defect[16];
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_get_known_defect(device, 0, defect, sizeof defect));

    int list;
    FAILS(GPI_ERROR_UNSUPPORTED, gpi_device_fill_nvscisync_attributes(device, &list, GPI_NVSCISYNC_SIGNAL));
    FAILS(GPI_ERROR_INVALID_ARGUMENT, gpi_device_fill_nvscisync_attributes(device, NULL, GPI_NVSCISYNC_WAIT));

    OK(gpi_device_destroy(same));
    OK(gpi_device_destroy(device));
    return finish();
}
