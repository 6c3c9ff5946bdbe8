/* Runs a fuzz target without libFuzzer, for `make test` and with any compiler: each kept input as
 * it is, then inputs made from them by small damage, from a seed, until the time is over.
 *
 * usage: alone CORPUS SECONDS [SEED]
 *
 * It sees no coverage, so it finds less than `make fuzz`; it shows that what was found once stays
 * mended, and that the targets work. A failure leaves the input in ./crash-alone-SEED-NUMBER. */
#include <dirent.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INPUTS_MAX = 512, BYTES_MAX = 64 * 1024, GROWTH_MAX = 256, DAMAGES_MAX = 6 };

struct input {
    uint8_t *at;
    size_t len;
};

static struct {
    struct input inputs[INPUTS_MAX];
    size_t count;
    uint64_t random;
    uint8_t now[BYTES_MAX + GROWTH_MAX]; /* what is being tried */
    size_t now_len;
    char crash[128];
} alone;

static uint64_t next_random(uint64_t bound)
{
    alone.random = alone.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (alone.random >> 33) % bound;
}

static double seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Keeps the input that ends the program. */
static void keep_input(int number)
{
    FILE *file = fopen(alone.crash, "wb");
    if (file != NULL) {
        (void)fwrite(alone.now, 1, alone.now_len, file);
        (void)fclose(file);
    }
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void read_input(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct input *input = &alone.inputs[alone.count];
    if (file == NULL || alone.count == INPUTS_MAX)
        exit(2);
    input->at = malloc(BYTES_MAX);
    if (input->at == NULL)
        exit(2);
    input->len = fread(input->at, 1, BYTES_MAX, file);
    alone.count++;
    (void)fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void read_corpus(const char *directory)
{
    struct dirent **names = NULL;
    int count = scandir(directory, &names, NULL, by_name);
    for (int i = 0; i < count; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", directory, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            read_input(path);
        free(names[i]);
    }
    free(names);
}

static void try_now(void)
{
    (void)LLVMFuzzerTestOneInput(alone.now, alone.now_len);
}

static void remove_some(void)
{
    size_t at = next_random(alone.now_len);
    size_t len = 1 + next_random(alone.now_len - at < 16 ? alone.now_len - at : 16);
    memmove(alone.now + at, alone.now + at + len, alone.now_len - at - len);
    alone.now_len -= len;
}

/* Bytes of another input, or of this one, stand here too. */
static void add_some(void)
{
    const struct input *other = &alone.inputs[next_random(alone.count)];
    size_t at = next_random(alone.now_len + 1);
    if (other->len == 0)
        return;
    size_t from = next_random(other->len);
    size_t len = 1 + next_random(other->len - from < 32 ? other->len - from : 32);
    if (alone.now_len + len > sizeof alone.now)
        return;
    memmove(alone.now + at + len, alone.now + at, alone.now_len - at);
    memcpy(alone.now + at, other->at + from, len);
    alone.now_len += len;
}

static void damage(void)
{
    static const char marks[] = "{}[]\",:\\0123456789-.eE \n\ttrufalsn\x80\xff";
    if (alone.now_len == 0 || next_random(4) == 0) {
        add_some();
        return;
    }
    switch (next_random(3)) {
    case 0:
        alone.now[next_random(alone.now_len)] ^= (uint8_t)(1U << next_random(8));
        break;
    case 1:
        alone.now[next_random(alone.now_len)] = (uint8_t)marks[next_random(sizeof marks - 1)];
        break;
    default:
        remove_some();
        break;
    }
}

int main(int argc, char **argv)
{
    unsigned long long tried = 0;
    if (argc < 3) {
        fprintf(stderr, "usage: alone CORPUS SECONDS [SEED]\n");
        return 2;
    }
    double end = seconds() + strtod(argv[2], NULL);
    alone.random = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    (void)snprintf(alone.crash, sizeof alone.crash, "crash-alone-%llu-%d",
                   (unsigned long long)alone.random, (int)getpid());
    (void)signal(SIGABRT, keep_input);
    (void)signal(SIGSEGV, keep_input);
    read_corpus(argv[1]);
    if (alone.count == 0)
        return 2;
    for (size_t i = 0; i < alone.count; i++, tried++) {
        memcpy(alone.now, alone.inputs[i].at, alone.inputs[i].len);
        alone.now_len = alone.inputs[i].len;
        try_now();
    }
    for (; seconds() < end; tried++) {
        const struct input *input = &alone.inputs[next_random(alone.count)];
        memcpy(alone.now, input->at, input->len);
        alone.now_len = input->len;
        for (uint64_t i = 1 + next_random(DAMAGES_MAX); i > 0; i--)
            damage();
        try_now();
    }
    printf("%zu kept inputs, %llu tried\n", alone.count, tried);
    for (size_t i = 0; i < alone.count; i++)
        free(alone.inputs[i].at);
    return 0;
}
