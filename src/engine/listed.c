#include "engine/listed.h"

#include "core/job_state.h"

enum { JOB_BYTES = 1536 }; /* about what a job has in JSON besides its long texts */

bool listed_add(struct listed *list, const struct store_job *job, struct arena *arena)
{
    struct store_job *copy = arena_alloc(arena, sizeof *copy);
    if (copy == NULL)
        return false;
    *copy = (struct store_job){.id = job->id, .damaged = arena_copy(arena, job->damaged)};
    struct job *shown = &copy->slice.job;
    *shown = job->slice.job;
    shown->resume = (struct resume){0};
    if ((list->sight.parts & ANSWER_PAYLOAD) == 0)
        shown->spec.payload = (struct str){NULL, 0};
    if ((list->sight.parts & ANSWER_RESULT) == 0)
        shown->result = (struct str){NULL, 0};
    list->bytes += JOB_BYTES + shown->spec.payload.len + shown->spec.labels.len +
                   shown->spec.goal.len + shown->result.len + shown->error.len +
                   shown->progress.len + shown->cursor.len + shown->wait.choices.len +
                   shown->wait.prompt.len + shown->wait.default_answer.len +
                   shown->dead_letter.last_error.len;
    return str_is_set(copy->damaged) == str_is_set(job->damaged) &&
           job_copy_texts(shown, NULL, arena) && refs_add(&list->jobs, arena, copy);
}

static void write_job(struct json_writer *writer, const struct store_job *job, struct sight sight)
{
    if (!str_is_set(job->damaged)) {
        answer_job(writer, &job->slice.job, sight);
        return;
    }
    json_begin_object(writer);
    answer_id(writer, STR("id"), job->id);
    answer_text(writer, STR("damaged"), job->damaged);
    json_end_object(writer);
}

void listed_write(const struct listed *list, struct json_writer *writer)
{
    json_key(writer, STR("jobs"));
    json_begin_array(writer);
    for (uint32_t i = 0; i < list->jobs.count; i++)
        write_job(writer, list->jobs.at[i], list->sight);
    json_end_array(writer);
}
