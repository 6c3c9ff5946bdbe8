/* libFuzzer target: an exported job with its history, in any state of damage. What is taken in must
 * hold by the rules of verify, and be exported as a job that can be taken in again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fail(const char *problem, const char *text)
{
    (void)fprintf(stderr, "%s: %s\n", problem, text);
    abort();
}

static struct pawl *open_memory(void)
{
    struct pawl *pawl = NULL;
    if (pawl_open("memory:", NULL, &pawl, NULL) != PAWL_OK)
        fail("there is no memory", "");
    return pawl;
}

/* Asks about the one job that there is. To be freed. */
static char *ask_about(struct pawl *pawl, const char *list,
                       enum pawl_code (*verb)(struct pawl *, const char *, char **,
                                              struct pawl_error *))
{
    char request[128];
    char *answer = NULL;
    char *id = pawl_json_text(pawl_json_get(pawl_json_read(list), "jobs.0.id"));
    if (id == NULL)
        fail("what was taken in is not there", list);
    (void)snprintf(request, sizeof request, "{\"id\":\"%s\"}", id);
    if (verb(pawl, request, &answer, NULL) != PAWL_OK)
        fail("what was taken in cannot be read", id);
    pawl_free(id);
    return answer;
}

static void check_taken(struct pawl *pawl)
{
    char *list = NULL;
    char *again = NULL;
    char *copy = NULL;
    struct pawl *other = open_memory();
    if (pawl_list(pawl, "{}", &list, NULL) != PAWL_OK)
        fail("the jobs cannot be listed", "");
    char *report = ask_about(pawl, list, pawl_verify);
    if (!pawl_json_true(pawl_json_get(pawl_json_read(report), "ok")))
        fail("a history that does not hold was taken in", report);
    char *exported = ask_about(pawl, list, pawl_export);
    size_t room = strlen(exported) + 32;
    copy = malloc(room);
    if (copy == NULL)
        fail("there is no memory", "");
    (void)snprintf(copy, room, "{\"jobs\":[%s]}", exported);
    struct pawl_error error = {0};
    if (pawl_import(other, copy, &again, &error) != PAWL_OK)
        fail("what was exported is not taken in", error.message);
    free(copy);
    pawl_free(exported);
    pawl_free(again);
    pawl_free(report);
    pawl_free(list);
    pawl_close(other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *answer = NULL;
    struct pawl_error error = {0};
    if (size == 0 || memchr(data, '\0', size) != NULL)
        return 0;
    struct pawl *pawl = open_memory();
    char *request = malloc(size + 32);
    if (request == NULL)
        fail("there is no memory", "");
    (void)snprintf(request, size + 32, "{\"jobs\":[%.*s]}", (int)size, (const char *)data);
    if (pawl_import(pawl, request, &answer, &error) == PAWL_OK) {
        /* More than one in the brackets is somebody else's test. */
        if (pawl_json_get(pawl_json_read(request), "jobs.1").at == NULL)
            check_taken(pawl);
        pawl_free(answer);
    } else if (error.message[0] == '\0') {
        fail("a refusal without a reason", request);
    }
    free(request);
    pawl_close(pawl);
    return 0;
}
