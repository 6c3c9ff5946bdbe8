/* load_parts: steps, effects and signals of many jobs, one statement for each kind, in one flight.
 *
 * Every selection is an array of (number of the part, job, what), so that results come back sorted
 * by part, each row once. */
#include "store/postgres/postgres.h"

/* A selection begins at some column: the numbers of parts, jobs, and what is wanted of these. */
static void select_job(struct array *at, uint32_t part, struct uuid job)
{
    array_add_int4(&at[0], part);
    array_add_uuid(&at[1], job);
}

static void select_text(struct array *at, uint32_t part, struct uuid job, const struct str *texts,
                        uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        select_job(at, part, job);
        array_add_str(&at[2], texts[i]);
    }
}

/* The types of a selection with and without something wanted of the jobs. */
#define OF_JOBS PARAM_INT4, PARAM_UUID
#define OF_TEXTS OF_JOBS, PARAM_TEXT

static enum error_code send_selections(struct postgres_txn *txn, const char *sql,
                                       struct columns *columns, struct err *err)
{
    struct params params;
    params_add_columns(&params, columns, &txn->scratch);
    return connection_send(txn->connection, sql, &params, err);
}

/* ---- statements ----
 *
 * OFFSET keeps the planner from going through a whole table instead of looking up a job in it,
 * which it prefers when it believes that the table holds rows of one job only. */

/* $1 $2: all steps; $3..5: by ordinal; $6..8: by id; $9..11: by the key of an open question; $12:
 * parts without children. */
static const char read_steps[] =
    "WITH named AS MATERIALIZED ("
    " SELECT w.part, s.job_id, s.ordinal, s.children"
    " FROM unnest($3::int4[], $4::uuid[], $5::int4[]) AS w (part, job_id, ordinal)"
    " JOIN pawl.job_steps s ON s.job_id = w.job_id AND s.ordinal = w.ordinal"
    " UNION ALL SELECT w.part, s.job_id, s.ordinal, s.children"
    " FROM unnest($6::int4[], $7::uuid[], $8::text[]) AS w (part, job_id, id)"
    " JOIN pawl.job_steps s ON s.job_id = w.job_id AND s.id = w.id"
    " UNION ALL SELECT w.part, s.job_id, s.ordinal, s.children"
    " FROM unnest($9::int4[], $10::uuid[], $11::text[]) AS w (part, job_id, key)"
    " JOIN pawl.job_steps s ON s.job_id = w.job_id AND s.asking_key = w.key"
    "), wanted AS MATERIALIZED ("
    " SELECT part, job_id, ordinal FROM named"
    " UNION SELECT n.part, n.job_id, child FROM named n, unnest(n.children) AS child"
    " WHERE n.part <> ALL ($12::int4[])"
    " UNION SELECT w.part, w.job_id, s.ordinal FROM unnest($1::int4[], $2::uuid[])"
    " AS w (part, job_id) CROSS JOIN LATERAL (SELECT s.ordinal FROM pawl.job_steps s"
    " WHERE s.job_id = w.job_id OFFSET 0) AS s"
    ") SELECT w.part, s.ordinal, s.id, s.state_number, s.plan, s.state, "
    "s.asking_key, " CLAIM_COLUMNS
    " FROM wanted w JOIN pawl.job_steps s ON s.job_id = w.job_id AND s.ordinal = "
    "w.ordinal" CLAIM_OF("s.job_id", "s.ordinal") " ORDER BY w.part, s.ordinal";

/* $1 $2: all effects; $3 $4: all that are open; $5..7: the open ones of a step; $8..10: by name;
 * $11..14: the job's own behind a version, so many; $15..19: those of a step, whose names begin
 * with its id. */
