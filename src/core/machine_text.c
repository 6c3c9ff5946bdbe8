/* The machines as text. All of it is asked of job_move and step_move, so that what is printed is
 * what the code obeys. */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "core/machine.h"

/* The events that move a job: those that event.def marks STATE. */
static const enum event_type state_events[] = {
#define PICK_STATE(symbol) EVENT_##symbol,
#define PICK_FACT(symbol)
#define PICK_STEP(symbol)
#define PICK_APPENDED(symbol)
#define PICK_TELEMETRY(symbol)
#define EVENT(symbol, number, name, class_, fields) PICK_##class_(symbol)
#include "core/event.def"
#undef PICK_STATE
#undef PICK_FACT
#undef PICK_STEP
#undef PICK_APPENDED
#undef PICK_TELEMETRY
};

enum {
    STATE_EVENTS = sizeof state_events / sizeof state_events[0],
    JOB_ROWS = JOB_STATUS_COUNT + 1,
};

/* Before the first event, then the way a job goes: by rank, and by number where ranks are equal. */
static void job_rows(enum job_status ret[JOB_ROWS])
{
    size_t count = 0;
    ret[count++] = JOB_NONE;
    for (int rank = 0; count < JOB_ROWS; rank++) {
        for (int i = 0; i < JOB_STATUS_COUNT; i++)
            if (job_status_rank((enum job_status)i) == rank)
                ret[count++] = (enum job_status)i;
    }
    assert(count == JOB_ROWS);
}

/* Where the payload can change where an event leads: false when it cannot. */
static bool job_move_later(enum job_status from, enum event_type event, enum job_status *ret_to)
{
    enum job_status plain;
    if (!job_move(from, event, MOVE_PLAIN, &plain))
        return false;

    enum job_status later = plain;
    (void)job_move(from, event, MOVE_LATER, &later);
    if (later == plain)
        return false;

    *ret_to = later;
    return true;
}

/* What the payload must say for the later outcome. A third event with two outcomes must say so
 * here. */
static const char *later_condition(enum event_type event)
{
    if (event == EVENT_JOB_REQUEUED)
        return "its payload has a not_before in the future";
    assert(event == EVENT_JOB_WAITING);
    return "its payload says \"parked\": true";
}

/* "requeued" for job_requeued: all but one of them would start alike. */
static struct str event_heading(enum event_type event)
{
    const struct str prefix = STR("job_");
    struct str name = event_type_name(event);
    assert(name.len > prefix.len);
    if (memcmp(name.at, prefix.at, prefix.len) != 0)
        return name;
    return (struct str){name.at + prefix.len, name.len - prefix.len};
}

/* ---- tsv ---- */

static void job_tsv_line(struct buf *buf, enum job_status from, enum event_type event,
                         enum job_status to)
{
    buf_add(buf, job_status_name(from));
    buf_add_char(buf, '\t');
    buf_add(buf, event_type_name(event));
    buf_add_char(buf, '\t');
    buf_add(buf, job_status_name(to));
    buf_add_char(buf, '\n');
}

static void job_tsv(struct buf *buf)
{
    enum job_status rows[JOB_ROWS];
    job_rows(rows);
    for (size_t r = 0; r < JOB_ROWS; r++) {
        for (size_t e = 0; e < STATE_EVENTS; e++) {
            enum job_status to;
            if (job_move(rows[r], state_events[e], MOVE_PLAIN, &to))
                job_tsv_line(buf, rows[r], state_events[e], to);
            if (job_move_later(rows[r], state_events[e], &to))
                job_tsv_line(buf, rows[r], state_events[e], to);
        }
    }
}

static void step_tsv(struct buf *buf)
{
    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        for (int to = 0; to < STEP_STATE_COUNT; to++) {
            if (!step_move((enum step_state)from, (enum step_state)to))
                continue;
            buf_add(buf, step_state_name((enum step_state)from));
            buf_add_char(buf, '\t');
            buf_add(buf, step_state_name((enum step_state)to));
            buf_add_char(buf, '\n');
        }
    }
}

/* ---- tables ---- */

static void add_times(struct buf *buf, struct str text, size_t times)
{
    for (size_t i = 0; i < times; i++)
        buf_add(buf, text);
}

/* Characters, which are columns on a screen for all that is written here. */
static size_t text_columns(struct str text)
{
    size_t columns = 0;
    for (size_t i = 0; i < text.len; i++)
        columns += ((unsigned char)text.at[i] & 0xC0) != 0x80;
    return columns;
}

static size_t max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

static const struct str gap = {"  ", 2};
static const struct str rule = {"─", sizeof "─" - 1};

struct cell {
    struct str text;
    struct str mark; /* of a footnote; may be absent */
};

static size_t cell_columns(struct cell cell)
{
    return text_columns(cell.text) + text_columns(cell.mark);
}

