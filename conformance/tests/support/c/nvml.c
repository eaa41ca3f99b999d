/* A fake of NVIDIA's management library: one GPU with fixed answers. */
#include <stdint.h>
#include <string.h>

#ifndef MIG
#define MIG 0
#endif
#ifndef COMPUTE_MODE
#define COMPUTE_MODE 0
#endif
#define EXPORT __attribute__((visibility("default")))

enum { SUCCESS = 0, UNINITIALIZED = 1, NOT_SUPPORTED = 3, NOT_FOUND = 6 };

static int initialised;
static int gpu;

static uint32_t text(char *buffer, uint32_t length, const char *value)
{
    strncpy(buffer, value, length);
    return SUCCESS;
}

static uint32_t find(const char *key, const char *expected, void **device)
{
    if (!initialised)
        return UNINITIALIZED;
    if (strcmp(key, expected) != 0)
        return NOT_FOUND;
    *device = &gpu;
    return SUCCESS;
}

static uint32_t number(void *device, uint32_t *value, uint32_t answer)
{
    if (device != &gpu)
        return NOT_FOUND;
    *value = answer;
    return SUCCESS;
}

EXPORT uint32_t nvmlInit_v2(void)
{
    initialised = 1;
    return SUCCESS;
}

EXPORT uint32_t nvmlSystemGetNVMLVersion(char *buffer, uint32_t length)
{
    return text(buffer, length, "13.580.159.04");
}

EXPORT uint32_t nvmlDeviceGetHandleByPciBusId_v2(const char *key, void **device)
{
    return find(key, "0000:1b:00.0", device);
}

EXPORT uint32_t nvmlDeviceGetHandleByUUID(const char *key, void **device)
{
    return find(key, "GPU-11111111-2222-3333-4444-555555555555", device);
}

EXPORT uint32_t nvmlDeviceGetVbiosVersion(void *device, char *buffer, uint32_t length)
{
    return device == &gpu ? text(buffer, length, "96.00.74.00.01") : NOT_FOUND;
}

EXPORT uint32_t nvmlDeviceGetGspFirmwareVersion(void *device, char *buffer)
{
    return device == &gpu ? text(buffer, 64, "580.159.04") : NOT_FOUND;
}

EXPORT uint32_t nvmlDeviceGetTemperature(void *device, uint32_t sensor, uint32_t *value)
{
    return sensor == 0 ? number(device, value, 41) : NOT_SUPPORTED;
}

EXPORT uint32_t nvmlDeviceGetPowerUsage(void *device, uint32_t *value)
{
    return number(device, value, 71500);
}

EXPORT uint32_t nvmlDeviceGetClockInfo(void *device, uint32_t kind, uint32_t *value)
{
    return kind == 1 ? NOT_SUPPORTED : number(device, value, 1000 + kind);
}

EXPORT uint32_t nvmlDeviceGetEccMode(void *device, uint32_t *present, uint32_t *pending)
{
    *pending = 0;
    return number(device, present, 1);
}

EXPORT uint32_t nvmlDeviceGetMigMode(void *device, uint32_t *present, uint32_t *pending)
{
    *pending = 1;
    return number(device, present, MIG);
}

EXPORT uint32_t nvmlDeviceGetComputeMode(void *device, uint32_t *value)
{
    return number(device, value, COMPUTE_MODE);
}
