/* The machines as text: the lines that programs read, letter by letter; tables and diagrams, by
 * what they say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/machine.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

enum { COLUMNS_MAX = 160, CELLS_MAX = 16, TEXT_MAX = 8192 };

/* The text of a machine as a string, for the test to free. */
static char *written(void (*write)(enum machine_format, struct buf *), enum machine_format format)
{
    struct arena arena;
    struct buf buf;
    arena_init(&arena);
    buf_init(&buf, &arena, 16); /* small, so that it grows */
    write(format, &buf);
    assert_false(buf.failed);
    assert_true(buf.len < TEXT_MAX);

    char *text = malloc(buf.len + 1);
    assert_non_null(text);
    memcpy(text, buf.at, buf.len);
    text[buf.len] = '\0';
    arena_release(&arena);
    return text;
}

/* Cuts the next line off `*text`; NULL at the end. */
static char *next_line(char **text)
{
    char *line = *text;
    char *end = strchr(line, '\n');
    if (end == NULL)
        return NULL;
    *end = '\0';
    *text = end + 1;
    return line;
}

/* Cuts a line of a table into its cells, which stand two or more spaces apart. */
static size_t cut_cells(char *line, char *cells[CELLS_MAX])
{
    size_t count = 0;
    while (*line != '\0') {
        assert_true(count < CELLS_MAX);
        cells[count++] = line;
        line = strstr(line, "  ");
        if (line == NULL)
            break;
        *line++ = '\0';
        line += strspn(line, " ");
    }
    return count;
}

static const char job_tsv[] = "none\tjob_created\tqueued\n"
                              "none\tjob_queued\tqueued\n"
                              "none\tjob_requeued\tqueued\n"
                              "queued\tjob_requeued\tqueued\n"
                              "queued\tjob_requeued\tretrying\n"
                              "queued\tjob_leased\tleased\n"
                              "queued\tjob_running\trunning\n"
                              "queued\twait_completed\tqueued\n"
                              "queued\tjob_cancelled\tcancelled\n"
                              "queued\tjob_dead_lettered\tdead_lettered\n"
                              "retrying\tjob_requeued\tqueued\n"
                              "retrying\tjob_requeued\tretrying\n"
                              "retrying\tjob_leased\tleased\n"
                              "retrying\tjob_running\trunning\n"
                              "retrying\twait_completed\tqueued\n"
                              "retrying\tjob_cancelled\tcancelled\n"
                              "retrying\tjob_dead_lettered\tdead_lettered\n"
                              "leased\tjob_requeued\tqueued\n"
                              "leased\tjob_requeued\tretrying\n"
                              "leased\tjob_running\trunning\n"
                              "leased\tjob_cancelled\tcancelled\n"
                              "leased\tjob_dead_lettered\tdead_lettered\n"
                              "running\tjob_requeued\tqueued\n"
                              "running\tjob_requeued\tretrying\n"
                              "running\tjob_waiting\twaiting\n"
                              "running\tjob_waiting\tparked\n"
                              "running\twait_completed\tqueued\n"
                              "running\tjob_completed\tcompleted\n"
                              "running\tjob_failed\tfailed\n"
                              "running\tjob_cancelled\tcancelled\n"
                              "running\tjob_dead_lettered\tdead_lettered\n"
                              "waiting\twait_completed\tqueued\n"
                              "waiting\tjob_cancelled\tcancelled\n"
                              "parked\twait_completed\tqueued\n"
                              "parked\tjob_cancelled\tcancelled\n"
                              "failed\tjob_requeued\tqueued\n"
                              "failed\tjob_requeued\tretrying\n"
                              "dead_lettered\tjob_requeued\tqueued\n"
                              "dead_lettered\tjob_requeued\tretrying\n";

static const char step_tsv[] = "pending\twaiting_deps\n"
                               "pending\tleased\n"
                               "waiting_deps\tleased\n"
                               "leased\trunning\n"
                               "leased\tlease_timeout\n"
                               "running\tsucceeded\n"
                               "running\tfailed_retryable\n"
                               "running\tfailed_resource\n"
                               "running\tfailed_fatal\n"
                               "running\tneeds_user\n"
                               "failed_retryable\tretrying\n"
                               "retrying\trunning\n"
                               "failed_resource\tswitching_resource\n"
                               "switching_resource\tleased\n"
                               "failed_fatal\tfailed\n"
                               "needs_user\trunning\n"
                               "lease_timeout\tpending\n";