/* Adds the cell as the next of a line, `width` columns wide. The last of a line is not filled up.
 */
static void add_cell(struct buf *buf, struct cell cell, size_t width, bool last)
{
    assert(cell_columns(cell) <= width);
    buf_add(buf, cell.text);
    buf_add(buf, cell.mark);
    if (last) {
        buf_add_char(buf, '\n');
    } else {
        add_times(buf, STR(" "), width - cell_columns(cell));
        buf_add(buf, gap);
    }
}

struct job_grid {
    enum job_status rows[JOB_ROWS];
    struct str marks[STATE_EVENTS]; /* the footnote of an event with two outcomes, or absent */
    size_t widths[STATE_EVENTS];
    size_t label_width;
};

static struct cell job_label(enum job_status status)
{
    return (struct cell){.text = status == JOB_NONE ? STR("(none)") : job_status_name(status)};
}

static struct cell job_cell(const struct job_grid *grid, size_t row, size_t event)
{
    enum job_status to;
    if (!job_move(grid->rows[row], state_events[event], MOVE_PLAIN, &to))
        return (struct cell){.text = STR("–")};

    struct cell cell = {.text = job_status_name(to)};
    enum job_status later;
    if (job_move_later(grid->rows[row], state_events[event], &later))
        cell.mark = grid->marks[event];
    return cell;
}

static void job_grid_init(struct job_grid *grid, struct str corner)
{
    static const struct str marks[] = {{"¹", sizeof "¹" - 1}, {"²", sizeof "²" - 1}};
    size_t marked = 0;

    *grid = (struct job_grid){.label_width = text_columns(corner)};
    job_rows(grid->rows);
    for (size_t r = 0; r < JOB_ROWS; r++)
        grid->label_width = max_size(grid->label_width, cell_columns(job_label(grid->rows[r])));

    for (size_t e = 0; e < STATE_EVENTS; e++) {
        enum job_status later;
        for (size_t r = 0; r < JOB_ROWS && !str_is_set(grid->marks[e]); r++) {
            if (job_move_later(grid->rows[r], state_events[e], &later)) {
                assert(marked < sizeof marks / sizeof marks[0]);
                grid->marks[e] = marks[marked++];
            }
        }
        grid->widths[e] = text_columns(event_heading(state_events[e]));
        for (size_t r = 0; r < JOB_ROWS; r++)
            grid->widths[e] = max_size(grid->widths[e], cell_columns(job_cell(grid, r, e)));
    }
}

static void job_footnotes(const struct job_grid *grid, struct buf *buf)
{
    for (size_t e = 0; e < STATE_EVENTS; e++) {
        if (!str_is_set(grid->marks[e]))
            continue;
        enum job_status to = JOB_NONE;
        for (size_t r = 0; r < JOB_ROWS; r++)
            (void)job_move_later(grid->rows[r], state_events[e], &to);
        assert(to != JOB_NONE);
        buf_add(buf, grid->marks[e]);
        buf_add_char(buf, ' ');
        buf_add(buf, event_type_name(state_events[e]));
        buf_add(buf, STR(" leads to "));
        buf_add(buf, job_status_name(to));
        buf_addf(buf, " when %s\n", later_condition(state_events[e]));
    }
    buf_add(buf, STR("– the event is illegal in this state\n"));
}

static void job_table(struct buf *buf)
{
    const struct str corner = STR("state \\ event");
    struct job_grid grid;
    job_grid_init(&grid, corner);

    add_cell(buf, (struct cell){.text = corner}, grid.label_width, false);
    for (size_t e = 0; e < STATE_EVENTS; e++)
        add_cell(buf, (struct cell){.text = event_heading(state_events[e])}, grid.widths[e],
                 e == STATE_EVENTS - 1);

    add_times(buf, rule, grid.label_width);
    for (size_t e = 0; e < STATE_EVENTS; e++) {
        buf_add(buf, gap);
        add_times(buf, rule, grid.widths[e]);
    }
    buf_add_char(buf, '\n');

    for (size_t r = 0; r < JOB_ROWS; r++) {
        add_cell(buf, job_label(grid.rows[r]), grid.label_width, false);
        for (size_t e = 0; e < STATE_EVENTS; e++)
            add_cell(buf, job_cell(&grid, r, e), grid.widths[e], e == STATE_EVENTS - 1);
    }
    buf_add_char(buf, '\n');
    job_footnotes(&grid, buf);
}

/* "a, b" for all states that can follow, or a dash. */
static void step_next(struct buf *buf, enum step_state from)
{
    bool any = false;
    for (int to = 0; to < STEP_STATE_COUNT; to++) {
        if (!step_move(from, (enum step_state)to))
            continue;
        if (any)
            buf_add(buf, STR(", "));
        buf_add(buf, step_state_name((enum step_state)to));
        any = true;
    }
    if (!any)
        buf_add(buf, STR("–"));
    buf_add_char(buf, '\n');
}

