/* Verbs on the clock of a server for tests: clock, clock_advance. */
#include "engine/answer.h"
#include "engine/verb.h"

#define FIELD(member, kind) RECORD_FIELD(struct clock_move, member, #member, kind)

static const struct record_field advance_fields[] = {FIELD(ms, INT), FIELD(to, TIME),
                                                     FIELD(to_next, BOOL)};
RECORD_TABLE(advance);

static void write_clock(const struct verb_call *call, struct json_writer *writer)
{
    const struct clock_state *state = call->result.data;
    json_begin_object(writer);
    answer_time(writer, STR("now"), state->now);
    if (call->name == VERB_clock_advance)
        answer_int(writer, STR("fired"), (int64_t)state->fired);
    answer_time(writer, STR("next_due"), state->next_due);
    json_end_object(writer);
}

static enum error_code run_clock(struct verb_call *call, struct err *err)
{
    static const struct record_type nothing = {NULL, 0};
    struct clock_state *state = verb_data(call, sizeof *state);
    char none;
    if (state == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &nothing, &none, err);
    return code == ERR_OK ? engine_clock(call->engine, state, err) : code;
}

const struct verb verb_clock = {.run = run_clock, .write = write_clock};

static enum error_code run_advance(struct verb_call *call, struct err *err)
{
    struct clock_move move = {.ms = CLOCK_UNSAID, .to = CLOCK_UNSAID};
    struct clock_state *state = verb_data(call, sizeof *state);
    if (state == NULL)
        return verb_no_memory(err);
    enum error_code code = verb_read(call, &advance_record, &move, err);
    return code == ERR_OK ? engine_advance(call->engine, &move, state, err) : code;
}

const struct verb verb_clock_advance = {
    .request = &advance_record, .run = run_advance, .write = write_clock};