static void lines_for_programs_name_every_legal_move(void **state)
{
    (void)state;
    char *job = written(job_machine_write, MACHINE_TSV);
    char *step = written(step_machine_write, MACHINE_TSV);
    assert_string_equal(job, job_tsv);
    assert_string_equal(step, step_tsv);
    free(job);
    free(step);
}

static void tables_fit_a_screen_and_end_no_line_with_a_space(void **state)
{
    (void)state;
    char *texts[] = {written(job_machine_write, MACHINE_TABLE),
                     written(step_machine_write, MACHINE_TABLE)};
    for (size_t i = 0; i < COUNT(texts); i++) {
        char *rest = texts[i];
        for (char *line; (line = next_line(&rest)) != NULL;) {
            size_t columns = 0;
            for (const char *c = line; *c != '\0'; c++)
                columns += ((unsigned char)*c & 0xC0) != 0x80;
            assert_true(columns <= COLUMNS_MAX);
            assert_true(*line == '\0' || line[strlen(line) - 1] != ' ');
        }
        assert_string_equal(rest, "");
        free(texts[i]);
    }
}

/* What the table should show for an event in a state. */
static void expected_cell(enum job_status from, enum event_type event, char *ret, size_t size)
{
    enum job_status plain;
    enum job_status later;
    if (!job_move(from, event, MOVE_PLAIN, &plain)) {
        snprintf(ret, size, "–");
        return;
    }
    assert_true(job_move(from, event, MOVE_LATER, &later));
    const char *mark = plain == later ? "" : event == EVENT_JOB_REQUEUED ? "¹" : "²";
    snprintf(ret, size, "%s%s", job_status_name(plain).at, mark);
}

static enum event_type heading_event(const char *heading)
{
    char name[64];
    snprintf(name, sizeof name, "job_%s", heading);
    enum event_type event = event_type_parse(str_from(name));
    return event != EVENT_UNKNOWN ? event : event_type_parse(str_from(heading));
}

static void every_cell_of_the_job_table_says_where_the_event_leads(void **state)
{
    (void)state;
    char *text = written(job_machine_write, MACHINE_TABLE);
    char *rest = text;
    char *headings[CELLS_MAX];
    assert_int_equal(cut_cells(next_line(&rest), headings), 12);
    assert_string_equal(headings[0], "state \\ event");
    (void)next_line(&rest); /* the rule */

    size_t rows = 0;
    for (char *line; (line = next_line(&rest)) != NULL && *line != '\0'; rows++) {
        char *cells[CELLS_MAX];
        assert_int_equal(cut_cells(line, cells), 12);
        enum job_status from = JOB_NONE;
        if (strcmp(cells[0], "(none)") != 0)
            assert_true(job_status_parse(str_from(cells[0]), &from));
        for (size_t i = 1; i < 12; i++) {
            char expected[64];
            enum event_type event = heading_event(headings[i]);
            assert_int_equal(event_type_class(event), EVENT_CLASS_STATE);
            expected_cell(from, event, expected, sizeof expected);
            assert_string_equal(cells[i], expected);
        }
    }
    assert_int_equal(rows, JOB_STATUS_COUNT + 1);
    assert_string_equal(rest, "¹ job_requeued leads to retrying when its payload has a not_before "
                              "in the future\n² job_waiting leads to parked when its payload says "
                              "\"parked\": true\n– the event is illegal in this state\n");
    free(text);
}

static void the_step_table_lists_what_enters_and_what_follows_each_state(void **state)
{
    (void)state;
    char *text = written(step_machine_write, MACHINE_TABLE);
    char *rest = text;
    char *cells[CELLS_MAX];
    assert_int_equal(cut_cells(next_line(&rest), cells), 3);
    (void)next_line(&rest); /* the rule */

    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        enum step_state step = (enum step_state)from;
        char next[256] = "";
        for (int to = 0; to < STEP_STATE_COUNT; to++) {
            size_t len = strlen(next);
            if (step_move(step, (enum step_state)to))
                snprintf(next + len, sizeof next - len, "%s%s", len == 0 ? "" : ", ",
                         step_state_name((enum step_state)to).at);
        }
        assert_int_equal(cut_cells(next_line(&rest), cells), 3);
        assert_string_equal(cells[0], step_state_name(step).at);
        assert_string_equal(cells[1], event_type_name(step_state_event(step)).at);
        assert_string_equal(cells[2], *next == '\0' ? "–" : next);
    }
    assert_string_equal(rest, "\n– nothing follows: the step has ended\n");
    free(text);
}

