#include "core/plan_times.h"

#include <assert.h>

#include "base/json.h"
#include "base/map.h"
#include "core/machine.h"

/* Steps that have succeeded stay so under a new plan, unless all is to be done afresh. */
static void begin_plan(const struct job_slice *slice, const struct event *event,
                       struct step_times *times)
{
    for (uint32_t i = 0; i < slice->step_count; i++)
        if (times[i].ended_at == 0 || event->data.fresh)
            times[i] = (struct step_times){0};
}

void step_times_note(const struct job_slice *slice, const struct event *event,
                     struct step_times *times)
{
    if (event->type == EVENT_PLAN_GENERATED)
        begin_plan(slice, event, times);
    const struct step *step =
        str_is_set(event->data.step) ? job_step(slice, event->data.step) : NULL;
    if (step == NULL)
        return;
    struct step_times *own = &times[step - slice->steps];
    switch (event->type) {
    case EVENT_STEP_LEASED:
    case EVENT_STEP_RUNNING:
        /* Leased after its end: a failed step, or one that was out of the plan, begins anew. */
        if (own->ended_at != 0)
            *own = (struct step_times){0};
        if (own->started_at == 0)
            own->started_at = event->at;
        break;
    case EVENT_STEP_SUCCEEDED:
    case EVENT_STEP_FAILED:
        own->ended_at = event->at;
        break;
    case EVENT_SIGNAL_RECEIVED:
        own->answered_at = event->at;
        break;
    default:
        break;
    }
}

void step_times_settle(const struct job_slice *slice, struct step_times *times)
{
    for (uint32_t i = 0; i < slice->step_count; i++)
        if (times[i].ended_at != 0 && !step_state_terminal(slice->steps[i].state))
            times[i] = (struct step_times){0};
}

int64_t step_duration_ms(const struct step_times *times, int64_t now)
{
    int64_t end = times->ended_at != 0 ? times->ended_at : now;
    return times->started_at == 0 || end < times->started_at ? 0 : end - times->started_at;
}

/* What is known of the longest chain that ends with a step. */
struct chain {
    int64_t ms;
    uint32_t count;
};

static bool is_longer(struct chain a, struct chain b)
{
    return a.ms != b.ms ? a.ms > b.ms : a.count > b.count;
}

static uint32_t place_of(const struct job_slice *slice, uint32_t ordinal)
{
    const struct step *step = job_step_at(slice, ordinal);
    return step == NULL ? MAP_NONE : (uint32_t)(step - slice->steps);
}

/* Goes through the steps in an order in which every one comes after all that it depends on, as
 * Kahn does. `chains` holds the durations of the steps at first, and their chains then. */
static enum error_code find_chains(const struct job_slice *slice, uint32_t *open, uint32_t *ready,
                                   struct chain *chains, uint32_t *reached_by, struct err *err)
{
    uint32_t ready_count = 0;
    for (uint32_t i = 0; i < slice->step_count; i++) {
        reached_by[i] = MAP_NONE;
        open[i] = (uint32_t)json_count(slice->steps[i].spec.deps);
        if (open[i] == 0)
            ready[ready_count++] = i;
    }
    for (uint32_t done = 0; done < ready_count; done++) {
        uint32_t at = ready[done];
        const struct step *step = &slice->steps[at];
        uint32_t before = reached_by[at];
        if (before != MAP_NONE) {
            chains[at].ms += chains[before].ms;
            chains[at].count += chains[before].count;
        }
        for (uint32_t i = 0; i < step->child_count; i++) {
            uint32_t child = place_of(slice, step->children[i]);
            if (child == MAP_NONE)
                return err_set(err, ERR_CORRUPT, "a child of step \"%.*s\" is missing",
                               STR_ARG(step->spec.id));
            if (reached_by[child] == MAP_NONE || is_longer(chains[at], chains[reached_by[child]]))
                reached_by[child] = at;
            if (open[child] > 0 && --open[child] == 0)
                ready[ready_count++] = child;
        }
    }
    return ERR_OK;
}

enum error_code critical_path_find(const struct job_slice *slice, const struct step_times *times,
                                   int64_t now, struct arena *arena, struct critical_path *ret,
                                   struct err *err)
{
    size_t count = slice->step_count;
    struct critical_path path = {.steps = arena_zalloc(arena, count + 1, sizeof *path.steps),
                                 .reached_by =
                                     arena_zalloc(arena, count + 1, sizeof *path.reached_by)};
    uint32_t *open = arena_zalloc(arena, count + 1, sizeof *open);
    struct chain *chains = arena_zalloc(arena, count + 1, sizeof *chains);
    if (path.steps == NULL || path.reached_by == NULL || open == NULL || chains == NULL)
        return err_set(err, ERR_NO_MEMORY, "out of memory for %zu steps", count);
    for (uint32_t i = 0; i < count; i++)
        chains[i] = (struct chain){.ms = step_duration_ms(&times[i], now), .count = 1};
    /* The list of what is ready is not needed when the path is written. */
    enum error_code code = find_chains(slice, open, path.steps, chains, path.reached_by, err);
    if (code != ERR_OK)
        return code;
    uint32_t last = 0;
    for (uint32_t i = 1; i < count; i++)
        if (is_longer(chains[i], chains[last]))
            last = i;
    if (count > 0) {
        path.count = chains[last].count;
        path.duration_ms = chains[last].ms;
    }
    uint32_t at = last;
    for (uint32_t i = path.count; i > 0; i--) {
        assert(at != MAP_NONE);
        path.steps[i - 1] = at;
        at = path.reached_by[at];
    }
    *ret = path;
    return ERR_OK;
}
