/* Part of stand_in_cuda.c: memory of the device, which is memory files. A handle is a descriptor and 1. */

unsigned cuMemGetAllocationGranularity(size_t *granularity, const void *prop, unsigned option) {
    (void)prop, (void)option;
    *granularity = 4096;
    return SUCCESS;
}

unsigned cuMemCreate(uint64_t *handle, size_t size, const void *prop, uint64_t flags) {
    (void)prop, (void)flags;
    int fd = memfd_create("stand-in GPU memory", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)size)) return OUT_OF_MEMORY;
    *handle = (uint64_t)fd + 1;
    return SUCCESS;
}

unsigned cuMemRelease(uint64_t handle) {
    close((int)handle - 1);
    return SUCCESS;
}

unsigned cuMemAddressReserve(uint64_t *address, size_t size, size_t alignment, uint64_t hint, uint64_t flags) {
    (void)alignment, (void)hint, (void)flags;
    void *reserved = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *address = (uint64_t)reserved;
    return reserved == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

unsigned cuMemAddressFree(uint64_t address, size_t size) {
    munmap((void *)address, size);
    return SUCCESS;
}

unsigned cuMemMap(uint64_t address, size_t size, size_t offset, uint64_t handle, uint64_t flags) {
    (void)flags;
    void *mapped = mmap((void *)address, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, (int)handle - 1,
                        (off_t)offset);
    return mapped == MAP_FAILED ? OUT_OF_MEMORY : SUCCESS;
}

unsigned cuMemUnmap(uint64_t address, size_t size) {
    mmap((void *)address, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return SUCCESS;
}

unsigned cuMemSetAccess(uint64_t address, size_t size, const void *desc, size_t count) {
    return (void)address, (void)size, (void)desc, (void)count, SUCCESS;
}

unsigned cuMemExportToShareableHandle(int *fd, uint64_t handle, unsigned kind, uint64_t flags) {
    (void)kind, (void)flags;
    *fd = fcntl((int)handle - 1, F_DUPFD_CLOEXEC, 0);
    return *fd < 0 ? OUT_OF_MEMORY : SUCCESS;
}
