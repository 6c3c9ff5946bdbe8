#include "store/postgres/marks.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

const struct mark_place MARK_FIRST = {INT32_MIN, INT64_MIN, {{0}}, INT32_MIN};
const struct mark_place MARK_LAST = {
    INT32_MAX,
    INT64_MAX,
    {{255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}},
    INT32_MAX};

int mark_place_cmp(const struct mark_place *a, const struct mark_place *b)
{
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    int order = memcmp(a->job.bytes, b->job.bytes, sizeof a->job.bytes);
    return order != 0 ? order : (a->step > b->step) - (a->step < b->step);
}

struct mark_place mark_place_before(struct mark_place place)
{
    /* Steps are from -1 on: there is always room below. */
    place.step--;
    return place;
}

void marks_init(struct marks *marks)
{
    *marks = (struct marks){0};
    (void)pthread_mutex_init(&marks->mutex, NULL);
}

void marks_release(struct marks *marks)
{
    free(marks->lines);
    (void)pthread_mutex_destroy(&marks->mutex);
}

void marks_clear(struct marks *marks)
{
    (void)pthread_mutex_lock(&marks->mutex);
    free(marks->lines);
    marks->lines = NULL;
    marks->cap = 0;
    marks->count = 0;
    marks->life++;
    (void)pthread_mutex_unlock(&marks->mutex);
}

static uint32_t home_of(uint32_t line, uint32_t cap)
{
    return line * UINT32_C(2654435761) & (cap - 1);
}

/* The place of a line in a table that has room: its own, or the one that it may have. */
static struct mark_line *place_of(struct mark_line *lines, uint32_t cap, uint32_t line)
{
    uint32_t at = home_of(line, cap);
    while (lines[at].used && lines[at].line != line)
        at = (at + 1) & (cap - 1);
    return &lines[at];
}

/* Whether nothing is under way that needs what the mark remembers. */
static bool is_idle(const struct mark *mark)
{
    return mark->eras[0].scans == 0 && mark->eras[1].scans == 0;
}

/* Makes room for more lines; with as many as there may be it forgets those that nobody scans: lanes
 * come and go, and a line without a mark is scanned from its head once. False: none. */
static bool make_room(struct marks *marks)
{
    bool many = marks->count >= MARKED_MAX;
    uint32_t cap = marks->cap == 0 ? 128 : many ? marks->cap : marks->cap * 2;
    struct mark_line *lines = calloc(cap, sizeof *lines);
    if (lines == NULL)
        return false;
    uint32_t count = 0;
    for (uint32_t i = 0; i < marks->cap; i++) {
        const struct mark_line *line = &marks->lines[i];
        if (!line->used || (many && is_idle(&line->mark)))
            continue;
        *place_of(lines, cap, line->line) = *line;
        count++;
    }
    free(marks->lines);
    marks->lines = lines;
    marks->cap = cap;
    marks->count = count;
    return count < MARKED_MAX;
}

/* The mark of a line, until the next is asked for; NULL when there is no room for it, and then the
 * line simply has none. */
static struct mark *line_of(struct marks *marks, uint32_t line)
{
    struct mark_line *place = marks->cap > 0 ? place_of(marks->lines, marks->cap, line) : NULL;
    if (place != NULL && place->used)
        return &place->mark;
    if ((marks->count + 1) * 2 > marks->cap || marks->count >= MARKED_MAX) {
        if (!make_room(marks))
            return NULL;
        place = place_of(marks->lines, marks->cap, line);
    }
    assert(place != NULL); /* without any room there was some to be made */
    *place = (struct mark_line){.line = line, .used = true};
    place->mark =
        (struct mark){.at = MARK_FIRST, .eras = {{.lowest = MARK_LAST}, {.lowest = MARK_LAST}}};
    marks->count++;
    return &place->mark;
}

static bool may_be_full(const struct mark *mark, int64_t now)
{
    return !mark->was_full || mark->full_took < MARKS_CHEAP_MS ||
           now - mark->full_at >= MARKS_REST * mark->full_took;
}