static const char read_effects[] =
    "WITH wanted AS MATERIALIZED ("
    " SELECT w.part, w.job_id, e.name FROM unnest($1::int4[], $2::uuid[]) AS w (part, job_id)"
    " CROSS JOIN LATERAL (SELECT e.name FROM pawl.job_effects e"
    " WHERE e.job_id = w.job_id OFFSET 0) AS e"
    " UNION SELECT w.part, w.job_id, e.name FROM unnest($3::int4[], $4::uuid[]) AS w (part, job_id)"
    " CROSS JOIN LATERAL (SELECT e.name FROM pawl.job_effects e"
    " WHERE e.job_id = w.job_id AND e.open OFFSET 0) AS e"
    " UNION SELECT w.part, w.job_id, e.name"
    " FROM unnest($5::int4[], $6::uuid[], $7::text[]) AS w (part, job_id, step)"
    " CROSS JOIN LATERAL (SELECT e.name FROM pawl.job_effects e WHERE e.job_id = w.job_id"
    " AND e.open AND e.step IS NOT DISTINCT FROM w.step OFFSET 0) AS e"
    " UNION SELECT w.part, e.job_id, e.name"
    " FROM unnest($8::int4[], $9::uuid[], $10::text[]) AS w (part, job_id, name)"
    " JOIN pawl.job_effects e ON e.job_id = w.job_id AND e.name = w.name"
    " UNION SELECT w.part, w.job_id, e.name"
    " FROM unnest($11::int4[], $12::uuid[], $13::int8[], $14::int8[]) AS w (part, job_id, after, n)"
    " CROSS JOIN LATERAL (SELECT e.name FROM pawl.job_effects e WHERE e.job_id = w.job_id"
    " AND e.step IS NULL AND e.version > w.after ORDER BY e.version LIMIT w.n) AS e"
    " UNION SELECT w.part, w.job_id, e.name"
    " FROM unnest($15::int4[], $16::uuid[], $17::text[], $18::int8[], $19::int8[])"
    " AS w (part, job_id, step, after, n)"
    " CROSS JOIN LATERAL (SELECT e.name FROM pawl.job_effects e WHERE e.job_id = w.job_id"
    " AND e.step = w.step AND e.name > w.step || chr(31) AND e.name < w.step || chr(32)"
    " AND e.version > w.after ORDER BY e.version LIMIT w.n) AS e"
    ") SELECT w.part, e.name, e.step, e.key, e.version, e.open, e.state"
    " FROM wanted w JOIN pawl.job_effects e ON e.job_id = w.job_id AND e.name = w.name"
    " ORDER BY w.part, e.version, e.name";

/* $1 $2: all signals; $3..5: the newest and the oldest stored of a key; $6..8: by id; $9 $10: all
 * that are stored. */
static const char read_signals[] =
    "WITH wanted AS MATERIALIZED ("
    " SELECT w.part, w.job_id, s.version FROM unnest($1::int4[], $2::uuid[]) AS w (part, job_id)"
    " CROSS JOIN LATERAL (SELECT s.version FROM pawl.job_signals s"
    " WHERE s.job_id = w.job_id OFFSET 0) AS s"
    " UNION SELECT w.part, w.job_id, newest.version"
    " FROM unnest($3::int4[], $4::uuid[], $5::text[]) AS w (part, job_id, key)"
    " CROSS JOIN LATERAL (SELECT s.version FROM pawl.job_signals s WHERE s.job_id = w.job_id"
    " AND s.correlation_key = w.key ORDER BY s.version DESC LIMIT 1) AS newest"
    " UNION SELECT w.part, w.job_id, oldest.version"
    " FROM unnest($3::int4[], $4::uuid[], $5::text[]) AS w (part, job_id, key)"
    " CROSS JOIN LATERAL (SELECT s.version FROM pawl.job_signals s WHERE s.job_id = w.job_id"
    " AND s.correlation_key = w.key AND NOT s.delivered ORDER BY s.version LIMIT 1) AS oldest"
    " UNION SELECT w.part, s.job_id, s.version"
    " FROM unnest($6::int4[], $7::uuid[], $8::text[]) AS w (part, job_id, id)"
    " JOIN pawl.job_signals s ON s.job_id = w.job_id AND s.signal_id = w.id"
    " UNION SELECT w.part, w.job_id, s.version FROM unnest($9::int4[], $10::uuid[])"
    " AS w (part, job_id)"
    " CROSS JOIN LATERAL (SELECT s.version FROM pawl.job_signals s"
    " WHERE s.job_id = w.job_id AND NOT s.delivered OFFSET 0) AS s"
    ") SELECT w.part, s.correlation_key, s.signal_id, s.payload, s.version, s.delivered"
    " FROM wanted w JOIN pawl.job_signals s ON s.job_id = w.job_id AND s.version = w.version"
    " ORDER BY w.part, s.version";

static bool wants_steps(const struct store_parts *parts)
{
    return parts->all_steps || parts->ordinal_count > 0 || parts->step_id_count > 0 ||
           parts->asking_key_count > 0;
}

static bool wants_effects(const struct store_parts *parts)
{
    return parts->all_effects || parts->all_open_effects || parts->open_of_count > 0 ||
           parts->effect_name_count > 0 || parts->effects_of.wanted;
}

