#include "store/sqlite/lease_ends.h"

#include <assert.h>
#include <stdlib.h>

void lease_ends_init(struct lease_ends *ends)
{
    *ends = (struct lease_ends){.earliest = INT64_MAX};
}

void lease_ends_release(struct lease_ends *ends)
{
    free(ends->slots);
}

static uint32_t home_of(const struct lease_ends *ends, int64_t no)
{
    return (uint32_t)((uint64_t)no * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (ends->cap - 1);
}

/* The slot of the job, or the free one where it would be. */
static uint32_t find(const struct lease_ends *ends, int64_t no)
{
    uint32_t at = home_of(ends, no);
    while (ends->slots[at].no != 0 && ends->slots[at].no != no)
        at = (at + 1) & (ends->cap - 1);
    return at;
}

bool lease_ends_reserve(struct lease_ends *ends, uint32_t more)
{
    uint32_t cap = ends->cap == 0 ? 64 : ends->cap;
    while (cap < 2 * ((uint64_t)ends->count + more))
        cap *= 2;
    if (cap == ends->cap)
        return true;
    struct lease_end *slots = calloc(cap, sizeof *slots);
    if (slots == NULL)
        return false;
    struct lease_ends old = *ends;
    ends->slots = slots;
    ends->cap = cap;
    for (uint32_t i = 0; i < old.cap; i++)
        if (old.slots[i].no != 0)
            slots[find(ends, old.slots[i].no)] = old.slots[i];
    free(old.slots);
    return true;
}

/* Frees a slot; those behind it that could not have their own move up. */
static void take_out(struct lease_ends *ends, uint32_t hole)
{
    uint32_t mask = ends->cap - 1;
    for (uint32_t at = (hole + 1) & mask; ends->slots[at].no != 0; at = (at + 1) & mask) {
        uint32_t home = home_of(ends, ends->slots[at].no);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        ends->slots[hole] = ends->slots[at];
        hole = at;
    }
    ends->slots[hole].no = 0;
    ends->count--;
}

void lease_ends_put(struct lease_ends *ends, const struct lease_end *end)
{
    assert(end->no != 0);
    if (ends->cap == 0)
        return;
    uint32_t at = find(ends, end->no);
    bool known = ends->slots[at].no != 0;
    if (known && ends->slots[at].due_at == ends->earliest)
        ends->passed = true;
    if (end->due_at == 0) {
        if (known)
            take_out(ends, at);
        return;
    }
    assert(2 * (uint64_t)ends->count <= ends->cap);
    ends->count += !known;
    ends->slots[at] = *end;
    ends->earliest = end->due_at < ends->earliest ? end->due_at : ends->earliest;
}
