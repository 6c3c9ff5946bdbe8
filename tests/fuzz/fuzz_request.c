/* libFuzzer target: the bodies of requests. An input is a script, one request a line: a letter for
 * the verb, then its body; "$" in a body stands for the token that the last claim gave out, "#" for
 * the id of the last job. All of it on a memory store of its own. Whatever was asked, a refusal has
 * a reason, and the histories of all jobs hold. */
#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef enum pawl_code verb_function(struct pawl *, const char *, char **, struct pawl_error *);

/* In the order of their letters, from A on. All but backup, which writes a file, and import, which
 * has a target of its own. */
static verb_function *const verbs[] = {
    pawl_submit,
    pawl_claim,
    pawl_complete,
    pawl_fail,
    pawl_wait,
    pawl_signal,
    pawl_effect_begin,
    pawl_effect_commit,
    pawl_effect_abort,
    pawl_effects,
    pawl_cancel,
    pawl_requeue,
    pawl_plan,
    pawl_claim_steps,
    pawl_resource_put,
    pawl_verdict,
    pawl_answer,
    pawl_batch,
    pawl_list,
    pawl_heartbeat,
    pawl_append,
    pawl_kind_set,
    pawl_dead_letter,
    pawl_bulk,
    pawl_redrive,
    pawl_token_create,
    pawl_redact,
    pawl_events,
    pawl_release,
    pawl_steps,
    pawl_pause,
    pawl_explain,
    pawl_start,
    pawl_cancelled,
    pawl_abandon,
    pawl_resume,
    pawl_resource_delete,
    pawl_drop,
    pawl_token_revoke,
    pawl_get,
    pawl_feed,
    pawl_verify,
    pawl_plan_diff,
    pawl_inbox,
    pawl_dead_letters,
    pawl_dead_letter_groups,
    pawl_queues,
    pawl_kind_get,
    pawl_workers,
    pawl_resources,
    pawl_resource_get,
    pawl_stats,
    pawl_token_list,
    pawl_export,
    pawl_doctor,
};

enum {
    VERBS = sizeof verbs / sizeof verbs[0],
    LINES_MAX = 24,
    BODY_MAX = 8 * 1024,
    NAME_MAX_LEN = 160
};

struct script {
    struct pawl *pawl;
    char token[NAME_MAX_LEN];
    char id[NAME_MAX_LEN];
};

static void fail(const char *problem, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", problem, text);
    abort();
}

static void keep(struct pawl_json value, char ret[NAME_MAX_LEN])
{
    char *text = value.at != NULL ? pawl_json_text(value) : NULL;
    if (text != NULL)
        (void)snprintf(ret, NAME_MAX_LEN, "%s", text);
    pawl_free(text);
}

/* Whether a body has a name in it, also one with characters written as \u00XX. */
static bool has_name(const char *body, const char *name)
{
    char plain[BODY_MAX];
    size_t filled = 0;
    while (*body != '\0') {
        bool escaped = strncmp(body, "\\u00", 4) == 0 && isxdigit((unsigned char)body[4]) &&
                       isxdigit((unsigned char)body[5]);
        if (escaped) {
            const char digits[3] = {body[4], body[5], '\0'};
            long character = strtol(digits, NULL, 16);
            plain[filled++] = character == 0 ? '?' : (char)character;
        } else {
            plain[filled++] = *body;
        }
        body += escaped ? 6 : 1;
    }
    plain[filled] = '\0';
    return strstr(plain, name) != NULL;
}

/* The body with what "$" and "#" stand for; false: it is too long, or would make us wait. */
static bool write_body(const struct script *script, const char *at, size_t len, char *ret)
{
    size_t filled = 0;
    for (size_t i = 0; i < len; i++) {
        char one[2] = {at[i], '\0'};
        const char *text = at[i] == '$' ? script->token : at[i] == '#' ? script->id : one;
        size_t more = strlen(text);
        if (filled + more >= BODY_MAX)
            return false;
        memcpy(ret + filled, text, more);
        filled += more;
    }
    ret[filled] = '\0';
    return !has_name(ret, "wait_ms") && !has_name(ret, "rate_per_s");
}

static void ask(struct script *script, const char *line, size_t len)
{
    char body[BODY_MAX];
    char *answer = NULL;
    struct pawl_error error = {0};
    unsigned verb = (unsigned char)line[0] - 'A';
    if (verb >= VERBS || !write_body(script, line + 1, len - 1, body))
        return;
    if (verbs[verb](script->pawl, body, &answer, &error) != PAWL_OK) {
        if (error.message[0] == '\0' || error.code == PAWL_CORRUPT)
            fail("a refusal without a reason", body);
        return;
    }
    struct pawl_json said = pawl_json_read(answer);
    keep(pawl_json_get(said, "claims.0.lease.token"), script->token);
    keep(pawl_json_get(said, "id"), script->id);
    pawl_free(answer);
}

static void verify_all(struct pawl *pawl)
{
    char *list = NULL;
    struct pawl_json job = {0};
    if (pawl_list(pawl, "{\"limit\":100}", &list, NULL) != PAWL_OK)
        fail("the jobs cannot be listed", "");
    struct pawl_json jobs = pawl_json_get(pawl_json_read(list), "jobs");
    while (pawl_json_next(jobs, &job, NULL) != 0) {
        char request[NAME_MAX_LEN + 16];
        char id[NAME_MAX_LEN] = "";
        char *report = NULL;
        keep(pawl_json_get(job, "id"), id);
        (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
        if (pawl_verify(pawl, request, &report, NULL) != PAWL_OK ||
            !pawl_json_true(pawl_json_get(pawl_json_read(report), "ok")))
            fail("a history does not hold", report == NULL ? id : report);
        pawl_free(report);
    }
    pawl_free(list);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct script script = {0};
    const char *at = (const char *)data;
    size_t rest = size;
    if (size == 0 || memchr(data, '\0', size) != NULL ||
        pawl_open("memory:", NULL, &script.pawl, NULL) != PAWL_OK)
        return 0;
    for (int line = 0; line < LINES_MAX && rest > 0; line++) {
        const char *end = memchr(at, '\n', rest);
        size_t len = end == NULL ? rest : (size_t)(end - at);
        if (len > 0)
            ask(&script, at, len);
        rest -= end == NULL ? rest : len + 1;
        at += end == NULL ? len : len + 1;
    }
    verify_all(script.pawl);
    pawl_close(script.pawl);
    return 0;
}
