/* libFuzzer target: plan_read on any bytes, checked JSON or not. A plan that is taken must be a
 * graph whose parts agree with each other, and in which all steps can be run in some order. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/json.h"
#include "core/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *problem)
{
    (void)fprintf(stderr, "%s\n", problem);
    abort();
}

static void *take(struct arena *arena, size_t count, size_t size)
{
    void *memory = arena_zalloc(arena, count, size);
    if (memory == NULL)
        fail("out of memory");
    return memory;
}

/* Runs the plan naively: again and again, whatever has nothing open. */
static void runs_to_its_end(const struct plan *plan, struct arena *arena)
{
    int64_t *open = take(arena, plan->count, sizeof *open);
    bool *done = take(arena, plan->count, sizeof *done);
    uint32_t done_count = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        open[i] = plan->steps[i].open_deps;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < plan->count; i++) {
            const struct step *step = &plan->steps[i];
            if (done[i] || open[i] != 0)
                continue;
            for (uint32_t j = 0; j < step->child_count; j++)
                open[step->children[j]]--;
            done[i] = moved = true;
            done_count++;
        }
    }
    if (done_count != plan->count)
        fail("a plan that was taken cannot be run");
}

static void holds_together(const struct plan *plan, struct arena *arena)
{
    int64_t *deps = take(arena, plan->count, sizeof *deps);
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step *step = &plan->steps[i];
        if (step->ordinal != i || step->state != STEP_PENDING || step->spec.id.len == 0)
            fail("a step is not as it should be");
        for (uint32_t j = 0; j < step->child_count; j++) {
            if (step->children[j] >= plan->count || step->children[j] == i ||
                (j > 0 && step->children[j] <= step->children[j - 1]))
                fail("a child is out of place");
            deps[step->children[j]]++;
        }
    }
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct step *step = &plan->steps[i];
        if (step->open_deps != deps[i] || json_count(step->spec.deps) != (size_t)deps[i])
            fail("children and dependencies differ");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena;
    struct plan plan;
    struct err err = {.code = ERR_OK};
    struct str text = {size == 0 ? "" : (const char *)data, size};
    arena_init(&arena);
    bool checked = json_check(text, PLAN_BYTES_MAX, "plan", &arena, &err) == ERR_OK;
    enum error_code code = plan_read(text, RECORD_REQUEST, size * 2654435761u, &arena, &plan, &err);
    if (code == ERR_OK && checked) {
        holds_together(&plan, &arena);
        runs_to_its_end(&plan, &arena);
    } else if (code != ERR_OK && (code != ERR_UNPROCESSABLE_PLAN || err.detail[0] == '\0')) {
        fail("an error without a reason");
    }
    arena_release(&arena);
    return 0;
}
