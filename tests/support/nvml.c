/* NVIDIA's management library on a machine that has none: what torchrec's FBGEMM asks of it when it is loaded. */
enum { NOT_INITIALIZED = 1 };

int nvmlInit_v2(void) { return NOT_INITIALIZED; }

int nvmlDeviceGetCount_v2(unsigned *count) {
    *count = 0;
    return NOT_INITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    (void)index, (void)device;
    return NOT_INITIALIZED;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info) {
    (void)device, (void)link, (void)info;
    return NOT_INITIALIZED;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *state) {
    (void)device, (void)link, (void)state;
    return NOT_INITIALIZED;
}

int nvmlDeviceGetPciInfo_v3(void *device, void *info) {
    (void)device, (void)info;
    return NOT_INITIALIZED;
}