static bool wants_signals(const struct store_parts *parts)
{
    return parts->all_signals || parts->stored_signals || parts->signal_key_count > 0 ||
           parts->signal_id_count > 0;
}

static bool any_wants(bool (*wants)(const struct store_parts *), const struct store_parts *parts,
                      uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++)
        any = any || wants(&parts[i]);
    return any;
}

static enum error_code send_steps(struct postgres_txn *txn, const struct store_parts *parts,
                                  uint32_t count, struct err *err)
{
    static const enum param_type types[] = {OF_JOBS,  OF_JOBS,  PARAM_INT4,
                                            OF_TEXTS, OF_TEXTS, PARAM_INT4};
    struct columns columns;
    struct array *at = columns.at;
    columns_init(&columns, &txn->scratch, types, sizeof types / sizeof types[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct store_parts *part = &parts[i];
        if (part->no_children)
            array_add_int4(&at[11], i);
        if (part->all_steps) {
            select_job(&at[0], i, part->job);
            continue;
        }
        for (uint32_t k = 0; k < part->ordinal_count; k++) {
            if (part->ordinals[k] > INT32_MAX)
                continue;
            select_job(&at[2], i, part->job);
            array_add_int4(&at[4], part->ordinals[k]);
        }
        select_text(&at[5], i, part->job, part->step_ids, part->step_id_count);
        select_text(&at[8], i, part->job, part->asking_keys, part->asking_key_count);
    }
    return send_selections(txn, read_steps, &columns, err);
}

static enum error_code send_effects(struct postgres_txn *txn, const struct store_parts *parts,
                                    uint32_t count, struct err *err)
{
    static const enum param_type types[] = {OF_JOBS,    OF_JOBS,    OF_TEXTS,   OF_TEXTS,
                                            OF_JOBS,    PARAM_INT8, PARAM_INT8, OF_TEXTS,
                                            PARAM_INT8, PARAM_INT8};
    struct columns columns;
    struct array *at = columns.at;
    columns_init(&columns, &txn->scratch, types, sizeof types / sizeof types[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct store_parts *part = &parts[i];
        const struct store_effects *of = &part->effects_of;
        bool of_step = str_is_set(of->step);
        if (part->all_effects)
            select_job(&at[0], i, part->job);
        else if (part->all_open_effects)
            select_job(&at[2], i, part->job);
        select_text(&at[4], i, part->job, part->open_of, part->open_of_count);
        select_text(&at[7], i, part->job, part->effect_names, part->effect_name_count);
        if (!of->wanted)
            continue;
        if (of_step)
            select_text(&at[14], i, part->job, &of->step, 1);
        else
            select_job(&at[10], i, part->job);
        array_add_int8(&at[of_step ? 17 : 12], of->after);
        array_add_int8(&at[of_step ? 18 : 13], of->max);
    }
    return send_selections(txn, read_effects, &columns, err);
}

static enum error_code send_signals(struct postgres_txn *txn, const struct store_parts *parts,
                                    uint32_t count, struct err *err)
{
    static const enum param_type types[] = {OF_JOBS, OF_TEXTS, OF_TEXTS, OF_JOBS};
    struct columns columns;
    struct array *at = columns.at;
    columns_init(&columns, &txn->scratch, types, sizeof types / sizeof types[0]);
    for (uint32_t i = 0; i < count; i++) {
        const struct store_parts *part = &parts[i];
        if (part->all_signals)
            select_job(&at[0], i, part->job);
        select_text(&at[2], i, part->job, part->signal_keys, part->signal_key_count);
        select_text(&at[5], i, part->job, part->signal_ids, part->signal_id_count);
        if (part->stored_signals)
            select_job(&at[8], i, part->job);
    }
    return send_selections(txn, read_signals, &columns, err);
}

/* ---- results ---- */

/* Rows of one kind, in order of parts: `size` bytes for each, made by `read`. */
struct part_kind {
    size_t size;
    enum error_code (*read)(struct reader *reader, struct arena *arena, void *ret, struct err *err);
    void (*set)(struct store_parts *part, void *at, uint32_t count);
};

static enum error_code read_step(struct reader *reader, struct arena *arena, void *ret,
                                 struct err *err)
{
    struct step_row row = {.ordinal = (uint32_t)reader_int(reader)};
    row.id = reader_str(reader);
    row.state_number = reader_int(reader);
    row.plan = reader_str(reader);
    row.state = reader_str(reader);
    row.asking_key = reader_str(reader);
    reader_claim(reader, &row.claim);
    enum error_code code = reader_check(reader, "a step", err);
    return code == ERR_OK ? row_to_step(&row, arena, ret, err) : code;
}

static void set_steps(struct store_parts *part, void *at, uint32_t count)
{
    part->steps = at;
    part->step_count = count;
}

static enum error_code read_effect(struct reader *reader, struct arena *arena, void *ret,
                                   struct err *err)
{
    struct effect_row row = {.name = reader_str(reader)};
    row.step = reader_str(reader);
    row.key = reader_str(reader);
    row.version = reader_int(reader);
    row.open = reader_bool(reader);
    row.state = reader_str(reader);
    enum error_code code = reader_check(reader, "an effect", err);
    return code == ERR_OK ? row_to_effect(&row, arena, ret, err) : code;
}

static void set_effects(struct store_parts *part, void *at, uint32_t count)
{
    part->effects = at;
    part->effect_count = count;
}

static enum error_code read_signal(struct reader *reader, struct arena *arena, void *ret,
                                   struct err *err)
{
    (void)arena;
    struct signal *signal = ret;
    *signal = (struct signal){.correlation_key = reader_str(reader)};
    signal->signal_id = reader_str(reader);
    signal->payload = reader_str(reader);
    signal->version = reader_int(reader);
    signal->delivered = reader_bool(reader);
    return reader_check(reader, "a signal", err);
}

static void set_signals(struct store_parts *part, void *at, uint32_t count)
{
    part->signals = at;
    part->signal_count = count;
}

static const struct part_kind step_kind = {sizeof(struct step), read_step, set_steps};
static const struct part_kind effect_kind = {sizeof(struct effect), read_effect, set_effects};
static const struct part_kind signal_kind = {sizeof(struct signal), read_signal, set_signals};

static enum error_code take_kind(struct postgres_txn *txn, const struct part_kind *kind,
                                 struct store_parts *parts, uint32_t count, struct arena *arena,
                                 struct err *err)
{
    struct reader reader;
    PGresult *result;
    enum error_code code = connection_result(txn->connection, &result, err);
    if (code != ERR_OK)
        return code;
    uint32_t rows = (uint32_t)PQntuples(result);
    char *all = arena_zalloc(arena, rows + (size_t)1, kind->size);
    if (all == NULL)
        code = out_of_memory(err);
    reader_init(&reader, result, arena);
    uint32_t row = 0;
    for (uint32_t i = 0; i < count && code == ERR_OK; i++) {
        uint32_t first = row;
        for (; row < rows && code == ERR_OK; row++) {
            reader_row(&reader, (int)row);
            if (reader_int(&reader) != i)
                break;
            code = kind->read(&reader, arena, all + row * kind->size, err);
        }
        kind->set(&parts[i], all + first * kind->size, row - first);
    }
    PQclear(result);
    return code;
}

enum error_code postgres_load_parts(struct store_txn *handle, struct store_parts *parts,
                                    uint32_t count, struct arena *arena, struct err *err)
{
    struct postgres_txn *txn = (struct postgres_txn *)handle;
    bool steps = any_wants(wants_steps, parts, count);
    bool effects = any_wants(wants_effects, parts, count);
    bool signals = any_wants(wants_signals, parts, count);
    for (uint32_t i = 0; i < count; i++) {
        set_steps(&parts[i], NULL, 0);
        set_effects(&parts[i], NULL, 0);
        set_signals(&parts[i], NULL, 0);
    }
    if (!steps && !effects && !signals)
        return ERR_OK;
    enum error_code code = txn_start_planned(txn, err);
    if (code == ERR_OK && steps)
        code = send_steps(txn, parts, count, err);
    if (code == ERR_OK && effects)
        code = send_effects(txn, parts, count, err);
    if (code == ERR_OK && signals)
        code = send_signals(txn, parts, count, err);
    if (code == ERR_OK)
        code = txn_flush(txn, err);
    if (code == ERR_OK && steps)
        code = take_kind(txn, &step_kind, parts, count, arena, err);
    if (code == ERR_OK && effects)
        code = take_kind(txn, &effect_kind, parts, count, arena, err);
    if (code == ERR_OK && signals)
        code = take_kind(txn, &signal_kind, parts, count, arena, err);
    return txn_end_verb(txn, code);
}