/* Where full scans cost little and the last scan was short, a second look would be the rule: then
 * one full scan is better than two. */
static bool wants_full(const struct mark *mark, int64_t now)
{
    return !mark->was_full || now - mark->full_at >= MARKS_FULL_EVERY_MS ||
           (mark->was_short && mark->full_took < MARKS_CHEAP_MS);
}

/* Begins a new era if the scans of the last but one are over. */
static void begin_era(struct mark *mark)
{
    struct mark_era *oldest = &mark->eras[(mark->era + 1) % 2];
    if (oldest->scans > 0)
        return;
    oldest->lowest = MARK_LAST;
    mark->era++;
}

struct mark_scan marks_start(struct marks *marks, uint32_t line, int64_t now)
{
    struct mark_scan scan = {.line = line, .from = MARK_FIRST, .full = true};
    (void)pthread_mutex_lock(&marks->mutex);
    struct mark *mark = line_of(marks, line);
    scan.life = marks->life;
    if (mark != NULL) {
        begin_era(mark);
        scan.era = mark->era;
        mark->eras[mark->era % 2].scans++;
    }
    if (mark != NULL && mark_place_cmp(&mark->at, &MARK_FIRST) > 0 &&
        !(wants_full(mark, now) && may_be_full(mark, now))) {
        scan.from = mark->at;
        scan.full = false;
    }
    scan.is_slow = scan.full && mark != NULL && mark->full_took >= MARKS_CHEAP_MS;
    (void)pthread_mutex_unlock(&marks->mutex);
    return scan;
}

bool marks_may_look_back(struct marks *marks, const struct mark_scan *scan, int64_t now)
{
    if (scan->full)
        return false;
    (void)pthread_mutex_lock(&marks->mutex);
    const struct mark *mark = line_of(marks, scan->line);
    bool may = mark == NULL || may_be_full(mark, now);
    (void)pthread_mutex_unlock(&marks->mutex);
    return may;
}

/* The place that a scan may move the mark to. */
static struct mark_place reached(const struct mark *mark, const struct mark_scan *scan,
                                 struct mark_place place)
{
    for (uint64_t era = scan->era; era <= mark->era; era++) {
        struct mark_place before = mark_place_before(mark->eras[era % 2].lowest);
        if (mark_place_cmp(&before, &place) < 0)
            place = before;
    }
    return place;
}

void marks_end(struct marks *marks, const struct mark_scan *scan, const struct mark_found *found)
{
    (void)pthread_mutex_lock(&marks->mutex);
    struct mark *mark = scan->life == marks->life ? line_of(marks, scan->line) : NULL;
    if (mark != NULL && mark->eras[scan->era % 2].scans > 0)
        mark->eras[scan->era % 2].scans--;
    if (mark != NULL && found != NULL) {
        mark->was_short = found->was_short;
        if (found->is_full) {
            mark->was_full = true;
            mark->full_at = found->now;
            mark->full_took = found->took;
        }
        if (found->has_taken) {
            struct mark_place place = reached(mark, scan, found->taken);
            if (found->is_full || mark_place_cmp(&place, &mark->at) > 0)
                mark->at = place;
        }
    }
    (void)pthread_mutex_unlock(&marks->mutex);
}

void marks_lower(struct marks *marks, uint32_t line, struct mark_place put)
{
    (void)pthread_mutex_lock(&marks->mutex);
    struct mark *mark = line_of(marks, line);
    if (mark != NULL) {
        /* Even a mark that stands before it now could be raised over it by a scan under way. */
        struct mark_era *era = &mark->eras[mark->era % 2];
        if (mark_place_cmp(&put, &era->lowest) < 0)
            era->lowest = put;
        if (mark_place_cmp(&put, &mark->at) <= 0)
            mark->at = mark_place_before(put);
    }
    (void)pthread_mutex_unlock(&marks->mutex);
}
