/* libFuzzer target: the file of --config, any bytes. A refusal says why. */
#define _GNU_SOURCE /* NOLINT: memfd_create */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct config config = {0};
    struct complaint why = {.text = ""};
    char path[64];
    int file = memfd_create("config", MFD_CLOEXEC);
    if (file < 0 || write(file, data, size) != (ssize_t)size)
        abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (config_read(path, &config, &why)) {
        config_free(&config);
    } else if (why.text[0] == '\0') {
        (void)fprintf(stderr, "a refusal without a reason\n");
        abort();
    }
    (void)close(file);
    return 0;
}