/* A grid of thirteen by thirteen would be wide and almost empty; a list says the same. */
static void step_table(struct buf *buf)
{
    static const struct str headings[] = {{"state", 5}, {"entered by", 10}, {"next", 4}};
    size_t state_width = headings[0].len;
    size_t event_width = headings[1].len;
    for (int i = 0; i < STEP_STATE_COUNT; i++) {
        enum step_state state = (enum step_state)i;
        state_width = max_size(state_width, step_state_name(state).len);
        event_width = max_size(event_width, event_type_name(step_state_event(state)).len);
    }

    add_cell(buf, (struct cell){.text = headings[0]}, state_width, false);
    add_cell(buf, (struct cell){.text = headings[1]}, event_width, false);
    add_cell(buf, (struct cell){.text = headings[2]}, headings[2].len, true);
    add_times(buf, rule, state_width);
    buf_add(buf, gap);
    add_times(buf, rule, event_width);
    buf_add(buf, gap);
    add_times(buf, rule, headings[2].len);
    buf_add_char(buf, '\n');

    for (int i = 0; i < STEP_STATE_COUNT; i++) {
        enum step_state state = (enum step_state)i;
        struct str event = event_type_name(step_state_event(state));
        add_cell(buf, (struct cell){.text = step_state_name(state)}, state_width, false);
        add_cell(buf, (struct cell){.text = event}, event_width, false);
        step_next(buf, state);
    }
    buf_add(buf, STR("\n– nothing follows: the step has ended\n"));
}

/* ---- mermaid ---- */

static const struct str outside = {"[*]", 3}; /* where a life begins and ends */

static void add_arrow(struct buf *buf, struct str from, struct str to)
{
    buf_add(buf, STR("    "));
    buf_add(buf, from);
    buf_add(buf, STR(" --> "));
    buf_add(buf, to);
}

static void add_bare_arrow(struct buf *buf, struct str from, struct str to)
{
    add_arrow(buf, from, to);
    buf_add_char(buf, '\n');
}

/* One arrow from a state to another, with all events that lead there: a picture with an arrow for
 * every event could not be read. */
static void job_arrow(struct buf *buf, enum job_status from, enum job_status to)
{
    bool any = false;
    for (size_t e = 0; e < STATE_EVENTS; e++) {
        enum job_status reached;
        bool plain = job_move(from, state_events[e], MOVE_PLAIN, &reached) && reached == to;
        bool later = job_move_later(from, state_events[e], &reached) && reached == to;
        if (!plain && !later)
            continue;
        if (!any)
            add_arrow(buf, from == JOB_NONE ? outside : job_status_name(from), job_status_name(to));
        buf_add(buf, any ? STR(", ") : STR(": "));
        buf_add(buf, event_heading(state_events[e]));
        if (later)
            buf_add(buf, STR(" (later)"));
        any = true;
    }
    if (any)
        buf_add_char(buf, '\n');
}

static void job_mermaid(struct buf *buf)
{
    enum job_status rows[JOB_ROWS];
    job_rows(rows);
    buf_add(buf, STR("stateDiagram-v2\n"));
    for (size_t from = 0; from < JOB_ROWS; from++) {
        for (size_t to = 1; to < JOB_ROWS; to++)
            job_arrow(buf, rows[from], rows[to]);
        if (job_status_terminal(rows[from]))
            add_bare_arrow(buf, job_status_name(rows[from]), outside);
    }
}

static void step_mermaid(struct buf *buf)
{
    buf_add(buf, STR("stateDiagram-v2\n"));
    add_bare_arrow(buf, outside, step_state_name(STEP_PENDING));
    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        struct str name = step_state_name((enum step_state)from);
        for (int to = 0; to < STEP_STATE_COUNT; to++)
            if (step_move((enum step_state)from, (enum step_state)to))
                add_bare_arrow(buf, name, step_state_name((enum step_state)to));
        if (step_state_terminal((enum step_state)from))
            add_bare_arrow(buf, name, outside);
    }
}

void job_machine_write(enum machine_format format, struct buf *buf)
{
    static void (*const writers[])(struct buf *) = {
        [MACHINE_TABLE] = job_table,
        [MACHINE_TSV] = job_tsv,
        [MACHINE_MERMAID] = job_mermaid,
    };
    assert(format <= MACHINE_MERMAID);
    writers[format](buf);
}

void step_machine_write(enum machine_format format, struct buf *buf)
{
    static void (*const writers[])(struct buf *) = {
        [MACHINE_TABLE] = step_table,
        [MACHINE_TSV] = step_tsv,
        [MACHINE_MERMAID] = step_mermaid,
    };
    assert(format <= MACHINE_MERMAID);
    writers[format](buf);
}
