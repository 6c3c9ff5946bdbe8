/* libFuzzer target: selector_parse on any bytes. What is taken is written out in one plain form,
 * which must be read as the same selector, and must match the same labels. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "core/selector.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *problem, struct str text)
{
    (void)fprintf(stderr, "%s: %.*s\n", problem, (int)text.len, text.at);
    abort();
}

static struct str written(const struct selector *selector, struct arena *arena)
{
    struct buf buf;
    buf_init(&buf, arena, 0);
    for (uint32_t i = 0; i < selector->count; i++) {
        const struct requirement *requirement = &selector->at[i];
        bool in = requirement->op == SELECTOR_IN;
        buf_add(&buf, i == 0 ? STR("") : STR(","));
        buf_add(&buf, requirement->op == SELECTOR_NOT_EXISTS ? STR("!") : STR(""));
        buf_add(&buf, requirement->key);
        if (in || requirement->op == SELECTOR_NOT_IN) {
            buf_add(&buf, in ? STR(" in (") : STR(" notin ("));
            for (uint32_t j = 0; j < requirement->value_count; j++) {
                buf_add(&buf, j == 0 ? STR("") : STR(","));
                buf_add(&buf, requirement->values[j]);
            }
            /* A single empty value has no form in a set: "()" has no value at all. */
            bool empty = requirement->value_count == 1 && requirement->values[0].len == 0;
            buf_add(&buf, empty ? STR(",)") : STR(")"));
        }
    }
    return buf_str(&buf);
}

/* Labels that satisfy what the selector asks for, as far as one can, so that both outcomes occur.
 */
static uint32_t labels_for(const struct selector *selector, struct label *labels)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < selector->count; i++) {
        const struct requirement *requirement = &selector->at[i];
        if (requirement->op == SELECTOR_IN)
            labels[count++] = (struct label){requirement->key, requirement->values[0]};
        else if (requirement->op == SELECTOR_EXISTS)
            labels[count++] = (struct label){requirement->key, STR("x")};
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct selector selector;
    struct selector again;
    struct err err;
    struct label labels[SELECTOR_REQUIREMENTS_MAX];
    struct str text = {size == 0 ? "" : (const char *)data, size};
    arena_init(&arena);
    if (selector_parse(text, &arena, &selector, &err) == ERR_OK) {
        struct str plain = written(&selector, &arena);
        /* The plain form may be longer than what came in, and so too long. */
        if (plain.len <= SELECTOR_BYTES_MAX) {
            if (selector_parse(plain, &arena, &again, &err) != ERR_OK)
                fail(err.detail, plain);
            if (!str_eq(written(&again, &arena), plain) && plain.len < SELECTOR_BYTES_MAX / 2)
                fail("reads differently", plain);
            uint32_t count = labels_for(&selector, labels);
            if (selector_matches(&selector, labels, count) !=
                    selector_matches(&again, labels, count) ||
                selector_matches(&selector, NULL, 0) != selector_matches(&again, NULL, 0))
                fail("matches differently", plain);
        }
    } else if (err.code != ERR_BAD_REQUEST || err.detail[0] == '\0') {
        fail("an error without a reason", text);
    }
    arena_release(&arena);
    return 0;
}