/* Whether some event leads from one status to the other. */
static bool job_reaches(enum job_status from, enum job_status to)
{
    for (int event = 0; event < 64; event++) {
        for (int variant = MOVE_PLAIN; variant <= MOVE_LATER; variant++) {
            enum job_status reached;
            if (job_move(from, (enum event_type)event, (enum move_variant)variant, &reached) &&
                reached == to)
                return true;
        }
    }
    return false;
}

/* How often a line starts with `arrow`. */
static size_t count_lines(const char *text, const char *arrow)
{
    size_t count = 0;
    for (const char *line = text; line != NULL && *line != '\0';) {
        count += strncmp(line, arrow, strlen(arrow)) == 0;
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return count;
}

static void the_job_diagram_has_one_arrow_for_each_pair_of_states_that_has_a_move(void **state)
{
    (void)state;
    char *text = written(job_machine_write, MACHINE_MERMAID);
    size_t arrows = 0;
    char arrow[128];
    for (int from = 0; from <= JOB_NONE; from++) {
        const char *name = from == JOB_NONE ? "[*]" : job_status_name((enum job_status)from).at;
        for (int to = 0; to < JOB_STATUS_COUNT; to++) {
            snprintf(arrow, sizeof arrow, "    %s --> %s: ", name,
                     job_status_name((enum job_status)to).at);
            bool reaches = job_reaches((enum job_status)from, (enum job_status)to);
            assert_int_equal(count_lines(text, arrow), reaches);
            arrows += reaches;
        }
        snprintf(arrow, sizeof arrow, "    %s --> [*]\n", name);
        assert_int_equal(count_lines(text, arrow), job_status_terminal((enum job_status)from));
        arrows += job_status_terminal((enum job_status)from);
    }
    assert_int_equal(count_lines(text, "stateDiagram-v2\n"), 1);
    assert_int_equal(count_lines(text, ""), arrows + 1);
    assert_non_null(strstr(text, "    [*] --> queued: created, queued, requeued\n"));
    assert_non_null(strstr(text, "    running --> queued: requeued, wait_completed\n"));
    assert_non_null(strstr(text, "    running --> parked: waiting (later)\n"));
    free(text);
}

static void the_step_diagram_has_one_arrow_for_each_move(void **state)
{
    (void)state;
    char *text = written(step_machine_write, MACHINE_MERMAID);
    size_t arrows = 1;
    char arrow[128];
    for (int from = 0; from < STEP_STATE_COUNT; from++) {
        const char *name = step_state_name((enum step_state)from).at;
        for (int to = 0; to < STEP_STATE_COUNT; to++) {
            bool legal = step_move((enum step_state)from, (enum step_state)to);
            snprintf(arrow, sizeof arrow, "    %s --> %s\n", name,
                     step_state_name((enum step_state)to).at);
            assert_int_equal(count_lines(text, arrow), legal);
            arrows += legal;
        }
        snprintf(arrow, sizeof arrow, "    %s --> [*]\n", name);
        assert_int_equal(count_lines(text, arrow), step_state_terminal((enum step_state)from));
        arrows += step_state_terminal((enum step_state)from);
    }
    assert_int_equal(count_lines(text, "stateDiagram-v2\n"), 1);
    assert_int_equal(count_lines(text, "    [*] --> pending\n"), 1);
    assert_int_equal(count_lines(text, ""), arrows + 1);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_for_programs_name_every_legal_move),
        cmocka_unit_test(tables_fit_a_screen_and_end_no_line_with_a_space),
        cmocka_unit_test(every_cell_of_the_job_table_says_where_the_event_leads),
        cmocka_unit_test(the_step_table_lists_what_enters_and_what_follows_each_state),
        cmocka_unit_test(the_job_diagram_has_one_arrow_for_each_pair_of_states_that_has_a_move),
        cmocka_unit_test(the_step_diagram_has_one_arrow_for_each_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
